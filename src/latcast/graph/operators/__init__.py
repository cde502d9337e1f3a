"""The table of operators: what each does to shapes, how much it computes, and what else is known of it.

Importing the package fills the table.
"""

from latcast.graph.operators import (
    contraction,
    elementwise,
    linear,
    movement,
    selection,
)
from latcast.graph.operators.table import (
    Kind,
    MisfitError,
    Operator,
    OperatorView,
    define,
    graph_flops,
    graph_macs,
    known_operators,
    lookup,
    names_of,
    node_bytes,
    node_flops,
    node_macs,
    node_parameters,
    operators,
    snake_case,
    unknown_operators,
    view_among,
    view_of,
)

__all__ = [
    "Kind",
    "MisfitError",
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
    "names_of",
    "node_bytes",
    "node_flops",
    "node_macs",
    "node_parameters",
    "operators",
    "selection",
    "snake_case",
    "unknown_operators",
    "view_among",
    "view_of",
]
