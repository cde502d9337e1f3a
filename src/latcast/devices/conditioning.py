"""Prediction of all latencies of a new device from a few measured ones: a Gaussian process, robust to outliers.

A phone throttles, an application wakes up: a measurement is now and then half as long again. So noise has Student's
distribution, each device its own scale of it, drawn from those of the known devices; the scales are weighed by how well they
explain the measurements, and the prediction is the mixture.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma

import numpy as np

DEGREES_OF_FREEDOM = 4.0
"""Of Student's distribution of noise."""

ITERATIONS = 15


@dataclass(frozen=True)
class Conditioned:
    """Attributes:
    mean: (networks,) expected logarithms.
    variance: (networks,) of a measurement, noise included.
    weights: (measured,) how much each measurement was believed; about 1 for one that fits, near 0 for one far off.
    """

    mean: np.ndarray
    variance: np.ndarray
    weights: np.ndarray


def condition(
    mean: np.ndarray, covariance: np.ndarray, variance: np.ndarray, measured: np.ndarray, values: np.ndarray, noise: np.ndarray
) -> Conditioned:
    """Predicts all networks of a device from some; its offset is free.

    Args:
        mean: (networks,) expected logarithms up to the offset.
        covariance: (networks, measured) prior covariance with the measured networks.
        variance: (networks,) prior variance.
        measured: (measured,) which networks were measured.
        values: (measured,) logarithms of their latencies.
        noise: (scales,) noise variances that a device may have, equally likely.
    """
    nu = DEGREES_OF_FREEDOM
    own = covariance[measured]
    right = values - mean[measured]
    count = len(values)
    weights = np.ones((len(noise), count))
    for _ in range(ITERATIONS):
        total = own + np.eye(count) * (noise[:, None] / weights)[:, None, :]
        inverse = np.linalg.inv(total)
        row_sums = inverse.sum(axis=2)
        precision = row_sums.sum(axis=1)
        offset = row_sums @ right / precision
        residual = right - offset[:, None]
        solved = np.einsum("gij,gj->gi", inverse, residual)
        smooth = solved @ own.T
        left = np.diag(own) - np.einsum("ij,gjk,ki->gi", own, inverse, own)
        squares = ((residual - smooth) ** 2 + left) / noise[:, None]
        weights = (nu + 1) / (nu + squares)
    evidence = _evidence(total, residual, solved, precision, weights, squares)
    likely = np.exp(evidence - evidence.max())
    likely /= likely.sum()
    gain = covariance @ inverse
    means = mean + offset[:, None] + np.einsum("gnk,gk->gn", gain, residual)
    free = 1 - gain.sum(axis=2)
    explained = np.einsum("gnk,nk->gn", gain, covariance)
    variances = variance - explained + free**2 / precision[:, None] + noise[:, None] * nu / (nu - 2)
    mixed = likely @ means
    spread = likely @ (variances + means**2) - mixed**2
    return Conditioned(mixed, np.maximum(spread, 1e-12), likely @ weights)


def _evidence(
    total: np.ndarray, residual: np.ndarray, solved: np.ndarray, precision: np.ndarray, weights: np.ndarray, squares: np.ndarray
) -> np.ndarray:
    """(scales,) variational bound on the logarithmic evidence of each noise scale, the weights integrated out."""
    nu = DEGREES_OF_FREEDOM
    shape, rate = (nu + 1) / 2, (nu + squares) / 2
    gaussian = -0.5 * (residual * solved).sum(axis=1) - 0.5 * np.linalg.slogdet(total)[1] - 0.5 * np.log(precision)
    prior = nu / 2 * np.log(nu / 2) - lgamma(nu / 2)
    entropy = lgamma(shape) - shape * np.log(rate) + (rate - nu / 2) * weights - 0.5 * np.log(weights)
    evidence: np.ndarray = gaussian + (prior + entropy).sum(axis=1)
    return evidence
