"""The names that there are."""

from __future__ import annotations

import pytest

from latcast.spaces.catalogue import models


def test_named_networks_are_listed_with_their_published_sizes() -> None:
    listed = {network.name: network for network in models()}

    assert listed["resnet50"].family == "resnet"
    assert listed["resnet50"].million_parameters == pytest.approx(25.6, abs=0.1)
    assert list(listed) == sorted(listed)
    assert [network.name for network in models("resnet1?")] == ["resnet18"]
    assert {"resnet18", "se_resnet50"} <= {network.name for network in models("resnet")}
    assert models("no such network") == []
