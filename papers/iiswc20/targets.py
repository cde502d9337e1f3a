"""What our model is meant to reach on new phones, beside what it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from papers.comparison import Cell, Comparison
from papers.iiswc20 import paper
from papers.iiswc20.architectures import HELP_SPEARMAN, NEW_DEVICES
from papers.iiswc20.experiments import LOGARITHMIC
from papers.iiswc20.judged import span, values
from papers.iiswc20.pieces import Piece, Row
from papers.iiswc20.published import Published

Results = Mapping[Piece, Sequence[Row]]


@dataclass(frozen=True)
class Target:
    """Attributes:
    what: Said to people.
    figure: Key of a row.
    least, most: Bounds of the mean over splits; infinite where there is none.
    which: Rows that count.
    digits: Of the range.
    """

    what: str
    figure: str
    least: float
    most: float
    which: Callable[[Piece, Row], bool]
    digits: int = 1


def _known(size: int) -> Callable[[Piece, Row], bool]:
    return lambda piece, row: piece.experiment == "process" and piece.size == size and not row["models_apart"]


def _unseen(piece: Piece, row: Row) -> bool:
    return piece.experiment == "unseen networks" and row["model"] == "ours"


def _together(piece: Piece, row: Row) -> bool:
    return piece.experiment == "collaborative" and row["model"] == "ours" and row["devices"] == 10


def _cluster(name: str, model: str) -> Callable[[Piece, Row], bool]:
    return lambda piece, row: piece.variant == f"{name}, random" and row["model"] == model


_INFINITE = float("inf")

TARGETS = (
    Target("known networks, 10 measured: MAPE %", "mape", 0, 5.2, _known(10)),
    Target("known networks, 10 measured: ±10 %", "within_10", 87, 100, _known(10)),
    Target("known networks, 10 measured: in 90 % interval %", "interval_coverage", 85, 95, _known(10)),
    Target("known networks, 5 measured: MAPE %", "mape", 0, 6.2, _known(5)),
    Target("known networks, 5 measured: in 90 % interval %", "interval_coverage", 85, 95, _known(5)),
    Target("30 % of the networks unseen, 10 measured: MAPE %", "mape", 0, 9.0, _unseen),
    Target("30 % of the networks unseen, 10 measured: in 90 % interval %", "interval_coverage", 85, 95, _unseen),
    Target("10 phones with 10 % of the networks each, unmeasured cells: MAPE %", "mape", 0, 8.5, _together),
    *(
        Target(f"{name} phones held out, {called}: R²", "r2", least, _INFINITE, _cluster(name, model), 2)
        for model, called in ((LOGARITHMIC, "trees on logarithms"), ("ours", "ours"))
        for name, least in zip(paper.CLUSTERS, (0.84, 0.92, 0.96), strict=True)
    ),
)  # fmt: skip


def targets(results: Results, published: Published) -> Comparison:
    """Each target with the mean and range of the splits."""
    lines = []
    for target in TARGETS:
        rows = [row for piece, found in results.items() for row in found if target.which(piece, row)]
        found = values(rows, target.figure)
        mean = float(np.mean(found)) if found else None
        wanted = f"at least {target.least:g}" if target.most == _INFINITE else f"at most {target.most:g}"
        if target.least and target.most < _INFINITE:
            wanted = f"at least {target.least:g}" if target.figure == "within_10" else f"{target.least:g} to {target.most:g}"
        reached = "-" if mean is None else "yes" if target.least <= mean <= target.most else "no"
        lines.append((target.what, wanted, mean, span(rows, target.figure, target.digits), len(found), reached))
    return Comparison(
        "targets",
        "what the Gaussian process is meant to reach on phones that it did not see, signatures random",
        ("case", "wanted", "mean", "range", "splits", "reached"),
        tuple(lines),
        (
            "Phones that throttled while they were measured decide the range: a split has one in its test part or it has not.",
            "A quarter of the phones have a twin, another phone of their model or chip, within 1.3 %; rows 'models apart' of the "
            "table before this one keep phones of one model on one side.",
        ),
    )


def architectures(results: Results, published: Published) -> Comparison:
    """NAS-Bench-201 beside HELP."""
    lines: list[tuple[Cell, ...]] = []
    for size in sorted({piece.size for piece in results}):
        rows = [row for piece, found in results.items() if piece.size == size for row in found]
        for device in NEW_DEVICES:
            own = [row for row in rows if row["device"] == device]
            lines.append((size, device, None, *(row[name] for row in own[:1] for name in _ARCHITECTURE_FIGURES)))
        means = [float(np.mean(values(rows, name))) for name in _ARCHITECTURE_FIGURES]
        lines.append((size, "mean", HELP_SPEARMAN if size == 20 else None, *means))
    return Comparison(
        "nas-bench-201",
        "cells that no device ran, on new devices, after HELP's protocol",
        ("measured", "device", "Spearman of HELP", "Spearman", "of all cells", "MAPE %", "±5 %", "±10 %", "RMSE ms", "RMSPE %"),
        tuple(lines),
        (
            "Spearman over the middle 80 % of 1,000 cells, as HELP has it. fpga and eyeriss are estimates of a cost model; "
            "pixel2 was recorded in whole milliseconds, which bounds what can be ranked.",
        ),
    )


_ARCHITECTURE_FIGURES = ("spearman", "spearman_all", "mape", "within_5", "within_10", "rmse_ms", "rmspe")
