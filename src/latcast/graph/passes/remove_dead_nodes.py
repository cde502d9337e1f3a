"""Removes operators that no output depends on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from latcast.graph.ir import Graph, Node


def live_nodes(nodes: Sequence[Node], outputs: Iterable[str]) -> list[Node]:
    """The nodes, in topological order, that the outputs depend on."""
    needed = set(outputs)
    live = []
    for node in reversed(nodes):
        if not needed.isdisjoint(node.outputs):
            live.append(node)
            needed.update(node.inputs)
            needed.discard("")
    live.reverse()
    return live


def remove_dead_nodes(graph: Graph) -> Graph:
    """The graph without operators, weights and constants that nothing uses; inputs stay."""
    live = live_nodes(graph.nodes, graph.outputs)
    return graph if len(live) == len(graph.nodes) else graph.with_nodes(live)
