"""Calibrated intervals: split conformal prediction on networks that were not trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from latcast.predictors.samples import NetworkSample

LEVEL = 0.9
"""Share of networks whose latency should lie inside the interval."""


@dataclass(frozen=True)
class Interval:
    """Factors around a prediction.

    Attributes:
        low, high: The interval is ``[low · latency, high · latency]``.
        networks: How many held-out networks calibrated it.
        outside_growth: How much wider (in logarithms) a prediction gets whose latency rests entirely on kernels outside the
            training range or without a predictor; in proportion for less.
    """

    low: float = 0.5
    high: float = 2.0
    networks: int = 0
    outside_growth: float = 1.0

    def bounds_ms(self, latency_ms: np.ndarray, outside_share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bound, each (networks,), for latencies and the shares of them outside the training range."""
        growth = 1 + self.outside_growth * outside_share
        return latency_ms * np.exp(np.log(self.low) * growth), latency_ms * np.exp(np.log(self.high) * growth)

    def to_json(self) -> dict[str, float]:
        return {"level": LEVEL, "low": self.low, "high": self.high, "networks": self.networks,
                "outside_growth": self.outside_growth}  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, float]) -> Interval:
        return cls(float(data["low"]), float(data["high"]), int(data["networks"]), float(data["outside_growth"]))


STEADY_PROCESSES = 3
"""A network measured by so many processes has a latency with little chance left in it."""

FEWEST_STEADY = 20
"""With fewer steady networks than this, the unsteady are calibrated on as well; with fewer designed ones, the random ones."""


def calibration_networks(networks: Sequence[NetworkSample]) -> np.ndarray:
    """Which networks to calibrate on, (networks,) booleans: steady ones that people designed, where there are enough.

    An interval is to hold what a careful measurement would give. Calibrated on networks that were measured once, it would hold
    the chance in those measurements as well, and be too wide. So it would from random networks, which are stranger than
    those that forecasts are asked for, and harder to predict.
    """
    designed = np.array([sample.designed for sample in networks])
    steady = np.array([sample.processes >= STEADY_PROCESSES for sample in networks])
    chosen = steady if steady.sum() >= FEWEST_STEADY else np.ones(len(networks), dtype=bool)
    return chosen & designed if (chosen & designed).sum() >= FEWEST_STEADY else chosen


def conformal_quantile(scores: np.ndarray, level: float) -> float:
    """The ⌈(n+1)·level⌉-th smallest score; the largest where n is too small for the level."""
    ordered = np.sort(scores)
    rank = int(np.ceil((len(ordered) + 1) * level))
    return float(ordered[min(rank, len(ordered)) - 1])


def calibrate(latency_ms: np.ndarray, predicted_ms: np.ndarray, *, level: float = LEVEL) -> Interval:
    """An interval from held-out networks: signed log errors, each side at half of what may miss.

    Args:
        latency_ms: (networks,) measured.
        predicted_ms: (networks,) by predictors that did not see the network (nor, better, its lineage).
        level: Share to be covered.
    """
    if len(latency_ms) == 0:
        return Interval()
    score = np.log(latency_ms / predicted_ms)
    side = 1 - (1 - level) / 2
    high = conformal_quantile(score, side)
    low = conformal_quantile(-score, side)
    # Never narrower than what repeating the measurement alone would move it.
    return Interval(float(np.exp(-max(low, 0.01))), float(np.exp(max(high, 0.01))), len(latency_ms))
