"""A platform as a posterior: coefficients of analytical terms and a smooth misfit, from any number of observed latencies.

A latency y of a network or kernel with terms x is

    log y = log Σⱼ xⱼ exp(θⱼ) + h · u + ε,

with θ the logarithms of the platform's coefficients, h · u a Gaussian process over networks and kernel sizes on a fixed basis
(:mod:`latcast.predictors.process_basis`), and ε of Student's distribution. (θ, u) has a Gaussian prior. The posterior is found by
Gauss-Newton steps; it is Gaussian again, so that more observations update it and nothing else is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

DEGREES = 4.0
"""Degrees of freedom of Student's distribution: an observation far off counts little, and is never dropped."""

LEAST_WEIGHT = 0.02
"""Least weight of an observation, however far off: none is dropped, and a slip hardly moves the others."""

PRIOR_SCALE_WEIGHT = 6.0
"""Observations that the prior's own scale counts as, when a platform's deviations say that it is too small or too large."""

MOST_STEP = 1.5
"""Change of a coefficient's logarithm in one step."""


@dataclass(frozen=True)
class Prior:
    """Before anything was observed.

    Attributes:
        mean: (terms + basis,).
        covariance: (terms + basis, terms + basis).
        noise: Standard deviation of ε.
        precision: Inverse of the covariance, where it is known already.
    """

    mean: np.ndarray
    covariance: np.ndarray
    noise: float
    precision: np.ndarray | None = None


@dataclass(frozen=True)
class Observed:
    """Observed latencies.

    Attributes:
        terms: (observations, terms) in milliseconds of a device whose coefficients' logarithms are 0.
        basis: (observations, basis).
        novelty: (observations,) variance of the process that the basis leaves open.
        log_ms: (observations,) logarithms of latencies.
    """

    terms: np.ndarray
    basis: np.ndarray
    novelty: np.ndarray
    log_ms: np.ndarray


@dataclass(frozen=True)
class Posterior:
    """After observations.

    Attributes:
        prior: What it began from.
        mean: (terms + basis,).
        covariance: (terms + basis, terms + basis).
        scale: Factor on variances: how far the observations deviate against what the prior expects.
        weights: (observations,) Student's weight of each: well below 1 where it does not fit.
        left_out_error: (observations,) observed logarithm less what the others predict.
    """

    prior: Prior
    mean: np.ndarray
    covariance: np.ndarray
    scale: float
    weights: np.ndarray
    left_out_error: np.ndarray

    def log_ms(self, terms: np.ndarray, basis: np.ndarray, novelty: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and variance of logarithms of latencies, each (networks,); arguments as in :class:`Observed`."""
        mean, design = linearised(self.mean, terms, basis)
        variance = quadratic(design, self.covariance) + novelty + self.prior.noise**2
        return mean, variance * self.scale


def quadratic(design: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Return the variances of linear functions, (rows,), from their coefficients, (rows, state)."""
    return np.asarray(((design @ covariance) * design).sum(axis=1))


def linearised(state: np.ndarray, terms: np.ndarray, basis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the logarithms of latencies, (networks,), and their derivatives by the state, (networks, terms + basis)."""
    count = terms.shape[1]
    parts = terms * np.exp(np.clip(state[:count], -25, 25))
    total = parts.sum(axis=1)
    return np.log(total) + basis @ state[count:], np.hstack([parts / total[:, None], basis])


def posterior(prior: Prior, observed: Observed, *, start: np.ndarray | None = None, steps: int = 12) -> Posterior:
    """Return the posterior after observations.

    Args:
        prior: Of the platform.
        observed: What was measured.
        start: State to begin from; the prior's mean at the observed level where None.
        steps: At most so many Gauss-Newton steps.
    """
    count = observed.terms.shape[1]
    n = len(observed.log_ms)
    if not n:
        nothing = np.zeros(0)
        return Posterior(prior, prior.mean, prior.covariance, 1.0, nothing, nothing)
    state = prior.mean.copy()
    if start is not None:
        state = start.copy()
    else:
        state[:count] += np.median(observed.log_ms - linearised(state, observed.terms, observed.basis)[0])
    variance = prior.noise**2 + observed.novelty
    weights = np.ones(n)
    dense = n < len(state)
    precision = prior.precision
    if precision is None and not dense:
        precision = np.linalg.inv(prior.covariance)
    for step in range(steps):
        expected, design = linearised(state, observed.terms, observed.basis)
        target = observed.log_ms - expected + design @ (state - prior.mean)
        if dense:
            spread = prior.covariance @ design.T
            gram = design @ spread + np.diag(variance / weights)
            new = prior.mean + spread @ np.linalg.solve(gram, target)
        else:
            weighted = design * (weights / variance)[:, None]
            new = prior.mean + np.linalg.solve(precision + weighted.T @ design, weighted.T @ target)
        moved = new - state
        moved[:count] = np.clip(moved[:count], -MOST_STEP, MOST_STEP)
        state = state + moved
        residual = target - design @ (state - prior.mean)
        weights = np.clip((DEGREES + 1) / (DEGREES + residual**2 / variance), LEAST_WEIGHT, 1.25)
        if step > 2 and np.abs(moved[:count]).max() < 0.02:
            break
    expected, design = linearised(state, observed.terms, observed.basis)
    weighted = design * (weights / variance)[:, None]
    if dense:
        spread = prior.covariance @ design.T
        gram = design @ spread + np.diag(variance / weights)
        covariance = prior.covariance - spread @ np.linalg.solve(gram, spread.T)
    else:
        covariance = np.linalg.inv(precision + weighted.T @ design)
    residual = observed.log_ms - expected
    leverage = ((design @ covariance) * weighted).sum(axis=1)
    kept = np.maximum(1 - leverage, 1e-6)
    target = residual + design @ (state - prior.mean)
    away = state - prior.mean
    misfit = float((weights * residual**2 / variance).sum())
    if dense:
        misfit = float(target @ np.linalg.solve(gram, target))
    else:
        misfit += float(away @ precision @ away)
    scale = (PRIOR_SCALE_WEIGHT + misfit) / (PRIOR_SCALE_WEIGHT + n)
    return Posterior(prior, state, covariance, scale, weights, residual / kept)
