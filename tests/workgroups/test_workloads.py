"""From a convolution to its grid of work items."""

from __future__ import annotations

from dataclasses import replace

import pytest

from latcast.errors import LatcastError
from latcast.workgroups.workloads import CONV, convolution, depthwise_convolution


def test_the_grid_of_a_convolution_counts_blocks_and_slices() -> None:
    found = convolution(56, 56, 256, 250)

    # Two columns an item, 250 channels in slices of four: 63 of them.
    assert found.grid.shape == (28, 56, 63)
    assert found.in_slices == 64
    assert found.flops == 2 * 56 * 56 * 250 * 9 * 256


def test_a_batch_is_laid_out_along_x() -> None:
    assert convolution(7, 7, 8, 8, batch=3).grid.shape == (11, 7, 2)


def test_stride_and_block_shrink_the_grid() -> None:
    kernel = replace(CONV, block_x=2, block_y=2, block_z=2)

    assert convolution(57, 57, 8, 24, 3, 2, descriptor=kernel).grid.shape == (15, 15, 3)


def test_a_depthwise_convolution_reads_one_slice() -> None:
    found = depthwise_convolution(112, 112, 32, 5, 2)

    assert found.grid.shape == (56, 56, 8)
    assert found.in_slices == 1
    assert found.flops == 2 * 56 * 56 * 32 * 25
    assert str(found) == "dwconv:112x112x32,k5,s2"


def test_the_papers_kernel_reads_eight_numbers_along_x() -> None:
    assert CONV.numbers_read_along_x == 8


def test_sizes_below_one_are_refused() -> None:
    with pytest.raises(LatcastError, match="in_channels is 0"):
        convolution(7, 7, 0, 8)
