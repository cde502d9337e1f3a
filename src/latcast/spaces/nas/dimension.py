"""The choices of a search space, and rows of them: indices (an encoding), values, and JSON parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from latcast.errors import ModelError

Columns = Mapping[str, np.ndarray]
"""Dimension's name to the values chosen, (networks, its count)."""


@dataclass(frozen=True)
class Dimension:
    """A choice that is made once, or once for each of several places (the kernel size of every block).

    Attributes:
        name: In the JSON parameters of a member; where ``count`` is 1 it holds a number, otherwise a list.
        choices: What can be chosen, in ascending order.
        count: How many times it is chosen.
    """

    name: str
    choices: tuple[float, ...]
    count: int = 1


def column_names(dimensions: Sequence[Dimension]) -> list[str]:
    """Name of each column of an encoding."""
    return [dimension.name for dimension in dimensions for _ in range(dimension.count)]


def choice_counts(dimensions: Sequence[Dimension]) -> np.ndarray:
    """Number of choices of each column of an encoding, int64."""
    return np.array([len(dimension.choices) for dimension in dimensions for _ in range(dimension.count)], dtype=np.int64)


def chosen_values(dimensions: Sequence[Dimension], encodings: np.ndarray) -> dict[str, np.ndarray]:
    """The values behind encodings, by dimension.

    Args:
        dimensions: Of the space.
        encodings: (networks, columns) indices of choices.

    Returns:
        Dimension's name to (networks, count): integers where all its choices are, otherwise floats.

    Raises:
        ModelError: Another number of columns, or an index that is none of the choices.
    """
    counts = choice_counts(dimensions)
    if encodings.ndim != 2 or encodings.shape[1] != len(counts):
        raise ModelError(f"found encodings of shape {encodings.shape}, expected (networks, {len(counts)})")
    wrong = ((encodings < 0) | (encodings >= counts)).any(axis=0)
    if wrong.any():
        column = int(np.argmax(wrong))
        raise ModelError(
            f"column {column} ({column_names(dimensions)[column]}) of an encoding is none of 0 to {counts[column] - 1}; "
            "expected indices of choices"
        )
    values, start = {}, 0
    for dimension in dimensions:
        values[dimension.name] = np.asarray(dimension.choices)[encodings[:, start : start + dimension.count]]
        start += dimension.count
    return values


def values_of_parameters(space: str, dimensions: Sequence[Dimension], parameters: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """JSON parameters of one member as columns, each (1, count). A value need not be one of the choices.

    Raises:
        ModelError: A parameter is missing, unknown, or of another length.
    """
    names = [dimension.name for dimension in dimensions]
    if set(parameters) != set(names):
        raise ModelError(f"the space '{space}' takes {', '.join(names)}; found {', '.join(sorted(parameters)) or 'nothing'}")
    values = {}
    for dimension in dimensions:
        given = parameters[dimension.name]
        listed = given if isinstance(given, list | tuple) else [given]
        if len(listed) != dimension.count or not all(isinstance(value, int | float) for value in listed):
            raise ModelError(f"'{dimension.name}' of the space '{space}' is {given!r}; expected {dimension.count} number(s)")
        values[dimension.name] = np.asarray(listed)[None, :]
    return values


def parameters_of_values(dimensions: Sequence[Dimension], values: Columns, network: int = 0) -> dict[str, Any]:
    """The JSON parameters of one of several members."""
    parameters: dict[str, Any] = {}
    for dimension in dimensions:
        listed = values[dimension.name][network].tolist()
        parameters[dimension.name] = listed if dimension.count > 1 else listed[0]
    return parameters


def encoding_of_values(space: str, dimensions: Sequence[Dimension], values: Columns) -> np.ndarray:
    """The indices of values, (networks, columns), int16.

    Raises:
        ModelError: A value is none of the choices.
    """
    parts = []
    for dimension in dimensions:
        choices = np.asarray(dimension.choices)
        found = values[dimension.name][:, :, None] == choices
        if not found.any(axis=2).all():
            strange = values[dimension.name][~found.any(axis=2)][0]
            raise ModelError(f"'{dimension.name}' {strange} is no choice of the space '{space}': {list(dimension.choices)}")
        parts.append(found.argmax(axis=2))
    return np.concatenate(parts, axis=1).astype(np.int16)
