"""TFLite's present default."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.workgroups.defaults import kfast, kfast_conv, kfast_generic
from latcast.workgroups.sizes import Grid, SizeLimits
from latcast.workgroups.workloads import CONV, DEPTHWISE_CONV

LIMITS = SizeLimits(1024, 1024, 1024, 1024)


@pytest.mark.parametrize(
    ("grid", "size"),
    [
        ((28, 56, 64), (16, 1, 16)),  # 16 divides 64, 256 / 16 items are left for x
        ((4, 7, 128), (4, 4, 16)),
        ((56, 56, 3), (56, 1, 3)),  # 85 in the plane
        ((4, 8, 1), (4, 4, 1)),  # a whole even column is halved
        ((4, 7, 1), (4, 7, 1)),  # an odd one is not
        ((9, 9, 17), (9, 9, 1)),
    ],
)
def test_kfast_for_convolutions(grid: tuple[int, int, int], size: tuple[int, int, int]) -> None:
    assert kfast_conv(Grid(*grid), LIMITS).shape == size


@pytest.mark.parametrize(
    ("grid", "size"),
    [
        ((56, 56, 32), (28, 4, 8)),
        ((56, 56, 36), (28, 9, 4)),
        ((7, 7, 240), (4, 7, 8)),
        ((56, 56, 6), (28, 18, 2)),
        ((56, 56, 15), (28, 7, 5)),
    ],
)
def test_kfast_for_other_kernels(grid: tuple[int, int, int], size: tuple[int, int, int]) -> None:
    assert kfast_generic(Grid(*grid), LIMITS).shape == size


whole = st.integers(1, 300)


@given(
    st.tuples(whole, whole, whole),
    st.integers(1, 1024),
    st.tuples(st.integers(1, 1024), st.integers(1, 1024), st.integers(1, 64)),
)
def test_kfast_can_always_be_launched(grid: tuple[int, int, int], items: int, most: tuple[int, int, int]) -> None:
    limits = SizeLimits(items, *most)

    for kernel in (CONV, DEPTHWISE_CONV):
        found = kfast(Grid(*grid), kernel, limits)
        assert limits.allow(found)
        assert found.x <= grid[0]
        assert found.y <= grid[1]
        assert grid[2] % found.z == 0
