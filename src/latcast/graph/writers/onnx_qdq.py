"""Graph to an int8 ONNX file with QuantizeLinear/DequantizeLinear pairs, as post-training quantisation writes it.

Weights are int8, symmetric, one scale an output channel; activations uint8, affine, one scale a tensor; biases int32.
Batch normalisations after convolutions are folded first and tensors between a convolution and its ReLU stay unquantised, as
stock tools have it. LayerNormalization, Softmax, GELU and every operator without an integer kernel stay in float between a
dequantisation and a quantisation. Scales come from :func:`latcast.graph.writers.ranges.activation_ranges`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from latcast.graph.idioms import choose_idioms
from latcast.graph.ir import Graph, Node, resolved
from latcast.graph.moves import SAME_SCALE_OPERATORS, with_moved
from latcast.graph.operators import Kind, names_of, operators
from latcast.graph.writers.folding import fold_batch_norms
from latcast.graph.writers.onnx import OnnxFile, choose_opset, typed_weights
from latcast.graph.writers.ranges import activation_ranges, int8_weights, int32_bias

_MATRIX_OPERATORS = names_of(operators(Kind.PRODUCT))

INTEGER_OPERATORS = _MATRIX_OPERATORS | {
    "Add", "Mul", "Concat", "AveragePool", "GlobalAveragePool", "Sigmoid", "LeakyRelu",
}  # fmt: skip
"""Operators computed on integers, each with its own output scale."""

ACTIVATIONS = names_of(row for row in operators() if row.activation)


@dataclass(frozen=True)
class QuantisationStyle:
    """The places where a tool puts pairs of QuantizeLinear and DequantizeLinear.

    Attributes:
        integer_operators: Operators that read integers.
        quantises_outputs: Whether their outputs are quantised too, whatever reads them.
        quantises_moved: Whether a tensor that was only moved (reshaped, transposed, split) gets its own pair.
        fused_activations: Operators that follow a convolution without a pair between the two.
        unifies_concatenations: Whether all that is concatenated has one scale.
    """

    integer_operators: frozenset[str]
    quantises_outputs: bool
    quantises_moved: bool
    fused_activations: frozenset[str]
    unifies_concatenations: bool


OPERATOR_STYLE = QuantisationStyle(INTEGER_OPERATORS, True, True, frozenset({"Relu", "Clip"}), False)
"""The style of onnxruntime's static quantisation: every integer operator between pairs, which its optimiser merges into one."""

INPUT_STYLE = QuantisationStyle(INTEGER_OPERATORS - {"Sigmoid", "LeakyRelu"}, False, False, ACTIVATIONS, True)
"""The style of NNCF for OpenVINO: convolutions, matrix products, sums and pools read integers; activations are left to fusion."""

SUFFIXES = ("_QuantizeLinear_Input", "_QuantizeLinear_Output", "_DequantizeLinear_Output", "_quantized")


def original_tensor(name: str) -> str:
    """Return the graph's name of a tensor in a quantised file."""
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return name


@dataclass(frozen=True)
class Affine:
    """real = scale * (integer - zero_point), integers from 0 to 255."""

    scale: float
    zero_point: int

    @classmethod
    def covering(cls, low: float, high: float) -> Affine:
        scale = max((high - low) / 255.0, 1e-9)
        return cls(scale, int(np.clip(round(-low / scale), 0, 255)))


def integer_nodes(graph: Graph, style: QuantisationStyle) -> list[Node]:
    """Return the nodes of a style's integer operators that have a form for which integer kernels exist."""
    idioms = choose_idioms(graph, ("gelu", "silu", "hard_swish"))
    floating = {node.name for idiom in idioms if idiom.name == "gelu" for node in idiom.nodes}
    # x sigmoid(x) and x hardsigmoid(x)
    gated = {idiom.nodes[-1].name for idiom in idioms if len(idiom.nodes) == 2}

    def integer(node: Node) -> bool:
        if node.op_type not in style.integer_operators or node.name in floating:
            return False
        if node.op_type == "Gemm":
            plain = all(node.attributes.get(key, 1) == 1 for key in ("alpha", "beta"))
            return plain and not node.attributes.get("transA", 0)
        if style.quantises_outputs or node.op_type not in ("Add", "Mul"):
            return True
        # A bias or a factor is fused into what came before; between activations the operator stays.
        return len(graph.activation_inputs(node)) == 2 and node.name not in gated

    return [node for node in graph.nodes if integer(node)]


def quantised_tensors(graph: Graph, style: QuantisationStyle = OPERATOR_STYLE) -> frozenset[str]:
    """Return the activations that get a pair of QuantizeLinear and DequantizeLinear."""
    chosen: set[str] = set()
    for node in integer_nodes(graph, style):
        chosen.update(graph.activation_inputs(node))
        if style.quantises_outputs:
            chosen.update(node.outputs)
    if style.quantises_moved:
        chosen = with_moved(graph, chosen, SAME_SCALE_OPERATORS | style.fused_activations)
    else:
        chosen = {_before_moves(graph, name) for name in chosen}
    for node in graph.nodes:
        for name in node.outputs:
            reader = graph.sole_reader(name)
            if reader is not None and reader.op_type in style.fused_activations:
                chosen.discard(name)
    return frozenset(name for name in chosen if graph.tensors[name].dtype == "float32")


def _before_moves(graph: Graph, name: str) -> str:
    """Return the tensor that a chain of moving operators started from."""
    maker = graph.producers.get(name)
    while maker is not None and maker.op_type in SAME_SCALE_OPERATORS:
        name = maker.inputs[0]
        maker = graph.producers.get(name)
    return name


def choose_parameters(
    graph: Graph, tensors: frozenset[str], ranges: Mapping[str, tuple[float, float]], style: QuantisationStyle = OPERATOR_STYLE
) -> Mapping[str, Affine]:
    """Scale and zero point of every quantised activation.

    Operators that move values keep their input's. Where the style says so, so do concatenations: all that is concatenated
    gets one scale that covers it.
    """
    leader: dict[str, str] = {}

    first = partial(resolved, leader)

    def join(name: str, other: str) -> None:
        if first(name) != first(other):
            leader[first(name)] = first(other)

    for node in graph.nodes:
        if node.op_type in SAME_SCALE_OPERATORS and node.inputs[0] in graph.tensors:
            for output in node.outputs:
                join(output, node.inputs[0])
        elif node.op_type == "Concat" and style.unifies_concatenations:
            for name in graph.activation_inputs(node):
                join(name, node.outputs[0])
    covered: dict[str, tuple[float, float]] = {}
    for name in (*graph.inputs, *(output for node in graph.nodes for output in node.outputs)):
        if name in ranges and (name in tensors or style.unifies_concatenations):
            low, high = ranges[name]
            before = covered.get(first(name), (0.0, 0.0))
            covered[first(name)] = (min(low, before[0]), max(high, before[1]))
    return {name: Affine.covering(*covered[first(name)]) for name in sorted(tensors)}


class _QdqWriter:
    """Writes nodes with the pairs around them."""

    def __init__(
        self, graph: Graph, weights: Mapping[str, np.ndarray], parameters: Mapping[str, Affine], integer: set[str]
    ) -> None:
        self.graph = graph
        self.weights = weights
        self.parameters = parameters
        self.integer = integer
        self.file = OnnxFile(graph, choose_opset(graph))
        self.done: set[str] = set()

    def dequantise(
        self, name: str, integers: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, axis: int | None = None
    ) -> str:
        """Add a constant kept as integers."""
        if name not in self.done:
            self.done.add(name)
            inputs = (
                self.file.initializer(f"{name}_quantized", integers),
                self.file.initializer(f"{name}_scale", scale.astype(np.float32)),
                self.file.initializer(f"{name}_zero_point", zero_point.astype(integers.dtype)),
            )
            attributes = {} if axis is None else {"axis": axis}
            self.file.add(Node("DequantizeLinear", f"{name}_DequantizeLinear", inputs,
                               (f"{name}_DequantizeLinear_Output",), attributes))  # fmt: skip
        return f"{name}_DequantizeLinear_Output"

    def weight(self, name: str, axis: int | None) -> tuple[str, np.ndarray]:
        """Add a weight as int8, one scale per index of ``axis`` (or one for all); return its name and scales."""
        integers, scale = int8_weights(self.weights[name], axis)
        return self.dequantise(name, integers, scale, np.zeros_like(scale, np.int8), axis), scale

    def bias(self, node: Node, input_scale: float, weight_scale: np.ndarray) -> str:
        """Add a node's bias as int32 in units of the product of the two scales."""
        name = node.inputs[2]
        scale = np.broadcast_to(weight_scale * input_scale, self.weights[name].shape)
        integers = int32_bias(self.weights[name], scale)
        # The input's scale is in it, so two convolutions that share a bias do not share its integers.
        return self.dequantise(f"{node.name}_{name}", integers, scale, np.zeros(scale.shape, np.int32), 0)

    def operand(self, name: str) -> str:
        """Add a constant operand of an element-wise operator, quantised like activations."""
        values = np.asarray(self.weights.get(name, self.graph.constants.get(name)), np.float32)
        affine = Affine.covering(min(float(values.min()), 0.0), max(float(values.max()), 0.0))
        integers = np.clip(np.round(values / affine.scale) + affine.zero_point, 0, 255).astype(np.uint8)
        return self.dequantise(f"{name}_operand", integers, np.asarray(affine.scale), np.asarray(affine.zero_point))

    def pair(self, name: str) -> None:
        """QuantizeLinear and DequantizeLinear after a tensor was made."""
        affine = self.parameters[name]
        scale = self.file.initializer(f"{name}_scale", np.asarray(affine.scale, np.float32))
        zero_point = self.file.initializer(f"{name}_zero_point", np.asarray(affine.zero_point, np.uint8))
        middle, after = f"{name}_QuantizeLinear_Output", f"{name}_DequantizeLinear_Output"
        before = self.made_as(name)
        self.file.add(Node("QuantizeLinear", f"{name}_QuantizeLinear", (before, scale, zero_point), (middle,)))
        self.file.add(Node("DequantizeLinear", f"{name}_DequantizeLinear", (middle, scale, zero_point),
                           (name if before != name else after,)))  # fmt: skip

    def made_as(self, name: str) -> str:
        """Return the tensor's name at its maker: an output of the network keeps its own for the final value."""
        is_output = name in self.graph.outputs and name not in self.graph.inputs
        return f"{name}_QuantizeLinear_Input" if is_output and name in self.parameters else name

    def read_as(self, name: str) -> str:
        if name not in self.parameters or self.made_as(name) != name:
            return name
        return f"{name}_DequantizeLinear_Output"

    def inputs(self, node: Node) -> list[str]:
        """Return the inputs of a node in the quantised file."""
        read = [self.read_as(name) for name in node.inputs]
        if node.name not in self.integer:
            return read
        if node.op_type in _MATRIX_OPERATORS and node.inputs[1] in self.weights:
            read[1], scale = self.weight(node.inputs[1], self.channel_axis(node))
            biased = len(node.inputs) > 2 and node.inputs[2] in self.weights and len(self.graph.shape(node.inputs[2])) == 1
            near, far = node.inputs[0], _before_moves(self.graph, node.inputs[0])
            source = self.parameters.get(near) or self.parameters.get(far)
            if biased and source is not None:
                read[2] = self.bias(node, source.scale, scale)
        elif node.op_type != "Conv":
            read = [self.operand(name) if name and not self.graph.is_activation(name) else kept
                    for name, kept in zip(node.inputs, read, strict=True)]  # fmt: skip
        return read

    def channel_axis(self, node: Node) -> int | None:
        """Return the axis of a weight along which its scales vary; None for one scale."""
        rank = len(self.graph.shape(node.inputs[1]))
        if node.op_type == "MatMul":
            return 1 if rank == 2 else None
        if node.op_type == "ConvTranspose":
            return 1 if node.attributes.get("group", 1) == 1 else None
        return 1 if node.op_type == "Gemm" and not node.attributes.get("transB", 0) else 0

    def add(self, node: Node) -> None:
        """Write an operator and the pairs of its outputs."""
        read, made = tuple(self.inputs(node)), tuple(self.made_as(name) for name in node.outputs)
        self.file.add(replace(node, inputs=read, outputs=made))
        for name in node.outputs:
            if name in self.parameters:
                self.pair(name)


def to_qdq(graph: Graph, *, seed: int = 0, style: QuantisationStyle = OPERATOR_STYLE, compressible: bool = False) -> bytes:
    """Write a graph of float operators as a quantised ONNX file.

    Args:
        graph: The network.
        seed: Of the weights, which equal those of the unquantised file.
        style: Where quantisation happens.
        compressible: Whether the weights repeat (:func:`latcast.graph.weights.synthetic_weights`).

    Returns:
        The bytes of the model. Nodes keep their names; what the graph calls ``t`` is ``t``, ``t_QuantizeLinear_Output`` or
        another name from which :func:`original_tensor` finds ``t`` back.

    Raises:
        UnsupportedOperatorError: An operator that ONNX does not define; the message names the node.
    """
    folded, weights = fold_batch_norms(graph, typed_weights(graph, seed=seed, compressible=compressible))
    ranges = activation_ranges(folded, weights, seed=seed)
    parameters = choose_parameters(folded, quantised_tensors(folded, style), ranges, style)
    writer = _QdqWriter(folded, weights, parameters, {node.name for node in integer_nodes(folded, style)})
    for name in folded.inputs:
        if name in writer.parameters:
            writer.pair(name)
    for node in folded.nodes:
        writer.add(node)
    read = writer.file.names_read()
    for name, values in (*weights.items(), *folded.constants.items()):
        if name in read:
            writer.file.initializer(name, values)
    return writer.file.to_bytes()
