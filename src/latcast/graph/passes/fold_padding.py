"""Lets convolutions do the padding that stands before them as an operator of its own.

PyTorch's tracing exporter writes ``F.pad`` and a convolution as two operators, its newer exporter as one; runtimes that read
ONNX run both as one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from latcast.graph.ir import Graph, Node
from latcast.graph.passes.rewire import rewire


def fold_padding(graph: Graph) -> Graph:
    """The graph without paddings with zeros in height and width that nothing but convolutions reads."""
    aliases: dict[str, str] = {}
    added: dict[str, tuple[int, ...]] = {}
    for node in graph.nodes:
        spatial = _spatial_zeros(graph, node)
        readers = graph.consumers.get(node.outputs[0], [])
        if spatial is not None and node.outputs[0] not in graph.outputs and readers and all(map(_takes_pads, readers)):
            aliases[node.outputs[0]] = node.inputs[0]
            added |= {reader.name: spatial for reader in readers}
    if not aliases:
        return graph
    nodes = [
        _with_pads(node, added[node.name]) if node.name in added else node
        for node in graph.nodes
        if node.outputs[0] not in aliases
    ]
    return rewire(graph, nodes, aliases)


def _spatial_zeros(graph: Graph, node: Node) -> tuple[int, ...] | None:
    """Begins and ends of height and width that a node pads with zeros, or None where it does anything else."""
    if node.op_type != "Pad" or node.domain or node.attributes.get("mode", "constant") != "constant":
        return None
    pads = graph.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
    value = graph.constants.get(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else np.zeros(1)
    axes = len(node.inputs) > 3 and bool(node.inputs[3])
    if pads is None or value is None or axes or np.any(value) or len(pads) != 8 or np.any(pads[[0, 1, 4, 5]]) or np.any(pads < 0):
        return None
    return tuple(int(pads[index]) for index in (2, 3, 6, 7))


def _takes_pads(node: Node) -> bool:
    """Whether a node is a convolution over height and width with paddings of its own."""
    return node.op_type == "Conv" and not node.domain and node.attributes.get("auto_pad", "NOTSET") == "NOTSET"


def _with_pads(node: Node, added: tuple[int, ...]) -> Node:
    own = cast("tuple[int, ...]", node.attributes.get("pads", (0, 0, 0, 0)))
    pads = tuple(before + more for before, more in zip(own, added, strict=True))
    return replace(node, attributes={**node.attributes, "pads": pads})
