"""Duties of every space that is drawn from."""

from __future__ import annotations

import pytest

from latcast.records import Reference
from latcast.spaces.catalogue import FAMILY_NAMES, SUPERNET_TARGETS, SYNTHETIC_NAMES, Space, family
from latcast.spaces.families.variants import VariantFamily
from latcast.testing.contracts import SpaceContract

DRAWN = [name for name in FAMILY_NAMES if isinstance(family(name), VariantFamily)]


@pytest.mark.parametrize(
    "space_name", [*DRAWN, *SYNTHETIC_NAMES, *SUPERNET_TARGETS, "published_segments", "operator_pairs", "iiswc20", "timm"]
)
class TestSpaces(SpaceContract):
    @pytest.fixture(autouse=True)
    def named(self, space_name: str) -> None:
        self.space_name = space_name  # type: ignore[misc]

    def test_a_smaller_sample_is_the_beginning_of_a_larger_one(self, space: Space, members: list[Reference]) -> None:
        assert space.sample(3, 0) == members[:3]
