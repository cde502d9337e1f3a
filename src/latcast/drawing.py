"""Figures: how one is begun, looks and is written; bars, curves and Pareto fronts of plain numbers."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from latcast.errors import LatcastError
from latcast.extras import require
from latcast.records import milliseconds

COLOURS = ("#3b6fb6", "#e08a2e", "#4c9a5b", "#b8473f", "#7d62a8", "#8a6a4f")
"""Of series, in their order."""

DOTS_PER_INCH = 110


def check_drawable(purpose: str = "drawing figures") -> None:
    """For commands that work long before they draw.

    Raises:
        MissingExtraError: Matplotlib is not installed.
    """
    require(purpose, "matplotlib")


def new_figure(width: float, height: float, title: str = "", *, purpose: str = "drawing figures") -> Any:
    """An empty figure, in inches. It draws without a screen and leaves pyplot's state alone.

    Raises:
        MissingExtraError: Matplotlib is not installed.
    """
    check_drawable(purpose)
    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        """Notebooks show it by themselves; of a plain figure they do so only where pyplot was set up."""

        def _repr_png_(self) -> bytes:
            image = io.BytesIO()
            self.savefig(image, format="png", dpi=DOTS_PER_INCH)
            return image.getvalue()

    figure = ShownFigure(figsize=(width, height), layout="constrained")
    if title:
        figure.suptitle(title, fontsize="medium")
    return figure


def plain(axes: Any, below: str, beside: str, *, small_ticks: str = "both") -> None:
    """Titles of the axes, no frame, a pale grid."""
    axes.set_xlabel(below, fontsize="small")
    axes.set_ylabel(beside, fontsize="small")
    axes.tick_params(axis=small_ticks, labelsize="small")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", linewidth=0.4, alpha=0.6)
    axes.set_axisbelow(True)


def write(figure: Any, path: str | os.PathLike[str], *, dots_per_inch: int = DOTS_PER_INCH) -> Path:
    """Writes a figure: a PNG, or another format by the file's suffix.

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
    """Writes a figure into a folder, which is made where there is none; returns its file.

    Raises:
        LatcastError: The folder cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise LatcastError(f"cannot write {folder}: {problem.strerror}") from problem
    return write(figure, folder / f"{name.replace(' ', '-')}.png", dots_per_inch=dots_per_inch)


PALE = 0.25
"""Opacity of bands and of what lies behind a front."""

MOST_NAMED = 12
"""Points of a front that are named."""


def bars(
    names: Sequence[str],
    latency_ms: Sequence[float],
    *,
    bounds_ms: Sequence[tuple[float, float] | None] | None = None,
    title: str = "",
    axis: str = "latency, ms",
) -> Any:
    """Horizontal bars, the first on top, each with its number; a line over a bar is its interval.

    Args:
        names: Of the bars.
        latency_ms: Their lengths; below 0 to the left.
        bounds_ms: Low and high of each; None where there is none.
        title: Above them.
        axis: Title of the axis.
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
    """Latencies over a size, each with its interval as a band.

    Args:
        at: The sizes, (points,).
        series: Name of each curve to its latencies, lower and upper bounds in milliseconds, each (points,); NaN where there
            is none.
        title: Above them.
        below: What the size is.
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
    """Latency against what is to be large, the front as a line of steps, what lies behind it pale.

    Args:
        latency_ms, quality: (networks,).
        quality_name: Title of the upright axis, such as "top-1 accuracy, %".
        bounds_ms: Lower and upper bounds of the latencies, each (networks,).
        names: Of the networks, written beside the first :data:`MOST_NAMED` of the front; none where empty.
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
    for index in order[:: max(1, -(-len(order) // MOST_NAMED))] if names else ():
        axes.annotate(
            _shortened(names[index]), (found[index], quality[index]), xytext=(4, -7), textcoords="offset points",
            fontsize="xx-small", alpha=0.8,
        )  # fmt: skip
    if measured_ms is not None:
        axes.plot(measured_ms, quality[: len(measured_ms)], "x", color=COLOURS[3], label="measured")
    if max_latency_ms is not None:
        axes.axvline(max_latency_ms, color="black", linestyle="--", linewidth=1, label="limit")
    plain(axes, below, quality_name)
    axes.legend(fontsize="small", frameon=False, loc="lower right")
    return figure


MOST_LETTERS = 44


def _shortened(name: str) -> str:
    """A name as a label: the end of a long one, where its kind stands."""
    return name if len(name) <= MOST_LETTERS else "…" + name[1 - MOST_LETTERS :]


class Drawable(Protocol):
    """What has a picture of itself."""

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any: ...


def plot(found: Drawable | Sequence[Any], path: str | os.PathLike[str] | None = None) -> Any:
    """Draws what latcast found: a prediction, an explanation, a comparison, a sweep, a search; or several predictions or sweeps.

    Args:
        found: What has a ``plot`` of its own, which is called; or a list of predictions, drawn beside each other, or of sweeps
            of one network, drawn over each other.
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
    """The figure, also written to a file where one is given; what every ``plot`` returns."""
    if path is not None:
        write(figure, path)
    return figure
