"""What the commands of all papers share: options, progress, and how comparisons are printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from latcast.cli.options import AsJson
from latcast.cli.output import Interrupted, StageProgress, milliseconds, print_json, print_table, warn
from latcast.drawing import check_drawable
from latcast.extras import LEARNING, require
from papers.harness import Cell, PaperTable

__all__ = ["Analyse", "AsJson", "Data", "Draw", "Fresh", "Jobs", "Only", "Plot", "report", "working"]

Data = Annotated[Path, typer.Option("--data", help="Folder of the published files.", metavar="DIR")]
Only = Annotated[
    str, typer.Option("--only", help='Tables and figures, such as "table 8,figure 9". [default: all there is]', metavar="NAMES")
]
Analyse = Annotated[bool, typer.Option("--analyse", help="What the measurements say by themselves; nothing is trained.")]
Jobs = Annotated[int, typer.Option("--jobs", help="Processes to compute with. [default: one a core]", min=0)]
Fresh = Annotated[bool, typer.Option("--fresh", help="Compute again what was kept of earlier runs.")]
Plot = Annotated[Path | None, typer.Option("--plot", help="Folder to draw the figures into.")]

Draw = Callable[[Path], Sequence[Path]]
"""Draws into a folder; returns the files."""


@contextmanager
def working(plot: Path | None = None) -> Iterator[StageProgress]:
    """Show stages; an interruption says that finished work is kept.

    Raises:
        MissingExtraError: What measures and trains is not installed, or there is something to draw and nothing to draw with.
        Interrupted: By Ctrl-C.
    """
    require("a paper's tables", *LEARNING)
    if plot is not None:
        check_drawable()
    try:
        with StageProgress() as progress:
            yield progress
    except KeyboardInterrupt as problem:
        raise Interrupted("interrupted; what was done is kept: the same command goes on with it") from problem


def report(
    found: Sequence[PaperTable],
    document: Mapping[str, Any],
    *,
    as_json: bool,
    plot: Path | None = None,
    draw: Draw = lambda folder: (),
) -> None:
    """Print comparisons as tables, or one JSON document.

    Args:
        document: What else the document says; "notes" are for people too.
    """
    files = [] if plot is None else draw(plot)
    if as_json:
        comparisons = [comparison.to_json() for comparison in found]
        print_json({**document, "comparisons": comparisons, "plots": [str(file) for file in files]})
        return
    for comparison in found:
        print_comparison(comparison)
    for note in document.get("notes", ()):
        print(f"  {note}")
    for file in files:
        warn(f"drew {file}")


def print_comparison(found: PaperTable) -> None:
    """Print a table and its notes."""
    rows = [[cell_text(cell, column) for cell, column in zip(row, found.columns, strict=True)] for row in found.rows]
    print_table(f"{found.name[:1].upper()}{found.name[1:]}: {found.title}", found.columns, rows)
    for note in found.notes:
        print(f"  {note}")
    print()


def cell_text(cell: Cell, column: str) -> str:
    """Return a number with as many digits as its unit asks for."""
    if cell is None:
        return "-"
    if not isinstance(cell, float):
        return str(cell)
    if "%" in column:
        return f"{cell:.1f}"
    if column.endswith(" ms"):
        return milliseconds(cell)
    return f"{cell:.0f}" if cell >= 100 else f"{cell:.3g}"
