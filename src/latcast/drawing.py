"""Figures: new ones, their style and files; bars, curves and Pareto fronts of plain numbers; axes of pages."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from latcast.errors import LatcastError
from latcast.extras import require
from latcast.tables import milliseconds

COLOURS = ("#3b6fb6", "#e08a2e", "#4c9a5b", "#b8473f", "#7d62a8", "#8a6a4f")
"""Colours of series, in their order."""

DOTS_PER_INCH = 110


def check_drawable(purpose: str = "drawing figures") -> None:
    """Raise a MissingExtraError without Matplotlib; for commands that work long before they draw."""
    require(purpose, "matplotlib")


def new_figure(width: float, height: float, title: str = "") -> Any:
    """Return an empty figure, in inches. It draws without a screen and leaves pyplot's state alone.

    Raises:
        MissingExtraError: Matplotlib is not installed.
    """
    check_drawable()
    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        """A figure that notebooks show without pyplot."""

        def _repr_png_(self) -> bytes:
            image = io.BytesIO()
            self.savefig(image, format="png", dpi=DOTS_PER_INCH)
            return image.getvalue()

    figure = ShownFigure(figsize=(width, height), layout="constrained")
    if title:
        figure.suptitle(title, fontsize="medium")
    return figure


def plain(axes: Any, below: str, beside: str, *, small_ticks: str = "both") -> None:
    """Set titles of the axes, no frame, a pale grid."""
    axes.set_xlabel(below, fontsize="small")
    axes.set_ylabel(beside, fontsize="small")
    axes.tick_params(axis=small_ticks, labelsize="small")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", linewidth=0.4, alpha=0.6)
    axes.set_axisbelow(True)


def write(figure: Any, path: str | os.PathLike[str], *, dots_per_inch: int = DOTS_PER_INCH) -> Path:
    """Write a figure: a PNG, or another format by the file's suffix.

    Raises:
        LatcastError: The file cannot be written, or no format has this suffix.
    """
    file = Path(path)
    try:
        figure.savefig(file, dpi=dots_per_inch)
    except (OSError, ValueError) as problem:
        raise LatcastError(f"cannot draw to {file}: {getattr(problem, 'strerror', None) or problem}") from problem
    return file


def save(figure: Any, folder: Path, name: str, *, dots_per_inch: int = DOTS_PER_INCH) -> Path:
    """Write a figure into a folder, which is made where missing; return its file.

    Raises:
        LatcastError: The folder cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise LatcastError(f"cannot write {folder}: {problem.strerror}") from problem
    return write(figure, folder / f"{name.replace(' ', '-')}.png", dots_per_inch=dots_per_inch)


PALE = 0.25
"""Opacity of bands and of points that are not on a front."""

MOST_NAMED = 12
"""Most named points of a front, which lie apart so that names do not cover each other."""


def bars(
    names: Sequence[str],
    latency_ms: Sequence[float],
    *,
    bounds_ms: Sequence[tuple[float, float] | None] | None = None,
    title: str = "",
    axis: str = "latency, ms",
) -> Any:
    """Draw horizontal bars, the first on top, each with its number; a line over a bar is its interval.

    Args:
        names: Labels of the bars.
        latency_ms: Their lengths; negative ones point left.
        bounds_ms: Low and high of each, or None.
        title, axis: Titles of the figure and of the axis.
    """
    figure = new_figure(7.5, 1.2 + 0.28 * len(names), title)
    axes = figure.add_subplot()
    places = np.arange(len(names))
    values = np.asarray(latency_ms, dtype=np.float64)
    colours = [COLOURS[0] if value >= 0 else COLOURS[2] for value in values]
    axes.barh(places, values, color=colours, height=0.7)
    ends = values.copy()
    for place, bounds in enumerate(bounds_ms or ()):
        if bounds is not None:
            axes.plot(bounds, (place, place), color=COLOURS[5], linewidth=2)
            ends[place] = max(ends[place], bounds[1]) if values[place] >= 0 else min(ends[place], bounds[0])
    for place, value in enumerate(values):
        axes.annotate(
            milliseconds(value), (ends[place], place), xytext=(3 if value >= 0 else -3, 0), textcoords="offset points",
            ha="left" if value >= 0 else "right", va="center", fontsize="x-small",
        )  # fmt: skip
    axes.set_yticks(places, [_shortened(name) for name in names])
    axes.margins(x=0.14)
    axes.set_ylim(len(names) - 0.4, -0.6)
    plain(axes, axis, "")
    axes.grid(axis="x", linewidth=0.4, alpha=0.6)
    axes.grid(axis="y", visible=False)
    return figure


def curves(
    at: Sequence[float], series: Mapping[str, tuple[Sequence[float], Sequence[float], Sequence[float]]], *, title: str, below: str
) -> Any:
    """Return latencies over a size, each with its interval as a band.

    Args:
        at: The sizes, (points,).
        series: Name of each curve to its latencies, lower and upper bounds in milliseconds, each (points,); NaN where unknown.
        title, below: Titles of the figure and of the size's axis.
    """
    figure = new_figure(7.5, 4.5, title)
    axes = figure.add_subplot()
    for place, (name, (latency_ms, low_ms, high_ms)) in enumerate(series.items()):
        colour = COLOURS[place % len(COLOURS)]
        axes.fill_between(at, low_ms, high_ms, color=colour, alpha=PALE, linewidth=0)
        axes.plot(at, latency_ms, marker="o", markersize=3.5, color=colour, label=name)
    plain(axes, below, "latency, ms")
    axes.set_xticks(at)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize="small", frameon=False)
    return figure


def pareto(
    latency_ms: Sequence[float] | np.ndarray,
    quality: Sequence[float] | np.ndarray,
    *,
    quality_name: str,
    bounds_ms: tuple[Sequence[float] | np.ndarray, Sequence[float] | np.ndarray] | None = None,
    names: Sequence[str] = (),
    front: Sequence[bool] | np.ndarray | None = None,
    measured_ms: Sequence[float] | np.ndarray | None = None,
    max_latency_ms: float | None = None,
    title: str = "",
    below: str = "latency, ms",
) -> Any:
    """Draw latency against a quality to be large: the front as a line of steps, the other points pale.

    Args:
        latency_ms, quality: (networks,).
        quality_name: Title of the upright axis, such as "top-1 accuracy, %".
        bounds_ms: Lower and upper bounds of the latencies, each (networks,).
        names: Of the networks, written beside points of the front; none where empty.
        front: (networks,) whether each is on the front; all are where None.
        measured_ms: Measured latencies of the first networks, as crosses; NaN where there is none.
        max_latency_ms: The budget, a broken line.
        title: Above it.
        below: Title of the other axis.
    """
    figure = new_figure(7.5, 4.8, title)
    axes = figure.add_subplot()
    found, quality = np.asarray(latency_ms, dtype=np.float64), np.asarray(quality, dtype=np.float64)
    chosen = np.ones(len(found), dtype=bool) if front is None else np.asarray(front, dtype=bool)
    if not chosen.all():
        axes.plot(found[~chosen], quality[~chosen], "o", color="grey", alpha=PALE, markersize=3, label="others")
    order = np.flatnonzero(chosen)[np.argsort(found[chosen], kind="stable")]
    axes.step(found[order], quality[order], where="post", color=COLOURS[0], linewidth=0.7, alpha=0.6)
    reach = None if bounds_ms is None else np.abs(np.stack([np.asarray(side)[order] - found[order] for side in bounds_ms]))
    axes.errorbar(
        found[order], quality[order], xerr=reach, fmt="o", color=COLOURS[0], markersize=3.5, elinewidth=0.6,
        label="predicted" if reach is None else "predicted, with interval",
    )  # fmt: skip
    named = -np.inf
    for index in order if names else ():
        if quality[index] - named < np.ptp(quality) / MOST_NAMED / 2:
            continue
        named = quality[index]
        axes.annotate(
            _shortened(names[index]), (found[index], named), xytext=(-4, 2), textcoords="offset points", ha="right",
            fontsize="xx-small", bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5},
        )  # fmt: skip
    if measured_ms is not None:
        axes.plot(measured_ms, quality[: len(measured_ms)], "x", color=COLOURS[3], label="measured")
    if max_latency_ms is not None:
        axes.axvline(max_latency_ms, color="black", linestyle="--", linewidth=1, label="limit")
    plain(axes, below, quality_name)
    axes.legend(fontsize="small", frameon=False, loc="lower right")
    return figure


MOST_LETTERS = 44
"""Longest label."""


def _shortened(name: str) -> str:
    """Return a name as a label: of a long one the end, which holds its kind."""
    return name if len(name) <= MOST_LETTERS else "…" + name[1 - MOST_LETTERS :]


class Drawable(Protocol):
    """A result that can be drawn."""

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any: ...


def plot(found: Drawable | Sequence[Any], path: str | os.PathLike[str] | None = None) -> Any:
    """Draw a result: a prediction, an explanation, a comparison, a sweep, a search; or several predictions or sweeps.

    Args:
        found: A result with a method ``plot``; or a list of predictions, drawn beside each other, or of sweeps of one network,
            drawn over each other.
        path: A PNG, or another format by its suffix; nothing is written where None.

    Returns:
        The Matplotlib figure; a notebook shows it.

    Raises:
        LatcastError: There is nothing to draw; or the file cannot be written.
        MissingExtraError: Matplotlib is not installed.

    Example:
        >>> import latcast
        >>> phones = ["pixel4/tflite-2.10/gpu/fp16", "s10/tflite-2.10/gpu/fp16"]
        >>> latcast.plot(latcast.predict("resnet18", on=phones), "phones.png").axes[0].get_xlabel()
        'latency, ms'
    """
    if not isinstance(found, Sequence):
        if not hasattr(found, "plot"):
            raise LatcastError(f"nothing to draw: found {type(found).__name__}, expected predictions, a comparison or a sweep")
        return found.plot(path)
    if not found:
        raise LatcastError("nothing to draw: the list is empty")
    together = getattr(type(found[0]), "plot_all", None)
    if together is None:
        raise LatcastError(f"several of type {type(found[0]).__name__} cannot be drawn as one picture; draw each")
    return together(found, path)


def drawn(figure: Any, path: str | os.PathLike[str] | None) -> Any:
    """Return the figure, also written to a file where one is given."""
    if path is not None:
        write(figure, path)
    return figure


WIDTH = 100.0
"""Width of a plot: positions are percent of it."""

CHARACTER, GAP = 2.3, 2.0
"""Widths of a label's character and between two labels on a phone, where a plot is 350 pixels wide."""

FINE = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
"""Steps of a decade that are labelled where an axis is a part of one."""


class Tick(NamedTuple):
    """A label at a place of an axis."""

    x: float
    label: str

    @property
    def anchor(self) -> str:
        """The end of the label that is at the place, so that it stays inside."""
        half = CHARACTER * len(self.label) / 2
        return "start" if self.x < half else "end" if self.x > WIDTH - half else "middle"

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends of the label."""
        width = CHARACTER * len(self.label)
        left = self.x - width * {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor]
        return left, left + width


@dataclass(frozen=True)
class LogAxis:
    """A logarithmic axis from ``low_ms`` to ``high_ms`` over :data:`WIDTH`."""

    low_ms: float
    high_ms: float

    @classmethod
    def over(cls, values_ms: Iterable[float]) -> LogAxis:
        """Return an axis that holds all values, with a margin."""
        found = [value for value in values_ms if value > 0]
        return cls(min(found) / 1.15, max(found) * 1.15) if found else cls(1.0, 100.0)

    def x(self, value_ms: float) -> float:
        """Return the place of a value; clipped to the axis."""
        share = math.log(max(value_ms, self.low_ms) / self.low_ms) / math.log(self.high_ms / self.low_ms)
        return round(WIDTH * min(share, 1.0), 1)

    @property
    def ticks(self) -> list[Tick]:
        """As many labels of each decade as have room without touching; the middle where none has."""
        found: list[Tick] = []
        decades = range(math.floor(math.log10(self.low_ms)), math.ceil(math.log10(self.high_ms)) + 1)
        for steps, every in ((FINE, 1), ((1, 1.5, 2, 3, 5, 7), 1), ((1, 2, 5), 1), ((1, 3), 1), ((1,), 1), ((1,), 2), ((1,), 4)):
            values = [step * 10.0**decade for decade in decades if decade % every == 0 for step in steps]
            found = [Tick(self.x(value), f"{value:g}") for value in values if self.low_ms <= value <= self.high_ms]
            if found:
                found[0] = Tick(found[0].x, f"{found[0].label} ms")
            if all(left.ends[1] + GAP <= right.ends[0] for left, right in pairwise(found)):
                break
        return found or [Tick(WIDTH / 2, f"{math.sqrt(self.low_ms * self.high_ms):.3g} ms")]
