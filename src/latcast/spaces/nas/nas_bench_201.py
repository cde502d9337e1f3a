"""The cells of NAS-Bench-201 (Dong and Yang, 2020, §2): 15,625 networks for images of 32x32, each named by its cell's text.

A cell has four nodes. Each of its six edges carries one of five operations; a node is the sum of what its edges bring. The text
lists the edges by the node they enter: ``|op~0|+|op~0|op~1|+|op~0|op~1|op~2|``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.records import Reference
from latcast.spaces.families.variants import named_by_content, pooled_classifier
from latcast.spaces.named_graphs import shuffled_head
from latcast.spaces.nas.supernet import Columns, Dimension, Row, Supernet, map_shape

NAME = "nas_bench_201"

OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
"""Operations in the order of the published code, by which cells are numbered."""

EDGES = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
"""(from, to) of each operation of a cell, in the order of its text."""

SIZE = len(OPERATIONS) ** len(EDGES)
"""Number of cells: 15,625."""

NODES = 4
CHANNELS = 16
CELLS = 5
STAGES = 3
RESOLUTION = 32
CLASSES = 10

_EDGE = re.compile(r"(\w+)~(\d)")


def cell_text(operations: Sequence[str]) -> str:
    """Return the text of a cell from the operations of its six edges, in the order of :data:`EDGES`."""
    parts = []
    for node in (1, 2, 3):
        edges = [f"{name}~{start}" for name, (start, end) in zip(operations, EDGES, strict=True) if end == node]
        parts.append("|" + "|".join(edges) + "|")
    return "+".join(parts)


def cell_operations(text: str) -> tuple[str, ...]:
    """Return the operations of a cell's six edges, in the order of :data:`EDGES`.

    Raises:
        ModelError: The text is not of a cell.
    """
    operations = tuple(name for name, _ in _EDGE.findall(text))
    if len(operations) != len(EDGES) or not set(operations) <= set(OPERATIONS) or cell_text(operations) != text:
        raise ModelError(
            f"'{text}' is no cell of NAS-Bench-201; expected |op~0|+|op~0|op~1|+|op~0|op~1|op~2| with operations out of "
            f"{', '.join(OPERATIONS)}"
        )
    return operations


def numbered_cell(number: int) -> str:
    """Return the cell of a number from 0 to 15,624: its operations are the digits to base five, the first edge the highest.

    This numbering is not that of the published file, whose order is random.
    """
    operations = []
    for _ in EDGES:
        number, digit = divmod(number, len(OPERATIONS))
        operations.append(OPERATIONS[digit])
    return cell_text(operations[::-1])


def _relu_conv_bn(b: GraphBuilder, x: str, channels: int, kernel: int, stride: int = 1) -> str:
    return b.batch_norm(b.conv(b.relu(x), channels, kernel, stride=stride))


_COMPUTE: Mapping[str, Callable[[GraphBuilder, str], str]] = {
    "skip_connect": lambda b, x: x,
    "nor_conv_1x1": lambda b, x: _relu_conv_bn(b, x, b.channels(x), 1),
    "nor_conv_3x3": lambda b, x: _relu_conv_bn(b, x, b.channels(x), 3),
    "avg_pool_3x3": lambda b, x: b.average_pool(x, 3, 1, 1),
}


def dead_edges(values: Columns) -> dict[str, np.ndarray]:
    """Edges on no path from a cell's input to its output."""
    present = values["edges"] != OPERATIONS.index("none")
    reached = np.zeros((len(present), NODES), dtype=bool)
    needed = np.zeros_like(reached)
    reached[:, 0] = needed[:, -1] = True
    forward = sorted(range(len(EDGES)), key=lambda edge: EDGES[edge][0])
    for edge in forward:
        start, end = EDGES[edge]
        reached[:, end] |= present[:, edge] & reached[:, start]
    for edge in sorted(forward, key=lambda edge: -EDGES[edge][1]):
        start, end = EDGES[edge]
        needed[:, start] |= present[:, edge] & needed[:, end]
    starts, ends = (list(nodes) for nodes in zip(*EDGES, strict=True))
    return {"edges": ~(present & reached[:, starts] & needed[:, ends])}


def live_edges(operations: Sequence[str]) -> list[tuple[str, int, int]]:
    """(operation, from, to) of the edges that lie on a path from the cell's input to its output."""
    (dead,) = dead_edges({"edges": np.array([[OPERATIONS.index(name) for name in operations]])})["edges"]
    return [(name, *edge) for name, edge, skipped in zip(operations, EDGES, dead.tolist(), strict=True) if not skipped]


def add_cell(b: GraphBuilder, x: str, operations: Sequence[str]) -> str:
    """Add a cell, as a compiler leaves it: nothing is computed that does not lead from its input to its output.

    A cell without any path gives zeros, which are written as a multiplication by zero, as the published code has it.
    """
    values = {0: x}
    for name, start, end in live_edges(operations):
        arriving = _COMPUTE[name](b, values[start])
        values[end] = b.add(values[end], arriving) if end in values else arriving
    return values[3] if 3 in values else b.mul(x, b.constant(0.0, dtype="float32"))


STEM, CELL, REDUCTION, HEAD = 1, 2, 3, 4
FIELDS = ("kind", "size", "in_channels", "channels", "edge0", "edge1", "edge2", "edge3", "edge4", "edge5")

DIMENSIONS = (Dimension("edges", tuple(range(len(OPERATIONS))), len(EDGES)),)


def segments(values: Columns) -> np.ndarray:
    """Return the segments of the cells with these operations; edges without effect count as ``none``."""
    edges = np.where(dead_edges(values)["edges"], 0, values["edges"])
    parts = [[STEM, RESOLUTION, 3, CHANNELS]]
    for stage in range(STAGES):
        size, channels = RESOLUTION >> stage, CHANNELS << stage
        if stage > 0:
            parts.append([REDUCTION, 2 * size, channels // 2, channels])
        parts += [[CELL, size, channels, channels]] * CELLS
    last = CHANNELS << (STAGES - 1)
    parts.append([HEAD, RESOLUTION >> (STAGES - 1), last, last])
    rows = np.zeros((len(edges), len(parts), len(FIELDS)), dtype=np.int64)
    for place, part in enumerate(parts):
        rows[:, place, : len(part)] = part
        if part[0] == CELL:
            rows[:, place, len(part) :] = edges
    return rows


def add_segment(b: GraphBuilder, x: str, row: Row) -> str:
    """Add a stem, a cell, the residual block of stride 2 between two stages, or the classifier."""
    kind, _, _, channels, *edges = row
    if kind == STEM:
        return b.batch_norm(b.conv(x, channels, 3))
    if kind == CELL:
        return add_cell(b, x, [OPERATIONS[edge] for edge in edges])
    if kind == REDUCTION:
        y = _relu_conv_bn(b, _relu_conv_bn(b, x, channels, 3, stride=2), channels, 3)
        return b.add(b.conv(b.average_pool(x, 2), channels, 1), y)
    return pooled_classifier(b, b.relu(b.batch_norm(x)), CLASSES)


def _from_cell(parameters: Mapping[str, Any]) -> dict[str, Any]:
    if set(parameters) != {"cell"}:
        return dict(parameters)
    return {"edges": [OPERATIONS.index(name) for name in cell_operations(str(parameters["cell"]))]}


SUPERNET = Supernet(
    NAME, DIMENSIONS, FIELDS, segments, add_segment, map_shape, dead_edges, from_parameters=_from_cell,
    to_parameters=lambda values: {"cell": cell_text([OPERATIONS[edge] for edge in values["edges"]])},
)  # fmt: skip


class CellSpace:
    """The space of all cells, of which several may be one network; a cell that changes nothing is drawn as well."""

    name = NAME

    def build(self, **parameters: object) -> Graph:
        """Build the network that repeats the cell of the text ``cell``, in the size of the published benchmark.

        Raises:
            ModelError: The text is not of a cell.
        """
        return SUPERNET.build(**parameters)

    def sample(self, count: int, seed: int) -> list[Reference]:
        """Return different cells; see :class:`latcast.spaces.catalogue.Space`."""
        numbers = shuffled_head(NAME, range(SIZE), count, seed)
        return [named_by_content(NAME, {"cell": numbered_cell(number)}) for number in numbers]


SPACE = CellSpace()
