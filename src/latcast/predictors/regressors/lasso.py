"""Lasso with non-negative weights on the squared percentage error (Li et al. §4.2, eq. 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from latcast.predictors.regressors import Arrays, Tuned

ALPHAS = tuple(10.0**power for power in range(-5, 3))
"""The grid of the paper."""


def nonnegative_lasso(relative: np.ndarray, alpha: float) -> np.ndarray:
    """Return ``argmin_w mean((A w - 1)²) + alpha · sum(w)``, ``w ≥ 0``, by non-negative least squares."""
    from scipy.optimize import nnls

    count, terms = relative.shape
    gram = relative.T @ relative / count + 1e-8 * np.eye(terms)
    factor = np.linalg.cholesky(gram)
    right = np.linalg.solve(factor, relative.mean(axis=0) - alpha / 2)
    weights, _ = nnls(factor.T, right, maxiter=50 * terms + 1000)
    return np.asarray(weights)


@dataclass(frozen=True)
class Lasso(Tuned):
    """Latency = weights · features / scale + intercept, all weights non-negative.

    Features are divided by their standard deviation; the mean is not subtracted, as that would turn the non-negative
    intercept into one that can make a latency negative.
    """

    weights: np.ndarray
    scale: np.ndarray
    floor_ms: float
    kind: ClassVar[str] = "lasso"
    SETTINGS: ClassVar = ALPHAS
    USUAL: ClassVar = 1e-3
    PARTS: ClassVar = 5

    @classmethod
    def fit_with(cls, setting: float, features: np.ndarray, latency_ms: np.ndarray, seed: int) -> Lasso:
        deviation = features.std(axis=0)
        varies = deviation > 1e-9 * (np.abs(features).mean(axis=0) + 1e-12)
        scale = np.where(varies, deviation, np.inf)
        design = np.hstack([features / scale, np.ones((len(features), 1))]) / latency_ms[:, None]
        size = np.sqrt((design**2).mean(axis=0))
        size = np.where(size > 0, size, 1.0)
        weights = nonnegative_lasso(design / size, setting) / size
        return cls(weights, scale, float(latency_ms.min()) / 2)

    def predict(self, features: np.ndarray) -> np.ndarray:
        return np.maximum(features / self.scale @ self.weights[:-1] + self.weights[-1], self.floor_ms)

    def arrays(self) -> Arrays:
        return {"weights": self.weights, "scale": self.scale, "floor_ms": np.array([self.floor_ms])}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Lasso:
        return cls(arrays["weights"], arrays["scale"], float(arrays["floor_ms"][0]))
