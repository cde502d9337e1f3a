"""The model of a hub: its protocol, and the simplest one, a scale factor per platform.

Such a model learns from the latencies of many networks on many platforms, and predicts a platform that it has never seen
from a few of its latencies (Ganesan et al., §III: the signature set).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from latcast.errors import TrainingError
from latcast.records import Reference


@dataclass(frozen=True)
class Observation:
    """The latency that stands for a network on a platform: the median over its measurements."""

    platform: str
    reference: Reference
    latency_ms: float


@dataclass(frozen=True)
class Forecast:
    """A latency with its 90 % interval, in milliseconds."""

    latency_ms: float
    low_ms: float
    high_ms: float


class HubModel(Protocol):
    """A fitted model."""

    name: str

    @property
    def screen(self) -> HubModel:
        """A quick and robust model of the same latencies, by which outliers are told; itself where it is one."""

    def predict(self, networks: Sequence[Reference], measured: Mapping[str, float]) -> dict[str, Forecast]:
        """Latencies of networks on one platform.

        Args:
            networks: What to predict.
            measured: Latencies (ms) known of that platform, by reference key.

        Returns:
            Forecasts by reference key; a network that the model cannot predict is missing, never guessed.
        """

    def to_json(self) -> dict[str, Any]:
        """The model as JSON values, from which its fitter's ``load`` makes it again."""


class Fitter(Protocol):
    """A way to fit such a model."""

    name: str
    min_platforms: int
    """Platforms below which it is not worth trying."""

    def fit(self, observations: Sequence[Observation]) -> HubModel:
        """The model of these latencies.

        Raises:
            TrainingError: It cannot be fitted to them.
        """

    def load(self, content: Mapping[str, Any]) -> HubModel:
        """Restores a model from :meth:`HubModel.to_json`."""


NAME = "log-scale"

Z_90 = 1.645
"""Standard deviations that hold 90 % of a normal distribution."""

UNKNOWN_DEVIATION = 0.35
"""Of log latency, where the data are too few to tell: about what one scale factor leaves between phones."""

MIN_DEVIATION = 0.05
ROUNDS = 30


@dataclass(frozen=True)
class LogScaleModel:
    """One scale factor per platform in log latency: what can be said when few platforms are known.

    log latency(platform, network) = a(platform) + b(network) + noise. It predicts only networks that some platform has run. The
    factor is a median, so that a few wrong latencies do not move it.

    ``level[key]``: b of a network; ``counts[key]``: platforms behind it; ``deviation``: standard deviation of the noise.
    """

    level: Mapping[str, float]
    counts: Mapping[str, int]
    deviation: float
    name: str = NAME

    @property
    def screen(self) -> LogScaleModel:
        """See :class:`~latcast.hub.model.HubModel`."""
        return self

    def predict(self, networks: Sequence[Reference], measured: Mapping[str, float]) -> dict[str, Forecast]:
        """See :class:`~latcast.hub.model.HubModel`."""
        offsets = [np.log(latency_ms) - self.level[key] for key, latency_ms in measured.items() if key in self.level]
        if not offsets:
            return {}
        scale = float(np.median(offsets))
        found = {}
        for network in networks:
            if network.key in self.level:
                centre = scale + self.level[network.key]
                half = Z_90 * self.deviation * np.sqrt(1 + 1.57 / len(offsets) + 1 / self.counts[network.key])
                low_ms, latency_ms, high_ms = np.exp([centre - half, centre, centre + half])
                found[network.key] = Forecast(float(latency_ms), float(low_ms), float(high_ms))
        return found

    def to_json(self) -> dict[str, Any]:
        """See :class:`~latcast.hub.model.HubModel`."""
        return {"level": dict(self.level), "counts": dict(self.counts), "spread": self.deviation}


class LogScaleFitter:
    """Least squares by turns: platforms given networks, networks given platforms."""

    name = NAME
    min_platforms = 1

    def fit(self, observations: Sequence[Observation]) -> LogScaleModel:
        """See :class:`~latcast.hub.model.Fitter`."""
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
        deviation = max(float(np.sqrt(np.sum(left**2) / freedom)), MIN_DEVIATION) if freedom >= 5 else UNKNOWN_DEVIATION
        keys = [str(key) for key in networks]
        return LogScaleModel(
            dict(zip(keys, level.tolist(), strict=True)), dict(zip(keys, network_counts.tolist(), strict=True)), deviation
        )

    def load(self, content: Mapping[str, Any]) -> LogScaleModel:
        """See :class:`~latcast.hub.model.Fitter`."""
        return LogScaleModel(dict(content["level"]), dict(content["counts"]), float(content["spread"]))


LOG_SCALE = LogScaleFitter()
