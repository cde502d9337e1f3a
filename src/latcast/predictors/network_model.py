"""From the latencies of kernels to that of a network: affine overhead and what running in company changes.

Kernels timed alone, or under a profiler, are not quite what they are in a running network: caches are warmer or colder, the
profiler costs, layouts change in between. Network latency is modelled as ``constant + Σ over types (weight · sum of its
kernels) + per_kernel · kernels``, all non-negative, the weights drawn towards 1, fitted to networks' measured latencies.
Li et al. (§4.2) add a constant alone; an affine overhead halves what that leaves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from latcast.kernels.kernel import KernelTable
from latcast.predictors.folds import FOLDS, group_folds
from latcast.predictors.physical import fit_nonnegative

STRENGTHS = (0.1, 0.03, 0.01, 0.003, 0.001)
"""How strongly weights are drawn towards 1; chosen by cross-validation. A type that has a small share of every network's
latency cannot pull its weight away from 1, whatever the noise."""


@dataclass(frozen=True)
class NetworkModel:
    """Attributes:
    constant_ms: Overhead of a network.
    per_kernel_ms: Overhead of a kernel.
    weights: Kernel type to the factor on its kernels' latencies; 1 where it is not named.
    """

    constant_ms: float = 0.0
    per_kernel_ms: float = 0.0
    weights: Mapping[str, float] = field(default_factory=dict)

    def kernel_latency_ms(self, types: Sequence[str], latency_ms: np.ndarray) -> np.ndarray:
        """What each kernel costs inside a network, (kernels,)."""
        factor = np.array([self.weights.get(name, 1.0) for name in types])
        return factor * latency_ms + self.per_kernel_ms

    def to_json(self) -> dict[str, object]:
        return {
            "constant_ms": self.constant_ms,
            "per_kernel_ms": self.per_kernel_ms,
            "weights": {name: float(weight) for name, weight in sorted(self.weights.items())},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> NetworkModel:
        weights: Mapping[str, float] = data["weights"]  # type: ignore[assignment]
        return cls(
            float(data["constant_ms"]),  # type: ignore[arg-type]
            float(data["per_kernel_ms"]),  # type: ignore[arg-type]
            {name: float(value) for name, value in weights.items()},
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
    sums: np.ndarray, names: Sequence[str], latency_ms: np.ndarray, groups: Sequence[str], *, seed: int = 0
) -> NetworkModel:
    """Fits overhead and weights to measured networks.

    Args:
        sums: (networks, types + 1) from :func:`sums_by_type`.
        names: The types.
        latency_ms: (networks,).
        groups: (networks,) family or space of each network; cross-validation leaves whole groups out.
        seed: Order of the groups.
    """
    design = np.hstack([sums, np.ones((len(sums), 1))])
    fold = group_folds(groups, FOLDS, seed)
    prior = np.concatenate([np.ones(len(names)), [0.0, 0.0]])
    prior_scale = np.concatenate([np.ones(len(names)), [np.nan, np.nan]])

    def fit(rows: np.ndarray, strength: float) -> np.ndarray:
        return fit_nonnegative(design[rows], latency_ms[rows], prior, strength, prior_scale)

    errors = []
    for strength in STRENGTHS:
        held_out = [
            np.abs(design[fold == part] @ fit(fold != part, strength) / latency_ms[fold == part] - 1)
            for part in np.unique(fold)
            if (fold != part).any()
        ]
        errors.append(float(np.mean(np.concatenate(held_out))) if held_out else 0.0)
    fitted = fit(np.ones(len(latency_ms), dtype=bool), STRENGTHS[int(np.argmin(errors))])
    weights = {name: float(weight) for name, weight in zip(names, fitted[: len(names)], strict=True)}
    return NetworkModel(float(fitted[-1]), float(fitted[-2]), weights)
