"""Boosted trees on the logarithm of the ratio between latency and analytical base."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from latcast.predictors.regressors.cross_validation import Predict, choose
from latcast.predictors.regressors.forest import train_trees
from latcast.predictors.regressors.regressor import Arrays
from latcast.predictors.regressors.trees import TreeEnsemble


@dataclass(frozen=True)
class LogResidual:
    """Predicts a factor around 1 (the "latency" it is trained on is the ratio to the analytical base).

    In logarithms its squared error is, to first order, the squared percentage error.
    """

    ensemble: TreeEnsemble
    kind: ClassVar[str] = "log_residual"
    SETTINGS: ClassVar = ((200, 15), (300, 31), (100, 7))

    @classmethod
    def fit(cls, features: np.ndarray, latency_ms: np.ndarray, *, seed: int = 0, tune: bool = True) -> LogResidual:
        def fit_one(setting: tuple[int, int], x: np.ndarray, y: np.ndarray) -> Predict:
            return cls._fit(setting, x, y, seed).predict

        setting = choose(cls.SETTINGS, fit_one, features, latency_ms, seed=seed, parts=3) if tune else cls.SETTINGS[0]
        return cls._fit(setting, features, latency_ms, seed)

    @classmethod
    def _fit(cls, setting: tuple[int, int], features: np.ndarray, ratio: np.ndarray, seed: int) -> LogResidual:
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
