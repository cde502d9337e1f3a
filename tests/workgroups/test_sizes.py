"""Sizes, grids and the sizes that limits allow."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.errors import LatcastError
from latcast.workgroups.sizes import Grid, SizeLimits, WorkGroup, candidate_sizes, exact_divisors

small = st.integers(1, 6)


@given(st.tuples(small, small, small), st.integers(1, 40), st.tuples(small, small, small))
def test_candidates_are_all_sizes_within_grid_and_limits_in_order(
    grid: tuple[int, int, int], items: int, most: tuple[int, int, int]
) -> None:
    limits = SizeLimits(items, *most)
    within = product(*(range(1, min(a, b) + 1) for a, b in zip(grid, most, strict=True)))

    found = candidate_sizes(Grid(*grid), limits)

    assert [size.shape for size in found] == [(x, y, z) for x, y, z in within if x * y * z <= items]
    assert all(limits.allow(size) for size in found)


def test_a_grid_is_padded_to_whole_groups() -> None:
    grid, size = Grid(28, 56, 10), WorkGroup(8, 4, 3)

    assert grid.groups(size) == (4, 14, 4)
    assert grid.padded(size) == (32, 56, 12)


def test_exhaustive_tuning_tries_exact_divisors_of_32_items_or_more() -> None:
    grid = Grid(28, 56, 64)
    candidates = candidate_sizes(grid, SizeLimits(384, 384, 384, 384))

    found = exact_divisors(candidates, grid)

    # 28, 56 and 64 have 6, 8 and 7 divisors; of the 336 triples 118 have 32 to 384 items.
    assert len(found) == 118
    assert WorkGroup(4, 8, 1) in found
    assert WorkGroup(4, 4, 1) not in found
    assert WorkGroup(8, 4, 1) not in found


@pytest.mark.parametrize("kind", [WorkGroup, Grid])
def test_no_dimension_is_empty(kind: type[WorkGroup | Grid]) -> None:
    with pytest.raises(LatcastError, match=f"a {kind.noun} has 8 x 0 x 1 work items"):
        kind(8, 0)
