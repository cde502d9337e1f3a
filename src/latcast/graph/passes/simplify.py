"""All passes that bring a freshly read graph to what the runtime computes."""

from __future__ import annotations

from latcast.graph.ir import Graph
from latcast.graph.passes.cancel_transposes import cancel_transposes
from latcast.graph.passes.fold_quantization import fold_quantization
from latcast.graph.passes.remove_identities import remove_identities


def simplify(graph: Graph) -> Graph:
    """The graph without quantisation pairs, operators that do nothing, and transposes that undo each other."""
    return cancel_transposes(remove_identities(fold_quantization(graph)))
