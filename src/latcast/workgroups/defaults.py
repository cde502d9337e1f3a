"""Sizes chosen without rules and without measuring: what TFLite's GPU delegate does by default, and a fixed size.

The delegate's present default, tuning type ``kFast``, computes one size from the grid; written anew here from its description.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from latcast.workgroups.sizes import Grid, SizeLimits, WorkGroup
from latcast.workgroups.workloads import KernelDescriptor

FIXED = WorkGroup(8, 4, 1)
"""The size that is tried first where nothing is known."""

CONV_MOST_ITEMS = 256
CONV_MOST_Z = 16


def kfast_conv(grid: Grid, limits: SizeLimits) -> WorkGroup:
    """``kFast`` for convolutions: wz the largest divisor of the slices, then x first, in 256 items at most."""
    z = _largest_divisor(grid.z, min(CONV_MOST_Z, limits.most_z, limits.most_items))
    plane = max(min(CONV_MOST_ITEMS, limits.most_items) // z, 1)
    x = min(grid.x, plane, limits.most_x)
    y = min(plane // x, grid.y, limits.most_y)
    # A column of one group would leave cores idle: two groups share it.
    if y == grid.y and y % 2 == 0:
        y //= 2
    return WorkGroup(x, y, z)


def kfast_generic(grid: Grid, limits: SizeLimits) -> WorkGroup:
    """``kFast`` for all other kernels, depthwise convolutions among them: wz 8, 4 or 2 where it divides, half of the row."""
    most_z = min(8, limits.most_z, limits.most_items)
    z = next((size for size in (8, 4, 2) if size <= most_z and grid.z % size == 0), 0) or _largest_divisor(grid.z, most_z)
    plane = max(limits.most_items // z, 1)
    x = min(-(-grid.x // 2), plane, limits.most_x)
    return WorkGroup(x, min(plane // x, grid.y, limits.most_y), z)


KFAST: Mapping[str, Callable[[Grid, SizeLimits], WorkGroup]] = {"conv": kfast_conv, "depthwise_conv": kfast_generic}
"""Kind of operator to its formula."""


def kfast(grid: Grid, kernel: KernelDescriptor, limits: SizeLimits) -> WorkGroup:
    """The size that TFLite's GPU delegate launches by default."""
    return KFAST[kernel.kind](grid, limits)


def _largest_divisor(number: int, most: int) -> int:
    return next(size for size in range(min(most, number), 0, -1) if number % size == 0)
