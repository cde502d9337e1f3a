"""Pieces judged: the metrics of an outcome, and their mean over seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from latcast.predictors.metrics import Metrics, judge
from papers.comparison import Cell, mean
from papers.peva.pieces import Outcome, Piece

METRICS: Mapping[str, str] = {
    "mape": "MAPE %", "within_5": "±5 %", "within_10": "±10 %", "rmse_ms": "RMSE ms", "rmspe": "RMSPE %", "spearman": "Spearman",
}  # fmt: skip
"""Field to column."""


def metrics_of(outcome: Outcome, *, unfused: bool = False) -> Metrics:
    """How well a piece predicts the networks held out."""
    names = sorted(outcome.predicted_ms)
    predicted = outcome.unfused_ms if unfused else outcome.predicted_ms
    return judge(np.array([predicted[name] for name in names]), np.array([outcome.actual_ms[name] for name in names]))


class Results:
    """Outcomes of pieces, looked up by what differs between them.

    Args:
        outcomes: Of all pieces.
        seeds: Splits that a figure is the mean of.
        held_out: "network" or "lineage".
        tuned: As for the pieces.
    """

    def __init__(self, outcomes: Mapping[Piece, Outcome], seeds: Sequence[int], held_out: str, tuned: bool) -> None:
        self._outcomes = outcomes
        self.seeds = tuple(seeds)
        self.held_out = held_out
        self.tuned = tuned

    def of(self, platform: object, learner: str, size: int = 0, kind: str = "real") -> list[Outcome]:
        """Outcomes, one a seed; none where the piece was not asked for."""
        held_out = self.held_out if kind == "real" else "network"
        wanted = [Piece(str(platform), learner, size, seed, kind, held_out, self.tuned) for seed in self.seeds]
        return [self._outcomes[piece] for piece in wanted if piece in self._outcomes]

    def metrics(self, platform: object, learner: str, size: int = 0, kind: str = "real") -> dict[str, float] | None:
        """Means over the seeds by field of :data:`METRICS`; None where the piece was not asked for."""
        found = [metrics_of(outcome) for outcome in self.of(platform, learner, size, kind)]
        if not found:
            return None
        return {name: float(np.mean([getattr(each, name) for each in found])) for name in METRICS}

    def mape(self, platform: object, learner: str, size: int = 0, kind: str = "real") -> float | None:
        """Mean MAPE over the seeds, in percent."""
        found = self.metrics(platform, learner, size, kind)
        return None if found is None else found["mape"]


def operation_mape(outcomes: Iterable[Outcome], belongs: Callable[[str], bool]) -> float | None:
    """MAPE of single operations whose group belongs, in percent, all outcomes together; None where there are none."""
    pairs = [pair for each in outcomes for group, found in each.operations.items() if belongs(group) for pair in found]
    if not pairs:
        return None
    actual, predicted = np.array(pairs).T
    return 100 * float(np.mean(np.abs(predicted / actual - 1)))


def means_row(title: Sequence[Cell], rows: Sequence[Sequence[Cell]], first: int) -> tuple[Cell, ...]:
    """Means of the columns from ``first`` on, behind some title cells."""
    return (*title, *(mean([row[place] for row in rows]) for place in range(first, len(rows[0]))))
