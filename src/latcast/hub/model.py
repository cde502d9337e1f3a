"""The model of a hub: its protocol, and the simplest one, a scale factor per platform.

Such a model learns from the latencies of many networks on many platforms, and predicts a platform that it has never seen
from a few of its latencies (Ganesan et al., §III: the signature set). Scales are told by what platforms have in common alone:
where two groups of platforms ran no common network, nothing is said of the networks of one on the platforms of the other.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from latcast.errors import TrainingError
from latcast.records import Reference

if TYPE_CHECKING:
    from latcast.predictors.device_forecast import DeviceForecast
    from latcast.predictors.platform_predictor import PlatformPredictor


@dataclass(frozen=True)
class Observation:
    """The latency that stands for a network on a platform.

    Attributes:
        platform: Platform id.
        reference: Network.
        latency_ms: The median of its contributors, of each the median of its measurements.
        weight: What it counts beside the network's latencies on other platforms: contributors count alike, not records.
        trusted: Whether a contributor whom the administrator trusts measured it.
    """

    platform: str
    reference: Reference
    latency_ms: float
    weight: float = 1.0
    trusted: bool = True


@dataclass(frozen=True)
class Forecast:
    """A latency with its 90 % interval, in milliseconds."""

    latency_ms: float
    low_ms: float
    high_ms: float


class HubModel(Protocol):
    """A fitted model."""

    @property
    def name(self) -> str:
        """That of its fitter."""

    def predict(self, networks: Sequence[Reference], measured: Mapping[str, float], platform: str = "") -> dict[str, Forecast]:
        """Latencies of networks on one platform.

        Args:
            networks: What to predict.
            measured: Latencies (ms) known of that platform, by reference key.
            platform: Its id, where it is known.

        Returns:
            Forecasts by reference key; a network that the model cannot predict, as nothing tells its scale on this platform, is
            missing, never guessed.
        """

    def left_out(self, measured: Mapping[str, float], platform: str = "") -> dict[str, Forecast]:
        """What each of some latencies (ms) of one platform is expected to be by the others; nothing of those that none tells."""

    def connected(self, key: str) -> bool:
        """Whether the kernels of a network are known, through which it compares with every other such network."""

    def knows(self, key: str) -> bool:
        """Return whether measurements of a network were there when the model was fitted."""

    def without(self, devices: Collection[str]) -> HubModel:
        """The model without what it knew of some devices before the fit, and of all others of their silicon."""

    def by(self, forecast: DeviceForecast, keys: Sequence[str]) -> dict[str, Forecast]:
        """What a platform of the pool says of networks; of those whose kernels are known."""

    def predictor(self, platform: str, measured: Mapping[str, float]) -> PlatformPredictor | None:
        """That of a platform by some latencies (ms); None where no kernels are known of what it ran."""

    def to_json(self) -> dict[str, Any]:
        """The model as JSON values, from which its fitter's ``load`` makes it again."""


class Fitter(Protocol):
    """A way to fit such a model."""

    name: str
    min_platforms: int
    """Platforms below which it is not worth trying."""

    def fit(self, observations: Sequence[Observation], known: HubModel | None = None) -> HubModel:
        """The model of these latencies.

        Args:
            observations: All of them.
            known: An earlier model, of which is taken over what rests on the same latencies.

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

DEGREES = 4.0
"""Of freedom of Student's distribution: a latency far off counts little."""

REWEIGHTINGS = 8

LEAST_WEIGHT = 1e-3
RIDGE = 1e-9
"""Decides what the data leave open: one number for each group."""


@dataclass(frozen=True)
class LogScaleModel:
    """One scale factor per platform in log latency: what can be said when few platforms are known.

    log latency(platform, network) = a(platform) + b(network) + noise. It predicts only networks that some platform has run, and
    only on platforms that are connected with them by what they ran in common. The factor is a median, so that a few wrong
    latencies do not move it.

    ``level[key]``: b of a network; ``counts[key]``: platforms behind it; ``group[key]``: networks of one group are connected,
    those of different groups have levels that do not compare; ``deviation``: standard deviation of the noise.
    """

    level: Mapping[str, float]
    counts: Mapping[str, int]
    group: Mapping[str, int]
    deviation: float
    name: str = NAME

    def connected(self, key: str) -> bool:
        """See :class:`~latcast.hub.model.HubModel`: no kernels are known here."""
        return False

    def knows(self, key: str) -> bool:
        """See :class:`~latcast.hub.model.HubModel`."""
        return key in self.level

    def without(self, devices: Collection[str]) -> HubModel:
        """See :class:`~latcast.hub.model.HubModel`: it knew nothing before."""
        return self

    def by(self, forecast: DeviceForecast, keys: Sequence[str]) -> dict[str, Forecast]:
        """See :class:`~latcast.hub.model.HubModel`."""
        return {}

    def predictor(self, platform: str, measured: Mapping[str, float]) -> PlatformPredictor | None:
        """See :class:`~latcast.hub.model.HubModel`."""
        return None

    def predict(self, networks: Sequence[Reference], measured: Mapping[str, float], platform: str = "") -> dict[str, Forecast]:
        """See :class:`~latcast.hub.model.HubModel`."""
        return self.scaled([item.key for item in networks], measured, {})

    def left_out(self, measured: Mapping[str, float], platform: str = "") -> dict[str, Forecast]:
        """See :class:`~latcast.hub.model.HubModel`."""
        found: dict[str, Forecast] = {}
        for key in measured:
            if key in self.level:
                others = {other: latency_ms for other, latency_ms in measured.items() if other != key}
                found |= self.scaled([key], others, {})
        return found

    def scaled(self, keys: Sequence[str], measured: Mapping[str, float], expected: Mapping[str, Forecast]) -> dict[str, Forecast]:
        """Forecasts from latencies, and for groups of which none was measured from what another model expects.

        Args:
            keys: Of the networks to predict.
            measured: Latencies (ms) by reference key.
            expected: What another model says of this platform, by reference key.
        """
        offsets: dict[int, list[float]] = {}
        for key, latency_ms in measured.items():
            if key in self.level:
                offsets.setdefault(self.group[key], []).append(math.log(latency_ms) - self.level[key])
        others: dict[int, list[tuple[float, float]]] = {}
        for key, forecast in expected.items():
            if key in self.level and self.group[key] not in offsets:
                half = math.log(forecast.high_ms / forecast.low_ms) / 2
                others.setdefault(self.group[key], []).append((math.log(forecast.latency_ms) - self.level[key], half))
        scales = {group: (float(np.median(found)), 1.57 * self.deviation**2 / len(found)) for group, found in offsets.items()} | {
            group: (float(np.median(found, axis=0)[0]), float(np.median(found, axis=0)[1] / Z_90) ** 2)
            for group, found in others.items()
        }
        forecasts = {}
        for key in keys:
            if key in self.level and self.group[key] in scales:
                scale, variance = scales[self.group[key]]
                centre = scale + self.level[key]
                half = Z_90 * math.sqrt(variance + self.deviation**2 * (1 + 1 / self.counts[key]))
                low_ms, latency_ms, high_ms = np.exp([centre - half, centre, centre + half])
                forecasts[key] = Forecast(float(latency_ms), float(low_ms), float(high_ms))
        return forecasts

    def to_json(self) -> dict[str, Any]:
        """See :class:`~latcast.hub.model.HubModel`."""
        return {
            "level": dict(self.level),
            "counts": dict(self.counts),
            "group": dict(self.group),
            "spread": self.deviation,
        }


class LogScaleFitter:
    """Least squares, reweighted so that latencies far off count little; each group of connected platforms by itself."""

    name = NAME
    min_platforms = 1

    def fit(self, observations: Sequence[Observation], known: HubModel | None = None) -> LogScaleModel:
        """See :class:`~latcast.hub.model.Fitter`."""
        if not observations:
            raise TrainingError("no latency to fit a cross-device model to; expected at least one")
        platforms, platform_of = np.unique([item.platform for item in observations], return_inverse=True)
        networks, network_of = np.unique([item.reference.key for item in observations], return_inverse=True)
        log_ms = np.log([item.latency_ms for item in observations])
        given = np.maximum([item.weight for item in observations], LEAST_WEIGHT)
        groups = connected_groups(platform_of, network_of, len(platforms), len(networks))[1]
        freedom = len(log_ms) - len(platforms) - len(networks) + len(set(groups.tolist()))
        weight, deviation = given, UNKNOWN_DEVIATION
        for _ in range(REWEIGHTINGS):
            scale, level = _least_squares(platform_of, network_of, log_ms, weight, len(platforms), len(networks))
            left = log_ms - scale[platform_of] - level[network_of]
            if freedom < 5:
                break
            deviation = max(float(np.sqrt((weight * left**2).sum() / given.sum() * len(log_ms) / freedom)), MIN_DEVIATION)
            robust = (DEGREES + 1) / (DEGREES + (left / deviation) ** 2)
            weight = given * np.maximum(robust, LEAST_WEIGHT)
        keys = [str(key) for key in networks]
        counts = np.bincount(network_of, minlength=len(networks))
        return LogScaleModel(
            dict(zip(keys, level.tolist(), strict=True)),
            dict(zip(keys, counts.tolist(), strict=True)),
            dict(zip(keys, groups.tolist(), strict=True)),
            deviation,
        )

    def load(self, content: Mapping[str, Any]) -> LogScaleModel:
        """See :class:`~latcast.hub.model.Fitter`."""
        return LogScaleModel(dict(content["level"]), dict(content["counts"]), dict(content["group"]), float(content["spread"]))


def connected_groups(rows: np.ndarray, columns: np.ndarray, row_count: int, column_count: int) -> tuple[np.ndarray, np.ndarray]:
    """Which platforms and networks are connected by measurements.

    Args:
        rows, columns: (measurements,) platform and network of each.
        row_count, column_count: How many there are.

    Returns:
        (platforms,) and (networks,) number of the group of each; 0 is that of the first platform.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    size = row_count + column_count
    edges = coo_array((np.ones(len(rows), dtype=np.int8), (rows, columns + row_count)), shape=(size, size))
    groups = connected_components(edges, directed=False)[1]
    return groups[:row_count], groups[row_count:]


def _least_squares(
    rows: np.ndarray, columns: np.ndarray, values: np.ndarray, weights: np.ndarray, row_count: int, column_count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Row and column effects of values; the larger of the two sets is eliminated, so that the smaller one is solved for."""
    if row_count > column_count:
        second, first = _least_squares(columns, rows, values, weights, column_count, row_count)
        return first, second
    shared = np.zeros((row_count, column_count))
    np.add.at(shared, (rows, columns), weights)
    row_sum, column_sum = shared.sum(axis=1), shared.sum(axis=0)
    row_value = np.bincount(rows, weights * values, minlength=row_count)
    column_value = np.bincount(columns, weights * values, minlength=column_count)
    reduced = np.diag(row_sum * (1 + RIDGE)) - (shared / column_sum) @ shared.T
    row_effect = np.linalg.solve(reduced, row_value - shared @ (column_value / column_sum))
    return row_effect, (column_value - row_effect @ shared) / column_sum


LOG_SCALE = LogScaleFitter()
