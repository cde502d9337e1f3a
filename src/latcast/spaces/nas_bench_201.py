"""The cells of NAS-Bench-201 (Dong and Yang, 2020, §2): 15,625 networks for images of 32x32, each named by its cell's text.

A cell has four nodes. Each of its six edges carries one of five operations; a node is the sum of what its edges bring. The text
lists the edges by the node they enter: ``|op~0|+|op~0|op~1|+|op~0|op~1|op~2|``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from random import Random

from latcast.errors import LatcastError, ModelError
from latcast.graph.builder import GraphBuilder, Size, pair
from latcast.graph.ir import Graph
from latcast.records import Reference

NAME = "nas_bench_201"

OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
"""In the order of the published code, by which cells are numbered here."""

EDGES = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
"""(from, to) of each operation of a cell, in the order of its text."""

SIZE = len(OPERATIONS) ** len(EDGES)
"""Number of cells: 15,625."""

CHANNELS = 16
CELLS = 5
STAGES = 3

_EDGE = re.compile(r"(\w+)~(\d)")


def cell_text(operations: Sequence[str]) -> str:
    """The text of a cell from the operations of its six edges, in the order of :data:`EDGES`."""
    parts = []
    for node in (1, 2, 3):
        edges = [f"{name}~{start}" for name, (start, end) in zip(operations, EDGES, strict=True) if end == node]
        parts.append("|" + "|".join(edges) + "|")
    return "+".join(parts)


def cell_operations(text: str) -> tuple[str, ...]:
    """The operations of a cell's six edges, in the order of :data:`EDGES`.

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
    """The cell of a number from 0 to 15,624: its operations are the digits to base five, the first edge the highest.

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


def live_edges(operations: Sequence[str]) -> list[tuple[str, int, int]]:
    """(operation, from, to) of the edges that lie on a path from the cell's input to its output."""
    edges = [(name, *edge) for name, edge in zip(operations, EDGES, strict=True) if name != "none"]
    reached, needed = {0}, {3}
    for _, start, end in sorted(edges, key=lambda edge: edge[1]):
        if start in reached:
            reached.add(end)
    for _, start, end in sorted(edges, key=lambda edge: -edge[2]):
        if end in needed:
            needed.add(start)
    return [edge for edge in edges if edge[1] in reached and edge[2] in needed]


def add_cell(b: GraphBuilder, x: str, operations: Sequence[str]) -> str:
    """A cell, as a compiler leaves it: nothing is computed that does not lead from its input to its output.

    A cell without any path gives zeros, which are written as a multiplication by zero, as the published code has it.
    """
    values = {0: x}
    for name, start, end in live_edges(operations):
        arriving = _COMPUTE[name](b, values[start])
        values[end] = b.add(values[end], arriving) if end in values else arriving
    return values[3] if 3 in values else b.mul(x, b.constant(0.0, dtype="float32"))


def add_reduction(b: GraphBuilder, x: str, channels: int) -> str:
    """The residual block of stride 2 between two stages; its shortcut is an average pooling and a 1x1 convolution."""
    y = _relu_conv_bn(b, x, channels, 3, stride=2)
    y = _relu_conv_bn(b, y, channels, 3)
    return b.add(b.conv(b.average_pool(x, 2), channels, 1), y)


def build(
    cell: str,
    *,
    channels: int = CHANNELS,
    cells: int = CELLS,
    resolution: Size = 32,
    classes: int = 10,
    batch: int = 1,
) -> Graph:
    """The network that repeats a cell, in the size of the published benchmark by default.

    Args:
        cell: Its text.
        channels: Of the first of three stages; each further stage has twice as many at half the resolution.
        cells: Cells in each stage.
        resolution: Height and width of the image, one number or two.
        classes: Outputs.
        batch: Images at a time.

    Raises:
        ModelError: The text is not of a cell.
    """
    operations = cell_operations(cell)
    b = GraphBuilder(NAME)
    x = b.batch_norm(b.conv(b.input((batch, 3, *pair(resolution))), channels, 3))
    for stage in range(STAGES):
        if stage > 0:
            x = add_reduction(b, x, channels << stage)
        for _ in range(cells):
            x = add_cell(b, x, operations)
    x = b.global_average_pool(b.relu(b.batch_norm(x)))
    return b.finish(b.linear(b.flatten(x), classes))


class CellSpace:
    """All cells, as a space."""

    name = NAME

    def build(self, **parameters: object) -> Graph:
        """The network of these parameters: those of :func:`build`.

        Raises:
            ModelError: Unknown parameters, or no such cell.
        """
        from latcast.spaces.families.variants import checked_call

        return checked_call(self.name, build, parameters)

    def sample(self, count: int, seed: int) -> list[Reference]:
        """``count`` different cells; a smaller count gives the head of a larger one's list.

        Raises:
            LatcastError: There are not as many.
        """
        if count > SIZE:
            raise LatcastError(f"{count} cells were asked for; NAS-Bench-201 has {SIZE}")
        numbers = list(range(SIZE))
        Random(f"{NAME}/{seed}").shuffle(numbers)
        references = [Reference(NAME, {"cell": numbered_cell(number)}) for number in numbers[:count]]
        return [Reference(NAME, reference.parameters, f"{NAME}-{reference.key[:8]}") for reference in references]


SPACE = CellSpace()
