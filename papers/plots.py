"""Figures of papers from our tables, as image files: dots with quartiles, and bars in groups or on each other."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from latcast.drawing import new_figure, save
from papers.harness import Cell, PaperTable

COLOURS = (
    "#3b6fb6", "#e08a2e", "#4c9a5b", "#b8473f", "#7d62a8", "#8a6a4f", "#c77cb0", "#a8a43a", "#3fa3ae", "#1f3a5f", "#f2c48d",
    "#a9d3b1", "#e5a7a2", "#c9bde0", "#5f4a37", "#e3d96b",
)  # fmt: skip
"""Of series, in their order."""

OVERHEAD_COLOUR = "#c4c4c4"

PALE = 0.4
"""Opacity of what stands beside ours."""

TALLEST = 4.0
"""Bars are cut, and their values written, above this many times the height that nine in ten of a panel's bars stay below."""

INCHES_PER_SLOT, LEAST_WIDTH, MOST_WIDTH, PANEL_HEIGHT = 0.2, 7.0, 22.0, 3.1


INCHES_PER_LETTER = 0.085


@dataclass(frozen=True)
class Dots:
    """A median with its quartiles for each row.

    Attributes:
        panel: Column whose values are drawn apart.
        label: Columns that name a row.
        colour: Column whose values are told apart by colour.
        value, low, high: Columns.
        axis: Its title.
        line: Where a line is drawn across; none where None.
        log: Whether the axis is logarithmic.
    """

    panel: str
    label: tuple[str, ...]
    colour: str
    value: str
    low: str
    high: str
    axis: str
    line: float | None = None
    log: bool = False


@dataclass(frozen=True)
class Bars:
    """Bars in groups.

    Attributes:
        panel: Columns whose values are drawn apart.
        group: Columns that name a group of bars.
        series: Column that tells the bars of a group apart, beside the values.
        values: Columns; beside a series the second and later ones are drawn pale, without one those of the paper.
        axis: Its title.
        stacked: Whether the bars of a group stand on each other.
        line: Where a line is drawn across; none where None.
    """

    panel: tuple[str, ...]
    group: tuple[str, ...]
    series: str
    values: tuple[str, ...]
    axis: str
    stacked: bool = False
    line: float | None = None


Figure = Dots | Bars


def draw_tables(figures: Mapping[str, Figure], comparisons: Iterable[PaperTable], folder: Path) -> list[Path]:
    """Draw what can be drawn into a folder, which is made where there is none; returns the files.

    Raises:
        MissingExtraError: Matplotlib is not installed.
        LatcastError: The folder cannot be written to.
    """
    files = []
    for comparison in comparisons:
        spec = figures.get(comparison.name)
        figure = None if spec is None else _figure(comparison, spec)
        if figure is None:
            continue
        files.append(save(figure, folder, comparison.name))
    return files


Record = Mapping[str, Cell]


def _figure(comparison: PaperTable, spec: Figure) -> Any:
    """None where there is no number to draw."""
    records = comparison.records()
    apart = (spec.panel,) if isinstance(spec, Dots) else spec.panel
    panels: dict[str, list[Record]] = {}
    for record in records:
        panels.setdefault(_label(record, apart), []).append(record)
    panels = {
        name: found
        for name, found in panels.items()
        if isinstance(spec, Dots) or any(np.isfinite(_number(record.get(column))) for record in found for column in spec.values)
    }
    if not panels:
        return None
    slots = (
        max(map(len, panels.values())) if isinstance(spec, Dots) else max(_bar_slots(found, spec) for found in panels.values())
    )
    width = min(max(LEAST_WIDTH, INCHES_PER_SLOT * slots + 2.5), MOST_WIDTH)
    title = textwrap.fill(
        f"{comparison.name[:1].upper()}{comparison.name[1:]}: {comparison.title}", int(width / INCHES_PER_LETTER)
    )
    figure = new_figure(width, PANEL_HEIGHT * len(panels) + 0.9, title)
    for place, (name, found) in enumerate(panels.items()):
        axes = figure.add_subplot(len(panels), 1, place + 1)
        if isinstance(spec, Dots):
            _dots(axes, found, spec)
        else:
            # What stands on each other is other kernels in each panel: there the colours begin anew.
            _bars(axes, found, spec, _names(found if spec.stacked else records, spec))
        if spec.line is not None:
            axes.axhline(spec.line, color="black", linewidth=0.8, linestyle=":")
        axes.set_title(name, fontsize="small", loc="left")
        axes.set_ylabel(spec.axis, fontsize="small")
        axes.tick_params(labelsize="small")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", linewidth=0.4, alpha=0.6)
        axes.set_axisbelow(True)
    return figure


def _label(record: Record, columns: Sequence[str]) -> str:
    return " ".join(str(record.get(column)) for column in columns)


def _number(cell: Cell) -> float:
    return float(cell) if isinstance(cell, (int, float)) else np.nan


def _ticks(axes: Any, labels: Sequence[str]) -> None:
    """Labels below; broken, slanted or upright where there is no room."""
    room = axes.figure.get_figwidth() / max(len(labels), 1)
    # A part of the width is the legend's.
    letters = max(int(0.8 * room / INCHES_PER_LETTER), 1)
    broken = [textwrap.fill(label, letters, break_long_words=False, break_on_hyphens=False) for label in labels]
    if room > INCHES_PER_LETTER * max(len(line) for label in broken for line in label.splitlines()):
        axes.set_xticks(range(len(labels)), broken)
    elif room > 0.3:
        axes.set_xticks(range(len(labels)), labels, rotation=35, ha="right", rotation_mode="anchor")
    else:
        axes.set_xticks(range(len(labels)), labels, rotation=90)
    axes.set_xlim(-0.7, len(labels) - 0.3)


def _dots(axes: Any, records: Sequence[Record], spec: Dots) -> None:
    kinds = list(dict.fromkeys(str(record[spec.colour]) for record in records))
    for place, record in enumerate(records):
        colour = COLOURS[kinds.index(str(record[spec.colour])) % len(COLOURS)]
        low, middle, high = (_number(record.get(column)) for column in (spec.low, spec.value, spec.high))
        axes.plot([place, place], [low, high], color=colour, linewidth=5, alpha=PALE, solid_capstyle="butt")
        axes.plot([place], [middle], marker="o", markersize=4, color=colour)
    if spec.log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    _ticks(axes, [_label(record, spec.label) for record in records])


def _names(records: Sequence[Record], spec: Bars) -> list[str]:
    """Values of the series' column, in their order."""
    return list(dict.fromkeys(str(record[spec.series]) for record in records)) if spec.series else [""]


def _series(records: Sequence[Record], spec: Bars) -> list[tuple[str, str]]:
    """(value of the series' column, values column) in the order of the legend."""
    return [
        (name, column)
        for name in _names(records, spec)
        for column in spec.values
        if any(
            np.isfinite(_number(record.get(column))) for record in records if not spec.series or str(record[spec.series]) == name
        )
    ]


def _groups(records: Sequence[Record], spec: Bars) -> list[str]:
    """Return the values with a number."""
    return list(
        dict.fromkeys(
            _label(record, spec.group)
            for record in records
            if any(np.isfinite(_number(record.get(column))) for column in spec.values)
        )
    )


def _bar_slots(records: Sequence[Record], spec: Bars) -> int:
    groups = len(_groups(records, spec))
    return groups * (1 if spec.stacked else len(_series(records, spec)) + 1)


def _bars(axes: Any, records: Sequence[Record], spec: Bars, names: Sequence[str]) -> None:
    """Draw a panel; a series has the colour of its place among the names."""
    groups = _groups(records, spec)
    series = _series(records, spec)
    width = 0.7 if spec.stacked else 0.85 / len(series)
    below = np.zeros(len(groups))
    for place, (name, column) in enumerate(series):
        values = np.full(len(groups), np.nan)
        for record in records:
            if _label(record, spec.group) in groups and (not spec.series or str(record[spec.series]) == name):
                values[groups.index(_label(record, spec.group))] = _number(record.get(column))
        shift = 0.0 if spec.stacked else (place - (len(series) - 1) / 2) * width
        own = names.index(name) if spec.series else place
        pale = spec.values.index(column) > 0 if spec.series else column.startswith("paper")
        short = column.removesuffix(" %").removesuffix(" MAPE").removesuffix(" ms") if "±" not in column else column
        label = name if len(spec.values) == 1 else f"{name}, {short}" if name else short
        axes.bar(
            np.arange(len(groups)) + shift, values, width, bottom=below if spec.stacked else None, label=label,
            color=OVERHEAD_COLOUR if name == "overhead" else COLOURS[own % len(COLOURS)], alpha=PALE if pale else 1.0,
        )  # fmt: skip
        if spec.stacked:
            below += np.nan_to_num(values)
    if not spec.stacked:
        _cut(axes)
    _ticks(axes, groups)
    if len(series) > 1 or spec.series:
        axes.legend(fontsize="x-small", loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def _cut(axes: Any) -> None:
    """End the axis below bars that would make all others too short to be read, and write their values."""
    heights = np.array([bar.get_height() for bar in axes.patches])
    heights = heights[np.isfinite(heights)]
    limit = TALLEST * float(np.percentile(heights, 90))
    if not 0 < limit < heights.max():
        return
    axes.set_ylim(top=limit)
    for bar in axes.patches:
        if bar.get_height() > limit:
            middle = bar.get_x() + bar.get_width() / 2
            axes.annotate(
                f"{bar.get_height():.0f}", (middle, limit), (0, 1), textcoords="offset points", ha="center", va="bottom",
                fontsize="x-small", annotation_clip=False,
            )  # fmt: skip
