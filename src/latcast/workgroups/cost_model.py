"""A cost model of work-group sizes that learns from a device's first few measurements.

A Gaussian process over :mod:`latcast.workgroups.size_features`. The logarithm of a latency is the level of its sweep (one kernel
variant of one operator on one device), which says nothing of sizes, plus what a size wastes for certain, plus three smooth
functions of the size: one of all sweeps, one of each device, one of each device that also changes with the kernel variant. How
much each weighs is chosen by the likelihood of what was measured, never by what is to be predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from latcast.errors import TrainingError
from latcast.workgroups.size_features import SIZE_FEATURES, size_features, variant_features
from latcast.workgroups.sweep import Sweep

WASTE = ("padding", "idle_lanes")
"""What a size wastes for certain: work items without work, and lanes that a group leaves idle. The functions learn the rest."""

LEVEL = 3.0
"""Standard deviation of a sweep's level, in logarithms: anything may be."""

MOST_TO_FIT = 240
"""Measurements that the weights are fitted to, drawn at random where there are more: likelihoods cost their cube."""


@dataclass(frozen=True)
class Points:
    """Sizes of several sweeps as one table.

    Attributes:
        sizes: (points, size features), standardised.
        variants: (points, variant features), standardised.
        sweep: (points,) number of the sweep.
        device: (points,) number of the device.
        physical: (points,) logarithm of the work that a size launches over that which is needed.
    """

    sizes: np.ndarray
    variants: np.ndarray
    sweep: np.ndarray
    device: np.ndarray
    physical: np.ndarray

    def only(self, rows: np.ndarray) -> Points:
        """Some of them."""
        return Points(self.sizes[rows], self.variants[rows], self.sweep[rows], self.device[rows], self.physical[rows])


def points_of(sweeps: Sequence[Sweep]) -> Points:
    """All sizes of sweeps, one sweep after another; features are standardised over all of them.

    Standardising looks at sizes that may not have been measured, and at no latency.

    Raises:
        TrainingError: Their kernels do not have the same settings.
    """
    names = {tuple(sorted(sweep.variant)) for sweep in sweeps}
    if len(names) != 1:
        raise TrainingError(f"sweeps of kernels with different settings cannot be learned together: {sorted(names)}")
    counts = [len(sweep.sizes) for sweep in sweeps]
    titles = sorted({sweep.device.title for sweep in sweeps})
    variants = np.array([variant_features(sweep) for sweep in sweeps])
    features = np.concatenate([size_features(sweep) for sweep in sweeps])
    return Points(
        _standardised(features),
        _standardised(np.repeat(variants, counts, axis=0)),
        np.repeat(np.arange(len(sweeps)), counts),
        np.repeat([titles.index(sweep.device.title) for sweep in sweeps], counts),
        np.log(2) * features[:, [SIZE_FEATURES.index(name) for name in WASTE]].sum(axis=1),
    )


@dataclass(frozen=True)
class Weights:
    """Hyper-parameters, in logarithms: standard deviations of the three functions and of the noise, and two length scales."""

    values: tuple[float, ...] = (-1.5, -1.5, -1.5, -3.5, 1.0, 0.5)

    BOUNDS = ((-4.0, 1.0), (-4.0, 1.0), (-4.0, 1.0), (-5.0, -1.0), (-0.5, 2.5), (-0.5, 2.5))
    """Of each, so that a handful of measurements cannot say something absurd."""

    PRIOR_SPREAD = 1.0
    """Standard deviation around the start: with few measurements the weights stay near it."""

    def covariance(self, first: Points, second: Points) -> np.ndarray:
        """(first, second) covariance of log latencies, without noise."""
        shared, own, varying, _, size_length, variant_length = np.exp(self.values)
        near = np.exp(-0.5 * _distances(first.sizes, second.sizes) / size_length**2)
        alike = np.exp(-0.5 * _distances(first.variants, second.variants) / variant_length**2)
        same_device = first.device[:, None] == second.device[None, :]
        same_sweep = first.sweep[:, None] == second.sweep[None, :]
        smooth = near * (shared**2 + same_device * (own**2 + varying**2 * alike))
        return smooth + LEVEL**2 * same_sweep

    @property
    def noise(self) -> float:
        """Standard deviation of a measurement."""
        return float(np.exp(self.values[3]))


def fit_weights(points: Points, log_ms: np.ndarray, seed: int = 0) -> Weights:
    """The most probable weights of measured sizes.

    Args:
        points: Measured sizes.
        log_ms: (points,) logarithms of their latencies.
        seed: Of the draw where there are more than :data:`MOST_TO_FIT`.
    """
    from scipy.optimize import minimize

    if len(log_ms) > MOST_TO_FIT:
        rows = np.sort(np.random.default_rng(seed).choice(len(log_ms), MOST_TO_FIT, replace=False))
        points, log_ms = points.only(rows), log_ms[rows]
    start = np.array(Weights().values)
    log_ms = log_ms - points.physical

    def cost(values: np.ndarray) -> float:
        weights = Weights(tuple(values))
        factor = _factor(weights, points)
        if factor is None:
            return 1e10
        solved = _solve(factor, log_ms - log_ms.mean())
        likelihood = -0.5 * float(solved @ solved) - float(np.log(np.diag(factor)).sum())
        return -likelihood + 0.5 * float((((values - start) / Weights.PRIOR_SPREAD) ** 2).sum())

    found = minimize(cost, start, method="L-BFGS-B", bounds=Weights.BOUNDS, options={"maxiter": 25})
    return Weights(tuple(float(value) for value in found.x))


@dataclass(frozen=True)
class CostModel:
    """What is known after some measurements.

    Attributes:
        weights: Hyper-parameters.
        points: Measured sizes.
        log_ms: (points,) logarithms of their latencies.
    """

    weights: Weights
    points: Points
    log_ms: np.ndarray

    def predict(self, points: Points) -> tuple[np.ndarray, np.ndarray]:
        """Expected log latencies and their standard deviations; of a sweep never measured only their differences mean anything.

        Returns:
            (points,) and (points,).
        """
        if not len(self.log_ms):
            return points.physical, np.full(len(points.sweep), LEVEL)
        factor = _factor(self.weights, self.points)
        if factor is None:
            raise TrainingError("the measurements contradict each other so that no covariance explains them")
        rest = self.log_ms - self.points.physical
        centre = float(rest.mean())
        across = _solve(factor, self.weights.covariance(self.points, points))
        mean = points.physical + centre + across.T @ _solve(factor, rest - centre)
        variance = _variances(self.weights, points) - (across**2).sum(axis=0)
        return mean, np.sqrt(np.maximum(variance, 1e-12))


def expected_improvement(mean: np.ndarray, deviation: np.ndarray, best: float) -> np.ndarray:
    """(points,) by how much a measurement is expected to be below the best so far, in logarithms."""
    from scipy.special import ndtr

    score = (best - mean) / deviation
    density = np.exp(-0.5 * score**2) / np.sqrt(2 * np.pi)
    return deviation * (score * ndtr(score) + density)


def _variances(weights: Weights, points: Points) -> np.ndarray:
    shared, own, varying = np.exp(weights.values[:3])
    return np.full(len(points.sweep), shared**2 + own**2 + varying**2 + LEVEL**2)


def _factor(weights: Weights, points: Points) -> np.ndarray | None:
    covariance = weights.covariance(points, points)
    covariance[np.diag_indices_from(covariance)] += weights.noise**2 + 1e-8
    try:
        return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        return None


def _solve(factor: np.ndarray, values: np.ndarray) -> np.ndarray:
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(factor, values, lower=True))


def _distances(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(first, second) squared distances."""
    products = first @ second.T
    return np.maximum((first**2).sum(axis=1)[:, None] + (second**2).sum(axis=1)[None, :] - 2 * products, 0.0)


def _standardised(values: np.ndarray) -> np.ndarray:
    spread = values.std(axis=0)
    return (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
