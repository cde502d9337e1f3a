"""Networks of which only latencies are known."""

from __future__ import annotations

import pytest

from latcast.errors import ModelError
from latcast.records import Reference
from latcast.spaces import SPACES, build
from latcast.spaces.measured_only import MEASURED_ONLY, can_build, why_not
from latcast.spaces.named_graphs import spaces_with_graphs


@pytest.mark.parametrize("space", sorted(MEASURED_ONLY))
def test_building_one_says_which_and_why_not(space: str) -> None:
    reference = Reference(space, {"name": "NAS7"}, "NAS7")

    assert not can_build(reference)
    with pytest.raises(ModelError, match="'NAS7' cannot be built, only its latencies are known: ") as raised:
        build(reference)
    assert str(raised.value).endswith(why_not(reference))


@pytest.mark.parametrize("space", sorted(set(MEASURED_ONLY) - set(spaces_with_graphs())))
def test_nothing_can_be_drawn_from_latencies(space: str) -> None:
    with pytest.raises(ModelError, match="no network can be drawn"):
        SPACES.get(space).sample(1, 0)


def test_other_references_are_meant_to_be_built() -> None:
    assert can_build(Reference("resnet", {"depth": 18}))
    assert can_build(Reference("kernel/conv", {}))
    assert can_build(Reference("file", {"path": "x.onnx"}))
