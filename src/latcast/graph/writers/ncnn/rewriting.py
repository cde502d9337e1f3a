"""Fuses nodes for which ncnn has one layer, as its converter does.

ncnn fuses nothing when it loads a network: its converter (pnnx) does, when it writes one. What is replaced here is what pnnx
replaces: activations, GELU, layer normalisation, channel shuffle, transposed matrix products, padding before a convolution.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from latcast.graph.idioms import choose_idioms
from latcast.graph.ir import Graph, Node
from latcast.graph.operators import operators

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
