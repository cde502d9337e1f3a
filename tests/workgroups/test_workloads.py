"""Grids of convolutions, and the convolutions that are launched for a network."""

from __future__ import annotations

from dataclasses import replace

import pytest

from latcast.errors import LatcastError
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.workgroups.workloads import (
    CONV,
    Convolution,
    convolution,
    depthwise_convolution,
    find_launch,
    find_launches,
    parse_operator,
)


@pytest.mark.parametrize(
    ("workload", "grid"),
    [
        (convolution(56, 56, 256, 250), (28, 56, 63)),  # two columns an item, 250 channels in slices of four
        (convolution(7, 7, 8, 8, batch=3), (11, 7, 2)),  # a batch is laid out along x
        (convolution(57, 57, 8, 24, 3, 2, descriptor=replace(CONV, block_x=2, block_y=2, block_z=2)), (15, 15, 3)),
        (depthwise_convolution(112, 112, 32, 5, 2), (56, 56, 8)),
    ],
    ids=str,
)
def test_a_grid_counts_blocks_and_slices(workload: Convolution, grid: tuple[int, int, int]) -> None:
    assert workload.grid.shape == grid


def test_the_papers_kernel_reads_eight_numbers_along_x() -> None:
    assert CONV.numbers_read_along_x == 8


def test_sizes_below_one_are_refused() -> None:
    with pytest.raises(LatcastError, match="in_channels is 0"):
        convolution(7, 7, 0, 8)


def network() -> Graph:
    """A first convolution, two equal depthwise ones, a 3x3 convolution with channels enough for Winograd, a grouped one."""
    b = GraphBuilder("small")
    x = b.input((1, 3, 112, 112))
    x = b.conv(x, 128, 3, stride=2, padding=1)
    x = b.conv(x, 128, 3, padding=1, groups=128)
    x = b.conv(x, 128, 3, padding=1, groups=128)
    x = b.conv(x, 128, 3, padding=1)
    x = b.conv(x, 128, 3, padding=1, groups=2)
    return b.finish(x)


def test_equal_launches_are_found_once_and_kernels_are_selected_by_family() -> None:
    found = find_launches(network(), "adreno6xx")

    assert [(launch.kernel, len(launch.names)) for launch in found] == [
        ("conv", 1), ("depthwise_conv", 2), ("conv.winograd", 1), ("grouped_conv", 1),
    ]  # fmt: skip


def test_winograd_is_advised_for_its_products() -> None:
    winograd = next(launch for launch in find_launches(network(), "adreno6xx") if launch.kernel == "conv.winograd")

    # 14 x 14 tiles of 4x4 outputs, two an item; 36 products; 32 slices.
    assert winograd.workload is not None
    assert winograd.workload.grid.shape == (98, 36, 32)
    assert not winograd.workload.descriptor.accesses_counted
    assert "36 x 196" in winograd.why


def test_without_a_family_convolutions_are_direct() -> None:
    assert {launch.kernel for launch in find_launches(network(), None)} == {"conv", "depthwise_conv", "grouped_conv"}


def test_a_block_changes_the_grid_of_direct_convolutions_alone() -> None:
    first, depthwise, *_ = find_launches(network(), None, (1, 2, 2))

    assert first.workload is not None
    assert depthwise.workload is not None
    assert first.workload.grid.shape == (56, 28, 16)
    assert depthwise.workload.grid.shape == (56, 56, 32)


def test_an_operator_is_selected_like_one_of_a_network() -> None:
    workload = convolution(56, 56, 256, 256)

    assert find_launch(workload, "adreno6xx").kernel == "conv.winograd"
    assert find_launch(workload, "adreno6xx", direct=True).workload == workload
    assert find_launch(convolution(1, 1, 256, 256, 1), "mali").workload is None


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("conv:56x56x64,k3,s1,c128", "conv:56x56x64,k3,s1,c128"),
        ("conv:56x28x64", "conv:56x28x64,k3,s1,c64"),
        ("dwconv:112x112x32,s2,k5", "dwconv:112x112x32,k5,s2"),
        ("conv:7x7x8,b2,c4,k1", "conv:7x7x8,k1,s1,c4,b2"),
    ],
)
def test_operators_are_read_as_people_write_them(text: str, written: str) -> None:
    assert str(parse_operator(text)) == written


@pytest.mark.parametrize(
    "text", ["conv:56x56", "conv:56x56x64,k", "dwconv:8x8x8,c8", "conv:8x8x8,k3,k3", "pool:8x8x8", "conv:8x8x8,s0"]
)
def test_malformed_operators_are_refused(text: str) -> None:
    with pytest.raises(LatcastError):
        parse_operator(text)
