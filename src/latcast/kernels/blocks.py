"""Images in blocks of channels, ONNX Runtime's layout ``NCHWc``: which tensors of a network lie so.

Convolutions and pools whose channels fill blocks work on them whatever they read; other operators do where all images that they
read lie in blocks already. Source: ONNX Runtime's graph transformer ``NchwcTransformer``; a block has as many channels as MLAS
computes at once (``MlasNchwcGetBlockSize``): 16 with AVX-512, 8 on older x86-64 processors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from latcast.graph.ir import Graph, Node

if TYPE_CHECKING:
    from latcast.kernels.layouts import LayoutRules

ALIGNMENT = 4
"""Channels that a convolution must read a multiple of; what is missing in its last block counts as zero."""

Unit = tuple[str, Sequence[Node]]
"""Operators that run as one, with their class: a single operator, or those of an idiom."""


def images_in_blocks(graph: Graph, units: Iterable[Unit], rules: LayoutRules) -> frozenset[str]:
    """Return the names of the tensors that lie in blocks of channels.

    Args:
        graph: The network.
        units: All of its operators, in order.
        rules: Of the runtime, with the size of a block.
    """
    blocked: set[str] = set()
    for name, nodes in units:
        inside = {output for node in nodes for output in node.outputs}
        reads = [each for node in nodes for each in graph.activation_inputs(node) if each not in inside]
        images = (*reads, nodes[-1].outputs[0])
        if not reads or any(len(graph.shape(each)) != 4 for each in images):
            continue
        if name in rules.channels_last:
            works = fills_blocks(graph, nodes[0], rules.block)
        else:
            works = name in rules.either and blocked.issuperset(reads) and _keeps_blocks(graph, nodes[-1], reads, rules.block)
        if works:
            blocked.update(inside)
    return frozenset(blocked)


def reads_plain(graph: Graph, node: Node, tensor: str, block: int) -> bool:
    """Return whether an operator that writes blocks reads a plain image: a convolution of fewer channels than a block has."""
    dense = node.op_type == "Conv" and node.integer("group", 1) == 1
    return dense and tensor == node.inputs[0] and graph.shape(tensor)[1] < block


def fills_blocks(graph: Graph, node: Node, block: int) -> bool:
    """Return whether a convolution or a pool has the channels to work on blocks."""
    channels, made = (graph.shape(name)[1] for name in (node.inputs[0], node.outputs[0]))
    if node.op_type != "Conv":
        return channels % block == 0
    if node.inputs[1] not in graph.static_names:
        return False
    groups = node.integer("group", 1)
    if groups == 1 or groups == channels == made:
        return channels % ALIGNMENT == 0 or (groups == 1 and channels < block)
    return channels // groups % block == 0 and made // groups % block == 0


def _keeps_blocks(graph: Graph, node: Node, reads: Sequence[str], block: int) -> bool:
    """Return whether an operator that reads images in blocks writes one: elementwise ones do where nothing is broadcast."""
    shapes = [graph.shape(name) for name in reads]
    if node.op_type.startswith("Global"):
        return fills_blocks(graph, node, block)
    if node.op_type == "Concat":
        return node.integer("axis") == 1 and all(shape[1] % block == 0 for shape in shapes)
    if node.op_type in ("Resize", "Upsample"):
        return all(made % size == 0 for made, size in zip(graph.shape(node.outputs[0]), shapes[0], strict=True))
    return len(set(shapes)) == 1
