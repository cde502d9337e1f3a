"""Judging predictors on networks, families or devices that training did not see, beside the baselines and the noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from latcast.predictors.baselines import BASELINES, fit_baseline
from latcast.predictors.metrics import Metrics, judge
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.samples import NetworkSample


@dataclass(frozen=True)
class Evaluation:
    """How well a predictor does on networks it did not see.

    Attributes:
        platform: Its id.
        held_out_by: "network", "family" or "device".
        metrics: Of the predictor.
        baselines: Of FLOPs and FLOPs+MAC, fitted to the training networks.
        noise_floor: Repeatability of the labels, in percent: MAPE between the medians of two halves of their rounds; None
            where the labels were not repeated.
        names, predicted_ms, low_ms, high_ms, actual_ms: Network by network.
    """

    platform: str
    held_out_by: str
    metrics: Metrics
    baselines: Mapping[str, Metrics]
    noise_floor: float | None
    names: tuple[str, ...]
    predicted_ms: np.ndarray
    low_ms: np.ndarray
    high_ms: np.ndarray
    actual_ms: np.ndarray

    def to_json(self) -> dict[str, Any]:
        return {
            "platform": self.platform,
            "held_out_by": self.held_out_by,
            **self.metrics.to_json(),
            "noise_floor": self.noise_floor,
            "baselines": {name: metrics.to_json() for name, metrics in self.baselines.items()},
            "per_network": [
                {"model": name, "latency_ms": p, "low_ms": low, "high_ms": high, "measured_ms": actual}
                for name, p, low, high, actual in zip(
                    self.names, self.predicted_ms.tolist(), self.low_ms.tolist(), self.high_ms.tolist(),
                    self.actual_ms.tolist(), strict=True,
                )
            ],
        }  # fmt: skip


def evaluate(
    predictor: PlatformPredictor,
    test: Sequence[NetworkSample],
    *,
    train: Sequence[NetworkSample] = (),
    held_out_by: str = "family",
    noise_floor: float | None = None,
) -> Evaluation:
    """Judges a predictor on measured networks.

    Args:
        predictor: Trained without them.
        test: The networks, their kernels under the predictor's rules.
        train: Networks to fit the baselines to; without them no baselines are given.
        held_out_by: What was held out.
        noise_floor: See :class:`Evaluation`.
    """
    priced = predictor.price([sample.kernels for sample in test])
    low, high = predictor.interval.bounds_ms(priced.latency_ms, priced.outside_share)
    actual = np.array([sample.latency_ms for sample in test])
    baselines = {}
    if len(train) >= 3:
        latency_ms = np.array([sample.latency_ms for sample in train])
        for name in BASELINES:
            fitted = fit_baseline(name, [sample.kernels for sample in train], latency_ms)
            baselines[name] = judge(fitted.latency_ms([sample.kernels for sample in test]), actual)
    return Evaluation(
        predictor.platform.id, held_out_by, judge(priced.latency_ms, actual, low, high), baselines, noise_floor,
        tuple(sample.reference.name or sample.reference.key for sample in test), priced.latency_ms, low, high, actual,
    )  # fmt: skip
