"""NAS-Bench-201 as a space of encodings: the operations of a cell's six edges; members are those of the catalogue's space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Shape
from latcast.spaces.nas.dimension import Columns, Dimension
from latcast.spaces.nas.supernet import Row, Supernet
from latcast.spaces.nas_bench_201 import (
    CELLS,
    CHANNELS,
    EDGES,
    NAME,
    OPERATIONS,
    STAGES,
    add_cell,
    add_reduction,
    cell_operations,
    cell_text,
)

STEM, CELL, REDUCTION, HEAD = 1, 2, 3, 4
FIELDS = ("kind", "size", "in_channels", "channels", "edge0", "edge1", "edge2", "edge3", "edge4", "edge5")
NODES = 4
RESOLUTION = 32
CLASSES = 10

DIMENSIONS = (Dimension("edges", tuple(range(len(OPERATIONS))), len(EDGES)),)


def segments(values: Columns) -> np.ndarray:
    """Of the cells with these operations; edges that lead nowhere are none."""
    edges = np.where(dead_edges(values)["edges"], 0, values["edges"])
    none = [0] * len(EDGES)
    parts: list[Any] = [[STEM, RESOLUTION, 3, CHANNELS, *none]]
    for stage in range(STAGES):
        size, channels = RESOLUTION >> stage, CHANNELS << stage
        if stage > 0:
            parts.append([REDUCTION, 2 * size, channels // 2, channels, *none])
        parts += [[CELL, size, channels, channels]] * CELLS
    last = CHANNELS << (STAGES - 1)
    parts.append([HEAD, RESOLUTION >> (STAGES - 1), last, last, *none])
    return np.stack([_with_edges(part, edges) for part in parts], axis=1)


def _with_edges(part: Sequence[int], edges: np.ndarray) -> np.ndarray:
    rows = np.zeros((len(edges), len(FIELDS)), dtype=np.int64)
    rows[:, : len(part)] = part
    if part[0] == CELL:
        rows[:, len(part) :] = edges
    return rows


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


def add_segment(b: GraphBuilder, x: str, row: Row) -> str:
    """Stem, cell, reduction or classifier."""
    kind, _, _, channels, *edges = row
    if kind == STEM:
        return b.batch_norm(b.conv(x, channels, 3))
    if kind == CELL:
        return add_cell(b, x, [OPERATIONS[edge] for edge in edges])
    if kind == REDUCTION:
        return add_reduction(b, x, channels)
    x = b.global_average_pool(b.relu(b.batch_norm(x)))
    return b.linear(b.flatten(x), CLASSES)


def entry_shape(row: Row) -> Shape:
    """Shape of the map that a segment reads."""
    return (1, row[2], row[1], row[1])


def _to_cell(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {"cell": cell_text([OPERATIONS[edge] for edge in parameters["edges"]])}


def _from_cell(parameters: Mapping[str, Any]) -> dict[str, Any]:
    if set(parameters) != {"cell"}:
        return dict(parameters)
    return {"edges": [OPERATIONS.index(name) for name in cell_operations(str(parameters["cell"]))]}


SUPERNET = Supernet(
    NAME, DIMENSIONS, FIELDS, segments, add_segment, entry_shape, dead_edges, to_parameters=_to_cell, from_parameters=_from_cell
)
