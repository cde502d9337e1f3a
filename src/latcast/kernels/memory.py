"""Memory that a network takes: its activations under the allocator of a runtime, its weights, its file.

Fused kernels keep no inner tensors, so what counts is what kernels write for others. ``litert`` is planned as with XNNPACK, its
default, and ``tflite`` as ``litert``; ``onnxruntime`` as its pattern planner does; of any other runtime, and of ONNX Runtime's
8-bit kernels, only what is alive at once is known (:mod:`latcast.kernels.memory_planners`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from latcast.graph.ir import DTYPE_BYTES, Graph, Node
from latcast.graph.operators import Kind, names_of, operators
from latcast.kernels.blocks import images_in_blocks, reads_plain
from latcast.kernels.delegates import load_delegate
from latcast.kernels.kernel import Kernel
from latcast.kernels.memory_planners import Result, Step, aligned, alive_bytes, blocks_of, delegated_bytes, pattern_bytes
from latcast.kernels.partitioning import CPU, partition
from latcast.kernels.rules import FusionRules, load_rules
from latcast.kernels.search import find_kernels, operator_classes, units_of
from latcast.records import ACTIVATION_BYTES, WEIGHT_BYTES
from latcast.tables import Tabular

_NODE_BYTES, _TENSOR_BYTES = 60, 50
"""Bytes of a model file for each node and tensor, beside its weights."""


@dataclass(frozen=True)
class Memory(Tabular):
    """Memory of one network on one runtime, in bytes.

    Attributes:
        peak_activations_bytes: Of activations, the network's inputs and outputs included.
        reserved_bytes: What the runtime holds of the system for them: more where an arena grows by powers of two.
        weights_bytes: Of learned values.
        file_bytes: Of the model file.
        planner: "greedy" (by size), "pattern" (ONNX Runtime's), or "alive", a lower bound.
    """

    peak_activations_bytes: int
    reserved_bytes: int
    weights_bytes: int
    file_bytes: int
    planner: str

    @property
    def total_bytes(self) -> int:
        """Return weights and memory held for activations: the bytes that a device must have free."""
        return self.reserved_bytes + self.weights_bytes

    def to_json(self) -> dict[str, int | str]:
        """Return the JSON form that scripts rely on."""
        return {**self.__dict__, "total_bytes": self.total_bytes}


def memory_of(graph: Graph, rules: FusionRules, precision: str = "fp32", kernels: Sequence[Kernel] | None = None) -> Memory:
    """Return the memory that a network takes where a runtime with these rules runs it.

    Args:
        graph: The network.
        rules: Of the runtime, whose name decides the planner.
        precision: What the platform computes in.
        kernels: Where they are found already.

    Example:
        >>> import latcast
        >>> from latcast.kernels.memory import memory_of
        >>> graph = latcast.build(latcast.model("mobilenet_v2"))
        >>> memory_of(graph, latcast.load_rules("litert")).peak_activations_bytes
        6627264
    """
    planner = _planner(rules, precision)
    if planner == "greedy" and precision == "int8" and "silu" not in rules.patterns:
        # XNNPACK looks 8-bit functions of one value up in a table, a chain of them in one.
        rules, kernels = replace(rules, patterns=(*rules.patterns, "silu")), None
    found = find_kernels(graph, rules) if kernels is None else kernels
    float_bytes = ACTIVATION_BYTES.get(precision, 4)
    weights = sum(_bytes(graph, name, WEIGHT_BYTES.get(precision, 4)) for name in graph.weights)
    around = sum(aligned(_bytes(graph, name, float_bytes)) for name in (*graph.inputs, *graph.outputs))
    steps = steps_of(graph, found, float_bytes, planner, rules)
    outside = frozenset((*graph.inputs, *graph.outputs))
    if planner == "pattern":
        peak, reserved = pattern_bytes(steps, outside)
    elif planner == "greedy":
        peak = reserved = delegated_bytes(steps, outside)
    else:
        peak = reserved = alive_bytes(blocks_of(steps, outside))
    described = _NODE_BYTES * len(graph.nodes) + _TENSOR_BYTES * len(graph.tensors)
    return Memory(peak + around, reserved + around, weights, weights + described, planner)


def elements_3x3(graph: Graph) -> int:
    """Return the weights of dense 3x3 convolutions, which a runtime may transform when it loads them (Winograd)."""
    filters = [node.inputs[1] for node in graph.nodes if node.op_type == "Conv" and _is_dense_3x3(node)]
    return sum(graph.tensors[name].elements for name in filters)


def _is_dense_3x3(node: Node) -> bool:
    found = node.attributes
    return found.get("kernel_shape") == (3, 3) and found.get("strides", (1, 1)) == (1, 1) and found.get("group", 1) == 1


def _planner(rules: FusionRules, precision: str) -> str:
    """Return the planner (:class:`Memory`); ONNX Runtime's 8-bit kernels use memory outside plans, GPUs select kernels."""
    if rules.runtime == "onnxruntime" and precision != "int8":
        return "pattern"
    return "greedy" if rules.runtime in ("litert", "tflite") and not rules.selection else "alive"


def _bytes(graph: Graph, name: str, float_bytes: float) -> int:
    tensor = graph.tensors[name]
    each = float_bytes if "float" in tensor.dtype else DTYPE_BYTES[tensor.dtype]
    return int(-(-tensor.elements * each // 1))


def steps_of(graph: Graph, kernels: Iterable[Kernel], float_bytes: float, planner: str, rules: FusionRules) -> list[Step]:
    """Return the steps of a runtime in order, as its planner sees them."""
    node_of = {node.name: node for node in graph.nodes}
    segment_of = _segments(graph) if planner == "greedy" else {}
    order = {name: place for place, name in enumerate(segment_of)}
    steps: list[Step] = []
    layout = _Blocked(graph, rules) if planner == "pattern" and float_bytes == 4 else None
    computing = [kernel for kernel in kernels if kernel.nodes]
    for kernel in sorted(computing, key=lambda each: order[each.nodes[-1]]) if segment_of else computing:
        segment = segment_of.get(kernel.nodes[-1])
        nodes = [node_of[name] for name in kernel.nodes]
        made = dict.fromkeys(output for node in nodes for output in node.outputs if output)
        inside = set(kernel.nodes)
        reads = dict.fromkeys(name for node in nodes for name in graph.activation_inputs(node) if name not in made)
        writes = {}
        for name in made:
            readers = graph.consumers.get(name, ())
            if name in graph.outputs or any(reader.name not in inside for reader in readers) or name in nodes[-1].outputs[:1]:
                writes[name] = (graph.shape(name), _bytes(graph, name, float_bytes))
        if planner == "greedy" and (padded := _padded_elements(graph, nodes[0])):
            first = next(iter(reads))
            name = f"{first} padded for {nodes[0].name}"
            steps.append(Step((first,), {name: ((padded,), int(padded * float_bytes))}, segment=segment))
            reads = {name: None, **{other: None for other in reads if other != first}}
        if planner == "greedy" and nodes[0].op_type == "LayerNormalization":
            steps += _normalisation(nodes[0], tuple(reads), writes, segment)
            continue
        step = Step(tuple(reads), writes, kernel.free, _overwritten(graph, nodes, planner), segment)
        steps += [step] if layout is None else layout.steps(step, nodes)
    return steps


def _segments(graph: Graph) -> dict[str, int | None]:
    """Return node to the part of the network that XNNPACK runs it in (None for others), in the order in which they run."""
    found = partition(graph, load_delegate("tflite-xnnpack").at()).segments
    return {
        name: None if segment.unit == CPU else place for place, segment in enumerate(found) for name in segment.nodes
    }  # fmt: skip


def _normalisation(node: Node, reads: tuple[str, ...], writes: Mapping[str, Result], segment: int | None) -> list[Step]:
    """Return TFLite's steps of a layer normalisation: the centred values, their squares, and the quotient."""
    result = next(iter(writes.values()))
    centred, squares = f"{node.name} centred", f"{node.name} squares"
    return [
        Step(reads, {centred: result}, segment=segment),
        Step((centred,), {squares: result}, segment=segment),
        Step((centred, squares), writes, in_place=(centred,), segment=segment),
    ]


class _Blocked:
    """The images that ONNX Runtime lays out in blocks of channels, and its copies between that layout and the plain one."""

    def __init__(self, graph: Graph, rules: FusionRules) -> None:
        self.graph = graph
        # Without a known processor, the blocks are those of most: with AVX2.
        known = rules if rules.layouts and rules.layouts.block else load_rules("onnxruntime-cpu-avx2-fp32")
        assert known.layouts is not None
        self.block = known.layouts.block
        self.blocked = images_in_blocks(graph, units_of(graph, rules, operator_classes(graph, rules)), known.layouts)
        self.copied: dict[str, str] = {}

    def steps(self, step: Step, nodes: Sequence[Node]) -> list[Step]:
        """Return a kernel's step, behind the copies that it needs."""
        works = nodes[-1].outputs[0] in self.blocked
        found, renamed = [], {}
        for name in step.reads:
            needs = works and not reads_plain(self.graph, nodes[0], name, self.block)
            if (name in self.blocked) == needs or len(self.graph.shape(name)) != 4:
                continue
            if name not in self.copied:
                self.copied[name] = f"{name} in another layout"
                found.append(Step((name,), {self.copied[name]: self._result(name, needs)}))
            renamed[name] = self.copied[name]
        writes = {name: self._result(name, works) for name in step.writes}
        reads = tuple(renamed.get(name, name) for name in step.reads)
        found.append(Step(reads, writes, step.view, tuple(renamed.get(name, name) for name in step.in_place)))
        return found

    def _result(self, name: str, blocked: bool) -> Result:
        shape = self.graph.shape(name)
        if blocked and len(shape) == 4:
            shape = (shape[0], aligned(shape[1], self.block), *shape[2:])
        return shape, prod(shape) * int(self.graph.tensors[name].size_bytes // max(self.graph.tensors[name].elements, 1))


_POOLS = frozenset({"MaxPool", "AveragePool"})


def _padded_elements(graph: Graph, node: Node) -> int:
    """Return the elements of a pool's padded input, where TFLite pads it by a separate operator; else 0.

    XNNPACK pads inside convolutions. TFLite's pools pad as little as keeps ``ceil(input / stride)`` outputs, more of it behind.
    """
    if node.op_type not in _POOLS or len(graph.shape(node.inputs[0])) != 4:
        return 0
    shape, window = graph.shape(node.inputs[0]), node.integers("kernel_shape")
    pads = node.integers("pads", (0, 0, 0, 0))
    strides = node.integers("strides", (1, 1))
    if not any(pads):
        return 0
    fits = True
    for axis in range(2):
        size, before, after = shape[2 + axis], pads[axis], pads[2 + axis]
        wanted = max((-(-size // strides[axis]) - 1) * strides[axis] + window[axis] - size, 0)
        fits = fits and (before, after) == (wanted // 2, wanted - wanted // 2)
    return 0 if fits else shape[0] * shape[1] * (shape[2] + pads[0] + pads[2]) * (shape[3] + pads[1] + pads[3])


_UNARY = names_of(operators(Kind.UNARY)) | {"BatchNormalization", "Softmax"}

_ELEMENTWISE = _UNARY | names_of(operators(Kind.BINARY))

_WRITTEN_OVER = (_UNARY | {"Add", "Sub"}) - {"BatchNormalization"}
"""Operators that ONNX Runtime lets write over an input, unless it fused them into another operator."""


def _overwritten(graph: Graph, nodes: Sequence[Node], planner: str) -> tuple[str, ...]:
    """Return the inputs over which a kernel may write its result, the preferred first."""
    first = nodes[0].op_type
    if planner == "greedy" and first in _ELEMENTWISE:
        return tuple(graph.activation_inputs(nodes[0]))
    if planner == "pattern":
        if len(nodes) == 1 and first in _WRITTEN_OVER:
            return tuple(graph.activation_inputs(nodes[0]))
        if first == "Conv":
            sums = [node for node in nodes[1:] if node.op_type in ("Add", "Sum")]
            made = {output for node in nodes for output in node.outputs}
            return tuple(name for node in sums for name in graph.activation_inputs(node) if name not in made)
    return ()
