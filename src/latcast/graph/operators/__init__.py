"""What each operator does to shapes and how much it computes. Importing the package fills the table."""

from latcast.graph.operators import (
    contraction,
    elementwise,
    linear,
    movement,
    selection,
)
from latcast.graph.operators.table import (
    Operator,
    OperatorView,
    define,
    graph_flops,
    graph_macs,
    known_operators,
    lookup,
    node_bytes,
    node_flops,
    node_macs,
    node_parameters,
    unknown_operators,
    view_among,
    view_of,
)

__all__ = [
    "Operator",
    "OperatorView",
    "contraction",
    "define",
    "elementwise",
    "graph_flops",
    "graph_macs",
    "known_operators",
    "linear",
    "lookup",
    "movement",
    "node_bytes",
    "node_flops",
    "node_macs",
    "node_parameters",
    "selection",
    "unknown_operators",
    "view_among",
    "view_of",
]
