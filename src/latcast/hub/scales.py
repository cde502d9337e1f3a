"""The hub's simplest model: the usual latency of each network, and one scale factor for each platform.

log latency(platform, network) = a(platform) + b(network) + noise. Scales come from what platforms ran in common alone: where two
groups of platforms ran no common network, the networks of one are not predicted on the platforms of the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from latcast.errors import TrainingError
from latcast.predictors.intervals import LEVEL_DEVIATIONS
from latcast.records import Reference

UNKNOWN_DEVIATION, MIN_DEVIATION = 0.35, 0.05
"""Deviations of log latency: where data are too few, as one scale factor leaves that much between phones; and the least."""

DEGREES = 4.0
"""Degrees of freedom of Student's distribution: a latency far off counts little."""

REWEIGHTINGS = 8

LEAST_WEIGHT = 1e-3

RIDGE = 1e-9
"""A weak prior for what the data do not determine: one number for each group."""


@dataclass(frozen=True)
class Observation:
    """The latency of a network on a platform, over all contributors.

    Attributes:
        latency_ms: The median of its contributors, of each the median of its measurements.
        weight: Beside the network's latencies on other platforms; contributors count alike, not records.
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

    @classmethod
    def around(cls, log_ms: float, reach: float) -> Forecast:
        """Return the forecast of a log latency that is off by at most ``reach``."""
        return cls(*np.exp([log_ms, log_ms - reach, log_ms + reach]).tolist())


@dataclass(frozen=True)
class ScaleFactors:
    """One scale factor per platform in log latency: quick, and robust against a few wrong latencies, as it is a median.

    It predicts only networks that some platform has run, on platforms that are connected with them by what they ran in common.

    Attributes:
        level: Log latency of each network on the mean platform, by reference key.
        counts: Platforms that ran it.
        group: Number of its group; levels of different groups do not compare.
        deviation: Standard deviation of the noise.
    """

    level: Mapping[str, float]
    counts: Mapping[str, int]
    group: Mapping[str, int]
    deviation: float

    @classmethod
    def fit(cls, observations: Sequence[Observation]) -> ScaleFactors:
        """Fit by least squares, reweighted so that latencies far off count little; each group of platforms by itself.

        Raises:
            TrainingError: There is no observation.
        """
        if not observations:
            raise TrainingError("no latency to fit a cross-device model to; expected at least one")
        platforms, platform_of = np.unique([item.platform for item in observations], return_inverse=True)
        networks, network_of = np.unique([item.reference.key for item in observations], return_inverse=True)
        log_ms = np.log([item.latency_ms for item in observations])
        given = np.maximum([item.weight for item in observations], LEAST_WEIGHT)
        groups = connected_groups(platform_of, network_of, len(platforms), len(networks))[1]
        freedom = len(log_ms) - len(platforms) - len(networks) + len(np.unique(groups))
        weight, deviation = given, UNKNOWN_DEVIATION
        for _ in range(REWEIGHTINGS):
            scale, level = _effects(platform_of, network_of, log_ms, weight, len(platforms), len(networks))
            if freedom < 5:
                break
            left = log_ms - scale[platform_of] - level[network_of]
            deviation = max(float(np.sqrt((weight * left**2).sum() / given.sum() * len(log_ms) / freedom)), MIN_DEVIATION)
            weight = given * np.maximum((DEGREES + 1) / (DEGREES + (left / deviation) ** 2), LEAST_WEIGHT)
        keys, counts = networks.tolist(), np.bincount(network_of, minlength=len(networks))
        return cls(
            dict(zip(keys, level.tolist(), strict=True)),
            dict(zip(keys, counts.tolist(), strict=True)),
            dict(zip(keys, groups.tolist(), strict=True)),
            deviation,
        )

    def forecasts(
        self, keys: Sequence[str], measured: Mapping[str, float], expected: Mapping[str, Forecast] | None = None
    ) -> dict[str, Forecast]:
        """Predict networks on one platform; those whose scale nothing tells are missing.

        Args:
            measured: Latencies (ms) of the platform by reference key.
            expected: Forecasts of another model for this platform, which give the scale of groups of which nothing was measured.
        """
        measured_offsets: dict[int, list[float]] = {}
        for key, latency_ms in measured.items():
            if key in self.level:
                measured_offsets.setdefault(self.group[key], []).append(math.log(latency_ms) - self.level[key])
        scales = {
            group: (float(np.median(found)), 1.57 * self.deviation**2 / len(found)) for group, found in measured_offsets.items()
        }
        expected_offsets: dict[int, list[tuple[float, float]]] = {}
        for key, forecast in (expected or {}).items():
            if key in self.level and self.group[key] not in scales:
                half = math.log(forecast.high_ms / forecast.low_ms) / 2
                expected_offsets.setdefault(self.group[key], []).append((math.log(forecast.latency_ms) - self.level[key], half))
        for group, pairs in expected_offsets.items():
            offset, half = np.median(pairs, axis=0).tolist()
            scales[group] = (offset, (half / LEVEL_DEVIATIONS) ** 2)
        found = {}
        for key in keys:
            if key in self.level and self.group[key] in scales:
                scale, variance = scales[self.group[key]]
                reach = LEVEL_DEVIATIONS * math.sqrt(variance + self.deviation**2 * (1 + 1 / self.counts[key]))
                found[key] = Forecast.around(scale + self.level[key], reach)
        return found

    def left_out(self, measured: Mapping[str, float]) -> dict[str, Forecast]:
        """Predict each of some latencies (ms) of one platform from the others; those whose scale none tells are missing."""
        found: dict[str, Forecast] = {}
        for key in measured:
            found |= self.forecasts([key], {other: value for other, value in measured.items() if other != key})
        return found


def connected_groups(rows: np.ndarray, columns: np.ndarray, row_count: int, column_count: int) -> tuple[np.ndarray, np.ndarray]:
    """Find which platforms and networks are connected by measurements.

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


def _effects(
    rows: np.ndarray, columns: np.ndarray, values: np.ndarray, weights: np.ndarray, row_count: int, column_count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the row and column effects of values; the larger set is eliminated, so that the smaller one is solved for."""
    if row_count > column_count:
        second, first = _effects(columns, rows, values, weights, column_count, row_count)
        return first, second
    shared = np.zeros((row_count, column_count))
    np.add.at(shared, (rows, columns), weights)
    row_sum, column_sum = shared.sum(axis=1), shared.sum(axis=0)
    row_value = np.bincount(rows, weights * values, minlength=row_count)
    column_value = np.bincount(columns, weights * values, minlength=column_count)
    reduced = np.diag(row_sum * (1 + RIDGE)) - (shared / column_sum) @ shared.T
    row_effect = np.linalg.solve(reduced, row_value - shared @ (column_value / column_sum))
    return row_effect, (column_value - row_effect @ shared) / column_sum
