"""Regressors of Li et al. (§4.2) and nn-Meter (§5.3) on the squared percentage error: Lasso, random forest, boosted trees.

``papers`` adds them, and the perceptron, to latcast's own, which corrects analytical terms and comes much nearer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

import numpy as np

from latcast.predictors.regressors import Arrays
from latcast.predictors.regressors.trees import TreeEnsemble, train_trees
from papers.tuning import Tuned

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


Forest = TypeVar("Forest", bound="_Trees")


@dataclass(frozen=True)
class _Trees(Tuned):
    """Latency = factor x sum of trees, not below a floor."""

    ensemble: TreeEnsemble
    factor: float
    floor_ms: float

    def predict(self, features: np.ndarray) -> np.ndarray:
        return np.maximum(self.factor * self.ensemble.sum(features), self.floor_ms)

    def arrays(self) -> Arrays:
        return {**self.ensemble.arrays(), "factor": np.array([self.factor]), "floor_ms": np.array([self.floor_ms])}

    @classmethod
    def from_arrays(cls: type[Forest], arrays: Arrays) -> Forest:
        return cls(TreeEnsemble.from_arrays(arrays), float(arrays["factor"][0]), float(arrays["floor_ms"][0]))


def _percentage_weights(latency_ms: np.ndarray) -> np.ndarray:
    """Return the weights that make a squared error a squared percentage error, with mean 1."""
    weights = latency_ms**-2.0
    return np.asarray(weights / weights.mean())


class RandomForest(_Trees):
    """Averaged trees on bootstrap samples; 1 to 10 trees as in Li et al., and more."""

    kind: ClassVar[str] = "random_forest"
    SETTINGS: ClassVar = ((10, 2), (10, 5), (30, 2))
    USUAL: ClassVar = (30, 2)

    @classmethod
    def fit_with(cls, setting: tuple[int, int], features: np.ndarray, latency_ms: np.ndarray, seed: int) -> RandomForest:
        trees, least = setting
        parameters = {
            "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.8, "feature_fraction": 0.8, "num_leaves": 512,
            "min_data_in_leaf": least, "boost_from_average": False,
        }  # fmt: skip
        weight = _percentage_weights(latency_ms)
        ensemble = train_trees(features, latency_ms, parameters, trees, weight=weight, seed=seed)
        # A sample that cannot be split leaves LightGBM a tree of one leaf, whose value is 0 rather than the mean.
        grown = ensemble.roots[ensemble.left[ensemble.roots] != ensemble.roots]
        if len(grown):
            ensemble = replace(ensemble, roots=grown)
        else:
            mean = float(np.average(latency_ms, weights=weight))
            ensemble = TreeEnsemble.of_values([mean])
        return cls(ensemble, 1.0 / len(ensemble.roots), float(latency_ms.min()) / 2)


class GradientBoosting(_Trees):
    """Boosted trees; up to 200 stages as in Li et al."""

    kind: ClassVar[str] = "gbdt"
    SETTINGS: ClassVar = ((100, 15), (200, 15), (200, 31))
    USUAL: ClassVar = (200, 15)

    @classmethod
    def fit_with(cls, setting: tuple[int, int], features: np.ndarray, latency_ms: np.ndarray, seed: int) -> GradientBoosting:
        stages, leaves = setting
        parameters = {
            "learning_rate": 0.1, "num_leaves": leaves, "min_data_in_leaf": 3, "feature_fraction": 0.8,
            "bagging_fraction": 0.8, "bagging_freq": 1,
        }  # fmt: skip
        ensemble = train_trees(features, latency_ms, parameters, stages, weight=_percentage_weights(latency_ms), seed=seed)
        return cls(ensemble, 1.0, float(latency_ms.min()) / 2)
