"""Trials of the evaluation of Li et al., each one learner on one split; what they come to, and its metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from latcast.predictors.metrics import Metrics, judge
from papers.harness import ResultFolder, source_digest


@dataclass(frozen=True, order=True)
class NetworkTrial:
    """One learner on one split.

    Attributes:
        platform: Id.
        learner: One of :data:`papers.peva.learners.LEARNERS`.
        size: Networks to learn from; 0 for all that the split leaves.
        seed: Of the split and of training.
        kind: Kind of networks.
        held_out: "network" or "lineage".
        tuned: Whether the hyper-parameters of all regressors are chosen by cross-validation; Lasso's always are.
    """

    platform: str
    learner: str
    size: int = 0
    seed: int = 0
    kind: str = "real"
    held_out: str = "network"
    tuned: bool = False


@dataclass(frozen=True)
class TrialResult:
    """What a trial came to.

    Attributes:
        predicted_ms, actual_ms: Of the networks held out, by name.
        operations: Group to (actual, predicted) milliseconds of each operation of those networks.
        trained_on: Number of networks learned from.
        overhead_ms: What was added to the sum of operations.
        unfused_ms: Predictions in which what PyTorch fuses are kernels of their own; empty where none was made.
    """

    predicted_ms: Mapping[str, float]
    actual_ms: Mapping[str, float]
    operations: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    trained_on: int = 0
    overhead_ms: float = 0.0
    unfused_ms: Mapping[str, float] = field(default_factory=dict)


SOURCES = ("latcast.kernels", "latcast.datasets.importers.usc", "latcast.predictors", "papers.peva")
"""Packages whose source decides what a trial comes to."""


def result_folder(folder: Path, data: str, *, fresh: bool = False) -> ResultFolder[TrialResult]:
    """Results of trials; ``data`` is a digest of the measurements."""
    return ResultFolder(folder, data, source_digest(SOURCES), lambda document: TrialResult(**document), fresh)


METRICS: Mapping[str, str] = {
    "mape": "MAPE %", "within_5": "±5 %", "within_10": "±10 %", "rmse_ms": "RMSE ms", "rmspe": "RMSPE %", "spearman": "Spearman",
}  # fmt: skip
"""Field to column."""


def metrics_of(result: TrialResult, *, unfused: bool = False) -> Metrics:
    """Return how well a trial predicts the networks held out."""
    names = sorted(result.predicted_ms)
    predicted = result.unfused_ms if unfused else result.predicted_ms
    return judge(np.array([predicted[name] for name in names]), np.array([result.actual_ms[name] for name in names]))


class Results:
    """Results of trials, looked up by what differs between them.

    Args:
        results: Of all trials.
        seeds: Splits that a figure is the mean of.
        held_out: "network" or "lineage".
        tuned: As for the trials.
    """

    def __init__(self, results: Mapping[NetworkTrial, TrialResult], seeds: Sequence[int], held_out: str, tuned: bool) -> None:
        self._results = results
        self.seeds = tuple(seeds)
        self.held_out = held_out
        self.tuned = tuned

    def of(self, platform: object, learner: str, size: int = 0, kind: str = "real") -> list[TrialResult]:
        """Results, one a seed; none where the trial was not asked for."""
        held_out = self.held_out if kind == "real" else "network"
        wanted = [NetworkTrial(str(platform), learner, size, seed, kind, held_out, self.tuned) for seed in self.seeds]
        return [self._results[trial] for trial in wanted if trial in self._results]

    def metrics(self, platform: object, learner: str, size: int = 0, kind: str = "real") -> dict[str, float] | None:
        """Means over the seeds by field of :data:`METRICS`; None where the trial was not asked for."""
        found = [metrics_of(result) for result in self.of(platform, learner, size, kind)]
        if not found:
            return None
        return {name: float(np.mean([getattr(each, name) for each in found])) for name in METRICS}

    def mape(self, platform: object, learner: str, size: int = 0, kind: str = "real") -> float | None:
        """Return mean MAPE over the seeds, in percent."""
        found = self.metrics(platform, learner, size, kind)
        return None if found is None else found["mape"]


def operation_mape(results: Iterable[TrialResult], group: str) -> float | None:
    """MAPE of the single operations of a group, in percent, all results together; None where there are none."""
    pairs = [pair for each in results for pair in each.operations.get(group, ())]
    if not pairs:
        return None
    actual, predicted = np.array(pairs).T
    return 100 * float(np.mean(np.abs(predicted / actual - 1)))
