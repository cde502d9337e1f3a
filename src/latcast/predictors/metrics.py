"""The figures by which predictions are judged, always together."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from latcast.errors import TrainingError


@dataclass(frozen=True)
class Metrics:
    """Attributes:
    networks: How many were judged.
    mape: Mean absolute percentage error, in percent.
    within_5, within_10: Share of predictions within ±5 % and ±10 %, in percent.
    rmse_ms: Root mean squared error, in milliseconds.
    rmspe: Root mean squared percentage error, in percent.
    spearman: Rank correlation; NaN for fewer than three networks.
    interval_coverage: Share inside the 90 % interval, in percent; None without intervals.
    """

    networks: int
    mape: float
    within_5: float
    within_10: float
    rmse_ms: float
    rmspe: float
    spearman: float
    interval_coverage: float | None = None

    def to_json(self) -> dict[str, float | int | None]:
        return {name: (None if isinstance(v, float) and np.isnan(v) else v) for name, v in asdict(self).items()}


def ranks(values: np.ndarray) -> np.ndarray:
    """Rank values (n,) from 1 on; equal ones have the mean of their ranks."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(count) - (count - 1) / 2)[place])


def spearman(first: np.ndarray, second: np.ndarray) -> float:
    """Return the rank correlation with mean ranks for ties."""
    if len(first) < 3:
        return float("nan")
    a, b = ranks(first), ranks(second)
    if a.std() == 0 or b.std() == 0:
        return float("nan")
    return float(np.corrcoef(a, b)[0, 1])


def judge(
    predicted_ms: np.ndarray,
    actual_ms: np.ndarray,
    low_ms: np.ndarray | None = None,
    high_ms: np.ndarray | None = None,
) -> Metrics:
    """Return all metrics of predictions (networks,) against measured latencies (networks,).

    Raises:
        TrainingError: There is nothing to judge.
    """
    if len(actual_ms) == 0:
        raise TrainingError("no measured network is left to judge predictions by; expected at least one")
    error = predicted_ms / actual_ms - 1
    inside = None
    if low_ms is not None and high_ms is not None:
        inside = 100 * float(np.mean((low_ms <= actual_ms) & (actual_ms <= high_ms)))
    return Metrics(
        networks=len(actual_ms),
        mape=100 * float(np.mean(np.abs(error))),
        within_5=100 * float(np.mean(np.abs(error) <= 0.05)),
        within_10=100 * float(np.mean(np.abs(error) <= 0.10)),
        rmse_ms=float(np.sqrt(np.mean((predicted_ms - actual_ms) ** 2))),
        rmspe=100 * float(np.sqrt(np.mean(error**2))),
        spearman=spearman(predicted_ms, actual_ms),
        interval_coverage=inside,
    )
