"""Passes from graph to graph."""

from __future__ import annotations

from latcast.graph.ir import Graph, remove_dead_nodes
from latcast.graph.passes.cancel_transposes import cancel_transposes
from latcast.graph.passes.folding import fold_quantization
from latcast.graph.passes.remove_identities import remove_identities


def simplify(graph: Graph) -> Graph:
    """Return the graph without quantisation pairs, operators that do nothing, and transposes that undo each other."""
    return cancel_transposes(remove_identities(fold_quantization(graph)))


__all__ = ["cancel_transposes", "fold_quantization", "remove_dead_nodes", "remove_identities", "simplify"]
