"""Prior mean of a network's latency before any device ran it, and covariance of two networks.

A network's typical latency is the sum over its kernels of analytical terms (:mod:`latcast.predictors.analytical`), with
coefficients fitted to the networks at hand. A device's deviation from it is the sum over the kernels of how much
faster or slower they run than their terms say, each weighted by the share of the network's latency that the kernel has. So
two networks covary as far as their latencies rest on kernels whose efficiencies do
(:mod:`latcast.devices.kernel_covariance`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from latcast.devices.kernel_covariance import CovarianceScales, KernelTraits, kernel_covariance
from latcast.errors import TrainingError
from latcast.kernels.kernel import Kernel, KernelTable
from latcast.kernels.types import kernel_type
from latcast.predictors.analytical import TERMS, fit_nonnegative, term_values

STRENGTH = 0.1
"""How strongly a class's coefficients are drawn to those of all classes. With a dozen classes of four coefficients for a
hundred networks, a free fit would explain its own networks and leave nothing to learn efficiencies from."""

MINOR_SHARE = 0.15
"""A class that never has this part of a known network's latency is a minor one. Its coefficients rest on little: those of the
tiny sigmoids of channel attention take up what other classes leave, and would estimate a large one a thousand times too high."""

POOLED = ""
"""The class for kernels whose own class no known network has."""


class Described(Protocol):
    """Networks in the form that a :class:`NetworkPrior` works on."""

    @property
    def mean(self) -> np.ndarray:
        """(networks,) logarithm of the typical latency, up to a constant."""


class NetworkPrior(Protocol):
    """Typical latencies of networks, and the covariance of their deviations from one device to another."""

    def describe(self, networks: Sequence[Any]) -> Described:
        """Any networks, known or not."""

    def covariance(self, first: Any, second: Any) -> np.ndarray:
        """(networks of the first, networks of the second)."""

    def variance(self, described: Any) -> np.ndarray:
        """(networks,) the diagonal of the covariance of networks with themselves."""


class NetworkPriorFit(Protocol):
    """How a network model is learned."""

    def __call__(self, networks: Sequence[Any], pattern: np.ndarray) -> NetworkPrior:
        """Args:
        networks: The known networks.
        pattern: (networks,) logarithm of their latencies on a typical device, up to a constant.
        """


@dataclass(frozen=True)
class KernelShares:
    """Attributes:
    mean: (networks,) logarithm of the typical latency.
    shares: (networks, distinct kernels) part of the typical latency that each kernel has.
    traits: Of the distinct kernels.
    """

    mean: np.ndarray
    shares: np.ndarray
    traits: KernelTraits


@dataclass(frozen=True)
class LayerShareModel:
    """Networks as shares of their typical latency over kernels.

    Attributes:
        coefficients: Analytical class (alignment left out) to (terms,); :data:`POOLED` is always there.
        overhead: Constant beside the kernels.
        scales: Of the kernels' covariance.
        largest: Minor class (:data:`MINOR_SHARE`) to the largest of each term that a known kernel of it has, (terms,). What a
            kernel has beyond that costs no more than in all classes together.
    """

    coefficients: Mapping[str, np.ndarray]
    overhead: float
    scales: CovarianceScales = field(default_factory=CovarianceScales)
    largest: Mapping[str, np.ndarray] = field(default_factory=dict)

    def describe(self, networks: Sequence[Sequence[Kernel]]) -> KernelShares:
        """Networks by their kernels."""
        table = KernelTable.of(networks)
        traits = KernelTraits.of(table)
        pooled = self.coefficients[POOLED]
        coefficients = np.array([self.coefficients.get(name, pooled) for name in traits.classes]).reshape(-1, len(TERMS))
        terms, none = _terms(table), np.full(len(TERMS), np.inf)
        known = np.minimum(terms, np.array([self.largest.get(name, none) for name in traits.classes]).reshape(-1, len(TERMS)))
        latency = np.maximum((known * coefficients + (terms - known) * np.minimum(coefficients, pooled)).sum(axis=1), 1e-12)
        parts = _occurrences(table) * latency
        total = parts.sum(axis=1) + self.overhead
        return KernelShares(np.log(total), parts / total[:, None], traits)

    def covariance(self, first: KernelShares, second: KernelShares) -> np.ndarray:
        return first.shares @ kernel_covariance(first.traits, second.traits, self.scales) @ second.shares.T

    def variance(self, described: KernelShares) -> np.ndarray:
        spread = described.shares @ kernel_covariance(described.traits, described.traits, self.scales)
        return (spread * described.shares).sum(axis=1)


def _terms(table: KernelTable) -> np.ndarray:
    """(distinct kernels, terms)."""
    parts = [term_values(kernel_type(name), rows) for name, rows in table.configurations.items()]
    return np.concatenate(parts) if parts else np.zeros((0, len(TERMS)))


def _occurrences(table: KernelTable) -> np.ndarray:
    """(networks, distinct kernels) how often each occurs."""
    counts = np.zeros((table.networks, len(table.kernel_types)))
    np.add.at(counts, (table.network, table.kernel), 1.0)
    return counts


@dataclass(frozen=True)
class LayerShareFit:
    """Learns a :class:`LayerShareModel`.

    Attributes:
        scales: Of the kernels' covariance.
        strength: See :data:`STRENGTH`.
    """

    scales: CovarianceScales = field(default_factory=CovarianceScales)
    strength: float = STRENGTH

    def __call__(self, networks: Sequence[Sequence[Kernel]], pattern: np.ndarray) -> LayerShareModel:
        """See :class:`NetworkPriorFit`.

        Raises:
            TrainingError: A network has no kernel that costs anything.
        """
        table = KernelTable.of(networks)
        if not table.kernel_types or np.any(_occurrences(table).sum(axis=1) == 0):
            raise TrainingError("a network without kernels has no typical latency; expected networks with at least one operator")
        terms, traits = _terms(table), KernelTraits.of(table)
        latency = np.exp(pattern - pattern.mean())
        one = np.ones((table.networks, 1))
        pooled = fit_nonnegative(np.hstack([table.sum_by_network(terms), one]), latency, strength=1e-6)
        names = sorted(set(traits.classes))
        by_kernel = np.zeros((len(terms), len(names), len(TERMS)))
        by_kernel[np.arange(len(terms)), [names.index(name) for name in traits.classes]] = terms
        sums = table.sum_by_network(by_kernel.reshape(len(terms), -1))
        prior = np.concatenate([np.tile(pooled[:-1], len(names)), pooled[-1:]])
        fitted = fit_nonnegative(np.hstack([sums, one]), latency, prior, self.strength)
        coefficients = fitted[:-1].reshape(len(names), len(TERMS))
        shares = (sums.reshape(-1, len(names), len(TERMS)) * coefficients).sum(axis=2) / latency[:, None]
        largest = {
            name: terms[traits.classes == name].max(axis=0) for name, share in zip(names, shares.max(axis=0), strict=True)
            if share < MINOR_SHARE
        }  # fmt: skip
        by_class = dict(zip(names, coefficients, strict=True))
        return LayerShareModel({POOLED: pooled[:-1], **by_class}, float(fitted[-1]), self.scales, largest)


@dataclass(frozen=True)
class FeatureVectors:
    """Attributes:
    mean: (networks,) zeros: features alone do not say what is typical.
    values: (networks, features) standardised.
    """

    mean: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class FeatureModel:
    """Networks as vectors of numbers: a linear part, and nearness.

    For spaces of architectures whose members differ in few choices, where the choices themselves say more than sizes.

    Attributes:
        centre, scale: (features,) what features are standardised by; a scale of 0 leaves a feature out.
        linear: Weight of the linear part against the one of nearness.
        reach: Squared distance over which nearness falls off, in units of the networks' mean squared norm.
    """

    centre: np.ndarray
    scale: np.ndarray
    linear: float = 5.0
    reach: float = 1.0

    def describe(self, networks: Sequence[Sequence[float]]) -> FeatureVectors:
        values = (np.asarray(networks, dtype=np.float64) - self.centre) * self.scale
        return FeatureVectors(np.zeros(len(values)), np.clip(values, -4 * self._limit, 4 * self._limit))

    @property
    def _limit(self) -> float:
        return 1.0 / max(np.sqrt(np.count_nonzero(self.scale)), 1.0)

    def covariance(self, first: FeatureVectors, second: FeatureVectors) -> np.ndarray:
        a, b = first.values, second.values
        distance = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None] - 2 * a @ b.T
        return (self.linear * a @ b.T + np.exp(-np.maximum(distance, 0) / self.reach)) / (1 + self.linear)

    def variance(self, described: FeatureVectors) -> np.ndarray:
        return (self.linear * (described.values**2).sum(axis=1) + 1) / (1 + self.linear)


@dataclass(frozen=True)
class FeatureFit:
    """Learns a :class:`FeatureModel`: the mean and spread of each feature.

    Attributes:
        linear, reach: See :class:`FeatureModel`.
        fewest: Features that fewer known networks have are left out: nothing can be learned of them.
    """

    linear: float = 5.0
    reach: float = 1.0
    fewest: int = 4

    def __call__(self, networks: Sequence[Sequence[float]], pattern: np.ndarray) -> FeatureModel:
        """See :class:`NetworkPriorFit`; the pattern is not needed."""
        values = np.asarray(networks, dtype=np.float64)
        spread = values.std(axis=0)
        used = (spread > 0) & ((values > values.min(axis=0)).sum(axis=0) >= min(self.fewest, len(values) - 1))
        scale = np.where(used, 1 / np.where(spread > 0, spread, 1), 0.0) / np.sqrt(max(used.sum(), 1))
        return FeatureModel(values.mean(axis=0), scale, self.linear, self.reach)
