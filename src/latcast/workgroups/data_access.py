"""How many data accesses a work group needs: what rule V of Jiang et al. (§4.1, eq. 5 to 7) minimises, in its general form.

For one filter tap and one slice of input channels a group of a convolution reads, where what its items share is read once,

    bx·by·wx·wy      slices of the input, one for every pixel that it computes, and
    v·bs·wz          of the filter: v vectors (v channels in, v out) for every output slice that it computes.

The product wx·wy·wz is fixed by the group's number of items N, so with p = wx·wy the sum is bx·by·p + v·bs·N/p. It is least
where both parts are equal: **bx·by·wx·wy = v·bs·wz**. TFLite's vectors have v = 4 channels; for its block of two pixels and one
slice that is 2·wx·wy = 4·wz, the paper's eq. 6.

An item of a depthwise convolution reads its own slice alone: bx·by·bs·wx·wy·wz slices of the input, the same for every shape of N
items, and bs·wz vectors of the filter, least where wz is least. So wx·wy should be as large as it may: eq. 7.
"""

from __future__ import annotations

import numpy as np

from latcast.workgroups.sizes import Grid, SizeLimits
from latcast.workgroups.workloads import KernelDescriptor


def group_accesses(sizes: np.ndarray, kernel: KernelDescriptor) -> np.ndarray:
    """Vectors that a whole group reads for one filter tap and one input slice, shared ones once: TD_k without its constant.

    Args:
        sizes: (sizes, 3).
        kernel: Its block and vectorisation.

    Returns:
        (sizes,), int64.
    """
    pixels = kernel.block_x * kernel.block_y * sizes[:, 0] * sizes[:, 1]
    slices = kernel.block_z * sizes[:, 2]
    if kernel.kind == "depthwise_conv":
        return pixels * slices + slices
    return pixels + kernel.vector * slices


def accesses_per_item(sizes: np.ndarray, kernel: KernelDescriptor) -> np.ndarray:
    """(sizes,) the same for each work item: what sizes with different numbers of items are compared by."""
    return group_accesses(sizes, kernel) / sizes.prod(axis=1)


def shape_balance(sizes: np.ndarray, kernel: KernelDescriptor) -> np.ndarray:
    """(sizes,) input slices over filter vectors of a convolution's group; 1 where their sum is least for its number of items."""
    pixels = kernel.block_x * kernel.block_y * sizes[:, 0] * sizes[:, 1]
    return pixels / (kernel.vector * kernel.block_z * sizes[:, 2])


def most_pixels(grid: Grid, limits: SizeLimits) -> int:
    """The most work items in the plane of x and y that a group can have: min(C_x·C_y, C_t), and no more than the grid has.

    The paper leaves the grid out (eq. 7); without it no size of a small map would ever pass.
    """
    return min(min(limits.most_x, grid.x) * min(limits.most_y, grid.y), limits.most_items)
