"""The dataset's networks as they are built here: their figures, and the nodes that a recorded kernel computes.

The dataset names nodes of the frameworks' own graphs, which were not published. A kernel is matched by its operation and
configuration: of several equal ones, the first in the file is the first in the graph, as both are in order of execution. Fused
operations are followed from there along the graph. PyTorch records a sigmoid with the size of the tensor that it will scale, so
only its channels count.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from latcast.datasets.importers import NetworkCheck, NetworkFigures
from latcast.datasets.importers.usc.operations import parse_kernel_name
from latcast.environment import MOMENT
from latcast.errors import LatcastError
from latcast.graph.idioms import choose_idioms
from latcast.graph.ir import Graph, Node
from latcast.graph.operators import graph_macs
from latcast.records import ExecutedKernel, Measurement, Reference
from latcast.spaces import build
from latcast.spaces.measured_only import can_build, why_not

TOLERANCE = 0.05
"""Largest relative difference: published FLOPs count pools and element-wise operations too, file sizes more than parameters."""


class Builder:
    """Builds each network once; ``watch`` is called with its name before.

    Attributes:
        failures: Reason to the names of networks that could not be built.
    """

    def __init__(self, watch: Callable[[str], None]) -> None:
        self.failures: dict[str, list[str]] = {}
        self._watch = watch
        self._graphs: dict[str, Graph | None] = {}

    def graph(self, reference: Reference) -> Graph | None:
        """Return the network, or None where it cannot be built."""
        if reference.key not in self._graphs:
            self._graphs[reference.key] = None
            reason = "" if can_build(reference) else why_not(reference)
            if not reason:
                self._watch(reference.name)
                try:
                    self._graphs[reference.key] = build(reference)
                except LatcastError as problem:
                    reason = str(problem)
            if reason:
                self.failures.setdefault(reason, []).append(reference.name)
        return self._graphs[reference.key]


def check_networks(
    measurements: Iterable[Measurement],
    watch: Callable[[str], None],
    stated: Callable[[Measurement], tuple[str, float, float] | None],
) -> NetworkCheck:
    """Compare FLOPs and size of each network, as published, with the network as it is built here.

    Args:
        measurements: The dataset's.
        watch: Called with the name of each network before it is built.
        stated: Returns a key under which a measurement's figures count once, its published FLOPs and bytes; None without them.
    """
    builder = Builder(watch)
    figures: dict[str, NetworkFigures] = {}
    for measurement in measurements:
        graph, known = builder.graph(measurement.reference), stated(measurement)
        if graph is None or known is None or known[0] in figures:
            continue
        key, flops, size_bytes = known
        figures[key] = NetworkFigures(
            measurement.reference.name,
            str(measurement.environment[MOMENT]["row"]).partition(":")[0],
            2 * graph_macs(graph) / flops,
            4 * graph.parameter_count / size_bytes,
        )
    failures = {reason: tuple(names) for reason, names in builder.failures.items()}
    return NetworkCheck(tuple(figures.values()), failures, TOLERANCE)


Signature = tuple[str, tuple[int, ...]]
"""Class of an operation and the numbers that distinguish it."""

_CLASS_OF_OPERATION: Mapping[str, str] = {
    "CONV_2D": "product", "CONV_2D_GROUP": "product", "DEPTHWISE_CONV_2D": "product", "FULLY_CONNECTED": "product",
    "DEPTHWISE_CONV_2D+CONV_2D": "product", "MEAN": "average", "AVERAGE_POOL_2D": "average", "MAX_POOL_2D": "maximum",
    "CONCATENATION": "concatenation", "vulkan_prepack::run_conv2d_context": "product",
    "vulkan_prepack::run_linear_context": "product", "vulkan_prepack::run_batchnorm_context": "normalisation",
    "aten::max_pool2d": "maximum", "aten::avg_pool2d": "average", "aten::adaptive_avg_pool2d": "average",
    "aten::add": "addition", "aten::mul": "multiplication", "aten::relu": "relu", "aten::sigmoid": "sigmoid",
    "aten::hardswish": "hardswish",
}  # fmt: skip

_CLASS_OF_STEP: Mapping[str, str] = {
    "Conv": "product", "Gemm": "product", "MatMul": "product", "GlobalAveragePool": "average", "AveragePool": "average",
    "ReduceMean": "average", "MaxPool": "maximum", "Concat": "concatenation", "BatchNormalization": "normalisation",
    "Add": "addition", "Mul": "multiplication", "Relu": "relu", "Clip": "relu", "Sigmoid": "sigmoid",
    "HardSwish": "hardswish", "hard_swish": "hardswish",
}  # fmt: skip

_SPELT_OUT = ("hard_swish", "hard_sigmoid")
"""Activations that an exporter may write as several operators."""

_LINKED: Mapping[str, frozenset[str]] = {
    "relu": frozenset({"Relu", "Clip", "HardSigmoid", "hard_sigmoid"}),
    "add": frozenset({"Add"}),
    "mul": frozenset({"Mul", "Div", "BatchNormalization"}),
    "sigmoid": frozenset({"Sigmoid"}),
    "hard_swish": frozenset({"HardSwish", "hard_swish"}),
}
"""TFLite's name of a fused operation to the steps that it may be."""

_FOLLOWED_BY: Mapping[str, str] = {"HardSigmoid": "mul", "hard_sigmoid": "mul", "BatchNormalization": "add"}
"""Step that TFLite runs as two operations to the second of them: a bounded relu and a product; a product and a sum."""


@dataclass(frozen=True)
class _Step:
    """A node, or several that spell one activation; ``kind`` is the operator or the idiom."""

    kind: str
    nodes: tuple[Node, ...]

    @property
    def output(self) -> str:
        return self.nodes[-1].outputs[0]


def with_nodes(executed: Sequence[ExecutedKernel], graph: Graph) -> tuple[ExecutedKernel, ...]:
    """Return the kernels with the names of the nodes that each computes; none where no node is left that it may be."""
    return _Matching(graph).assign(executed)


class _Matching:
    """One network whose steps are assigned to kernels, each once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.taken: set[str] = set()
        spelt_out = [_Step(idiom.name, idiom.nodes) for idiom in choose_idioms(graph, _SPELT_OUT)]
        inside = {node.name: step for step in spelt_out for node in step.nodes}
        self.step_of = {node.name: inside.get(node.name, _Step(node.op_type, (node,))) for node in graph.nodes}
        self.waiting: dict[Signature, deque[_Step]] = defaultdict(deque)
        for node in graph.nodes:
            step = self.step_of[node.name]
            signature = self._signature(step)
            if signature is not None and step.nodes[0] is node:
                self.waiting[signature].append(step)

    def assign(self, executed: Sequence[ExecutedKernel]) -> tuple[ExecutedKernel, ...]:
        matched = []
        for kernel in executed:
            waiting = self.waiting[_signature_of_kernel(kernel)]
            steps: list[_Step] = []
            while waiting and not steps:
                first = waiting.popleft()
                if first.nodes[0].name not in self.taken:
                    steps = self._with_fused(first, kernel)
            names = tuple(node.name for step in steps for node in step.nodes)
            self.taken.update(names)
            matched.append(replace(kernel, nodes=names))
        return tuple(matched)

    def _signature(self, step: _Step) -> Signature | None:
        kind = _CLASS_OF_STEP.get(step.kind)
        if kind is None:
            return None
        output = self.graph.shape(step.output)
        channels, size = output[1] if len(output) > 1 else 1, output[2] if len(output) > 2 else 1
        if kind == "sigmoid":
            return kind, (channels,)
        if kind != "product":
            return kind, (channels, size)
        node = step.nodes[0]
        source = self.graph.shape(node.inputs[0])
        if node.op_type != "Conv":
            return kind, (source[-1], output[-1], 1, 1, 1, 1)
        kernel_size = self.graph.shape(node.inputs[1])[2]
        stride = node.integers("strides", (1,))[0]
        return kind, (source[1], channels, size, kernel_size, stride, node.integer("group", 1))

    def _with_fused(self, first: _Step, kernel: ExecutedKernel) -> list[_Step]:
        """Return the first step and what the kernel's name says is computed with it, as far as the graph agrees."""
        steps = [first]
        name = parse_kernel_name(kernel.name)
        if _is_shared(kernel):
            while len(steps) < len(name.numbers) and (reader := self._only_reader(steps[-1])) is not None:
                steps.append(reader)
        expected = deque(operation for operation, _ in name.linked)
        while expected and (reader := self._only_reader(steps[-1])) is not None:
            if reader.kind in _LINKED.get(expected[0], ()):
                expected.popleft()
                if expected and expected[0] == _FOLLOWED_BY.get(reader.kind):
                    expected.popleft()
            elif not (reader.kind in ("Add", "Sub") and len(self.graph.activation_inputs(reader.nodes[0])) == 1):
                break  # a sum with a constant went into the bias; anything else is not what was recorded
            steps.append(reader)
        return steps

    def _only_reader(self, step: _Step) -> _Step | None:
        readers = {id(found): found for node in self.graph.consumers.get(step.output, ()) for found in [self.step_of[node.name]]}
        reader = next(iter(readers.values())) if len(readers) == 1 else None
        return None if reader is None or reader.nodes[0].name in self.taken else reader


def _is_shared(kernel: ExecutedKernel) -> bool:
    return "+" in str(kernel.configuration["operation"])


def _signature_of_kernel(kernel: ExecutedKernel) -> Signature:
    found = kernel.configuration
    kind = _CLASS_OF_OPERATION.get(str(found["operation"]), "")

    def of(name: str) -> int:
        return int(found.get(name, 1))

    if kind == "sigmoid":
        return kind, (of("output_channels"),)
    if kind != "product":
        return kind, (of("output_channels"), of("output_size"))
    # Of a shared kernel the depthwise convolution comes first; as many channels leave it as it has groups.
    outputs = of("groups") if _is_shared(kernel) else of("output_channels")
    return kind, (of("input_channels"), outputs, of("output_size"), of("kernel_size"), of("stride"), of("groups"))
