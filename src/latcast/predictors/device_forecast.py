"""Latencies of networks on a device known by few measurements: several posteriors, weighed by how well each explains them.

What a bundle of such a device holds. How the members come about is in :mod:`latcast.devices.members`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from latcast.kernels.kernel import KernelTable
from latcast.predictors.analytical import POOLED, TERMS, AnalyticalTerms
from latcast.predictors.intervals import LEVEL_DEVIATIONS, WIDEST
from latcast.predictors.network_features import (
    ADDED,
    BASE_TERMS,
    KERNEL_GROUPS,
    TERM_NAMES,
    TERM_UNITS,
    KernelFeatures,
    NetworkFeatures,
    network_place,
    network_terms,
    term_places,
)
from latcast.predictors.network_memory import NO_MEMORY, NearestMeasured, NetworkMemory, carried, variance_left
from latcast.predictors.platform_posterior import linearised, quadratic
from latcast.predictors.process_basis import ProcessBasis

NOVEL = 0.9
"""Part of a kernel's variance unexplained by known kernels, from which on it is not covered."""

LARGEST_DEVIATION = math.log(WIDEST) / (2 * LEVEL_DEVIATIONS)
"""Deviation of a logarithm whose interval is as wide as any."""


@dataclass(frozen=True)
class Member:
    """A posterior over the states of one device.

    Attributes:
        name: What it assumes ("learned", "tied", "likeness"...).
        weight: Its part in forecasts of networks that no known device ran; those of all members add up to 1.
        known_weight: The same for networks that known devices ran.
        mean: (terms + basis,) state.
        covariance: (terms + basis, terms + basis).
        noise: Standard deviation of a logarithm that it does not explain.
        scale: Factor on its variances.
        own: (known networks,) what it adds to the offsets of the memory; None where it adds nothing.
    """

    name: str
    weight: float
    known_weight: float
    mean: np.ndarray
    covariance: np.ndarray
    noise: float
    scale: float
    own: np.ndarray | None = None


class State(Protocol):
    """A Gaussian belief about a platform; see :class:`Member`."""

    @property
    def mean(self) -> np.ndarray: ...

    @property
    def covariance(self) -> np.ndarray: ...

    @property
    def noise(self) -> float: ...

    @property
    def scale(self) -> float: ...

    @property
    def own(self) -> np.ndarray | None: ...


def by_member(
    members: Sequence[State], terms: np.ndarray, basis: np.ndarray, novelty: np.ndarray, explained: np.ndarray,
    recalled: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Return each member's mean logarithms, the variance of what is unknown, and that of the noise.

    Args:
        members: Posteriors.
        terms, basis, novelty: (networks, ...) see :class:`latcast.predictors.platform_posterior.Observed`.
        explained: (networks,) part of the noise's variance that is gone.
        recalled: The known network nearest to each, and how far they are alike; see :meth:`NetworkMemory.nearest`.

    Returns:
        Three arrays (members, networks).
    """
    log_ms, opened = np.zeros((2, len(members), len(terms)))
    for row, member in enumerate(members):
        log_ms[row], design = linearised(member.mean, terms, basis)
        if member.own is not None:
            log_ms[row] += recalled[1] * member.own[recalled[0]]
        opened[row] = (quadratic(design, member.covariance) + novelty) * member.scale
    noise = np.array([member.noise**2 * member.scale for member in members])[:, None] * (1 - explained)
    return log_ms, opened, noise


FARTHEST_ABOVE = 0.3
"""Logarithm by which a member counts at most above the median member."""


def pooled(
    weights: np.ndarray,
    factors: tuple[tuple[float, float], tuple[float, float]],
    known: np.ndarray,
    log_ms: np.ndarray,
    open_variance: np.ndarray,
    noise_variance: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and calibrated variance of the members' logarithms, each (networks,).

    A member far above the weighted median counts as :data:`FARTHEST_ABOVE` above it: a coefficient that little was measured of is
    now and then far too large, while too small it costs at most the whole latency.

    Args:
        weights: (members, 2) of networks that no known device ran, and of the others.
        factors: The same for the variances; see :class:`DeviceForecast`.
        known: (networks,) 0 for the first, 1 for the others.
        log_ms, open_variance, noise_variance: (members, networks).
    """
    weight, mean, apart = mixture(weights, known, log_ms)
    opened = (weight * (open_variance + apart**2)).sum(axis=0)
    noise = (weight * noise_variance).sum(axis=0)
    open_factor, noise_factor = variance_factors(factors, known)
    return mean, open_factor * opened + noise_factor * noise


def mixture(weights: np.ndarray, known: np.ndarray, log_ms: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the members' weights, (members, networks), their mean, (networks,), and their distances from it.

    Args:
        weights, known, log_ms: As for :func:`pooled`.
    """
    weight = weights[:, :1] * (1 - known) + weights[:, 1:] * known
    order = np.argsort(log_ms, axis=0, kind="stable")
    half = (np.cumsum(np.take_along_axis(weight, order, axis=0), axis=0) >= 0.5).argmax(axis=0)
    median = np.take_along_axis(log_ms, np.take_along_axis(order, half[None], axis=0), axis=0)
    held = np.minimum(log_ms, median + FARTHEST_ABOVE)
    mean = (weight * held).sum(axis=0)
    return weight, mean, held - mean


def variance_factors(
    factors: tuple[tuple[float, float], tuple[float, float]], known: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the factors on the variance of the unknown and on that of the noise, each (networks,)."""
    (new_open, new_noise), (known_open, known_noise) = factors
    return new_open * (1 - known) + known_open * known, new_noise * (1 - known) + known_noise * known


MEASURED_DEVIATION = 0.03
"""Deviation of the logarithm of a latency that is measured again on the same platform."""


class PlacedNetworks(NamedTuple):
    """Networks on a basis and in a memory: the same for all devices that share both.

    Attributes:
        terms, basis: See :class:`latcast.predictors.platform_posterior.Observed`.
        network_open, kernel_open: (networks,) what the basis leaves open of each part of the process, of variance 1.
        place: (networks, places) see :func:`latcast.predictors.network_features.network_place`.
        nearest, alike: See :meth:`NetworkMemory.nearest`.
    """

    terms: np.ndarray
    basis: np.ndarray
    network_open: np.ndarray
    kernel_open: np.ndarray
    place: np.ndarray
    nearest: np.ndarray
    alike: np.ndarray


@dataclass(frozen=True)
class DeviceForecast:
    """The measured networks and the facts of a device.

    Attributes:
        basis: Of the process.
        network_scale, kernel_scale: Standard deviations of its two parts.
        members: The posteriors.
        factors: On the variance of what is not known (parameters, process, disagreement of members) and on that of the noise; of
            networks that no known device ran, and of the others: (2, 2).
        measured: Networks that it was learned from.
        memory: Networks that known devices ran.
    """

    basis: ProcessBasis
    network_scale: float
    kernel_scale: float
    members: tuple[Member, ...]
    factors: tuple[tuple[float, float], tuple[float, float]] = ((1.0, 1.0), (1.0, 1.0))
    measured: int = 0
    memory: NetworkMemory = NO_MEMORY

    def sums(self, networks: NetworkFeatures) -> np.ndarray:
        """Return the quantities that add up over a network's kernels and decide its forecast, (networks, columns)."""
        return np.hstack([networks.sums, self.basis.kernel_sums(networks)])

    def of_sums(self, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and calibrated deviation of the logarithms of latencies, each (networks,), from :meth:`sums`."""
        return self.of_placed(self.placed(sums))

    def placed(self, sums: np.ndarray) -> PlacedNetworks:
        """Return the networks on this device's basis and in its memory, from :meth:`sums`."""
        own = sums[:, :ADDED]
        place = network_place(own)
        return PlacedNetworks(network_terms(own), *self.basis.of_sums(own, sums[:, ADDED:]), place, *self.memory.nearest(place))

    def of_placed(self, networks: PlacedNetworks, own: NearestMeasured | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return :meth:`of_sums` of networks placed by a device with the same basis and memory.

        Those that the device itself ran take what was measured.

        Args:
            networks: From :meth:`placed`.
            own: From :meth:`NetworkMemory.nearest_measured`, where it is known already.
        """
        own = own or self.memory.nearest_measured(networks.place)
        nearest = networks.nearest, networks.alike
        known = self.memory.known(*nearest)
        log_ms, deviation = self.of_described(networks.terms, networks.basis, self.novelty(networks), known, nearest)
        log_ms += self.memory.recalled_of(*nearest)[0] + carried(own.residual, known, own.near)
        deviation *= np.sqrt(variance_left(own.near))
        deviation = np.minimum(np.hypot(deviation, self.memory.beyond(log_ms)), LARGEST_DEVIATION)
        ran = own.measured_ms > 0
        log_ms[ran], deviation[ran] = np.log(own.measured_ms[ran]), MEASURED_DEVIATION
        return log_ms, deviation

    def novelty(self, networks: PlacedNetworks) -> np.ndarray:
        """Return the variance of the process that the basis leaves open, (networks,)."""
        return self.network_scale**2 * networks.network_open + self.kernel_scale**2 * networks.kernel_open

    def on_table(self, table: KernelTable) -> TableOnDevices:
        """Return a table's networks as devices known by few measurements see them."""
        return TableOnDevices(table)

    def features_of(self, configurations: Mapping[str, np.ndarray]) -> KernelFeatures:
        """Return the features of distinct kernels, types one after another."""
        nowhere = np.zeros(0, dtype=np.int64)
        return KernelFeatures.of(KernelTable(configurations, nowhere, nowhere, 0))

    def kernel_ms(self, kernels: KernelFeatures) -> np.ndarray:
        """Return the latency of kernels by the members' mean coefficients, (kernels,)."""
        return np.asarray(kernels.terms @ np.exp(self.coefficients))

    def limit_ms(self, kernels: KernelFeatures) -> np.ndarray:
        """Return the parts of :meth:`kernel_ms` for arithmetic, for what is moved, and for being started, (kernels, 3)."""
        term_ms = kernels.terms * np.exp(self.coefficients)
        parts = [term_ms[:, np.isin(BASE_TERMS, base)].sum(axis=1) for base in ((0,), (1, 2), (3, 4))]
        return np.stack(parts, axis=1)

    def kernel_novelty(self, kernels: KernelFeatures) -> np.ndarray:
        """Return 0 for kernels similar to ones that known devices ran, 1 for others, (kernels,)."""
        return self.basis.of_kernels(kernels.group, kernels.sizes)[1]

    def of_described(
        self, terms: np.ndarray, basis: np.ndarray, novelty: np.ndarray, known: np.ndarray,
        nearest: tuple[np.ndarray, np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """Return mean and deviation of logarithms, each (networks,), without the offsets of the memory.

        Args:
            terms, basis: See :class:`latcast.predictors.platform_posterior.Observed`.
            novelty: (networks,) see :meth:`novelty`.
            known: (networks,) from :meth:`NetworkMemory.known`.
            nearest: From :meth:`NetworkMemory.nearest`.
        """
        explained = self.memory.recalled_of(*nearest)[1] * self.memory.explained
        members = by_member(self.members, terms, basis, novelty, explained, nearest)
        weights = np.array([[member.weight, member.known_weight] for member in self.members])
        log_ms, variance = pooled(weights, self.factors, known, *members)
        return log_ms, np.minimum(np.sqrt(variance), LARGEST_DEVIATION)

    def covariance_of_sums(self, sums: np.ndarray, alike: np.ndarray) -> np.ndarray:
        """Return the covariances of the logarithms of latencies, (networks, networks).

        Networks share what the members' states and their disagreement make of both, and of what these leave open (noise, and the
        process beyond its basis) as much as their kernels are alike.

        Args:
            sums: (networks, columns) from :meth:`sums`.
            alike: (networks, networks) correlation of what the states leave open.
        """
        networks = self.placed(sums)
        novelty = np.sqrt(self.novelty(networks))
        known = self.memory.known(networks.nearest, networks.alike)
        own_networks = self.memory.nearest_measured(networks.place)
        left = np.sqrt(1 - self.memory.recalled_of(networks.nearest, networks.alike)[1] * self.memory.explained)
        states = [linearised(member.mean, networks.terms, networks.basis) for member in self.members]
        log_ms = np.array([mean for mean, _ in states])
        for row, member in enumerate(self.members):
            if member.own is not None:
                log_ms[row] += networks.alike * member.own[networks.nearest]
        weights = np.array([[member.weight, member.known_weight] for member in self.members])
        weight, mean, apart = mixture(weights, known, log_ms)
        opened, noise = np.zeros_like(alike), np.zeros_like(alike)
        for member, (_, design), own, away in zip(self.members, states, np.sqrt(weight), apart, strict=True):
            state = design @ member.covariance @ design.T + alike * np.outer(novelty, novelty)
            opened += np.outer(own, own) * (member.scale * state + np.outer(away, away))
            noise += np.outer(own, own) * (member.scale * member.noise**2 * alike * np.outer(left, left))
        open_factor, noise_factor = (np.sqrt(factor) for factor in variance_factors(self.factors, known))
        found = opened * np.outer(open_factor, open_factor) + noise * np.outer(noise_factor, noise_factor)
        of_own = np.sqrt(variance_left(own_networks.near))
        found *= np.outer(of_own, of_own)
        beyond = self.memory.beyond(mean + self.memory.recalled_of(networks.nearest, networks.alike)[0])
        found += np.outer(beyond, beyond)
        ran = own_networks.measured_ms > 0
        found[ran], found[:, ran] = 0.0, 0.0
        return found + np.diag(np.where(ran, MEASURED_DEVIATION**2, 0.0))

    @cached_property
    def weights(self) -> np.ndarray:
        """(members,) for networks that no known device ran."""
        return np.array([member.weight for member in self.members])

    @cached_property
    def coefficients(self) -> np.ndarray:
        """(terms,) mean logarithms of the coefficients."""
        return self.weights @ np.array([member.mean[: len(TERM_NAMES)] for member in self.members])

    @cached_property
    def coefficient_deviation(self) -> np.ndarray:
        """(terms,) standard deviations of the logarithms of the coefficients, disagreement of the members included."""
        count = len(TERM_NAMES)
        means = np.array([member.mean[:count] for member in self.members])
        variance = np.array([member.scale * np.diag(member.covariance)[:count] for member in self.members])
        return np.sqrt(self.weights @ (variance + (means - self.coefficients) ** 2))

    @property
    def sum_columns(self) -> int:
        """Columns of :meth:`sums`."""
        return ADDED + int(self.basis.size_root.shape[1]) + 2

    @property
    def constant_ms(self) -> float:
        """Latency of any network, whatever its kernels."""
        return float(TERM_UNITS[-1] * np.exp(self.coefficients[-1]))

    def analytical(self) -> AnalyticalTerms:
        """Return the mean coefficients by group of kernels, and over all groups."""
        unit_ms = TERM_UNITS * np.exp(self.coefficients)
        found: dict[str, np.ndarray] = {}
        for group in KERNEL_GROUPS:
            found[group] = np.array([unit_ms[place] if place >= 0 else 0.0 for place in term_places(group)])
        pooled = [np.exp(np.log(unit_ms[base == BASE_TERMS]).mean()) for base in range(len(TERMS))]
        return AnalyticalTerms({POOLED: np.array(pooled), **found})

    def arrays(self) -> dict[str, np.ndarray]:
        """Return single-precision arrays; symmetric covariances as their lower halves."""
        size = len(self.members[0].mean)
        lower = np.tril_indices(size)
        members = {
            "member.mean": np.array([member.mean for member in self.members]),
            "member.covariance": np.array([member.covariance[lower] for member in self.members]),
            "member.numbers": np.array([[each.weight, each.known_weight, each.noise, each.scale] for each in self.members]),
            "numbers": np.array([self.network_scale, self.kernel_scale, *self.factors[0], *self.factors[1], self.measured]),
        }
        memory = {
            "memory.places": self.memory.places, "memory.offsets": self.memory.offsets,
            "memory.explained": np.array([self.memory.explained]), "memory.ran": self.memory.ran,
        }  # fmt: skip
        if len(self.memory.measured_ms):
            names = ("places", "ms", "residual")
            memory |= {f"measured.{name}": getattr(self.memory, f"measured_{name}") for name in names}
        memory |= {f"member.own.{row}": each.own for row, each in enumerate(self.members) if each.own is not None}
        return {name: array.astype(np.float32) for name, array in (self.basis.arrays() | members | memory).items()}

    @property
    def member_names(self) -> tuple[str, ...]:
        return tuple(member.name for member in self.members)

    @classmethod
    def from_arrays(cls, names: tuple[str, ...], arrays: Mapping[str, np.ndarray]) -> DeviceForecast:
        """Rebuild a forecast from :meth:`arrays` and :attr:`member_names`.

        Raises:
            ValueError: The arrays do not belong together.
        """
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("found a number that is not finite")
        found = {name: np.asarray(array, dtype=np.float64) for name, array in arrays.items()}
        basis = ProcessBasis.from_arrays(found)
        size = len(TERM_NAMES) + basis.size
        means, halves, numbers = found["member.mean"], found["member.covariance"], found["member.numbers"]
        count = len(names)
        expected = ((count, size), (count, size * (size + 1) // 2), (count, 4))
        if not count or (means.shape, halves.shape, numbers.shape) != expected or found["numbers"].shape != (7,):
            raise ValueError(f"found members of shapes {means.shape}, {halves.shape}, {numbers.shape}, expected {expected}")
        lower = np.tril_indices(size)
        members = []
        for place, name in enumerate(names):
            covariance = np.zeros((size, size))
            covariance[lower] = halves[place]
            covariance += np.tril(covariance, -1).T
            weight, known_weight, noise, scale = numbers[place].tolist()
            own = found.get(f"member.own.{place}")
            members.append(Member(name, weight, known_weight, means[place], covariance, noise, scale, own))
        network_scale, kernel_scale, *four, measured = found["numbers"].tolist()
        factors = ((four[0], four[1]), (four[2], four[3]))
        offsets = found["memory.offsets"]
        ran = found["memory.ran"] > 0
        memory = NetworkMemory(found["memory.places"], offsets, float(found["memory.explained"][0]), ran)
        if "measured.ms" in found:
            residual = found.get("measured.residual", np.zeros_like(found["measured.ms"]))
            memory = replace(
                memory, measured_places=found["measured.places"], measured_ms=found["measured.ms"], measured_residual=residual
            )
            shapes = memory.measured_places.shape, memory.measured_ms.shape, residual.shape
            count = len(memory.measured_places)
            if shapes != ((count, basis.places.shape[1]), (count,), (count,)):
                raise ValueError(f"found places and latencies of measured networks of the shapes {shapes}")
        if (len(offsets) and memory.places.shape != (len(offsets), basis.places.shape[1])) or ran.shape != offsets.shape:
            raise ValueError(f"found places of shape {memory.places.shape} for {len(offsets)} known networks")
        if any(each.own is not None and each.own.shape != memory.offsets.shape for each in members):
            raise ValueError(f"found a member's rows of another shape than {memory.offsets.shape}")
        return cls(basis, network_scale, kernel_scale, tuple(members), factors, int(measured), memory)


class TableOnDevices:
    """A table's networks as devices known by few measurements see them; what devices share is worked out once."""

    def __init__(self, table: KernelTable) -> None:
        self.table = table
        self.features = NetworkFeatures.of_table(table)
        self._seen: dict[tuple[int, int], tuple[DeviceForecast, _Seen]] = {}

    def seen_by(self, device: DeviceForecast) -> _Seen:
        """Return the sums of :meth:`DeviceForecast.sums`, the networks placed, and which kernels are covered."""
        key = (id(device.basis), id(device.memory.places))
        if key not in self._seen:
            sums = device.sums(self.features)
            covered = device.kernel_novelty(self.features.kernels) < NOVEL
            # With the device, so that none of another basis takes its address.
            self._seen[key] = (device, _Seen(sums, device.placed(sums), covered))
        return self._seen[key][1]


class _Seen(NamedTuple):
    sums: np.ndarray
    placed: PlacedNetworks
    covered: np.ndarray
