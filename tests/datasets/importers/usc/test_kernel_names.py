"""Recorded names of kernels."""

from __future__ import annotations

import pytest

from latcast.datasets.importers.table import Malformed
from latcast.datasets.importers.usc.kernel_names import KernelName, parse_kernel_name, unrecorded_nodes
from latcast.records import ExecutedKernel


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("convolution_2d_0", KernelName("convolution_2d", (0,))),
        ("convolution_winograd_4x4_6x6_12", KernelName("convolution_winograd_4x4_6x6", (12,))),
        ("convolution_2d_5_linked_:_add_6_linked_:_relu_7", KernelName("convolution_2d", (5,), (("add", 6), ("relu", 7)))),
        ("fully_connected_8_linked_:_hard_swish_9", KernelName("fully_connected", (8,), (("hard_swish", 9),))),
        (
            "depthwise_conv_plus_1x1_conv_3_4_5_linked_:_relu_6",
            KernelName("depthwise_conv_plus_1x1_conv", (3, 4, 5), (("relu", 6),)),
        ),
        ("vulkan.conv2d_pw_2x2", KernelName("vulkan.conv2d_pw_2x2")),
    ],
)
def test_a_name_is_taken_apart(text: str, name: KernelName) -> None:
    assert parse_kernel_name(text) == name


@pytest.mark.parametrize("text", ["convolution_2d", "convolution_2d_3_linked_:_relu", "mean_1_linked_:_add_2_3", "7"])
def test_a_name_without_its_nodes_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match=f"the kernel '{text}' is not of the form"):
        parse_kernel_name(text)


def test_gaps_between_the_numbers_are_nodes_that_nobody_recorded() -> None:
    names = ("convolution_2d_1_linked_:_relu_2", "depthwise_convolution_5", "mean_6")  # 0, 3 and 4 are missing
    assert unrecorded_nodes(ExecutedKernel(name, "", (), 1.0) for name in names) == 3


def test_nothing_recorded_leaves_no_gaps() -> None:
    assert unrecorded_nodes([]) == 0
    assert unrecorded_nodes([ExecutedKernel("vulkan.add", "vulkan.add", (), 1.0)]) == 0
