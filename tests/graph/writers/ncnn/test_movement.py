"""Transpositions on as few axes as the data need."""

from __future__ import annotations

from itertools import pairwise, permutations
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from latcast.graph.writers.ncnn.movement import merged_permutation, order_type

PERMUTE_3D = ["whc", "hwc", "wch", "cwh", "hcw", "chw"]
PERMUTE_4D = [
    "whdc", "hwdc", "wdhc", "dwhc", "hdwc", "dhwc", "whcd", "hwcd", "wchd", "cwhd", "hcwd", "chwd",
    "wdch", "dwch", "wcdh", "cwdh", "dcwh", "cdwh", "hdcw", "dhcw", "hcdw", "chdw", "dchw", "cdhw",
]  # fmt: skip
"""The result's axes, innermost first, for each value of Permute's parameter 0, as ncnn's documentation lists them."""


def test_order_types_are_numbered_as_ncnn_documents_them() -> None:
    for listed, axes in ((PERMUTE_3D, "chw"), (PERMUTE_4D, "cdhw")):
        for order in permutations(range(len(axes))):
            innermost_first = "".join(axes[axis] for axis in reversed(order))
            assert listed[order_type(order)] == innermost_first


def test_the_split_of_heads_moves_three_groups_of_axes() -> None:
    # (1, 16 tokens, 3, 4 heads, 8) to (3, 1, 4, 16, 8): tokens go behind (3, heads), the channels of a head stay last.
    assert merged_permutation((1, 16, 3, 4, 8), (2, 0, 3, 1, 4)) == ((16, 12, 8), (1, 0, 2))


def test_moving_axes_of_size_one_moves_nothing() -> None:
    assert merged_permutation((1, 5, 1, 7), (2, 0, 1, 3)) == ((), ())


@st.composite
def transpositions(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=6)))
    return shape, tuple(draw(st.permutations(range(len(shape)))))


@given(transpositions())
def test_the_merged_transposition_moves_the_same_data(case: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    shape, order = case
    values = np.arange(prod(shape))
    sizes, merged = merged_permutation(shape, order)
    expected = values.reshape(shape).transpose(order).reshape(-1)
    actual = values.reshape(sizes).transpose(merged).reshape(-1) if merged else values
    assert np.array_equal(actual, expected)


@given(transpositions())
def test_no_two_merged_axes_stay_neighbours(case: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    sizes, merged = merged_permutation(*case)
    assert 1 not in sizes
    assert all(after != before + 1 for before, after in pairwise(merged))
