"""Members of a search space on small images: a proxy looks at the connections, which do not need the full size."""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt
from typing import Any

import numpy as np

from latcast.graph.ir import Graph
from latcast.spaces.nas.supernet import Row, Supernet

DIVISOR, LEAST_SIDE = 4, 32
"""Images have a quarter of a member's resolution in height and width, but at least 32 pixels."""


def small_graph(supernet: Supernet, parameters: Mapping[str, Any]) -> Graph:
    """A member on images of a quarter of its side; which of two members has the larger images stays as it is.

    Only the first segment decides that: convolutions take any size. Where a segment counts tokens, there are fewer of them.

    Args:
        supernet: Its space; the second number of a segment is the side of what it reads.
        parameters: JSON parameters of the member.
    """
    rows = supernet.rows(supernet.encode(parameters)[None, :])[0]
    return supernet.graph_of_rows(_shrunk(supernet, tuple(row)) if row[0] else row for row in rows.tolist())


def _shrunk(supernet: Supernet, row: Row) -> Row:
    numbers = dict(zip(supernet.fields, row, strict=True))
    side = numbers[supernet.fields[1]]
    small = min(side, max(LEAST_SIDE, round(side / DIVISOR)))
    if "tokens" in numbers:
        patch = side // isqrt(numbers["tokens"] - 1)
        numbers["tokens"] = 1 + (small // patch) ** 2
    numbers[supernet.fields[1]] = small
    return tuple(int(value) for value in np.array(list(numbers.values())))
