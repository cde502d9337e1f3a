"""Recurrent layers, whose steps wait for each other; and elements picked, or written, at places that another tensor names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from latcast.graph.ir import AttributeValue, Graph, Node
from latcast.graph.operators.contraction import recurrent_sizes
from latcast.graph.operators.table import view_of
from latcast.kernels.types.kernel_type import Columns, KernelType, Quantities, add_kernel_type, no_features, one_class

if TYPE_CHECKING:
    from latcast.graph.builder import GraphBuilder

CELLS = ("rnn", "lstm", "gru", "gru reset behind")
"""Cells by code; a GRU that applies its reset behind the product computes all its gates in one."""

_GATES = np.array([1, 4, 3, 3])

GATE_FLOPS = 10
"""FLOPs of a gate for each hidden value: its activation, and its part in the state."""


def extract_recurrent(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return steps, sequences, directions, sizes of an input and of the state, and the cell."""
    node = nodes[0]
    steps, batch, directions, hidden = recurrent_sizes(view_of(graph, node))
    cell = CELLS.index(node.op_type.lower()) + (node.op_type == "GRU" and node.attributes.get("linear_before_reset", 0) != 0)
    return steps, batch, directions, graph.shape(node.inputs[0])[-1], hidden, cell


def recurrent_quantities(c: Columns) -> Quantities:
    """Count the weights of the state as read in every step, as no step begins before the one before it ends."""
    steps, state = c["steps"] * c["directions"], c["hidden"] * _GATES[c["cell"].astype(int)]
    weights = c["directions"] * state * (c["in_features"] + c["hidden"])
    flops = steps * c["batch"] * state * (2 * (c["in_features"] + c["hidden"]) + GATE_FLOPS)
    read = c["steps"] * c["batch"] * c["in_features"] + steps * state * c["hidden"]
    return Quantities(flops, read, steps * c["batch"] * c["hidden"], weights)


def recurrent_features(c: Columns) -> Mapping[str, np.ndarray]:
    """Return FLOPs of the inputs, which all steps share in one product, and of the states; gates; and what a step reads."""
    gates = c["hidden"] * _GATES[c["cell"].astype(int)]
    steps = c["steps"] * c["batch"] * c["directions"]
    return {
        "input_flops": 2 * steps * gates * c["in_features"], "state_flops": 2 * steps * gates * c["hidden"],
        "gates": steps * gates, "step_weights": gates * c["hidden"], "input_share": c["in_features"] / c["hidden"],
    }  # fmt: skip


def build_recurrent(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    """Add a layer with a bias, of states that begin with 0."""
    return recurrent(builder, builder.input((c["steps"], c["batch"], c["in_features"])), c["hidden"], c["directions"], c["cell"])


def recurrent(builder: GraphBuilder, x: str, hidden: int, directions: int, cell: int) -> str:
    """Add a recurrent layer to a sequence (steps, batch, features) and return its states (steps, directions, batch, hidden)."""
    gates = int(_GATES[cell]) * hidden
    shapes = (directions, gates, builder.shape(x)[-1]), (directions, gates, hidden), (directions, 2 * gates)
    attributes: dict[str, AttributeValue] = {"hidden_size": hidden, "direction": ("forward", "bidirectional")[directions - 1]}
    if cell == CELLS.index("gru reset behind"):
        attributes["linear_before_reset"] = 1
    return builder.op(CELLS[cell].split()[0].upper(), [x, *map(builder.weight, shapes)], attributes)[0]


def extract_indexed(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return elements of the result, places, elements moved at each, numbers that name a place, and whether it writes there.

    What is written into a tensor leaves the rest of it, which is copied.
    """
    node = nodes[0]
    places = graph.shape(node.inputs[1])
    depth = places[-1] if node.op_type.endswith("ND") and places else 1
    scatters = node.op_type.startswith("Scatter")
    moved = prod(graph.shape(node.inputs[2] if scatters else node.outputs[0]))
    count = max(prod(places) // max(depth, 1), 1)
    return prod(graph.shape(node.outputs[0])), count, max(moved // count, 1), depth, int(scatters)


def indexed_quantities(c: Columns) -> Quantities:
    moved = c["places"] * c["run"]
    return Quantities(0 * moved, c["places"] * c["depth"] + moved + c["scatters"] * c["elements"], c["elements"], 0 * moved)


def indexed_class(c: Columns) -> np.ndarray:
    return np.where(c["scatters"] > 0, "indexed scatter", "indexed gather").astype(object)


def build_indexed(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    """Add a ScatterND, or a GatherND, of a tensor of rows; the rows are named by their last number, the others are 0."""
    count, run, depth = c["places"], c["run"], max(c["depth"], 1)
    rows = max(c["elements"] // run, 1) if c["scatters"] else count
    x = builder.input((*(1,) * (depth - 1), rows, run))
    numbers = [0] * (depth - 1)
    indices = builder.constant([[*numbers, place % rows] for place in range(count)], dtype="int64")
    if c["scatters"]:
        return builder.op("ScatterND", [x, indices, builder.input((count, run))])[0]
    return builder.op("GatherND", [x, indices])[0]


RECURRENT = add_kernel_type(
    KernelType(
        "recurrent", ("steps", "batch", "directions", "in_features", "hidden", "cell"), ("lstm", "gru", "rnn"), extract_recurrent,
        recurrent_quantities, one_class("recurrent"), recurrent_features, build_recurrent, kinds={"cell": CELLS},
    )
)  # fmt: skip
INDEXED = add_kernel_type(
    KernelType(
        "indexed", ("elements", "places", "run", "depth", "scatters"),
        ("scatter_nd", "scatter_elements", "scatter", "gather_nd", "gather_elements"), extract_indexed, indexed_quantities,
        indexed_class, no_features, build_indexed, kinds={"scatters": ("gather", "scatter")},
    )
)  # fmt: skip
