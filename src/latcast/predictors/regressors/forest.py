"""Random forest and gradient boosting (Li et al. §4.2; nn-Meter §5.3), and boosting on analytical terms: trained by LightGBM,
kept as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from latcast.predictors.regressors import Arrays, Tuned
from latcast.predictors.regressors.trees import TreeEnsemble


def train_trees(
    features: np.ndarray,
    target: np.ndarray,
    parameters: Mapping[str, Any],
    rounds: int,
    *,
    weight: np.ndarray | None = None,
    seed: int = 0,
) -> TreeEnsemble:
    """Train with LightGBM on one thread (so that a seed gives the same trees everywhere)."""
    import lightgbm

    settings = {
        "objective": "l2", "verbosity": -1, "num_threads": 1, "deterministic": True, "force_row_wise": True,
        "seed": seed, "boost_from_average": True, "min_data_in_bin": 1, **parameters,
    }  # fmt: skip
    data = lightgbm.Dataset(features, target, weight=weight, params={"verbosity": -1, "min_data_in_bin": 1})
    booster = lightgbm.train(settings, data, num_boost_round=rounds)
    return TreeEnsemble.from_lightgbm(booster.model_to_string())


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


@dataclass(frozen=True)
class LogResidual(Tuned):
    """Predicts a factor around 1 (the "latency" it is trained on is the ratio to the analytical base).

    In logarithms its squared error is, to first order, the squared percentage error.
    """

    ensemble: TreeEnsemble
    kind: ClassVar[str] = "log_residual"
    SETTINGS: ClassVar = ((200, 15), (300, 31), (100, 7))
    USUAL: ClassVar = (200, 15)

    @classmethod
    def fit_with(cls, setting: tuple[int, int], features: np.ndarray, ratio: np.ndarray, seed: int) -> LogResidual:
        stages, leaves = setting
        parameters = {
            "learning_rate": 0.06, "num_leaves": leaves, "min_data_in_leaf": 5 if len(ratio) > 200 else 3,
            "feature_fraction": 0.7, "bagging_fraction": 0.8, "bagging_freq": 1, "lambda_l2": 1.0,
        }  # fmt: skip
        # A path without vector instructions may take ten times as long; further out are measurement accidents.
        target = np.clip(np.log(ratio), -3.0, 3.0)
        return cls(train_trees(features, target, parameters, stages, seed=seed))

    def predict(self, features: np.ndarray) -> np.ndarray:
        return np.exp(self.ensemble.sum(features))

    def arrays(self) -> Arrays:
        return self.ensemble.arrays()

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> LogResidual:
        return cls(TreeEnsemble.from_arrays(arrays))
