"""The blocks that a network is made of, told from its graph alone.

A block is what stands between two cuts: places that one tensor alone crosses. In a chain of operators, where every place is a
cut, each one that looks at neighbouring values (a convolution wider than 1x1) begins a block, and those that follow and only mix
channels (1x1 convolutions, linear layers) belong to it. The kind of a block is its layers with weights: 1x1 or wider convolution,
depthwise or in groups, linear layer. Normalisations, activations, gates of squeeze-and-excitation, products of two activations,
and the number of channels or of branches do not make it another.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import sqrt

from latcast.graph.ir import Graph, Node
from latcast.graph.operators import node_macs

LEAST_OF_NETWORK = 0.001
"""Least share of a network's multiply-accumulates of a block; gates and the scales of a detector's boxes have less."""

LEAST_OF_POINTWISE, LEAST_OF_OTHERS = 0.1, 0.004
"""Least share of the multiply-accumulates of a block's largest layer; layers with less do not count. A depthwise layer has few
beside the 1x1 convolutions around it, one of a gate fewer."""

MOST_COUNTED = 2
"""Layers of one kind in the name of a block: a dense block of 6 layers and one of 48 are of one kind."""

POINTWISE = frozenset({"1x1", "grouped 1x1", "linear"})
"""Layers that only mix channels."""

NO_BLOCK = "without weights"
"""Stands for the block of a network in which nothing is multiplied by weights."""


def cuts(graph: Graph) -> tuple[tuple[int, str], ...]:
    """Return the places between operators that one activation alone crosses, each with it; place p is before operator p."""
    last_read = {name: place for place, node in enumerate(graph.nodes) for name in node.inputs}
    last_read |= dict.fromkeys(graph.outputs, len(graph.nodes))
    alive = {name for name in graph.inputs if name in last_read}
    found = [(0, name) for name in alive if len(alive) == 1]
    for place, node in enumerate(graph.nodes):
        alive.update(name for name in node.outputs if name in last_read)
        alive.difference_update([name for name in node.inputs if last_read[name] == place])
        if len(alive) == 1:
            found.append((place + 1, next(iter(alive))))
    return tuple(found)


@dataclass
class _Block:
    layers: list[str] = field(default_factory=list)
    macs: int = 0
    mixes_places: bool = False

    @property
    def kind(self) -> str:
        counts = Counter(self.layers)
        named = [name for name in sorted(counts) for _ in range(min(counts[name], MOST_COUNTED))]
        return " + ".join(named) or NO_BLOCK


def block_shares(graph: Graph) -> Mapping[str, float]:
    """Return the share of a network of each kind of block, the largest first; they add up to 1.

    A block counts by the root of its multiply-accumulates, so that neither the first large images nor the mere number of blocks
    decides. Empty where nothing is multiplied.
    """
    shares: dict[str, float] = defaultdict(float)
    for block in _blocks(graph):
        shares[block.kind] += sqrt(block.macs)
    whole = sum(shares.values())
    return {kind: share / whole for kind, share in sorted(shares.items(), key=lambda each: (-each[1], each[0]))}


def main_block(graph: Graph) -> str:
    """Return the kind of block that has the largest share of a network; networks of one main block are of one lineage.

    >>> import latcast
    >>> [main_block(latcast.build(latcast.model(name))) for name in ("resnet50", "mobilenet_v2")]
    ['1x1 + 1x1 + wide', '1x1 + 1x1 + depthwise']
    """
    return next(iter(block_shares(graph)), NO_BLOCK)


def _blocks(graph: Graph) -> Sequence[_Block]:
    macs = [node_macs(graph, node) for node in graph.nodes]
    least = LEAST_OF_NETWORK * sum(macs)
    places = sorted({0, *(place for place, _ in cuts(graph)), len(graph.nodes)})
    found: list[_Block] = []
    chain: _Block | None = None
    for first, last in pairwise(places):
        part = range(first, last)
        whole, largest = sum(macs[place] for place in part), max((macs[place] for place in part), default=0)
        if not whole or whole < least:
            continue
        layers = [name for place in part if (name := _layer(graph, graph.nodes[place], macs[place] / largest))]
        if len(part) > 1 or not layers:
            found.append(_Block(layers, whole))
            chain = None
            continue
        wide = layers[0] not in POINTWISE
        if chain is None or (wide and chain.mixes_places):
            chain = _Block()
            found.append(chain)
        chain.layers += layers
        chain.macs += whole
        chain.mixes_places |= wide
    return found


def _layer(graph: Graph, node: Node, share: float) -> str:
    """Name a layer for the name of its block; empty where it does not count. ``share`` is of the largest layer's work."""
    if share == 0 or node.op_type == "Einsum":
        return ""
    name = node.op_type
    if name == "Conv":
        _, inputs_of_group, *window = graph.shape(node.inputs[1])
        pointwise = all(size == 1 for size in window)
        if node.attributes.get("group", 1) == 1:
            name = "1x1" if pointwise else "wide"
        else:
            name = "depthwise" if inputs_of_group == 1 else "grouped 1x1" if pointwise else "grouped"
    elif name in ("MatMul", "Gemm"):
        if graph.weights.isdisjoint(node.inputs[:2]):
            return ""
        name = "linear"
    return name if share >= (LEAST_OF_POINTWISE if name in POINTWISE else LEAST_OF_OTHERS) else ""
