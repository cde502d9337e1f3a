"""Comparisons printed for people."""

from __future__ import annotations

from collections.abc import Sequence

from latcast.cli.output import milliseconds, print_table
from papers.comparison import Cell, Comparison


def print_comparison(found: Comparison) -> None:
    """A table and its notes, for people."""
    rows = [[cell_text(cell, column) for cell, column in zip(row, found.columns, strict=True)] for row in found.rows]
    print_table(f"{found.name[:1].upper()}{found.name[1:]}: {found.title}", found.columns, rows)
    for note in found.notes:
        print(f"  {note}")
    print()


def cell_text(cell: Cell, column: str) -> str:
    """A number with as many digits as its unit asks for."""
    if cell is None:
        return "-"
    if not isinstance(cell, float):
        return str(cell)
    if "%" in column:
        return f"{cell:.1f}"
    if column.endswith(" ms"):
        return milliseconds(cell)
    return f"{cell:.0f}" if cell >= 100 else f"{cell:.3g}"


def print_comparisons(found: Sequence[Comparison]) -> None:
    """One after the other."""
    for comparison in found:
        print_comparison(comparison)
