"""nn-Meter's figures, ours beside the paper's, as image files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from latcast.report.drawing import new_figure, save
from papers.comparison import Comparison

BARS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "table 8": ("±10 % accuracy, %", ("±10 %", "paper CPU ±10 %", "paper GPU ±10 %", "paper VPU ±10 %")),
    "table 9": ("±10 % accuracy, %", ("±10 %", "paper CPU ±10 %", "paper GPU ±10 %", "paper VPU ±10 %")),
    "table 10": ("±10 % accuracy, %", ("±10 %", "paper CPU ±10 %", "paper GPU ±10 %", "paper VPU ±10 %")),
    "table 11": ("±10 % accuracy, %", ("other's ±10 %", "own ±10 %", "paper other's ±10 %", "paper own ±10 %")),
    "figure 9": ("±10 % accuracy, %", ("latcast ±10 %", "FLOPs ±10 %", "FLOPs+MAC ±10 %", "graph network ±10 %")),
    "figure 10": ("error, %", ("MAPE %", "RMSPE %")),
    "figure 11": (
        "accuracy, %",
        ("operators ±5 %", "kernels ±5 %", "operators ±10 %", "kernels ±10 %"),
    ),
}
"""Table or figure to the axis and the columns that are drawn beside each other, a group of bars a row."""

OURS: Mapping[str, str] = {"±10 %": "latcast ±10 %", "MAPE %": "latcast MAPE %", "RMSPE %": "latcast RMSPE %"}
"""Columns that need a word to tell them from the paper's."""

STACKS: Mapping[str, str] = {"figure 6": "share of the latency, %"}
"""Figures whose columns from the second on add up to the whole."""


def draw(comparisons: Iterable[Comparison], folder: Path) -> list[Path]:
    """Draws what can be drawn into a folder, which is made where there is none; returns the files.

    Raises:
        MissingExtraError: Matplotlib is not installed.
        LatcastError: The folder cannot be written to.
    """
    files = []
    for comparison in comparisons:
        fill = _fill_of(comparison.name)
        if fill is None or not comparison.rows:
            continue
        figure = new_figure(max(6.0, 0.75 * len(comparison.rows) + 2), 4.2)
        axes = figure.add_subplot()
        fill(axes, comparison)
        axes.set_title(comparison.title, fontsize="medium")
        axes.set_xticks(range(len(comparison.rows)), [str(row[0]) for row in comparison.rows], rotation=35, ha="right")
        axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
        files.append(save(figure, folder, comparison.name, dots_per_inch=130))
    return files


def _fill_of(name: str) -> Callable[[Any, Comparison], None] | None:
    return _bars if name in BARS else _stacks if name in STACKS else None


def _numbers(comparison: Comparison, column: str) -> np.ndarray:
    """A column as numbers, NaN where it has none."""
    return np.array([float(cell) if isinstance(cell, (int, float)) else np.nan for cell in comparison.column(column)])


def _bars(axes: Any, comparison: Comparison) -> None:
    label, columns = BARS[comparison.name]
    shown: Sequence[str] = [column for column in columns if column in comparison.columns]
    places = np.arange(len(comparison.rows))
    width = 0.8 / len(shown)
    for index, column in enumerate(shown):
        axes.bar(
            places + (index - (len(shown) - 1) / 2) * width, _numbers(comparison, column), width, label=OURS.get(column, column)
        )
    axes.set_ylabel(label)


def _stacks(axes: Any, comparison: Comparison) -> None:
    below = np.zeros(len(comparison.rows))
    for column in comparison.columns[2:]:
        values = np.nan_to_num(_numbers(comparison, column))
        axes.bar(range(len(comparison.rows)), values, bottom=below, label=column.removesuffix(" %"))
        below += values
    axes.set_ylabel(STACKS[comparison.name])
