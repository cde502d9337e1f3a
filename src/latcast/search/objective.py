"""Objectives of a search: accuracy from a function or a table, or a size in its place.

Sizes are not accuracies: "macs" and "parameters" say only that larger members of a space tend to be better. Zero-cost proxies are
no better stand-ins (White et al., "A deeper look at zero-cost proxies for lightweight NAS", ICLR blog track 2022).
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from latcast.errors import DatasetError, LatcastError, UnknownNameError
from latcast.reading import parse_json, read_csv, read_json
from latcast.search.encodings import EncodingPredictor
from latcast.spaces.nas.supernet import Supernet

SIZES = ("macs", "parameters")
"""Built-in stand-ins for accuracy."""

VALUE_COLUMN = "accuracy"

Accuracy = Callable[[Mapping[str, Any]], float]
"""From the JSON parameters of a member to its accuracy; more is better."""


class Objective(Protocol):
    """A quantity to maximise.

    Attributes:
        name: For people and for JSON.
        costly: Whether values are worth keeping when a search is interrupted.
        members: The encodings that it knows, (members, columns), where it does not know all.
    """

    name: str
    costly: bool
    members: np.ndarray | None

    def values(self, encodings: np.ndarray) -> np.ndarray:
        """Return values, (networks,); more is better."""


class SizeObjective:
    """Multiply-accumulates or learned values, in millions."""

    costly = False
    members: np.ndarray | None = None

    def __init__(self, name: str, predictor: EncodingPredictor) -> None:
        self.name = name
        self._predictor = predictor

    def values(self, encodings: np.ndarray) -> np.ndarray:
        """Return values; see :class:`Objective`."""
        sizes = self._predictor.sizes(encodings)
        return (sizes.macs if self.name == "macs" else sizes.parameters) / 1e6


class CallableObjective:
    """A function of a member's parameters; each member is asked for once.

    Attributes:
        known: Encoding (as a tuple) to the value that the function gave.
    """

    costly = True
    members: np.ndarray | None = None

    def __init__(self, name: str, function: Accuracy, supernet: Supernet) -> None:
        self.name = name
        self.known: dict[tuple[int, ...], float] = {}
        self._function = function
        self._supernet = supernet

    def values(self, encodings: np.ndarray) -> np.ndarray:
        """See :class:`Objective`.

        Raises:
            LatcastError: The function returned something else than a finite number.
        """
        found = []
        for encoding in encodings.tolist():
            key = tuple(encoding)
            if key not in self.known:
                parameters = self._supernet.decode(np.array(key))
                value = self._function(parameters)
                try:
                    number = float(value)
                except (TypeError, ValueError):
                    number = math.nan
                if not math.isfinite(number):
                    raise LatcastError(f"{self.name} gave {value!r} for {json.dumps(parameters)}; expected a finite number")
                self.known[key] = number
            found.append(self.known[key])
        return np.array(found)


class TableObjective:
    """Values of some members, read from a file; only these are searched."""

    costly = False

    def __init__(self, name: str, members: np.ndarray, values: np.ndarray) -> None:
        self.name = name
        self.members: np.ndarray | None = members
        self._known = {tuple(row): value for row, value in zip(members.tolist(), values.tolist(), strict=True)}

    def values(self, encodings: np.ndarray) -> np.ndarray:
        """Return values; see :class:`Objective`."""
        return np.array([self._known[tuple(row)] for row in encodings.tolist()])


def objective_named(text: str, predictor: EncodingPredictor) -> Objective:
    """Return the objective that the command line names.

    Args:
        text: "macs" or "parameters"; "package.module:function", called with a member's JSON parameters; or the path of a table
            (.csv, .json) of members with a column "accuracy" (another column: "table.csv:top1").
        predictor: Of the space.

    Raises:
        UnknownNameError: None of these.
        DatasetError: The table is malformed.
    """
    if text in SIZES:
        return SizeObjective(text, predictor)
    file, _, column = text.rpartition(":") if ".csv:" in text or ".json:" in text else (text, "", VALUE_COLUMN)
    if Path(file).suffix in (".csv", ".json"):
        return table_objective(Path(file), predictor.supernet, column)
    module, colon, name = text.partition(":")
    if not colon:
        raise UnknownNameError(
            f"no objective is called '{text}'; expected {' or '.join(SIZES)}, package.module:function, or a .csv or .json table"
        )
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as problem:
        raise UnknownNameError(f"the objective '{text}' cannot be imported: {problem}") from problem
    if not callable(function):
        raise UnknownNameError(f"the objective '{text}' is a {type(function).__name__}; expected a function")
    return CallableObjective(text, function, predictor.supernet)


def table_objective(path: Path, supernet: Supernet, column: str = VALUE_COLUMN) -> TableObjective:
    """Read a table of members and their values.

    A JSON table is a list of objects, a CSV table has a header; every column but that of the value is one of the member's JSON
    parameters (in CSV as JSON text, or as plain text); a JSON object may have them under "parameters" instead. Columns that
    are no parameters of the space are passed over.

    Raises:
        DatasetError: The file cannot be read, has no members, or a line is not of this space; the message gives the line.
    """
    rows = []
    for number, record in _records(path):
        try:
            value = float(record[column])
            if not math.isfinite(value):
                raise ValueError(f"{column} is {record[column]}; expected a finite number")
            given = record.get("parameters", record)
            known = set(supernet.decode(np.zeros(len(supernet.choices), dtype=np.int64)))
            rows.append((supernet.encode({name: given[name] for name in known if name in given}), value))
        except KeyError as problem:
            raise DatasetError(f"{path}, line {number}: no column {problem}; found {', '.join(record)}") from problem
        except (TypeError, ValueError, OverflowError, AttributeError, LatcastError) as problem:
            raise DatasetError(f"{path}, line {number}: {problem}") from problem
    if not rows:
        raise DatasetError(f"{path}: found no members, expected a table of networks of the space '{supernet.name}'")
    return TableObjective(f"{path.name}:{column}", np.stack([row for row, _ in rows]), np.array([value for _, value in rows]))


def _records(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the rows of a table with their lines, or places in a JSON list."""
    if path.suffix == ".json":
        found = read_json(path, error=DatasetError)
        if not isinstance(found, list) or not all(isinstance(record, dict) for record in found):
            raise DatasetError(f"{path}: expected a list of objects")
        yield from enumerate(found, start=1)
        return
    (_, header), *rows = read_csv(path, error=DatasetError) or [(1, ())]
    for line, cells in rows:
        if len(cells) != len(header):
            raise DatasetError(f"{path}, line {line}: found {len(cells)} cells, expected {len(header)} as in the header")
        yield line, {name: _parse(text) for name, text in zip(header, cells, strict=True)}


def _parse(text: str) -> Any:
    try:
        return parse_json(text, "cell", error=DatasetError)
    except DatasetError:
        return text
