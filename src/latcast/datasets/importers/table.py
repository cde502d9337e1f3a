"""Reading a table of published measurements, one checked row after the other."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from latcast.datasets.importers import Refusals
from latcast.errors import DatasetError
from latcast.reading import read_bytes

NO_VALUE = frozenset({"", "N/A"})
"""What stands in a cell that was not measured."""


class Malformed(ValueError):
    """Why a row is refused: what was found and what was expected."""


@dataclass(frozen=True)
class Row:
    """One row with its place in the file."""

    line: int
    cells: Sequence[str]


def read_rows(file: Path) -> list[Row]:
    """All rows of a CSV file.

    Raises:
        DatasetError: The file cannot be read, is too large, or is no CSV.
    """
    try:
        text = read_bytes(file, error=DatasetError).decode()
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        return [Row(reader.line_num, cells) for cells in reader]
    except (UnicodeDecodeError, csv.Error) as problem:
        raise DatasetError(f"cannot read {file}: {problem}") from problem


class Table:
    """A CSV file with a header.

    Args:
        file: The file.
        first: What the header must begin with; letters' case does not matter.
        refusals: Where malformed rows go.

    Raises:
        DatasetError: The file cannot be read, or its header is another one.
    """

    def __init__(self, file: Path, first: Sequence[str], refusals: Refusals) -> None:
        self.file = file
        self.refusals = refusals
        self._rows = read_rows(file)
        self.header = tuple(self._rows[0].cells) if self._rows else ()
        found = [name.lower() for name in self.header[: len(first)]]
        if found != list(first):
            beginning = ", ".join(self.header[: len(first)]) or "nothing"
            raise DatasetError(f"{file}:1: the header begins with {beginning}; expected {', '.join(first)}")

    def __len__(self) -> int:
        return len(self._rows) - 1

    def rows(self) -> Iterator[Row]:
        """Rows as wide as the header; others are refused."""
        for row in self._rows[1:]:
            if len(row.cells) == len(self.header):
                yield row
            else:
                self.refuse(row, Malformed(f"{len(row.cells)} cells where the header has {len(self.header)}"))

    def bad_header(self, problem: Malformed) -> DatasetError:
        """The error for a column that the dataset does not have."""
        return DatasetError(f"{self.file}:1: {problem}")

    def refuse(self, row: Row, problem: Malformed) -> None:
        """Notes a malformed row.

        Raises:
            DatasetError: Malformed rows are not put up with.
        """
        self.refusals.add(self.file, row.line, str(problem))


def number(text: str, what: str, *, least: float | None = None) -> float:
    """A finite number above zero, or from ``least`` on.

    Raises:
        Malformed: It is none.
    """
    try:
        value = float(text)
    except ValueError:
        raise Malformed(f"{what} is '{text}'; expected a number") from None
    if not math.isfinite(value) or (value <= 0 if least is None else value < least):
        raise Malformed(f"{what} is {text}; expected a finite number {'above 0' if least is None else f'from {least:g} on'}")
    return value
