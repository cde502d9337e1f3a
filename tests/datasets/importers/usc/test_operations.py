"""Files of operations: the two frameworks' words become one."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from latcast.datasets.importers import Refusals
from latcast.datasets.importers.table import Malformed
from latcast.datasets.importers.usc.operations import KernelName, Operations, parse_kernel_name, read_operations
from latcast.errors import DatasetError
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


@pytest.mark.parametrize("text", ["convolution_2d_3_linked_:_relu", "7"])
def test_a_name_without_its_nodes_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match=f"the kernel '{text}' is not of the form"):
        parse_kernel_name(text)


PIXEL, IPHONE = "pixel4/tflite-2.10/gpu/fp16", "iphonexs/tflite-2.10/gpu/fp16"
VULKAN = "pixel4/pytorch-2.0/gpu/fp16"

TFLITE_HEADER = [
    "model", "operation", "feature", "pixel4|gpu|float", "pixel4|gpu|kernel", "iphonexs|gpu|float", "iphonexs|gpu|kernel",
]  # fmt: skip
TORCH_HEADER = ["model", "operation", "feature", "pixel4|gpu|float", "pixel4|gpu|kernel"]

CONVOLUTION = {
    "Input_shape": "56", "Input_channel": 64, "Output_shape": "28", "Stride": "2", "Kernel": "3", "Filter": "128",
    "Group": "1", "FLOPS": "115605504",
}  # fmt: skip
DEPTHWISE = {
    "Input_shape": "114", "Input_channel": 8, "Output_shape": "56", "Stride": "2", "Kernel": "3", "Filter": "1",
    "Group": "1", "FLOPS": "451584",
}  # fmt: skip
POINTWISE = {
    "Input_shape": "56", "Input_channel": 8, "Output_shape": "56", "Stride": "1", "Kernel": "1", "Filter": "16",
    "Group": "1", "FLOPS": "802816",
}  # fmt: skip


def read(tmp_path: Path, header: list[str], *rows: list[Any], framework: str = "tflite", strict: bool = True) -> Operations:
    file = tmp_path / f"{framework}_cnn_ops_gpu.csv"
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])
    return read_operations(file, framework, Refusals(strict=strict))


def tflite(tmp_path: Path, operation: str, feature: dict[str, Any], kernel: str = "convolution_2d_1") -> ExecutedKernel:
    found = read(tmp_path, TFLITE_HEADER, ["net", operation, str(feature), "1500", kernel, "", ""])
    [executed] = found.executed[PIXEL, "net"]
    return executed


def torch(tmp_path: Path, operation: str, feature: dict[str, Any], kernel: str = "vulkan.conv2d") -> ExecutedKernel:
    found = read(tmp_path, TORCH_HEADER, ["net", operation, str(feature), "1500", kernel], framework="torch")
    [executed] = found.executed[VULKAN, "net"]
    return executed


class TestTflite:
    def test_a_convolution(self, tmp_path: Path) -> None:
        kernel = tflite(tmp_path, "CONV_2D", CONVOLUTION, "convolution_winograd_4x4_6x6_3_linked_:_relu_4")

        assert kernel == ExecutedKernel(
            "convolution_winograd_4x4_6x6_3_linked_:_relu_4",
            "convolution_winograd_4x4_6x6",
            (),
            1.5,
            {
                "operation": "CONV_2D", "input_size": 56, "input_channels": 64, "output_size": 28, "output_channels": 128,
                "kernel_size": 3, "stride": 2, "groups": 1,
            },
        )  # fmt: skip

    def test_a_depthwise_convolution_has_as_many_groups_and_outputs_as_inputs(self, tmp_path: Path) -> None:
        configuration = tflite(tmp_path, "DEPTHWISE_CONV_2D", DEPTHWISE).configuration
        assert (configuration["groups"], configuration["output_channels"]) == (8, 8)

    def test_the_kernel_of_a_concatenation_is_its_number_of_inputs(self, tmp_path: Path) -> None:
        feature = {
            "Input_shape": "28", "Input_channel": 64, "Output_shape": "28", "Stride": "-", "Kernel": "4", "Filter": "320",
            "Group": "-", "FLOPS": "-",
        }  # fmt: skip
        assert tflite(tmp_path, "CONCATENATION", feature).configuration == {
            "operation": "CONCATENATION", "inputs": 4, "input_size": 28, "input_channels": 64, "output_size": 28,
            "output_channels": 320,
        }  # fmt: skip

    def test_the_output_shape_of_a_mean_is_its_channels(self, tmp_path: Path) -> None:
        feature = {
            "Input_shape": "7", "Input_channel": 512, "Output_shape": "512", "Stride": "-", "Kernel": "0", "Filter": "-",
            "Group": "-", "FLOPS": "25088",
        }  # fmt: skip
        assert tflite(tmp_path, "MEAN", feature).configuration == {
            "operation": "MEAN", "input_size": 7, "input_channels": 512, "output_size": 1, "output_channels": 512,
        }  # fmt: skip

    def test_a_fully_connected_layer_and_a_pool(self, tmp_path: Path) -> None:
        feature = {**CONVOLUTION, "Filter": "1000"}
        assert tflite(tmp_path, "FULLY_CONNECTED", feature).configuration == {
            "operation": "FULLY_CONNECTED", "input_channels": 64, "output_channels": 1000,
        }  # fmt: skip
        pool = tflite(tmp_path, "MAX_POOL_2D", {**CONVOLUTION, "Filter": "-", "Group": "-"}).configuration
        assert (pool["kernel_size"], pool["stride"], pool["output_channels"]) == (3, 2, 64)


TORCH_CONVOLUTION = {
    "input_channel": 96, "input_shape": 14, "output_channel": 96, "output_shape": 7, "kernel_size": 5, "stride": 2,
    "padding": 2, "input_size": 18816, "output_size": 4704, "flops": 117600, "filter_size": 2400,
}  # fmt: skip


class TestTorch:
    def test_a_convolution_without_groups_is_depthwise(self, tmp_path: Path) -> None:
        kernel = torch(tmp_path, "vulkan_prepack::run_conv2d_context", TORCH_CONVOLUTION, "vulkan.conv2d_dw_5x5")

        assert kernel.kind == kernel.name == "vulkan.conv2d_dw_5x5"
        assert kernel.configuration == {
            "operation": "vulkan_prepack::run_conv2d_context", "input_size": 14, "input_channels": 96, "output_size": 7,
            "output_channels": 96, "kernel_size": 5, "stride": 2, "padding": 2, "groups": 96,
        }  # fmt: skip

    def test_a_convolution_with_groups_keeps_them(self, tmp_path: Path) -> None:
        feature = {**TORCH_CONVOLUTION, "groups": 1, "padding": 0}
        configuration = torch(tmp_path, "vulkan_prepack::run_conv2d_context", feature).configuration
        assert (configuration["groups"], configuration["padding"]) == (1, 0)

    def test_a_linear_layer_calls_its_channels_shapes(self, tmp_path: Path) -> None:
        feature = {"input_shape": 512, "output_shape": 1000, "flops": 1023000}
        assert torch(tmp_path, "vulkan_prepack::run_linear_context", feature).configuration == {
            "operation": "vulkan_prepack::run_linear_context", "input_channels": 512, "output_channels": 1000,
        }  # fmt: skip

    def test_a_pool_without_a_kernel_is_global(self, tmp_path: Path) -> None:
        feature = {"input_channel": 512, "input_shape": 7, "input_size": 25088}
        assert torch(tmp_path, "aten::adaptive_avg_pool2d", feature).configuration == {
            "operation": "aten::adaptive_avg_pool2d", "input_size": 7, "input_channels": 512, "output_channels": 512,
            "output_size": 1,
        }  # fmt: skip

    def test_a_pool_with_a_kernel(self, tmp_path: Path) -> None:
        feature = {
            "input_channel": 64, "input_shape": 112, "output_shape": 56, "kernel_size": 3, "stride": 2, "padding": 1,
            "input_size": 802816, "output_size": 200704,
        }  # fmt: skip
        configuration = torch(tmp_path, "aten::max_pool2d", feature).configuration
        assert (configuration["output_size"], configuration["kernel_size"], configuration["padding"]) == (56, 3, 1)

    @pytest.mark.parametrize("operation", ["aten::add", "aten::relu", "vulkan_prepack::run_batchnorm_context"])
    def test_element_wise_operations_keep_the_size(self, tmp_path: Path, operation: str) -> None:
        assert torch(tmp_path, operation, {"input_channel": 64, "input_shape": 56, "flops": 1}).configuration == {
            "operation": operation, "input_size": 56, "input_channels": 64, "output_size": 56, "output_channels": 64,
        }  # fmt: skip


def test_kernels_stay_in_the_order_of_the_file_and_gaps_are_counted(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        TFLITE_HEADER,
        ["a", "CONV_2D", str(CONVOLUTION), "10", "convolution_2d_0", "5", "convolution_2d_0"],
        ["b", "CONV_2D", str(CONVOLUTION), "30", "convolution_2d_0", "", ""],
        ["a", "CONV_2D", str(POINTWISE), "20", "convolution_2d_1", "", "convolution_2d_1"],
    )

    assert [kernel.latency_ms for kernel in found.executed[PIXEL, "a"]] == [0.01, 0.02]
    assert [kernel.latency_ms for kernel in found.executed[IPHONE, "a"]] == [0.005]
    assert set(found.executed) == {(PIXEL, "a"), (PIXEL, "b"), (IPHONE, "a")}
    assert (found.rows, found.missing) == (3, 2)


def test_a_kernel_that_computes_two_operations_stands_there_once(tmp_path: Path) -> None:
    shared = "depthwise_conv_plus_1x1_conv_3_4_5_linked_:_relu_6"
    found = read(
        tmp_path,
        TFLITE_HEADER,
        ["a", "DEPTHWISE_CONV_2D", str(DEPTHWISE), "18", "depthwise_convolution_3_linked_:_relu_4", "24", shared],
        ["a", "CONV_2D", str(POINTWISE), "6", "convolution_2d_5_linked_:_relu_6", "26", shared],
    )

    assert len(found.executed[PIXEL, "a"]) == 2
    [kernel] = found.executed[IPHONE, "a"]
    assert kernel.kind == "depthwise_conv_plus_1x1_conv"
    assert kernel.latency_ms == pytest.approx(0.025)
    assert kernel.configuration == {
        "operation": "DEPTHWISE_CONV_2D+CONV_2D", "input_size": 114, "input_channels": 8, "output_size": 56,
        "output_channels": 16, "kernel_size": 3, "stride": 2, "groups": 8,
    }  # fmt: skip


def test_two_kernels_of_one_name_in_pytorch_are_two(tmp_path: Path) -> None:
    row = ["a", "aten::add", "{'input_channel': 64, 'input_shape': 56}", "10", "vulkan.add"]
    assert len(read(tmp_path, TORCH_HEADER, row, row, framework="torch").executed[VULKAN, "a"]) == 2


def test_an_operation_that_is_not_known_keeps_its_words(tmp_path: Path) -> None:
    feature = {"Input_shape": "28", "Input_channel": 64, "Scale": "-", "Mode": 1.5}
    found = read(tmp_path, TFLITE_HEADER, ["a", "RESIZE", str(feature), "10", "resize_3", "", ""])

    [kernel] = found.executed[PIXEL, "a"]
    assert kernel.configuration == {"operation": "RESIZE", "input_shape": 28, "input_channel": 64}
    assert found.unknown == {"RESIZE"}


GOOD = ["a", "CONV_2D", str(CONVOLUTION), "10", "convolution_2d_0", "5", "convolution_2d_0"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({0: ""}, "the name of the network is empty"),
        ({1: ""}, "the name of the operation is empty"),
        ({2: "__import__('os')"}, "feature is '__import__('os')'"),
        ({2: "[1]"}, "feature is a list"),
        ({2: "{}"}, "feature 'Input_shape' is None"),
        ({2: str({**CONVOLUTION, "Stride": 0})}, "feature 'Stride' is 0"),
        ({3: "-1"}, f"the latency on {PIXEL} is -1"),
        ({6: ""}, f"{IPHONE} has a latency without the name of a kernel"),
        ({4: "convolution_2d"}, "the kernel 'convolution_2d' is not of the form"),
    ],
)
def test_a_malformed_row_is_refused_with_file_and_line(tmp_path: Path, changes: dict[int, str], reason: str) -> None:
    bad = [changes.get(index, cell) for index, cell in enumerate(GOOD)]

    with pytest.raises(DatasetError) as raised:
        read(tmp_path, TFLITE_HEADER, GOOD, bad)
    assert str(raised.value).startswith(f"{tmp_path}/tflite_cnn_ops_gpu.csv:3: {reason}")

    found = read(tmp_path, TFLITE_HEADER, bad, GOOD, strict=False)
    assert len(found.executed[PIXEL, "a"]) == 1


@pytest.mark.parametrize("column", ["pixel4|gpu|float", "latency"])
def test_a_malformed_column_is_refused(tmp_path: Path, column: str) -> None:
    with pytest.raises(DatasetError, match=r"tflite_cnn_ops_gpu\.csv:1: the column '.*' is not of the form"):
        read(tmp_path, [*TFLITE_HEADER[:3], column])
