"""Graph to ncnn's param and bin files, with synthetic weights, without pnnx or torch.

ncnn runs what the param file says, layer by layer, and fuses nothing at load. So this does what ncnn's converter and
optimiser do: batch normalisation and activations become part of convolutions, GELU, hard-swish, layer normalisation and
channel shuffles become layers, padding before a convolution and the transpose before a product part of these, blobs with several
readers are split.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from latcast.errors import LatcastError, UnsupportedOperatorError
from latcast.graph.idioms import choose_idioms
from latcast.graph.ir import Graph, Node
from latcast.graph.operators import operators
from latcast.graph.passes import remove_dead_nodes
from latcast.graph.weights import synthetic_weights
from latcast.graph.writers.folding import check_shapes, fold_constants
from latcast.graph.writers.ncnn import elementwise, linear, movement
from latcast.graph.writers.ncnn.layers import activation_scales, hand_on_int8, nodes_by_layer, to_bin, to_param, with_splits
from latcast.graph.writers.ncnn.lowering import LOWERINGS, Lowering, blob_shape, failure

PRECISIONS = ("fp32", "int8")

_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})


def to_ncnn(graph: Graph, *, precision: str = "fp32", seed: int = 0, compressible: bool = False) -> tuple[str, bytes]:
    """Write a graph for ncnn.

    Inputs are the blobs ``in0``, ``in1``... and outputs ``out0``, ``out1``..., in the graph's order, shaped as the graph's
    tensors without their batch axis (:func:`blob_shape`); outputs may lack further axes of size 1.

    Args:
        graph: A network of batch 1.
        precision: "fp32", or "int8" for int8 convolutions and matrix products with weights as ncnn2int8 stores them.
            Weights of 16 bits are a choice of the runtime, not of the file.
        seed: Of the weights.
        compressible: Whether the weights repeat (:func:`latcast.graph.weights.synthetic_weights`).

    Returns:
        The text of the param file and the bytes of the bin file.

    Raises:
        UnsupportedOperatorError: A node has no form in ncnn, or the batch is not 1; the message names the node or input.
        ModelError: The shapes in the graph contradict each other.
        LatcastError: An unknown precision.
    """
    param, weights, _ = to_ncnn_with_map(graph, precision=precision, seed=seed, compressible=compressible)
    return param, weights


def to_ncnn_with_map(
    graph: Graph, *, precision: str = "fp32", seed: int = 0, compressible: bool = False
) -> tuple[str, bytes, Mapping[str, tuple[str, ...]]]:
    """Write as :func:`to_ncnn` does; also return which nodes each layer computes.

    Returns:
        Param text, bin bytes, and a mapping from layer name to names of the graph's nodes, in the graph's order. Layers that
        only serve ncnn (Input, Split, MemoryData, some reshapes) have none. Nodes that depend on no input of the network
        were worked out here, and nodes that lead to no output left out: they are in no layer. Every other node is in
        exactly one.

    Raises:
        UnsupportedOperatorError, ModelError, LatcastError: See :func:`to_ncnn`.
    """
    if precision not in PRECISIONS:
        raise LatcastError(f"no ncnn network of precision '{precision}' can be written; expected one of {', '.join(PRECISIONS)}")
    _check(graph)
    weights = synthetic_weights(graph, seed=seed, compressible=compressible)
    scales = activation_scales(graph, weights, seed=seed) if precision == "int8" else None
    folded, values = fold_constants(graph, weights)
    rewritten, origins = rewrite(remove_dead_nodes(folded), values)
    order = {node.name: index for index, node in enumerate(graph.nodes)}
    ctx = Lowering(rewritten, values, origins, order, scales)
    for index, tensor in enumerate(rewritten.inputs):
        ctx.add_input(tensor, f"in{index}")
    for node in rewritten.nodes:
        if not ctx.is_done(node):
            lower = LOWERINGS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
            if lower is None:
                label = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
                raise failure(node, f"ncnn has no layer that this writer knows for {label}")
            dtype = ctx.graph.tensors[node.outputs[0]].dtype
            if dtype not in _FLOATS:
                raise failure(node, f"its output is {dtype}, and blobs hold floats")
            lower(ctx, node)
    layers, outputs = with_splits(ctx.layers, ctx.finish())
    if scales is not None:
        hand_on_int8(layers, outputs)
    return to_param(layers), to_bin(layers), nodes_by_layer(layers)


def _check(graph: Graph) -> None:
    for name in graph.inputs:
        tensor = graph.tensors[name]
        if len(tensor.shape) > 1 and tensor.shape[0] != 1:
            raise UnsupportedOperatorError(
                f"input '{name}' has batch {tensor.shape[0]}, but ncnn networks have no batch axis; use batch 1"
            )
        if tensor.dtype not in _FLOATS:
            raise UnsupportedOperatorError(f"input '{name}' is {tensor.dtype}; networks for ncnn are written with float inputs")
        if len(blob_shape(tensor.shape)) > 4:
            raise UnsupportedOperatorError(f"input '{name}' has shape {list(tensor.shape)}; an ncnn blob has at most four axes")
    check_shapes(graph)


_OPERATORS: Mapping[str, str] = {
    "channel_shuffle": "ChannelShuffle", **{idiom: row.op_type for row in operators() for idiom in row.idioms},
}  # fmt: skip
"""Idiom to the operator that takes its place."""


def rewrite(graph: Graph, values: Mapping[str, np.ndarray]) -> tuple[Graph, Mapping[str, tuple[str, ...]]]:
    """Replace every known group of nodes by one node, of the name and the outputs of the last of them.

    The new nodes are Gelu, HardSigmoid, HardSwish, Swish, Mish, LayerNormalization, ChannelShuffle (attribute ``group``),
    MatMul with an attribute ``transB``, Conv with an attribute ``pad_value``; not all that is known to ONNX.

    Args:
        graph: A network.
        values: The weights and constants whose values are known.

    Returns:
        The graph, and the names of the original nodes behind each of the new ones, in their order.
    """
    replaced: dict[str, Node] = {}
    origins: dict[str, tuple[str, ...]] = {}
    for idiom in choose_idioms(graph, _OPERATORS, lambda idiom: idiom.attributes is not None):
        last = idiom.nodes[-1]
        replaced[last.name] = Node(_OPERATORS[idiom.name], last.name, idiom.inputs, last.outputs, idiom.attributes or {})
        origins[last.name] = tuple(node.name for node in idiom.nodes)
    for node in graph.nodes:
        position = {"MatMul": 1, "Conv": 0}.get(node.op_type)
        before = None if position is None else graph.producers.get(node.inputs[position])
        if before is None or before.outputs[0] in graph.outputs or len(graph.consumers[before.outputs[0]]) != 1:
            continue
        absorb = {"Transpose": _with_transposed, "Pad": _with_padding}.get(before.op_type)
        new = absorb(graph, node, before, values) if absorb else None
        if new is not None:
            replaced[node.name] = new
            origins[node.name] = (before.name, node.name)
    inner = {name for names in origins.values() for name in names[:-1]}
    left = [replaced.get(node.name, node) for node in graph.nodes if node.name not in inner]
    return graph.with_nodes(left), origins


def _with_transposed(graph: Graph, node: Node, transpose: Node, values: Mapping[str, np.ndarray]) -> Node | None:
    """Return a matrix product whose right operand is transposed just before."""
    order = _integers(transpose, "perm", None, values)
    rank = len(order or ())
    if node.op_type != "MatMul" or rank < 2 or order != (*range(rank - 2), rank - 1, rank - 2):
        return None
    return Node("MatMul", node.name, (node.inputs[0], transpose.inputs[0]), node.outputs, {"transB": 1})


def _with_padding(graph: Graph, node: Node, pad: Node, values: Mapping[str, np.ndarray]) -> Node | None:
    """Return a convolution with the constant padding before it as its own."""
    if node.op_type != "Conv" or pad.attributes.get("mode", "constant") != "constant":
        return None
    pads = _integers(pad, "pads", 1, values)
    value = pad.attributes.get("value", 0.0)
    if len(pad.inputs) > 2 and pad.inputs[2]:
        given = graph.constants.get(pad.inputs[2])
        value = float(given.reshape(-1)[0]) if given is not None and given.size == 1 else ""
    rank = len(graph.shape(pad.inputs[0]))
    if pads is None or len(pads) != 2 * rank or not isinstance(value, (int, float)):
        return None
    outer = (*pads[:2], *pads[rank : rank + 2])
    inner = (*pads[2:rank], *pads[rank + 2 :])
    own = _integers(node, "pads", None, values) or (0,) * len(inner)
    if any(outer) or min(inner) < 0:
        return None
    if node.attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or (any(own) and value != 0.0):
        return None
    total = tuple(a + b for a, b in zip(inner, own, strict=True))
    attributes = {**node.attributes, "pads": total, "auto_pad": "NOTSET", "pad_value": float(value)}
    return Node("Conv", node.name, (pad.inputs[0], *node.inputs[1:]), node.outputs, attributes)


def _integers(node: Node, attribute: str, position: int | None, values: Mapping[str, np.ndarray]) -> tuple[int, ...] | None:
    """Return integers given as an attribute or as a known input; None where they are neither."""
    given = node.attributes.get(attribute)
    if isinstance(given, tuple):
        return tuple(int(number) for number in given)
    value = values.get(node.inputs[position]) if position is not None and len(node.inputs) > position else None
    return None if value is None else tuple(int(number) for number in value.reshape(-1))


__all__ = ["PRECISIONS", "blob_shape", "elementwise", "linear", "movement", "to_ncnn", "to_ncnn_with_map"]
