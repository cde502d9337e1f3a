"""Distributions of latencies over work-group sizes as image files, as Fig. 5 of Jiang et al."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from latcast.report.drawing import new_figure, save
from latcast.workgroups.sweep import COMPETITIVE
from papers.workgroups.tables import AuditedGroups

COLOUR, MARK = "#3b6fb6", "#b8473f"
BINS = 40


def draw(audited: AuditedGroups, folder: Path) -> list[Path]:
    """Draws one panel for each device and kernel: how many sizes are so many times as slow as the best.

    Args:
        audited: Groups with their audits; sweeps whose order is noise are left out.
        folder: Made where it is missing.

    Raises:
        MissingExtraError: matplotlib is not installed.
        LatcastError: The folder cannot be written to.
    """
    panels = [(group.title, [found for found in audits if not found.refused]) for group, audits in audited]
    panels = [panel for panel in panels if panel[1]]
    if not panels:
        return []
    figure = new_figure(7.0, 2.5 * len(panels))
    for axes, (title, audits) in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True):
        relative = [found.sweep.relative for found in audits]
        outcomes = [outcome for found in audits if (outcome := found.outcome("kFast")) is not None]
        defaults = [outcome.relative for outcome in outcomes if outcome.relative is not None]
        values = np.concatenate(relative)
        edges = np.geomspace(1.0, max(float(values.max()), 1.2), BINS + 1)
        # Every sweep counts alike, however many sizes it has.
        weights = np.concatenate([np.full(len(one), 100 / len(one) / len(relative)) for one in relative])
        axes.hist(values, edges, weights=weights, color=COLOUR)
        axes.axvline(COMPETITIVE, color=MARK, linestyle="--", linewidth=1, label="15 % above the best")
        if defaults:
            middle = float(np.median(defaults))
            axes.axvline(middle, color="black", linewidth=1, label=f"kFast, median {middle:.2f}")
        axes.set_xscale("log")
        ticks = [tick for tick in (1, 1.5, 2, 3, 5, 10, 20, 50, 100, 200) if tick <= edges[-1]]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set_title(f"{title} ({len(relative)} sweeps)", fontsize=10)
        axes.set_ylabel("sizes, %")
        axes.legend(fontsize=8, frameon=False)
    figure.supxlabel("latency over that of the best size", fontsize=10)
    return [save(figure, folder, "figure 5", dots_per_inch=130)]
