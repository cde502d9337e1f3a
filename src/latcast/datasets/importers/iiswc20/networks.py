"""The networks: lists of layers, as their references carry them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from latcast.datasets.importers.table import read_rows
from latcast.errors import DatasetError
from latcast.records import Reference

NETWORKS_FILE = "layer_embeddings.csv"

SPACE = "iiswc20"

WIDTH = 13
"""Numbers of a layer: five of a one-hot operator, side of the input and output map, channels in and out, window, stride,
padding, multiply-accumulates."""

OPERATORS = 5


def read_layers(file: Path) -> list[np.ndarray]:
    """The layers of each network, each (layers, 13).

    Raises:
        DatasetError: A row is no list of layers; with file and line.
    """
    rows = [[cell for cell in row.cells if cell] for row in read_rows(file)]
    networks = []
    for line, row in enumerate(rows, start=1):
        try:
            numbers = np.array([float(cell) for cell in row])
        except ValueError as problem:
            raise DatasetError(f"{file}:{line}: {problem}; expected numbers") from problem
        if not len(row) or len(row) % WIDTH or not np.array_equal(numbers, np.round(numbers)):
            raise DatasetError(f"{file}:{line}: {len(row)} numbers; expected whole ones, {WIDTH} a layer")
        layers = numbers.reshape(-1, WIDTH)
        if not np.array_equal(np.sort(layers[:, :OPERATORS], axis=1), np.tile([0, 0, 0, 0, 1], (len(layers), 1))):
            raise DatasetError(f"{file}:{line}: a layer does not begin with a one-hot operator of {OPERATORS}")
        networks.append(layers)
    return networks


def network_reference(index: int, layers: np.ndarray | None) -> Reference:
    """A reference that carries the layers: operator's number, sides, channels, window, stride, padding of each.

    The multiply-accumulates follow from the others.
    """
    name = f"{SPACE}-{index}"
    if layers is None:
        return Reference(SPACE, {"network": index}, name)
    short = np.column_stack([layers[:, :OPERATORS].argmax(axis=1), layers[:, OPERATORS : WIDTH - 1]]).astype(int)
    return Reference(SPACE, {"network": index, "layers": short.tolist()}, name)


def layers_of(parameters: Sequence[Sequence[int]]) -> np.ndarray:
    """The layers that a reference carries, (layers, 13) again."""
    short = np.asarray(parameters, dtype=np.float64)
    operators = short[:, 0].astype(int)
    in_side, out_side, inputs, outputs, window = short[:, 1], short[:, 2], short[:, 3], short[:, 4], short[:, 5]
    elements = out_side**2 * outputs
    taps = np.select([operators == 0, operators == 1], [window**2 * inputs, window**2], 1.0)
    return np.column_stack([np.eye(OPERATORS)[operators], in_side, out_side, short[:, 3:], elements * taps])
