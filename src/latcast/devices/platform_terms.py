"""Latencies of kernels on many platforms of one kind: their analytical terms as arrays over the platforms.

Platforms that fuse alike run the same kernels. Each was learned from whole networks (:mod:`latcast.predictors.whole_networks`)
over the same kernels, so that what is computed of a network's kernels serves all of them at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from latcast.errors import TrainingError
from latcast.kernels.rules import FusionRules
from latcast.predictors.analytical import TERMS
from latcast.predictors.network_terms import NetworkTerms
from latcast.predictors.regressors.gaussian_process import SizeCovariance
from latcast.predictors.whole_networks import WholeNetworkFit, fit_whole_networks
from latcast.records import Platform

LEAST_MS = 1e-6
"""No network is estimated below this."""

MOST_FACTOR = 5.0
"""Logarithm that no kernel's factor goes beyond."""


@dataclass(frozen=True)
class TypeFactors:
    """The factors on one kernel type's analytical latencies, of several platforms.

    Attributes:
        covariance: How alike kernels of the type are.
        points: (points, sizes) sizes of kernels that some platform learned from.
        weights: (platforms, points).
    """

    covariance: SizeCovariance
    points: np.ndarray
    weights: np.ndarray

    def log_factors(self, sizes: np.ndarray) -> np.ndarray:
        """Logarithms of the factors, (kernels, platforms), from sizes, (kernels, sizes)."""
        return np.asarray(self.covariance.between(sizes, self.points) @ self.weights.T)


@dataclass(frozen=True)
class PlatformTerms:
    """The fitted terms of platforms that run the same kernels.

    Attributes:
        rules: By which kernels are found.
        platforms: Their ids.
        classes: Coarse kernel classes.
        coefficients: (platforms, classes + 1, len(TERMS)) milliseconds a unit; the last row is for classes that are not named.
        overhead_ms: (platforms,).
        factors: Kernel type to its factors.
    """

    rules: FusionRules
    platforms: tuple[str, ...]
    classes: tuple[str, ...]
    coefficients: np.ndarray
    overhead_ms: np.ndarray
    factors: Mapping[str, TypeFactors]

    def kernel_latency_ms(self, terms: NetworkTerms) -> np.ndarray:
        """Milliseconds of each distinct kernel, (kernels, platforms)."""
        place = {name: index for index, name in enumerate(self.classes)}
        class_of = np.array([place.get(name, len(place)) for name in terms.classes], dtype=np.int64)[terms.class_of]
        latency_ms = np.zeros((len(terms.values), len(self.platforms)))
        for term in range(len(TERMS)):
            latency_ms += terms.values[:, term, None] * self.coefficients[:, class_of, term].T
        for kernels in terms.types:
            known = self.factors.get(kernels.name)
            if known is not None and len(known.points):
                latency_ms[kernels.rows] *= np.exp(np.clip(known.log_factors(kernels.sizes), -MOST_FACTOR, MOST_FACTOR))
        return latency_ms

    def log_ms(self, terms: NetworkTerms) -> np.ndarray:
        """Logarithms of the networks' latencies in milliseconds, (platforms, networks)."""
        latency_ms = np.asarray(terms.counts @ self.kernel_latency_ms(terms)) + self.overhead_ms
        return np.log(np.maximum(latency_ms, LEAST_MS)).T

    def rows(self, indices: Sequence[int] | np.ndarray) -> PlatformTerms:
        """Some of the platforms."""
        chosen = np.asarray(indices, dtype=np.int64)
        return replace(
            self,
            platforms=tuple(self.platforms[index] for index in chosen),
            coefficients=self.coefficients[chosen],
            overhead_ms=self.overhead_ms[chosen],
            factors={name: replace(found, weights=found.weights[chosen]) for name, found in self.factors.items()},
        )


def learn_platforms(platforms: Sequence[str], rules: FusionRules, terms: NetworkTerms, latency_ms: np.ndarray) -> PlatformTerms:
    """Learns each platform from the whole networks measured on it.

    Args:
        platforms: Ids of platforms that run by the same rules.
        rules: Those rules.
        terms: The networks' kernels under them.
        latency_ms: (platforms, networks), NaN where not measured.

    Raises:
        TrainingError: A platform has no measured network.
    """
    learned = []
    for name, row in zip(platforms, latency_ms, strict=True):
        measured = np.flatnonzero(~np.isnan(row))
        if not len(measured):
            raise TrainingError(f"{name}: found no measured network whose kernels are known; expected some, or leave it out")
        learned.append(fit_whole_networks(terms.only(measured), row[measured], Platform.parse(name)))
    return _stacked(platforms, rules, terms, learned)


def _stacked(
    platforms: Sequence[str], rules: FusionRules, terms: NetworkTerms, learned: Sequence[WholeNetworkFit]
) -> PlatformTerms:
    classes = terms.classes
    coefficients = np.array([[each.coefficients[name] for name in classes] for each in learned])
    units = terms.class_sums[:, :-1].sum(axis=0).reshape(len(classes), len(TERMS))
    whole = units.sum(axis=0)
    pooled = (coefficients * units).sum(axis=1, keepdims=True) / np.where(whole > 0, whole, 1.0)
    return PlatformTerms(
        rules,
        tuple(platforms),
        classes,
        np.concatenate([coefficients, pooled], axis=1),
        np.array([each.overhead_ms for each in learned]),
        {kernels.name: _factors(kernels.name, learned) for kernels in terms.types},
    )


def _factors(name: str, learned: Sequence[WholeNetworkFit]) -> TypeFactors:
    """The platforms' factors over all points that any of them has."""
    factors = [each.factors[name] for each in learned]
    points, place = np.unique(np.concatenate([each.points for each in factors]), axis=0, return_inverse=True)
    weights = np.zeros((len(learned), len(points)))
    start = 0
    for row, each in zip(weights, factors, strict=True):
        np.add.at(row, place.reshape(-1)[start : start + len(each.points)], each.weights)
        start += len(each.points)
    return TypeFactors(factors[0].covariance, points, weights)
