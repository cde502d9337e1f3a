"""A factor on a kernel's analytical latency that varies smoothly with its sizes: the mean of a Gaussian process.

Where only whole networks were timed, no kernel has a latency to train trees on. What can be learned is a function
over kernels whose sums fit the networks (:mod:`latcast.predictors.whole_networks`): it is close for kernels of close sizes,
and the same for the same sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from latcast.errors import TrainingError
from latcast.predictors.regressors import Arrays, Regressor

QUANTUM = 2.0**-20
"""Weights are multiples of this: far finer than any noise, and a bundle of a hundred platforms stays small."""


@dataclass(frozen=True)
class SizeCovariance:
    """How alike the logarithms of two kernels' factors are, by their sizes.

    Attributes:
        lengths: (sizes,) how many doublings of a size make two kernels different.
        paths: The last so many sizes choose a path through a library: the side of a filter, a stride.
        level: Standard deviation of what all kernels of the type share.
        path: Of what kernels of the same path share.
        smooth: Of what close sizes share.
        own: Of what only kernels of the same sizes share.
    """

    lengths: np.ndarray
    paths: int
    level: float
    path: float
    smooth: float
    own: float

    @property
    def largest(self) -> float:
        """Covariance of kernels of the same sizes."""
        return self.level**2 + self.smooth**2 + self.own**2 + (self.path**2 if self.paths else 0.0)

    def between(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return the covariance of kernels, (first, second), from their sizes, (kernels, sizes)."""
        a, b = (np.log2(np.maximum(sizes, 1.0)) / self.lengths for sizes in (first, second))
        cut = len(self.lengths) - self.paths
        between_paths = _squared_distance(a[:, cut:], b[:, cut:])
        distance = between_paths + _squared_distance(a[:, :cut], b[:, :cut])
        found = self.level**2 + self.smooth**2 * np.exp(-distance / 2) + self.own**2 * (distance < _SAME)
        return np.asarray(found + self.path**2 * (between_paths < _SAME) if self.paths else found)


_SAME = 1e-9


def _squared_distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    # Size by size, not as a matrix product, whose last bits depend on how many kernels there are: a kernel has one latency.
    distance = np.zeros((len(a), len(b)))
    for first, second in zip(a.T, b.T, strict=True):
        distance += (first[:, None] - second[None, :]) ** 2
    return distance


@dataclass(frozen=True)
class GaussianProcessCorrection:
    """``exp(Σ covariance(kernel, point) · weight)``.

    Attributes:
        covariance: See :class:`SizeCovariance`.
        points: (points, sizes) sizes of the kernels learned from.
        weights: (points,).
    """

    covariance: SizeCovariance
    points: np.ndarray
    weights: np.ndarray
    kind: ClassVar[str] = "gaussian_process"

    @classmethod
    def of(cls, covariance: SizeCovariance, points: np.ndarray, weights: np.ndarray) -> GaussianProcessCorrection:
        """Return a factor of distinct points, whose weights are rounded to ``QUANTUM``."""
        distinct, place = np.unique(np.asarray(points, dtype=np.int64), axis=0, return_inverse=True)
        summed = np.bincount(place.reshape(-1), weights=weights, minlength=len(distinct))
        rounded = np.round(summed / QUANTUM).astype(np.int32)
        kept = rounded != 0
        return cls(covariance, distinct[kept].astype(np.int32), rounded[kept] * QUANTUM)

    @classmethod
    def fit(cls, features: np.ndarray, latency_ms: np.ndarray, *, seed: int = 0) -> Regressor:
        """Refuse, as it is learned from whole networks."""
        raise TrainingError("a Gaussian-process correction is learned from whole networks, not from timed kernels")

    def log_factor(self, sizes: np.ndarray) -> np.ndarray:
        """Return the logarithm of the factor, (kernels,), from sizes, (kernels, sizes)."""
        if not len(self.points):
            return np.zeros(len(sizes))
        return np.asarray(np.einsum("kp,p->k", self.covariance.between(sizes, self.points), self.weights))

    def predict(self, features: np.ndarray) -> np.ndarray:
        return np.exp(self.log_factor(features))

    def novelty(self, sizes: np.ndarray) -> np.ndarray:
        """Return the distance to the nearest trained kernel, (kernels,), from sizes, (kernels, sizes): 0 to below 1."""
        if not len(self.points):
            return np.ones(len(sizes))
        nearest = self.covariance.between(sizes, self.points).max(axis=1)
        return np.asarray(1 - nearest / self.covariance.largest)

    def arrays(self) -> Arrays:
        c = self.covariance
        return {
            "points": self.points.astype(np.int32),
            "weights": np.round(self.weights / QUANTUM).astype(np.int32),
            "lengths": c.lengths,
            "paths": np.array([c.paths]),
            "deviations": np.array([c.level, c.path, c.smooth, c.own]),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> GaussianProcessCorrection:
        covariance = SizeCovariance(arrays["lengths"], int(arrays["paths"][0]), *arrays["deviations"].tolist())
        points, weights = arrays["points"], arrays["weights"]
        if points.ndim != 2 or points.shape != (len(weights), len(covariance.lengths)):
            raise ValueError(f"found points of shape {points.shape}, expected ({len(weights)}, {len(covariance.lengths)})")
        return cls(covariance, points, weights * QUANTUM)
