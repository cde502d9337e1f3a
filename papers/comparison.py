"""A table or figure of a paper beside ours, whatever the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Cell = str | float | int | None
"""None where there is nothing to compare with, or nothing was measured."""


@dataclass(frozen=True)
class Comparison:
    """A table of a paper (or a figure, as a table) with ours in it.

    Attributes:
        name: What the paper calls it, in small letters: "table 8", "figure 9".
        title: What it shows.
        columns: With their units. Columns of the paper's own figures say so.
        rows: One cell a column.
        notes: What differs from the paper, what is missing and why, what the figures say; a sentence each.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.name}: a row of {len(row)} cells under {len(self.columns)} columns: {row}")

    def column(self, name: str) -> list[Cell]:
        """The cells of a column, from top to bottom."""
        place = self.columns.index(name)
        return [row[place] for row in self.rows]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "columns": list(self.columns),
            "rows": [dict(zip(self.columns, row, strict=True)) for row in self.rows],
            "notes": list(self.notes),
        }


def mean(cells: Sequence[Cell]) -> float | None:
    """Of those cells that hold a number; None where none does."""
    numbers = [float(cell) for cell in cells if isinstance(cell, (int, float))]
    return sum(numbers) / len(numbers) if numbers else None
