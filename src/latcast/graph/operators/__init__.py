"""The table of operators: what each does to shapes, how much it computes, and what else is known of it.

Importing the package fills the table.
"""

from latcast.graph.operators import (
    classic,
    contraction,
    elementwise,
    linear,
    movement,
    selection,
    signals,
)
from latcast.graph.operators.table import (
    Kind,
    Operator,
    OperatorView,
    define,
    filter_parameters,
    graph_flops,
    graph_macs,
    lookup,
    names_of,
    node_flops,
    node_macs,
    node_parameters,
    operators,
    sized_by_values,
    snake_case,
    unknown_operators,
    view_among,
    view_of,
)

__all__ = [
    "Kind",
    "Operator",
    "OperatorView",
    "classic",
    "contraction",
    "define",
    "elementwise",
    "filter_parameters",
    "graph_flops",
    "graph_macs",
    "linear",
    "lookup",
    "movement",
    "names_of",
    "node_flops",
    "node_macs",
    "node_parameters",
    "operators",
    "selection",
    "signals",
    "sized_by_values",
    "snake_case",
    "unknown_operators",
    "view_among",
    "view_of",
]
