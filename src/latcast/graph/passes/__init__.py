"""Passes from graph to graph, one a file, named for what they do."""

from latcast.graph.passes.cancel_transposes import cancel_transposes
from latcast.graph.passes.fold_quantization import fold_quantization
from latcast.graph.passes.remove_dead_nodes import remove_dead_nodes
from latcast.graph.passes.remove_identities import remove_identities
from latcast.graph.passes.simplify import simplify

__all__ = [
    "cancel_transposes",
    "fold_quantization",
    "remove_dead_nodes",
    "remove_identities",
    "simplify",
]
