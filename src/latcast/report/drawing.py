"""Figures: how one is begun, looks and is written; the front of a search."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from latcast.errors import LatcastError
from latcast.extras import require

if TYPE_CHECKING:
    from latcast.search.result import SearchResult

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
    import matplotlib.figure

    figure = matplotlib.figure.Figure(figsize=(width, height), layout="constrained")
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


def save(figure: Any, folder: Path, name: str, *, dots_per_inch: int = DOTS_PER_INCH) -> Path:
    """Writes a figure into a folder, which is made where there is none; returns its file.

    Raises:
        LatcastError: The folder cannot be written to.
    """
    path = folder / f"{name.replace(' ', '-')}.png"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=dots_per_inch)
    except OSError as problem:
        raise LatcastError(f"cannot write {path}: {problem.strerror}") from problem
    return path


def draw_front(result: SearchResult, path: Path, measured_ms: np.ndarray | None = None) -> Path:
    """Draws predicted latency with its interval against the objective, the limit, and measured picks as crosses.

    Args:
        result: What was found.
        path: A PNG, or another format by its suffix.
        measured_ms: Latencies of the first networks of the front, measured; NaN where that failed.

    Raises:
        MissingExtraError: Matplotlib is not installed.
        LatcastError: The file cannot be written.
    """
    front = result.front
    figure = new_figure(7, 4.5, purpose="drawing the front")
    axes = figure.add_subplot()
    interval = np.stack([front.latency_ms - front.low_ms, front.high_ms - front.latency_ms])
    axes.errorbar(
        front.latency_ms,
        front.objective,
        xerr=interval,
        fmt="o",
        markersize=3,
        elinewidth=0.5,
        label="predicted, with interval",
    )
    if measured_ms is not None:
        axes.plot(measured_ms, front.objective[: len(measured_ms)], "x", color="tab:red", label="measured")
    axes.axvline(result.max_latency_ms, color="black", linestyle="--", linewidth=1, label="limit")
    axes.set_xlabel(f"latency on {result.platform}, ms")
    axes.set_ylabel(result.objective)
    axes.set_title(f"{result.space}: {result.evaluations} networks looked at")
    axes.legend()
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as problem:
        raise LatcastError(f"cannot draw to {path}: {problem}") from problem
    return path
