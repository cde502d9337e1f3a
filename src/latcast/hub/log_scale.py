"""One scale factor per platform in log latency: what can be said when few platforms are known.

log latency(platform, network) = a(platform) + b(network) + noise. It predicts only networks that some platform has run. The
factor is a median, so that a few wrong latencies do not move it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from latcast.errors import TrainingError
from latcast.hub.cross_device import Forecast, Observation
from latcast.records import Reference

NAME = "log-scale"

Z_90 = 1.645
"""Standard deviations that hold 90 % of a normal distribution."""

UNKNOWN_SPREAD = 0.35
"""Of log latency, where the data are too few to tell: about what one scale factor leaves between phones."""

MIN_SPREAD = 0.05
ROUNDS = 30


@dataclass(frozen=True)
class LogScaleModel:
    """``level[key]``: b of a network; ``counts[key]``: platforms behind it; ``spread``: standard deviation of the noise."""

    level: Mapping[str, float]
    counts: Mapping[str, int]
    spread: float
    name: str = NAME

    @property
    def screen(self) -> LogScaleModel:
        """See :class:`~latcast.hub.cross_device.CrossDeviceModel`."""
        return self

    def predict(self, networks: Sequence[Reference], measured: Mapping[str, float]) -> dict[str, Forecast]:
        """See :class:`~latcast.hub.cross_device.CrossDeviceModel`."""
        offsets = [np.log(latency_ms) - self.level[key] for key, latency_ms in measured.items() if key in self.level]
        if not offsets:
            return {}
        scale = float(np.median(offsets))
        found = {}
        for network in networks:
            if network.key in self.level:
                centre = scale + self.level[network.key]
                half = Z_90 * self.spread * np.sqrt(1 + 1.57 / len(offsets) + 1 / self.counts[network.key])
                low_ms, latency_ms, high_ms = np.exp([centre - half, centre, centre + half])
                found[network.key] = Forecast(float(latency_ms), float(low_ms), float(high_ms))
        return found

    def to_json(self) -> dict[str, Any]:
        """See :class:`~latcast.hub.cross_device.CrossDeviceModel`."""
        return {"level": dict(self.level), "counts": dict(self.counts), "spread": self.spread}


class LogScaleFitter:
    """Least squares by turns: platforms given networks, networks given platforms."""

    name = NAME
    min_platforms = 1

    def fit(self, observations: Sequence[Observation]) -> LogScaleModel:
        """See :class:`~latcast.hub.cross_device.Fitter`."""
        if not observations:
            raise TrainingError("no latency to fit a cross-device model to; expected at least one")
        platforms, platform_of = np.unique([item.platform for item in observations], return_inverse=True)
        networks, network_of = np.unique([item.reference.key for item in observations], return_inverse=True)
        log_ms = np.log([item.latency_ms for item in observations])
        platform_counts, network_counts = np.bincount(platform_of), np.bincount(network_of)
        scale, level = np.zeros(len(platforms)), np.zeros(len(networks))
        for _ in range(ROUNDS):
            level = np.bincount(network_of, log_ms - scale[platform_of]) / network_counts
            scale = np.bincount(platform_of, log_ms - level[network_of]) / platform_counts
            level, scale = level + scale.mean(), scale - scale.mean()
        left = log_ms - scale[platform_of] - level[network_of]
        freedom = len(log_ms) - len(platforms) - len(networks) + 1
        spread = max(float(np.sqrt(np.sum(left**2) / freedom)), MIN_SPREAD) if freedom >= 5 else UNKNOWN_SPREAD
        keys = [str(key) for key in networks]
        return LogScaleModel(
            dict(zip(keys, level.tolist(), strict=True)), dict(zip(keys, network_counts.tolist(), strict=True)), spread
        )

    def load(self, content: Mapping[str, Any]) -> LogScaleModel:
        """See :class:`~latcast.hub.cross_device.Fitter`."""
        return LogScaleModel(dict(content["level"]), dict(content["counts"]), float(content["spread"]))


FITTER = LogScaleFitter()
