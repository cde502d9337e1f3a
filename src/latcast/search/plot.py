"""The front of a search as a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from latcast.errors import LatcastError
from latcast.report.drawing import new_figure
from latcast.search.result import SearchResult


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
