"""Figs. 11 and 12 of Ganesan et al. from our tables, as image files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from latcast.report.drawing import COLOURS, new_figure, plain, save
from papers.comparison import Cell, Comparison


def draw(comparisons: Iterable[Comparison], folder: Path) -> list[Path]:
    """Draws what can be drawn into a folder, which is made where there is none; returns the files.

    Raises:
        MissingExtraError: Matplotlib is not installed.
        LatcastError: The folder cannot be written to.
    """
    return [save(FIGURES[found.name](found), folder, found.name) for found in comparisons if found.name in FIGURES]


def _line(axes: Any, points: list[tuple[Cell, Cell]], label: str, place: int, style: str = "-") -> None:
    kept = [(float(x), float(y)) for x, y in points if isinstance(x, (int, float)) and isinstance(y, (int, float))]
    if kept:
        axes.plot(
            *zip(*kept, strict=True), style, marker="o", markersize=3.5, label=label, color=COLOURS[place % len(COLOURS)]
        )  # fmt: skip


def _sizes(found: Comparison) -> Any:
    figure = new_figure(10.0, 3.8, "Figure 11: size of the signature")
    sizes = found.column("networks")
    for place, name in enumerate(("R²", "MAPE %")):
        axes = figure.add_subplot(1, 2, place + 1)
        for index, series in enumerate(("RS", "MIS", "SCCS", "ours")):
            points = list(zip(sizes, found.column(f"{series} {name}"), strict=True))
            _line(axes, points, series if series == "ours" else f"{series}, the paper's trees", index)
        axes.set_ylim(*((None, 1) if name == "R²" else (0, None)))
        plain(axes, "networks in the signature", name)
    axes.legend(frameon=False, fontsize="small")
    return figure


def _collaboration(found: Comparison) -> Any:
    figure = new_figure(10.0, 3.8, "Figure 12: phones that each contribute a signature and some percent of the networks")
    records = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    percentages = sorted({str(record["% of networks"]) for record in records})
    for place, name in enumerate(("R², mean", "unmeasured MAPE %")):
        axes = figure.add_subplot(1, 2, place + 1)
        for index, percent in enumerate(percentages):
            for model, style in (("paper", "-"), ("ours", ":")):
                chosen = [row for row in records if str(row["% of networks"]) == percent and row["model"] == model]
                label = f"{percent} %, {'ours' if model == 'ours' else 'the paper' + chr(39) + 's trees'}"
                _line(axes, [(row["devices"], row[name]) for row in chosen], label, index, style)
        axes.set_ylim(*((None, 1) if place == 0 else (0, None)))
        plain(axes, "phones", name.removeprefix("unmeasured ").removesuffix(", mean"))
    axes.legend(frameon=False, fontsize="small")
    return figure


FIGURES: Mapping[str, Callable[[Comparison], Any]] = {"figure 11": _sizes, "figure 12": _collaboration}
