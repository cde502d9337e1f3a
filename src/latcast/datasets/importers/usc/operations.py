"""The files of operations: what every operation of a network took, on GPUs with the kernel it ran as.

The two frameworks describe configurations differently: TFLite gives a concatenation's number of inputs as its ``Kernel``, a
depthwise convolution's ``Filter`` and ``Group`` as 1, and counts an input's padding as input; PyTorch leaves the ``groups`` of
depthwise convolutions out, gives the sizes of tensors in elements, and counts a multiply-accumulate of a convolution as one
operation, where TFLite counts two. Here all have the same names and meanings, except operations on CPUs, whose configurations
were not described and stay as recorded.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from latcast.datasets.importers import Refusals
from latcast.datasets.importers.table import NO_VALUE, Malformed, Row, Table, number
from latcast.datasets.importers.usc.networks import RUNTIMES, scenario_platform
from latcast.records import ExecutedKernel

SHARED_KIND = "depthwise_conv_plus_1x1_conv"
"""The one kernel that computes two convolutions."""

_LINK = re.compile(r"_linked_: ?_")
_NUMBERED = re.compile(r"(.+?)((?:_\d+)+)")


@dataclass(frozen=True)
class KernelName:
    """A name in its parts: ``convolution_2d_5_linked_:_add_6_linked_:_relu_7`` computes nodes 5 and, fused into it, 6 and 7.

    Attributes:
        kind: The kernel alone: "convolution_winograd_4x4_6x6", "vulkan.conv2d_pw_2x2".
        numbers: Nodes of the kernel itself; none in names of PyTorch.
        linked: Operations fused into it with their nodes, in order.
    """

    kind: str
    numbers: tuple[int, ...] = ()
    linked: tuple[tuple[str, int], ...] = ()

    @property
    def nodes(self) -> tuple[int, ...]:
        """All nodes that it computes."""
        return (*self.numbers, *(node for _, node in self.linked))


def parse_kernel_name(name: str) -> KernelName:
    """Parse a name; PyTorch's (``vulkan.addmm``) have no numbers, a name of TFLite without them is :class:`Malformed`."""
    if "." in name:
        return KernelName(name)
    head, *links = _LINK.split(name)
    parts = [_NUMBERED.fullmatch(part) for part in (head, *links)]
    found = [(part.group(1), tuple(int(digits) for digits in part.group(2).split("_")[1:])) for part in parts if part]
    if len(found) != len(parts) or any(len(numbers) != 1 for _, numbers in found[1:]):
        raise Malformed(f"the kernel '{name}' is not of the form kernel_NODE_linked_:_operation_NODE")
    return KernelName(found[0][0], found[0][1], tuple((operation, numbers[0]) for operation, numbers in found[1:]))


Configuration = dict[str, int | str]
"""``operation`` as recorded, and the applicable ones of ``input_size``, ``input_channels``, ``output_size``,
``output_channels``, ``kernel_size``, ``stride``, ``padding``, ``groups``, ``inputs``. Sizes are heights, equal to widths;
TFLite's ``input_size`` includes padding where padding is a separate operation."""

Subject = tuple[str, str]
"""Platform id and name of a network."""

_COLUMNS = ("model", "operation", "feature")


class Features:
    """The features of one row, as whole numbers."""

    def __init__(self, text: str) -> None:
        try:
            found = ast.literal_eval(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            raise Malformed(f"feature is '{text[:60]}'; expected a dictionary of numbers") from None
        if not isinstance(found, dict):
            raise Malformed(f"feature is a {type(found).__name__}; expected a dictionary of numbers")
        self._values = found

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __getitem__(self, name: str) -> int:
        if name == "groups" and name not in self:
            name = "input_channel"  # PyTorch's depthwise convolutions do not say their groups
        value = self._values.get(name)
        if name == "padding" and value in (0, "0"):
            return 0
        try:
            whole = int(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise Malformed(f"feature '{name}' is {value!r}; expected a whole number") from None
        if whole < 1 or whole != float(value):  # type: ignore[arg-type]
            raise Malformed(f"feature '{name}' is {value!r}; expected a whole number from 1 on")
        return whole

    def as_recorded(self) -> Configuration:
        """Return every feature that is a whole number, under its own name."""
        whole = {name.lower(): str(value) for name, value in self._values.items() if isinstance(name, str)}
        return {name: int(text) for name, text in whole.items() if text.isdecimal()}


Names = Mapping[str, str | int]
"""Our name of a number to the dataset's, or to the number itself."""

_TFLITE_INPUT = {"input_size": "Input_shape", "input_channels": "Input_channel"}
_TFLITE_WINDOW = {**_TFLITE_INPUT, "output_size": "Output_shape", "kernel_size": "Kernel", "stride": "Stride"}
_TFLITE_CONVOLUTION: Names = {**_TFLITE_WINDOW, "output_channels": "Filter", "groups": "Group"}
_TFLITE_POOLING: Names = {**_TFLITE_WINDOW, "output_channels": "Input_channel"}

_TORCH_INPUT = {"input_size": "input_shape", "input_channels": "input_channel"}
_TORCH_WINDOW = {
    **_TORCH_INPUT, "output_size": "output_shape", "kernel_size": "kernel_size", "stride": "stride", "padding": "padding",
}  # fmt: skip
_TORCH_POOLING: Names = {**_TORCH_WINDOW, "output_channels": "input_channel"}
_TORCH_GLOBAL_POOLING: Names = {**_TORCH_INPUT, "output_size": 1, "output_channels": "input_channel"}
_TORCH_ELEMENTWISE: Names = {**_TORCH_INPUT, "output_size": "input_shape", "output_channels": "input_channel"}

OPERATIONS: Mapping[str, Mapping[str, Names]] = {
    "tflite": {
        "CONV_2D": _TFLITE_CONVOLUTION,
        "CONV_2D_GROUP": _TFLITE_CONVOLUTION,
        "DEPTHWISE_CONV_2D": {**_TFLITE_WINDOW, "output_channels": "Input_channel", "groups": "Input_channel"},
        "FULLY_CONNECTED": {"input_channels": "Input_channel", "output_channels": "Filter"},
        "MEAN": {**_TFLITE_INPUT, "output_size": 1, "output_channels": "Input_channel"},
        "MAX_POOL_2D": _TFLITE_POOLING,
        "AVERAGE_POOL_2D": _TFLITE_POOLING,
        "CONCATENATION": {**_TFLITE_INPUT, "inputs": "Kernel", "output_size": "Output_shape", "output_channels": "Filter"},
    },
    "torch": {
        "vulkan_prepack::run_conv2d_context": {**_TORCH_WINDOW, "output_channels": "output_channel", "groups": "groups"},
        "vulkan_prepack::run_linear_context": {"input_channels": "input_shape", "output_channels": "output_shape"},
        "vulkan_prepack::run_batchnorm_context": _TORCH_ELEMENTWISE,
        **dict.fromkeys(("aten::max_pool2d", "aten::avg_pool2d", "aten::adaptive_avg_pool2d"), _TORCH_POOLING),
        **dict.fromkeys(("aten::add", "aten::mul", "aten::relu", "aten::sigmoid", "aten::hardswish"), _TORCH_ELEMENTWISE),
    },
}
"""Framework to operation to the names of its configuration."""


@dataclass(frozen=True)
class _Columns:
    """The column of a platform's latencies, and on a GPU that of its kernels' names."""

    platform: str
    latency: int
    kernel: int | None


def _columns(table: Table, framework: str, runtimes: Mapping[str, tuple[str, str]]) -> list[_Columns]:
    """Return the columns: ``device|gpu|float`` beside ``device|gpu|kernel``, and ``device|cores|float`` or ``quant``."""
    places = {name: index for index, name in enumerate(table.header)}
    found = []
    for name, index in list(places.items())[len(_COLUMNS) :]:
        parts = name.split("|")
        if len(parts) == 3 and parts[1] != "gpu" and parts[2] in ("float", "quant"):
            found.append(_Columns(scenario_platform(framework, parts[0], parts[1], parts[2], runtimes), index, None))
            continue
        other = places.get("|".join((*parts[:2], "kernel" if parts[-1] == "float" else "float")))
        if len(parts) != 3 or parts[1] != "gpu" or parts[2] not in ("float", "kernel") or other is None:
            raise Malformed(
                f"the column '{name}' is not of the form device|gpu|float beside device|gpu|kernel, nor device|cores|float or "
                "device|cores|quant of CPU cores"
            )
        if parts[2] == "float":
            found.append(_Columns(scenario_platform(framework, parts[0], parts[1], "float", runtimes), index, other))
    return found


@dataclass(frozen=True)
class Operations:
    """The content of a file of operations; ``unknown`` ones, outside :data:`OPERATIONS`, keep the words of the file."""

    executed: Mapping[Subject, tuple[ExecutedKernel, ...]]
    rows: int
    missing: int
    unknown: frozenset[str] = frozenset()


def read_operations(
    file: Path, framework: str, refusals: Refusals, runtimes: Mapping[str, tuple[str, str]] = RUNTIMES
) -> Operations:
    """Read a file of operations; ``runtimes`` has the runtime and version of the framework."""
    table = Table(file, _COLUMNS, refusals)
    try:
        columns = _columns(table, framework, runtimes)
    except Malformed as problem:
        raise table.bad_header(problem) from problem
    found: dict[Subject, list[ExecutedKernel]] = {}
    missing = 0

    def kernels_of(row: Row) -> dict[Subject, ExecutedKernel]:
        network, operation, feature = row.cells[:3]
        if not network or not operation:
            raise Malformed(f"the name of the {'operation' if network else 'network'} is empty")
        features, names = Features(feature), OPERATIONS[framework].get(operation)
        if names is _TORCH_POOLING and "kernel_size" not in features:
            names = _TORCH_GLOBAL_POOLING
        kernels = {}
        for column in columns:
            latency = row.cells[column.latency]
            if latency in NO_VALUE:
                continue
            latency_ms = number(latency, f"the latency on {column.platform}") / 1000
            name = operation if column.kernel is None else row.cells[column.kernel]
            if name in NO_VALUE:
                raise Malformed(f"{column.platform} has a latency without the name of a kernel")
            if column.kernel is None or names is None:
                said = features.as_recorded()
            else:
                said = {each: features[source] if isinstance(source, str) else source for each, source in names.items()}
            kind = operation if column.kernel is None else parse_kernel_name(name).kind
            executed = ExecutedKernel(name, kind, (), latency_ms, {"operation": operation, **said})
            kernels[column.platform, network] = executed
        return kernels

    for kernels in table.parsed(kernels_of):
        missing += len(columns) - len(kernels)
        for subject, kernel in kernels.items():
            found.setdefault(subject, []).append(kernel)
    executed = {subject: tuple(_join_shared(kernels)) for subject, kernels in found.items()}
    on_gpus = {column.platform for column in columns if column.kernel is not None}
    operations = {
        str(kernel.configuration["operation"]) for (platform, _), kernels in found.items() for kernel in kernels
        if platform in on_gpus
    }  # fmt: skip
    return Operations(executed, len(table), missing, frozenset(operations - set(OPERATIONS[framework])))


def _join_shared(kernels: list[ExecutedKernel]) -> list[ExecutedKernel]:
    """Return the kernels with those that compute two operations once.

    Apple's GPUs run a depthwise convolution and the pointwise one after it as one kernel, which the file lists under each of
    the two, with two readings of the same time. The result has their mean, and the depthwise configuration with the output
    channels of the pointwise one.
    """
    joined: list[ExecutedKernel] = []
    for kernel in kernels:
        before = joined[-1] if joined else None
        if before is not None and kernel.kind == SHARED_KIND and kernel.name == before.name:
            configuration = {
                **before.configuration,
                "operation": f"{before.configuration['operation']}+{kernel.configuration['operation']}",
                "output_channels": kernel.configuration["output_channels"],
            }
            latency_ms = (before.latency_ms + kernel.latency_ms) / 2
            joined[-1] = replace(before, latency_ms=latency_ms, configuration=configuration)
        else:
            joined.append(kernel)
    return joined
