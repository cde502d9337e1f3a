"""Recorded operations: what regressors see of them (Li et al., Table 2), and networks as sums of what they predict (§4.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from latcast.errors import TrainingError
from latcast.predictors.regressors import Regressor
from latcast.records import ExecutedKernel
from papers.tuning import fit_regressor

CONVOLUTION, GROUPED, DEPTHWISE = "convolution", "grouped convolution", "depthwise convolution"
LINEAR, MEAN, CONCAT, POOLING, ELEMENTWISE = "fully connected", "mean", "concat", "pooling", "element-wise"

CATEGORY_OF_KIND: Mapping[str, str] = {
    "convolution_2d": CONVOLUTION, "convolution_winograd_4x4_6x6": CONVOLUTION, "convolution_2d_grouped": GROUPED,
    "depthwise_convolution": DEPTHWISE, "depthwise_conv_plus_1x1_conv": DEPTHWISE, "fully_connected": LINEAR, "mean": MEAN,
    "concat": CONCAT, "pooling_2d": POOLING, "vulkan.conv2d": GROUPED, "vulkan.conv2d_pw_2x2": CONVOLUTION,
    "vulkan.conv2d_dw": DEPTHWISE, "vulkan.conv2d_dw_3x3": DEPTHWISE, "vulkan.conv2d_dw_5x5": DEPTHWISE, "vulkan.addmm": LINEAR,
    "vulkan.mean": MEAN, "vulkan.avg_pool2d": POOLING, "vulkan.max_pool2d": POOLING,
}  # fmt: skip
"""Kind of a recorded kernel to its line in Table 2; what is not here is element-wise. PyTorch's plain convolution runs grouped
ones too."""

CATEGORY_OF_OPERATION: Mapping[str, str] = {
    "CONV_2D": GROUPED, "CONV_2D_GROUP": GROUPED, "DEPTHWISE_CONV_2D": DEPTHWISE, "DEPTHWISE_CONV_2D+CONV_2D": DEPTHWISE,
    "FULLY_CONNECTED": LINEAR, "MEAN": MEAN, "CONCATENATION": CONCAT, "AVERAGE_POOL_2D": POOLING, "MAX_POOL_2D": POOLING,
    "vulkan_prepack::run_conv2d_context": GROUPED, "vulkan_prepack::run_linear_context": LINEAR,
    "aten::adaptive_avg_pool2d": MEAN, "aten::avg_pool2d": POOLING, "aten::max_pool2d": POOLING,
}  # fmt: skip
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
    "input height", "input channels", "filters", "kernel height", "stride", "dense FLOPs", "dense kernel size",
)  # fmt: skip
"""What nn-Meter sees of a convolution, which knows no groups (nn-Meter §5; Li et al. §5.6.1)."""

_FIELDS = (
    "input_size", "input_channels", "output_size", "output_channels", "kernel_size", "stride", "groups", "inputs",
)  # fmt: skip


def columns(kernels: Sequence[ExecutedKernel]) -> dict[str, np.ndarray]:
    """Return every feature of recorded kernels, each (kernels,); 1 where a number was not recorded.

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
    """Return some features of kernels, (kernels, features)."""
    found = columns(kernels)
    return np.stack([found[name] for name in names], axis=1)


def category_of(kernel: ExecutedKernel) -> str:
    """Return the line of Table 2 that a recorded kernel belongs to."""
    return CATEGORY_OF_KIND.get(kernel.kind, ELEMENTWISE)


def by_operation(kernel: ExecutedKernel, *, of_convolutions: Sequence[str] = FEATURES[GROUPED]) -> tuple[str, Sequence[str]]:
    """Return the operation as its framework calls it, all plain and grouped convolutions as one, and its features."""
    operation = str(kernel.configuration.get("operation", kernel.kind))
    category = CATEGORY_OF_OPERATION.get(operation, ELEMENTWISE)
    return ("convolution", of_convolutions) if category == GROUPED else (operation, FEATURES[category])


GROUPINGS: Mapping[str, Callable[[ExecutedKernel], tuple[str, Sequence[str]]]] = {
    "kernels": lambda kernel: (kernel.kind, FEATURES[category_of(kernel)]),
    "operations": by_operation,
    "nn-meter": partial(by_operation, of_convolutions=NN_METER_CONVOLUTION),
}
"""How operations are told apart, to (group, features): each selected kernel a regressor; each operation of the framework, as
without knowing the kernel selection; as nn-Meter does."""

FEWEST_OPERATIONS = 10
"""A group with fewer to learn from is learned together with all groups of the same features; one that was not seen at all is
estimated by the regressor of all operations."""

Network = Sequence[ExecutedKernel]


@dataclass(frozen=True)
class OperationModels:
    """Attributes:
    regressors: Group to its regressor.
    rest: Of operations of all groups, by the size of their input.
    grouping: Key of :data:`GROUPINGS`.
    overhead_ms: What networks take beyond their operations, on average over those trained on; 0 where it is ignored.
    """

    regressors: Mapping[str, Regressor]
    rest: Regressor
    grouping: str
    overhead_ms: float

    def kernel_latency_ms(self, kernels: Network) -> np.ndarray:
        """Return latency of operations, (kernels,)."""
        result = np.zeros(len(kernels))
        for group, (places, features) in grouped(kernels, self.grouping).items():
            chosen = [kernels[place] for place in places]
            regressor = self.regressors.get(group)
            if regressor is None:
                result[places] = self.rest.predict(matrix(chosen, FEATURES[ELEMENTWISE]))
            else:
                result[places] = regressor.predict(matrix(chosen, features))
        return result

    def latency_ms(self, kernels: Network) -> float:
        """Return latency of a network of these operations."""
        return self.overhead_ms + float(self.kernel_latency_ms(kernels).sum())


def grouped(kernels: Network, grouping: str) -> dict[str, tuple[list[int], Sequence[str]]]:
    """Group to the places of its operations and the features they are seen by."""
    found: dict[str, tuple[list[int], Sequence[str]]] = {}
    of = GROUPINGS[grouping]
    for place, kernel in enumerate(kernels):
        group, features = of(kernel)
        found.setdefault(group, ([], features))[0].append(place)
    return found


def fit_operations(
    networks: Sequence[Network],
    latency_ms: Sequence[float],
    *,
    model: str,
    grouping: str = "kernels",
    with_overhead: bool = True,
    seed: int = 0,
    tune: bool = True,
) -> OperationModels:
    """Trains the regressors and takes the mean difference between networks and the sums of their operations as overhead.

    Args:
        grouping: Key of :data:`GROUPINGS`.
        with_overhead: Whether networks take longer than their operations by a constant.
        tune: Whether to choose hyper-parameters by cross-validation, from the 3 to 8 settings of the regressor.

    Raises:
        TrainingError: No operations.
    """
    kernels = [kernel for network in networks for kernel in network]
    if not kernels:
        raise TrainingError("no operations to learn from; the platform's were not published")
    actual = np.array([kernel.latency_ms for kernel in kernels])
    regressors = {}
    groups = grouped(kernels, grouping)
    alike: dict[Sequence[str], list[int]] = {}
    for places, features in groups.values():
        alike.setdefault(features, []).extend(places)
    for group, (own, features) in sorted(groups.items()):
        places = own if len(own) >= FEWEST_OPERATIONS else alike[features]
        if len(places) >= FEWEST_OPERATIONS:
            inputs = matrix([kernels[place] for place in places], features)
            regressors[group] = fit_regressor(model, inputs, actual[places], seed=seed, tune=tune)
    rest = fit_regressor("lasso", matrix(kernels, FEATURES[ELEMENTWISE]), actual, seed=seed, tune=False)
    overhead_ms = 0.0
    if with_overhead:
        sums = np.array([sum(kernel.latency_ms for kernel in network) for network in networks])
        overhead_ms = float(np.mean(np.asarray(latency_ms) - sums))
    return OperationModels(regressors, rest, grouping, overhead_ms)
