"""What the paper's regressors see of a recorded operation (Li et al., Table 2), and how operations are grouped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from latcast.records import ExecutedKernel

CONVOLUTION, GROUPED, DEPTHWISE = "convolution", "grouped convolution", "depthwise convolution"
LINEAR, MEAN, CONCAT, POOLING, ELEMENTWISE = "fully connected", "mean", "concat", "pooling", "element-wise"

CATEGORY_OF_KIND: Mapping[str, str] = {
    "convolution_2d": CONVOLUTION,
    "convolution_winograd_4x4_6x6": CONVOLUTION,
    "convolution_2d_grouped": GROUPED,
    "depthwise_convolution": DEPTHWISE,
    "depthwise_conv_plus_1x1_conv": DEPTHWISE,
    "fully_connected": LINEAR,
    "mean": MEAN,
    "concat": CONCAT,
    "pooling_2d": POOLING,
    "vulkan.conv2d": GROUPED,
    "vulkan.conv2d_pw_2x2": CONVOLUTION,
    "vulkan.conv2d_dw": DEPTHWISE,
    "vulkan.conv2d_dw_3x3": DEPTHWISE,
    "vulkan.conv2d_dw_5x5": DEPTHWISE,
    "vulkan.addmm": LINEAR,
    "vulkan.mean": MEAN,
    "vulkan.avg_pool2d": POOLING,
    "vulkan.max_pool2d": POOLING,
}
"""Kind of a recorded kernel to its line in Table 2; what is not here is element-wise. PyTorch's plain convolution runs grouped
ones too."""

CATEGORY_OF_OPERATION: Mapping[str, str] = {
    "CONV_2D": GROUPED,
    "CONV_2D_GROUP": GROUPED,
    "DEPTHWISE_CONV_2D": DEPTHWISE,
    "DEPTHWISE_CONV_2D+CONV_2D": DEPTHWISE,
    "FULLY_CONNECTED": LINEAR,
    "MEAN": MEAN,
    "CONCATENATION": CONCAT,
    "AVERAGE_POOL_2D": POOLING,
    "MAX_POOL_2D": POOLING,
    "vulkan_prepack::run_conv2d_context": GROUPED,
    "vulkan_prepack::run_linear_context": LINEAR,
    "aten::adaptive_avg_pool2d": MEAN,
    "aten::avg_pool2d": POOLING,
    "aten::max_pool2d": POOLING,
}
"""The same of an operation whose kernel is not known."""

_WINDOW = (
    "input height", "input channels", "output height", "stride", "kernel height", "filters", "input size", "output size",
    "kernel size", "FLOPs",
)  # fmt: skip

FEATURES: Mapping[str, Sequence[str]] = {
    CONVOLUTION: _WINDOW,
    DEPTHWISE: _WINDOW,
    GROUPED: (*_WINDOW, "groups"),
    LINEAR: ("input channels", "filters", "kernel size", "FLOPs"),
    MEAN: ("input height", "input channels", "kernel height", "input size", "FLOPs"),
    CONCAT: ("input height", "input channels", "inputs", "filters", "input size", "output size"),
    POOLING: ("input height", "input channels", "output height", "stride", "kernel height", "input size", "output size", "FLOPs"),
    ELEMENTWISE: ("input height", "input channels", "input size"),
}
"""Table 2. The table's parameter size of a fully connected layer is its kernel size here."""

NN_METER_CONVOLUTION = (
    "input height",
    "input channels",
    "filters",
    "kernel height",
    "stride",
    "dense FLOPs",
    "dense kernel size",
)
"""What nn-Meter sees of a convolution, which knows no groups (nn-Meter §5; Li et al. §5.6.1)."""

_FIELDS = (
    "input_size", "input_channels", "output_size", "output_channels", "kernel_size", "stride", "groups", "inputs",
)  # fmt: skip


def columns(kernels: Sequence[ExecutedKernel]) -> dict[str, np.ndarray]:
    """Every feature of recorded kernels, each (kernels,); 1 where a number was not recorded.

    FLOPs count a multiply-accumulate as two. A mean has a window as high as its input.
    """
    raw = {name: np.array([float(each.configuration.get(name, 1)) for each in kernels]) for name in _FIELDS}
    is_mean = np.array([category_of(each) == MEAN for each in kernels], dtype=bool)
    window = np.where(is_mean, raw["input_size"], raw["kernel_size"])
    inputs = raw["input_size"] ** 2 * raw["input_channels"]
    outputs = raw["output_size"] ** 2 * raw["output_channels"]
    is_product = np.array([category_of(each) in (CONVOLUTION, GROUPED, DEPTHWISE, LINEAR) for each in kernels], dtype=bool)
    dense = raw["kernel_size"] ** 2 * raw["input_channels"] * raw["output_channels"]
    weights = dense / np.maximum(raw["groups"], 1)
    places = raw["output_size"] ** 2
    flops = np.where(is_product, 2 * weights * places, window**2 * outputs)
    return {
        "input height": raw["input_size"], "input channels": raw["input_channels"], "output height": raw["output_size"],
        "stride": raw["stride"], "kernel height": window, "filters": raw["output_channels"], "input size": inputs,
        "output size": outputs, "kernel size": weights, "FLOPs": flops, "groups": raw["groups"], "inputs": raw["inputs"],
        "dense FLOPs": 2 * dense * places, "dense kernel size": dense,
    }  # fmt: skip


def matrix(kernels: Sequence[ExecutedKernel], names: Sequence[str]) -> np.ndarray:
    """Some features of kernels, (kernels, features)."""
    found = columns(kernels)
    return np.stack([found[name] for name in names], axis=1)


def category_of(kernel: ExecutedKernel) -> str:
    """The line of Table 2 that a recorded kernel belongs to."""
    return CATEGORY_OF_KIND.get(kernel.kind, ELEMENTWISE)


def operation_of(kernel: ExecutedKernel) -> str:
    """The operation as its framework calls it."""
    return str(kernel.configuration.get("operation", kernel.kind))


def _by_kernel(kernel: ExecutedKernel) -> tuple[str, Sequence[str]]:
    return kernel.kind, FEATURES[category_of(kernel)]


def _by_operation(kernel: ExecutedKernel) -> tuple[str, Sequence[str]]:
    operation = operation_of(kernel)
    category = CATEGORY_OF_OPERATION.get(operation, ELEMENTWISE)
    return ("convolution" if category == GROUPED else operation), FEATURES[category]


def _as_nn_meter(kernel: ExecutedKernel) -> tuple[str, Sequence[str]]:
    operation = operation_of(kernel)
    category = CATEGORY_OF_OPERATION.get(operation, ELEMENTWISE)
    return ("convolution", NN_METER_CONVOLUTION) if category == GROUPED else (operation, FEATURES[category])


GROUPINGS: Mapping[str, Callable[[ExecutedKernel], tuple[str, Sequence[str]]]] = {
    "kernels": _by_kernel, "operations": _by_operation, "nn-meter": _as_nn_meter,
}  # fmt: skip
"""How operations are told apart, to (group, features): each selected kernel a regressor; each operation of the framework, as
without knowing the kernel selection; as nn-Meter does."""
