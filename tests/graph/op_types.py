"""Operators of a graph."""

from __future__ import annotations

from latcast.graph.ir import Graph


def op_types(graph: Graph) -> list[str]:
    """Return the types of its nodes, in their order."""
    return [node.op_type for node in graph.nodes]
