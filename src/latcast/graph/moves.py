"""Operators that move or select values, and the tensors that hold the same values before and behind them."""

from __future__ import annotations

from collections.abc import Iterable, Set

from latcast.graph.ir import Graph, Node
from latcast.graph.operators import Kind, names_of, operators

SAME_SCALE_OPERATORS = names_of(row for row in operators() if row.passes or row.kind in (Kind.VIEW, Kind.MOVEMENT)) - {
    "Concat"
} | {"Resize", "MaxPool", "GlobalMaxPool"}  # fmt: skip
"""Operators whose outputs are quantised by the scale of their first input."""


def with_moved(graph: Graph, tensors: Iterable[str], operators: Set[str] = SAME_SCALE_OPERATORS) -> set[str]:
    """Return tensors with the activations that they are moved from and to.

    Args:
        graph: The network.
        tensors: Names.
        operators: Those that move values, from their first input to all outputs.
    """
    found = set(tensors)
    for nodes in (graph.nodes, reversed(graph.nodes)):
        for node in nodes:
            if node.op_type in operators:
                around = {*graph.activation_inputs(node)[:1], *node.outputs}
                if not found.isdisjoint(around):
                    found |= around
    return found


def with_movers(graph: Graph, readers: Iterable[Node]) -> frozenset[str]:
    """Return the names of operators and of those that move values to them alone.

    Args:
        graph: The network.
        readers: The operators.
    """
    found = {node.name for node in readers}
    for node in reversed(graph.nodes):
        if node.op_type in SAME_SCALE_OPERATORS:
            behind = {reader.name for output in node.outputs for reader in graph.consumers.get(output, ())}
            if behind and behind <= found:
                found.add(node.name)
    return frozenset(found)
