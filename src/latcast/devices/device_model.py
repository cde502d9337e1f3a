"""The model of devices: what platforms of each kind of unit are like, and what a few latencies of a new one say.

A platform's state (the logarithms of its coefficients, and of the process over networks and kernel sizes) is drawn around what
its covariates say (kind of unit, runtime, precision, facts of the chip), with a covariance of its kind of unit:

    state ~ N(B z, Σ_kind).

The state after some latencies is a posterior (:mod:`latcast.predictors.platform_posterior`). Several priors are plausible; a
forecast is their mixture (:mod:`latcast.devices.members`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from latcast.devices.known_rows import Rows, complete_rows, row_members, rows_as_under
from latcast.devices.members import (
    MEMBERS,
    Candidate,
    Stated,
    priced_alike,
    regressions,
    stated_prices,
    unmeasured,
)
from latcast.predictors.device_forecast import DeviceForecast, Member, PlacedNetworks
from latcast.predictors.network_features import TERM_NAMES, NetworkFeatures
from latcast.predictors.network_memory import NO_MEMORY, NetworkMemory, squares_apart
from latcast.predictors.platform_posterior import Observed, Prior, posterior
from latcast.predictors.process_basis import ProcessBasis
from latcast.records import Reference

TERM_COUNT = len(TERM_NAMES)

KINDS = ("cpu", "gpu", "npu")

LEAST_WEIGHT = 0.005
"""Members below it are left out of a forecast."""

HARDLY_APART = 0.03
"""Distance of two networks' places within which they are one: a MobileNetV3 for three classes and one for a thousand are."""

INTERCEPT = "any platform"


def group_of(kind: str, covariates: Mapping[str, float]) -> str:
    """Name a kind of unit, runtime and precision: platforms that execute a network alike."""
    words = sorted(name for name in covariates if name.startswith(("runtime ", "precision ")))
    return ", ".join((kind, *words))


def is_fact(covariate: str, kind: str) -> bool:
    """Return whether a covariate is a fact of the chip whose unit this is, and not of the platform."""
    return covariate.startswith(f"{kind} ") and not covariate.startswith("cpu threads")


def design_of(covariates: Mapping[str, float]) -> frozenset[str]:
    """Name the design of an NPU, such as Hexagon; empty for other units. One tells little of a network's latency on another."""
    return frozenset(name for name in covariates if name.startswith("npu npu="))


@dataclass(frozen=True)
class KnownPlatform:
    """A platform whose latencies are known.

    Attributes:
        name: Platform id.
        kind: Kind of unit: cpu, gpu or npu.
        silicon: What it shares with its twins: platforms of one chip are held out together.
        covariates: Name to value: runtime, precision, facts of the chip; those of ``covariates_of``.
        networks: (observations,) index among the pool's networks.
        log_ms: (observations,) logarithms of latencies.
        source: Where the latencies are from.
    """

    name: str
    kind: str
    silicon: str
    covariates: Mapping[str, float]
    networks: np.ndarray
    log_ms: np.ndarray
    source: str = ""


@dataclass(frozen=True)
class Kind:
    """Parameters learned for one kind of unit.

    Attributes:
        covariance: (terms, terms) of coefficients around their mean.
        network_scale, kernel_scale: Standard deviations of the two parts of the process.
        noise: Of the logarithm of an observed latency.
    """

    covariance: np.ndarray
    network_scale: float
    kernel_scale: float
    noise: float


class Weighing(NamedTuple):
    """Weights of the members.

    Attributes:
        weights: By member, before anything was measured on the device.
        temper: Power of the measured networks' evidence: they are few, alike, and were used to fit the members.
        open_factor, noise_factor: See :class:`latcast.predictors.device_forecast.DeviceForecast`.
    """

    weights: Mapping[str, float]
    temper: float
    open_factor: float
    noise_factor: float


class Arbitration(NamedTuple):
    """Weights of the members at one number of measured networks.

    Attributes:
        measured: Networks.
        new: For networks that no known device ran.
        known: For networks that known devices ran.
    """

    measured: int
    new: Weighing
    known: Weighing


@dataclass(frozen=True)
class DeviceModel:
    """Attributes:
    basis: Of the process.
    covariates: Names, the rows of ``effects``.
    effects: (covariates, state) mean state by covariate.
    kinds: Kind of unit to what is learned of it.
    platforms: The pool's; their networks are indices into the known ones.
    states: (platforms, state) their posterior means.
    arbitration: Kind of unit to its arbitrations, by rising number of measured networks.
    signature: Small networks that tell much of a device, the most telling first.
    known_places: (networks, places) of the networks that the pool's platforms ran.
    known_terms, known_basis: (networks, ...) of the same, as in :class:`DescribedNetworks`; empty where platforms' latencies
        are not to count beside their states.
    known_offsets: Kind of unit, or kind, runtime and precision, to (networks,) by how much its platforms' latencies deviate from
        what their states say, as a logarithm: of a kind in all, of the others from their kind.
    explained: Kind of unit to the part of the noise's variance that these explain.
    """

    basis: ProcessBasis
    covariates: tuple[str, ...]
    effects: np.ndarray
    kinds: Mapping[str, Kind]
    platforms: tuple[KnownPlatform, ...] = ()
    states: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    arbitration: Mapping[str, tuple[Arbitration, ...]] = field(default_factory=dict)
    signature: tuple[Reference, ...] = ()
    known_places: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    known_offsets: Mapping[str, np.ndarray] = field(default_factory=dict)
    explained: Mapping[str, float] = field(default_factory=dict)
    known_terms: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    known_basis: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))

    @cached_property
    def rows_of_kind(self) -> Mapping[str, np.ndarray]:
        """Rows of ``states`` by kind of unit."""
        return {kind: np.array([i for i, each in enumerate(self.platforms) if each.kind == kind], dtype=int) for kind in KINDS}

    @cached_property
    def rows_log_ms(self) -> Mapping[str, np.ndarray]:
        """(platforms, known networks) logarithms of latencies by kind of unit: measured, or what the platform's state says."""
        return {kind: complete_rows(self, kind) for kind, places in self.rows_of_kind.items() if len(places)}

    def rows_under(self, kind: str, covariates: Mapping[str, float]) -> Rows:
        """Return :func:`latcast.devices.known_rows.rows_as_under`, worked out once for runtimes of which the same is stated."""
        key = kind, stated_prices(covariates)
        if key not in self._rows_under:
            self._rows_under[key] = rows_as_under(self, kind, covariates)
        return self._rows_under[key]

    @cached_property
    def _rows_under(self) -> dict[tuple[str, tuple[Stated | None, ...]], Rows]:
        return {}

    @cached_property
    def ran(self) -> Mapping[str, np.ndarray]:
        """(platforms, known networks) whether each platform of a kind of unit ran each network, by any name."""
        same = self.same_network
        return {
            kind: np.array([np.isin(same, same[self.platforms[place].networks]) for place in places])
            for kind, places in self.rows_of_kind.items()
            if len(places)
        }

    @cached_property
    def same_network(self) -> np.ndarray:
        """(known networks,) the first of those that hardly differ: one network, by whatever names and for whatever classes."""
        count = len(self.known_places)
        square = squares_apart(self.known_places, self.known_places) if count else np.zeros((0, 0))
        first = np.full(count, -1)
        for row in range(count):
            if first[row] < 0:
                first[(square[row] < HARDLY_APART**2) & (first < 0)] = row
        return first

    def described(self, networks: NetworkFeatures) -> DescribedNetworks:
        """Place networks on the basis."""
        return DescribedNetworks(networks.terms, *self.basis.of_networks(networks), networks.totals, networks.place)

    def memory(self, kind: str, covariates: Mapping[str, float]) -> NetworkMemory:
        """Return what is known of networks on platforms of this kind."""
        if kind not in self.known_offsets:
            return NO_MEMORY
        special = self.known_offsets.get(group_of(kind, covariates))
        offsets = self.known_offsets[kind] if special is None else self.known_offsets[kind] + special
        of_same = np.bincount(self.same_network, offsets) / np.maximum(np.bincount(self.same_network, offsets != 0), 1)
        offsets = np.where(offsets != 0, offsets, of_same[self.same_network])
        ran = self.ran_by_design.get((kind, design_of(covariates)), np.zeros(len(self.known_places), dtype=bool))
        return NetworkMemory(self.known_places, offsets, self.explained.get(kind, 0.0), ran)

    @cached_property
    def ran_by_design(self) -> Mapping[tuple[str, frozenset[str]], np.ndarray]:
        """(known networks,) which networks platforms ran, by kind of unit and design of NPU."""
        found: dict[tuple[str, frozenset[str]], np.ndarray] = {}
        for kind, rows in self.ran.items():
            for place, ran in zip(self.rows_of_kind[kind], rows, strict=True):
                key = kind, design_of(self.platforms[place].covariates)
                found[key] = found.get(key, False) | ran
        return found

    def mean(self, covariates: Mapping[str, float]) -> np.ndarray:
        """Return the mean state, (state,), of a platform with these covariates; unknown ones count as 0.

        Without any fact of its chip they are those of the pool's chips on average.
        """
        found = np.array([covariates.get(name, 0.0) for name in self.covariates])
        kind = next((kind for kind in KINDS if f"kind {kind}" in covariates), "")
        if kind and not any(is_fact(name, kind) for name in covariates):
            found += self._usual_facts[kind]
        return found @ self.effects

    @cached_property
    def _usual_facts(self) -> Mapping[str, np.ndarray]:
        """(covariates,) mean facts of the chips by kind of unit, each counting once; 0 of other covariates."""
        usual = {}
        for kind, rows in self.rows_of_kind.items():
            chips = {self.platforms[row].silicon: self.platforms[row].covariates for row in rows}
            means = [
                np.mean([chip.get(name, 0.0) for chip in chips.values()]) if chips and is_fact(name, kind) else 0.0
                for name in self.covariates
            ]
            usual[kind] = np.array(means)
        return usual

    def prior(self, kind: str, covariates: Mapping[str, float]) -> Prior:
        """Return the learned prior."""
        found = self.kinds[kind]
        return priced_alike(Prior(self.mean(covariates), self.with_process(found.covariance, found), found.noise), covariates)

    def with_process(self, covariance: np.ndarray, kind: Kind) -> np.ndarray:
        """Return the covariance, (state, state), from that of coefficients and the process's variance."""
        whole = np.diag(self.process_variance(kind))
        whole[:TERM_COUNT, :TERM_COUNT] = covariance
        return whole

    def process_variance(self, kind: Kind) -> np.ndarray:
        """Return the variance of the process, (state,); 0 for coefficients."""
        variance = np.zeros(TERM_COUNT + self.basis.size)
        variance[TERM_COUNT:] = kind.kernel_scale**2
        variance[TERM_COUNT : TERM_COUNT + self.basis.network_size] = kind.network_scale**2
        return variance

    def candidates(
        self, kind: str, covariates: Mapping[str, float], seen: DescribedNetworks, log_ms: np.ndarray, silicon: str = ""
    ) -> list[Candidate]:
        """Return every member's posterior, and how well it predicts each measured network from the others."""
        learned = self.kinds[kind]
        memory = self.memory(kind, covariates)
        offset, known = memory.recalled(seen.place)
        by_rows = row_members(self, kind, covariates, seen, log_ms, silicon)
        log_ms = log_ms - offset
        observed = seen.observed(learned, log_ms, known * memory.explained)
        priors = {name: make(self, kind, covariates) for name, make in MEMBERS.items()}
        found = [Candidate.of(name, prior, posterior(prior, observed)) for name, prior in priors.items()]
        if len(log_ms):
            found.append(unmeasured(self.prior(kind, covariates), observed))
            found += regressions(kind, covariates, seen.totals, seen.terms, log_ms, self.basis.size)
        return found + by_rows

    def forecast(
        self, kind: str, covariates: Mapping[str, float], seen: DescribedNetworks, log_ms: np.ndarray, silicon: str = ""
    ) -> DeviceForecast:
        """Forecast a device after some latencies.

        Args:
            kind: Of its unit.
            covariates: See :func:`latcast.devices.covariates.covariates_of`.
            seen: The measured networks; none for an unmeasured device.
            log_ms: (networks,) logarithms of their latencies.
            silicon: Its chip, by the name that twins share; platforms of the same are the nearest ones.
        """
        found = self.arbitrated(kind, covariates, self.candidates(kind, covariates, seen, log_ms, silicon), len(log_ms))
        return replace(found, memory=found.memory.with_measured(seen.place, log_ms))

    def arbitrated(
        self, kind: str, covariates: Mapping[str, float], candidates: Sequence[Candidate], measured: int,
        least_weight: float = LEAST_WEIGHT,
    ) -> DeviceForecast:  # fmt: skip
        """Weigh the members by their weights in the pool, and by how well they predict measured networks.

        Those below ``least_weight`` are left out.
        """
        given = self.arbitration_of(kind, measured)
        names, scores = [each.name for each in candidates], np.array([each.score for each in candidates])
        weights = np.stack([member_weights(names, scores, each) for each in (given.new, given.known)], axis=1)
        kept = np.flatnonzero((weights > least_weight).any(axis=1))
        weights = weights / weights[kept].sum(axis=0)
        members = []
        for row in kept.tolist():
            each, (new, known_weight) = candidates[row], weights[row].tolist()
            members.append(Member(each.name, new, known_weight, each.mean, each.covariance, each.noise, each.scale, each.own))
        learned = self.kinds[kind]
        return DeviceForecast(
            self.basis, learned.network_scale, learned.kernel_scale, tuple(members), (given.new[2:], given.known[2:]), measured,
            self.memory(kind, covariates),
        )  # fmt: skip

    def arbitration_of(self, kind: str, measured: int) -> Arbitration:
        """Return the arbitration of a kind of unit with so many measured networks."""
        return arbitration_at(self.arbitration.get(kind, ()), measured)


TEMPER = 0.5

UNLEARNED = Weighing({}, TEMPER, 1.0, 1.0)
"""Where nothing was learned: all members alike."""


def arbitration_at(known: Sequence[Arbitration], measured: int) -> Arbitration:
    """Interpolate arbitrations between the nearest numbers of measured networks, by the logarithm."""
    if not known:
        return Arbitration(measured, UNLEARNED, UNLEARNED)
    above = next((index for index, each in enumerate(known) if each.measured >= measured), len(known) - 1)
    last = known[above]
    if above == 0 or last.measured <= measured:
        return last._replace(measured=measured)
    first = known[above - 1]
    part = float(np.log((measured + 0.5) / (first.measured + 0.5)) / np.log((last.measured + 0.5) / (first.measured + 0.5)))
    return Arbitration(measured, _between(first.new, last.new, part), _between(first.known, last.known, part))


def _between(first: Weighing, last: Weighing, part: float) -> Weighing:
    def mixed(a: float, b: float) -> float:
        return (1 - part) * a + part * b

    names = {*first.weights, *last.weights}
    weights = {name: mixed(first.weights.get(name, 0.0), last.weights.get(name, 0.0)) for name in names}
    numbers = [mixed(a, b) for a, b in zip(first[1:], last[1:], strict=True)]
    return Weighing(weights, *numbers)


def member_weights(names: Sequence[str], scores: np.ndarray, given: Weighing) -> np.ndarray:
    """Return members' weights, (members,): weight in the pool times the evidence of the measured networks."""
    prior = given.weights
    score = given.temper * scores + np.log([max(prior.get(name, 0.0 if prior else 1.0), 1e-6) for name in names])
    weights = np.exp(score - score.max())
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True)
class DescribedNetworks:
    """Networks on a model's basis.

    Attributes:
        terms: (networks, terms).
        basis: (networks, basis).
        network_open, kernel_open: (networks,) what the basis leaves open of each part of the process, of variance 1.
        totals: (networks, 3) as in :class:`latcast.predictors.network_features.NetworkFeatures`.
        place: (networks, places) as there.
    """

    terms: np.ndarray
    basis: np.ndarray
    network_open: np.ndarray
    kernel_open: np.ndarray
    totals: np.ndarray
    place: np.ndarray

    def rows(self, chosen: np.ndarray) -> DescribedNetworks:
        """Return some of the networks."""
        arrays = (self.terms, self.basis, self.network_open, self.kernel_open, self.totals, self.place)
        return DescribedNetworks(*(array[chosen] for array in arrays))

    def novelty(self, kind: Kind) -> np.ndarray:
        """Return the variance of the process that the basis leaves open, (networks,)."""
        return kind.network_scale**2 * self.network_open + kind.kernel_scale**2 * self.kernel_open

    def log_ms(self, forecast: DeviceForecast) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and calibrated deviation of the logarithms of their latencies on a device, each (networks,)."""
        nearest = forecast.memory.nearest(self.place)
        return forecast.of_placed(
            PlacedNetworks(self.terms, self.basis, self.network_open, self.kernel_open, self.place, *nearest)
        )

    def observed(self, kind: Kind, log_ms: np.ndarray, explained: np.ndarray | float = 0.0) -> Observed:
        """Add measured latencies; ``explained`` is the part of the noise's variance that is gone."""
        return Observed(self.terms, self.basis, self.novelty(kind) - kind.noise**2 * explained, log_ms)
