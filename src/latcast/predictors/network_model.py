"""From the latencies of kernels to that of a network: affine overhead and what running in company changes.

Kernels timed alone, or under a profiler, are not quite what they are in a running network: caches are warmer or colder, the
profiler costs, layouts change in between. Network latency is modelled as ``constant + Σ over types (weight · sum of its
kernels) + per_kernel · kernels``, all non-negative, the weights drawn towards 1, fitted to networks' measured latencies, and
a factor on that for short networks (:mod:`latcast.predictors.short_networks`; of kernels timed inside networks it is learned in
:mod:`latcast.predictors.training`). Li et al. (§4.2) add a constant alone; an affine
overhead halves what that leaves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from latcast.kernels.kernel import KernelTable
from latcast.predictors.analytical import fit_nonnegative
from latcast.predictors.folds import FOLDS, group_folds
from latcast.predictors.short_networks import FEWEST_FOR_CACHES, ShortNetworkCorrection, confirmed_short_network_correction

STRENGTHS = (0.1, 0.03, 0.01, 0.003, 0.001)
"""How strongly weights are drawn towards 1; chosen by cross-validation. A type that has a small share of every network's
latency cannot pull its weight away from 1, whatever the noise."""

CACHE_ROUNDS = 3
"""How often weights are fitted anew to what the factor for short networks leaves of their last sums."""


@dataclass(frozen=True)
class NetworkModel:
    """Attributes:
    constant_ms: Overhead of a network.
    per_kernel_ms: Overhead of a kernel.
    weights: Kernel type to the factor on its kernels' latencies; 1 where it is not named.
    caches: What the sum is multiplied by in short networks.
    """

    constant_ms: float = 0.0
    per_kernel_ms: float = 0.0
    weights: Mapping[str, float] = field(default_factory=dict)
    caches: ShortNetworkCorrection = field(default_factory=ShortNetworkCorrection)

    def kernel_latency_ms(self, types: Sequence[str], latency_ms: np.ndarray) -> np.ndarray:
        """What each kernel costs inside a long network, (kernels,)."""
        factor = np.array([self.weights.get(name, 1.0) for name in types])
        return factor * latency_ms + self.per_kernel_ms

    def short_network_factor(self, kernels_ms: np.ndarray) -> np.ndarray:
        """What kernels and overhead are multiplied by in each network, (networks,).

        Args:
            kernels_ms: (networks,) sums of :meth:`kernel_latency_ms`.
        """
        return self.caches.factor(kernels_ms + self.constant_ms)

    def scaled(self, level: float) -> NetworkModel:
        """The model of a device that takes ``level`` times as long for everything; types without a weight stay as they are."""
        weights = {name: level * weight for name, weight in self.weights.items()}
        return NetworkModel(level * self.constant_ms, level * self.per_kernel_ms, weights, self.caches.scaled(level))

    def to_json(self) -> dict[str, object]:
        affine = {
            "constant_ms": self.constant_ms,
            "per_kernel_ms": self.per_kernel_ms,
            "weights": {name: float(weight) for name, weight in sorted(self.weights.items())},
        }
        return {**affine, "caches": self.caches.to_json()} if self.caches.exponents else affine

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> NetworkModel:
        weights: Mapping[str, float] = data["weights"]  # type: ignore[assignment]
        return cls(
            float(data["constant_ms"]),  # type: ignore[arg-type]
            float(data["per_kernel_ms"]),  # type: ignore[arg-type]
            {name: float(value) for name, value in weights.items()},
            ShortNetworkCorrection.from_json(data["caches"]) if "caches" in data else ShortNetworkCorrection(),  # type: ignore[arg-type]
        )


def sums_by_type(table: KernelTable, kernel_latency_ms: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Summed kernel latency of each type in each network, (networks, types + 1); the last column counts kernels."""
    names = list(table.configurations)
    types = table.kernel_types
    columns = np.zeros((len(types), len(names) + 1))
    place = {name: index for index, name in enumerate(names)}
    columns[np.arange(len(types)), [place[name] for name in types]] = kernel_latency_ms
    columns[:, -1] = 1.0
    return table.sum_by_network(columns), names


def fit_network_model(
    sums: np.ndarray,
    names: Sequence[str],
    latency_ms: np.ndarray,
    groups: Sequence[str],
    *,
    seed: int = 0,
    caches: ShortNetworkCorrection | None = None,
) -> NetworkModel:
    """Fits overhead and weights to measured networks.

    Args:
        sums: (networks, types + 1) from :func:`sums_by_type`.
        names: The types.
        latency_ms: (networks,).
        groups: (networks,) lineage or space of each network; cross-validation leaves whole groups out.
        seed: Order of the groups.
        caches: The factor of short networks; found from these networks where None.
    """
    design = np.hstack([sums, np.ones((len(sums), 1))])
    fold = group_folds(groups, FOLDS, seed)

    def held_out_error(strength: float) -> float:
        errors = []
        for part in np.unique(fold):
            rest = fold != part
            if rest.any():
                sums_ms = design[~rest] @ _fit(design[rest], latency_ms[rest], strength, ShortNetworkCorrection())
                errors.append(np.abs(sums_ms / latency_ms[~rest] - 1))
        return float(np.mean(np.concatenate(errors))) if errors else 0.0

    strength = STRENGTHS[int(np.argmin([held_out_error(strength) for strength in STRENGTHS]))]
    if caches is None:
        sums_ms = design @ _fit(design, latency_ms, strength, ShortNetworkCorrection())
        enough = len(latency_ms) >= FEWEST_FOR_CACHES
        caches = (
            confirmed_short_network_correction(sums_ms, latency_ms, groups, seed=seed) if enough else ShortNetworkCorrection()
        )
    fitted = _fit(design, latency_ms, strength, caches)
    weights = {name: float(weight) for name, weight in zip(names, fitted[: len(names)], strict=True)}
    return NetworkModel(float(fitted[-1]), float(fitted[-2]), weights, caches)


def _fit(design: np.ndarray, latency_ms: np.ndarray, strength: float, caches: ShortNetworkCorrection) -> np.ndarray:
    """Coefficients of the columns: a weight a type, overhead a kernel, overhead; what warm caches save divided out."""
    types = design.shape[1] - 2
    prior = np.concatenate([np.ones(types), [0.0, 0.0]])
    prior_scale = np.concatenate([np.ones(types), [np.nan, np.nan]])
    coefficients = fit_nonnegative(design, latency_ms, prior, strength, prior_scale)
    for _ in range(CACHE_ROUNDS if caches.exponents else 0):
        long_ms = latency_ms / caches.factor(design @ coefficients)
        coefficients = fit_nonnegative(design, long_ms, prior, strength, prior_scale)
    return coefficients
