"""PyTorch Mobile's GPU backends: Vulkan against Li et al., Algorithm B.1, and Metal."""

from __future__ import annotations

import pytest

from latcast.kernels import kernel_type
from latcast.kernels.selection import selection_of


def conv(in_channels: int, out_channels: int, kernel: tuple[int, int], groups: int = 1) -> tuple[int, ...]:
    sizes = {"in_h": 9, "in_w": 9, "out_h": 9, "out_w": 9, "stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1}
    kernels = {"kernel_h": kernel[0], "kernel_w": kernel[1], "padded": 0}
    channels = {"batch": 1, "in_channels": in_channels, "out_channels": out_channels, "groups": groups}
    return kernel_type("conv").configuration({**sizes, **kernels, **channels})


@pytest.mark.parametrize(
    ("kind", "configuration", "kernel"),
    [
        ("conv", conv(8, 16, (3, 3)), "conv"),
        ("conv", conv(8, 16, (1, 1)), "conv.pointwise"),
        ("conv", conv(8, 16, (1, 3)), "conv"),
        ("depthwise_conv", conv(8, 8, (3, 3), 8), "depthwise_conv.3x3"),
        ("depthwise_conv", conv(8, 16, (5, 5), 8), "depthwise_conv.5x5"),
        ("depthwise_conv", conv(8, 8, (7, 7), 8), "depthwise_conv"),
        ("depthwise_conv", conv(8, 8, (3, 5), 8), "depthwise_conv"),
        ("depthwise_conv", conv(8, 8, (1, 1), 8), "depthwise_conv"),
        ("grouped_conv", conv(8, 8, (3, 3), 2), "grouped_conv"),
        # As many groups as input channels, with one channel: depthwise unless it has one output channel too.
        ("conv", conv(1, 16, (3, 3)), "depthwise_conv.3x3"),
        ("conv", conv(1, 1, (3, 3)), "conv"),
        ("conv", conv(1, 1, (1, 1)), "conv.pointwise"),
    ],
)
def test_vulkan_chooses_by_groups_and_filter(kind: str, configuration: tuple[int, ...], kernel: str) -> None:
    assert selection_of("pytorch_vulkan").kernel(kind, configuration) == (kernel, configuration)
    assert selection_of("pytorch_vulkan:mali").kernel(kind, configuration) == (kernel, configuration)


POOLED = (1, 96, 7, 7, 1, 1, 7, 7, 1, 1, 0, 0, 0)


def test_an_average_over_the_whole_map_is_an_adaptive_one_on_metal_alone() -> None:
    assert selection_of("pytorch_metal").kernel("average_pool", POOLED) == ("reduce", (96, 49, 1, 0, 0, 0))
    assert selection_of("pytorch_vulkan").kernel("average_pool", POOLED) == ("average_pool", POOLED)


def test_metal_has_one_kernel_for_all_convolutions_of_a_type() -> None:
    for configuration in (conv(8, 16, (1, 1)), conv(256, 256, (3, 3))):
        assert selection_of("pytorch_metal:apple").kernel("conv", configuration) == ("conv", configuration)
