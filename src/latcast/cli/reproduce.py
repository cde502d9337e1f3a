"""``latcast reproduce``: one command a paper, each in a module of its own that is imported when it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import typer

from latcast.cli.lazy_group import lazy_group
from latcast.cli.output import milliseconds, print_table
from latcast.reproduce.comparison import Cell, Comparison

PAPERS: Mapping[str, tuple[str, str]] = {
    "iiswc20": ("latcast.cli.reproduce_iiswc20", "Ganesan et al. (IISWC 2020), from its published measurements."),
    "nn-meter": ("latcast.cli.reproduce_nn_meter", "nn-Meter (Zhang et al., MobiSys 2021), on variants measured here."),
    "litepred": ("latcast.cli.reproduce_litepred", "LitePred (Feng et al., NSDI 2024), from kernels measured here."),
    "peva": ("latcast.cli.reproduce_peva", "Li et al. (PEVA 2024), from its published measurements, or live."),
    "workgroups": ("latcast.cli.reproduce_workgroups", "Jiang et al. (APSys 2020), from measured sweeps of work-group sizes."),
}
"""Paper -> its module (with a function ``command``) and one line of help."""


def _papers() -> None:
    """A paper's tables and figures beside ours."""


app = typer.Typer(
    name="reproduce", cls=lazy_group(PAPERS, "Papers"), callback=_papers, add_completion=False, no_args_is_help=True,
    rich_markup_mode=None,
)  # fmt: skip


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
