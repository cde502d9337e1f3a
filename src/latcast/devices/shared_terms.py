"""One model of all platforms: analytical terms of kernels, shared between platforms and adapted by a few measurements.

Known platforms were learned from whole networks, so each predicts any network (:mod:`latcast.devices.platform_terms`). A new
platform is placed among them by the networks measured on it (:mod:`latcast.devices.few_measurements`), and their
latencies of a network, seen or not, become its forecast. How unlike a network is to all those learned from widens its interval
(:mod:`latcast.devices.network_novelty`). It joins Li et al. (kernels from whole networks), LitePred (platforms help each
other) and Ganesan et al. (a few networks describe a device).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from latcast.datasets.splits import device_of
from latcast.devices.few_measurements import (
    KnownRows,
    PredictedPlatform,
    Uncertainty,
    choose_measured,
    kind_similarity,
    predict_platform,
)
from latcast.devices.latency_table import LatencyTable
from latcast.devices.network_kernels import network_kernels
from latcast.devices.network_novelty import NetworkNovelty
from latcast.devices.new_device import DeviceForecast, DeviceForecasts
from latcast.devices.platform_terms import PlatformTerms
from latcast.errors import TrainingError
from latcast.graph.ir import Graph
from latcast.predictors.network_terms import NetworkTerms
from latcast.records import Reference
from latcast.spaces import build
from latcast.spaces.measured_only import can_build

GAUSSIAN_90 = 1.645

FEW_MEASURED = 3
"""With fewer measured networks, what a device is like is hardly known beyond how fast it is."""

UNLIKE = 2.0
"""A device is unlike the known ones when its measured networks lie so many times as far from what was expected as usual."""


@dataclass(frozen=True)
class Reach:
    """How many standard deviations a 90 % interval reaches to either side, learned from known devices left out.

    Attributes:
        known: For networks that known platforms ran.
        novelty: (levels,) increasing standard deviations of what is not known of a network that none ran.
        unseen: (levels,) the reach at each; in between it is interpolated.
        standardised_residual: That of :class:`latcast.devices.few_measurements.PredictedPlatform`, which 95 % of the known
            platforms stay below.
        predictions: How many left-out latencies these rest on.
    """

    known: float = GAUSSIAN_90
    novelty: tuple[float, ...] = (0.1,)
    unseen: tuple[float, ...] = (GAUSSIAN_90,)
    standardised_residual: float = 1.0
    predictions: int = 0

    def of(self, columns: Columns) -> np.ndarray:
        """The reach for each network, (networks,)."""
        found = np.full(columns.log_ms.shape[1], self.known)
        if len(columns.variance):
            found[-len(columns.variance) :] = np.interp(np.sqrt(columns.variance), self.novelty, self.unseen)
        return found


@dataclass(frozen=True)
class Columns:
    """Networks as the model works on them: the known ones, then others.

    Attributes:
        log_ms: (platforms, networks).
        variance: (others,) what is not known of the others.
        covariance: (others, measured) the same between them and the first of them, those that may be measured.
    """

    log_ms: np.ndarray
    variance: np.ndarray
    covariance: np.ndarray

    @classmethod
    def of(
        cls, known: np.ndarray, others: np.ndarray, novelty: NetworkNovelty, terms: NetworkTerms, measured: int = 0
    ) -> Columns:
        """Known networks and others.

        Args:
            known: (platforms, known networks).
            others: (platforms, others), predicted.
            novelty: Of the others.
            terms: Of the others, under the rules of its reference.
            measured: How many of them, the first ones, may be measured.
        """
        return cls(np.hstack([known, others]), *novelty.left_open(terms, np.arange(measured)))

    def uncertainty(self, measured: np.ndarray) -> Uncertainty:
        """Uncertainty of the columns that no known platform ran, for measured columns."""
        known = self.log_ms.shape[1] - len(self.variance)
        uncertainty = Uncertainty.none(self.log_ms.shape[1], len(measured))
        outside = np.flatnonzero(measured >= known)
        uncertainty.variance[known:] = self.variance
        uncertainty.covariance[known:, outside] = self.covariance[:, measured[outside] - known]
        return uncertainty


@dataclass(frozen=True)
class SharedTerms:
    """A fitted model.

    Attributes:
        parts: Known platforms, together where they run the same kernels.
        networks: The known networks.
        log_ms: (platforms, known networks) logarithms of milliseconds: measured, accidents drawn in, missing ones predicted.
        novelty: How little is known of other networks.
        reach: Of the intervals.
        card: What it was learned from, its licence and its figures.
    """

    parts: tuple[PlatformTerms, ...]
    networks: tuple[Reference, ...]
    log_ms: np.ndarray
    novelty: NetworkNovelty
    reach: Reach = field(default_factory=Reach)
    card: Mapping[str, Any] = field(default_factory=dict)

    @property
    def platforms(self) -> tuple[str, ...]:
        """Ids of the known platforms, one a row."""
        return tuple(name for part in self.parts for name in part.platforms)

    @property
    def table(self) -> LatencyTable:
        """The known latencies; accidents drawn in, missing ones predicted."""
        return LatencyTable(self.platforms, self.networks, np.exp(self.log_ms))

    @cached_property
    def among(self) -> np.ndarray:
        """(platforms, platforms) how alike the known platforms are by kind."""
        return kind_similarity(self.platforms, self.platforms)

    @cached_property
    def devices(self) -> np.ndarray:
        """(platforms,) the number of each one's device."""
        return np.unique([device_of(name) for name in self.platforms], return_inverse=True)[1].reshape(-1)

    def without_devices(self, devices: Collection[str]) -> SharedTerms:
        """The model as if some devices, with all their platforms, had never been seen; reaches stay as they are."""
        kept = np.array([device_of(name) not in devices for name in self.platforms])
        parts, start = [], 0
        for part in self.parts:
            rows = np.flatnonzero(kept[start : start + len(part.platforms)])
            start += len(part.platforms)
            if len(rows):
                parts.append(part.rows(rows))
        return replace(self, parts=tuple(parts), log_ms=self.log_ms[kept])

    def columns(self, others: Sequence[Reference | Graph] = (), measured: int = 0) -> Columns:
        """The known networks, then others, of which the first so many may be measured.

        Raises:
            LatcastError: A network cannot be built, or nothing but its name is known.
        """
        if not others:
            return Columns(self.log_ms, np.zeros(0), np.zeros((0, 0)))
        built = [build(each) if isinstance(each, Reference) and can_build(each) else each for each in others]
        rules = self.novelty.reference.rules
        by_reference = NetworkTerms.of([network_kernels(each, rules) for each in built])
        rows = []
        for part in self.parts:
            same = part.rules == rules
            terms = by_reference if same else NetworkTerms.of([network_kernels(each, part.rules) for each in built])
            rows.append(part.log_ms(terms))
        return Columns.of(self.log_ms, np.concatenate(rows), self.novelty, by_reference, measured)

    def predict_platform(
        self, platform: str, measured: np.ndarray, log_ms: np.ndarray, columns: Columns | None = None
    ) -> PredictedPlatform:
        """A new platform.

        Args:
            platform: Its id; runtime, unit and precision say which known platforms are of its kind.
            measured: (measured,) columns of networks.
            log_ms: (measured,) logarithms of their milliseconds.
            columns: The networks; the known ones alone where None.
        """
        columns = columns or self.columns()
        similarity = kind_similarity([platform], self.platforms)[0]
        known = KnownRows(columns.log_ms, self.among, self.devices)
        return predict_platform(known, similarity, measured, log_ms, columns.uncertainty(measured))

    def signature(self, count: int, platform: str | None = None, among: Collection[int] | None = None) -> list[int]:
        """Known networks to measure on a new platform, as columns: those whose latencies tell the most of all others.

        Args:
            count: How many.
            platform: Its id, where it is known: platforms of its kind count more.
            among: Columns that may be chosen; any where None.
        """
        similarity = None if platform is None else kind_similarity([platform], self.platforms)[0]
        return choose_measured(self.log_ms, count, similarity, among)

    def predict(
        self, platform: str, measured: Mapping[Reference, float], wanted: Sequence[tuple[str, Reference | Graph]]
    ) -> DeviceForecasts:
        """Predicts networks on a new platform.

        Args:
            platform: Its id.
            measured: Latencies (ms) of networks on it, known ones or any that can be built.
            wanted: Names and networks.

        Raises:
            TrainingError: Nothing was measured or asked for, or a measured latency is not above 0.
            LatcastError: A network cannot be built, or nothing but its name is known.
        """
        if not measured or not wanted:
            raise TrainingError(f"{len(measured)} measured networks and {len(wanted)} to predict; expected at least one of each")
        if not all(0 < value < np.inf for value in measured.values()):
            raise TrainingError(f"a measured latency of {min(measured.values())} ms; expected numbers above 0")
        place = {reference.key: index for index, reference in enumerate(self.networks)}
        others: list[Reference | Graph] = []
        for network in (*measured, *(network for _, network in wanted)):
            if _key(network) not in place:
                place[_key(network)] = len(self.networks) + len(others)
                others.append(network)
        chosen = np.array([place[reference.key] for reference in measured])
        outside = len({reference.key for reference in measured} - self._known_keys)
        columns = self.columns(others, outside)
        found = self.predict_platform(platform, chosen, np.log(list(measured.values())), columns)
        by_key = {reference.key: latency_ms for reference, latency_ms in measured.items()}
        half_widths = self.reach.of(columns) * found.deviation
        level = 90.0 if self.reach.predictions else None
        forecasts = []
        for name, network in wanted:
            column = place[_key(network)]
            known = column < len(self.networks)
            half = float(half_widths[column])
            centre = float(found.log_ms[column])
            low_ms, latency_ms, high_ms = np.exp([centre - half, centre, centre + half]).tolist()
            forecasts.append(DeviceForecast(name, known, latency_ms, low_ms, high_ms, by_key.get(_key(network)), level))
        nearest, distance, usual = self._nearest(platform, columns.log_ms[:, chosen], np.log(list(measured.values())))
        names = [reference.name or reference.key for reference in measured]
        warnings = self._warnings(found, names, [_key(reference) in self._known_keys for reference in measured])
        return DeviceForecasts(tuple(forecasts), nearest, distance, usual, tuple(warnings))

    @cached_property
    def _known_keys(self) -> frozenset[str]:
        return frozenset(reference.key for reference in self.networks)

    def _nearest(self, platform: str, rows: np.ndarray, log_ms: np.ndarray) -> tuple[str, float, float]:
        """The known platform of the closest pattern, its distance, and the distance within which 95 % have their nearest."""
        patterns = rows - rows.mean(axis=1, keepdims=True)
        pattern = log_ms - log_ms.mean()
        to_new = np.sqrt(((patterns - pattern) ** 2).mean(axis=1))
        among = np.sqrt(np.maximum(((patterns[:, None] - patterns[None]) ** 2).mean(axis=2), 0.0))
        off_diagonal = among[~np.eye(len(among), dtype=bool)]
        usual = max(float(np.median(off_diagonal)), 1e-9)
        among[self.devices[:, None] == self.devices[None, :]] = np.inf
        closest = among.min(axis=1)
        best = int(np.argmin(to_new))
        finite = closest[np.isfinite(closest)]
        return self.platforms[best], float(to_new[best]) / usual, float(np.quantile(finite, 0.95)) / usual if len(finite) else 0.0

    def _warnings(self, found: PredictedPlatform, names: Sequence[str], known: Sequence[bool]) -> list[str]:
        warnings = []
        if found.standardised_residual > UNLIKE * self.reach.standardised_residual:
            warnings.append(
                f"this device is unlike all {len(self.platforms)} known platforms: its measured networks lie "
                f"{found.standardised_residual / self.reach.standardised_residual:.1f} times as far from what was expected as "
                "those of 95 % of the known ones; the intervals may be too narrow"
            )
        if found.dropped:
            warnings.append(
                f"left out what the other measurements contradict: {', '.join(names[index] for index in found.dropped)}; "
                "measure again on an idle device"
            )
        if len(names) < FEW_MEASURED:
            warnings.append(f"{len(names)} measured networks say little beyond how fast a device is; measure 5 to 10")
        if not any(known):
            warnings.append("no known platform ran any of the measured networks; the comparison rests on predictions of them")
        return warnings


def _key(network: Reference | Graph) -> str:
    return network.key if isinstance(network, Reference) else f"graph {id(network)}"
