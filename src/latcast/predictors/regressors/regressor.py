"""What a regressor is, and the table of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol

import numpy as np

from latcast.errors import BundleError
from latcast.registry import Registry

Arrays = Mapping[str, np.ndarray]


class Regressor(Protocol):
    """A trained model from features to latency.

    It is plain arrays, so that a bundle needs no pickle and no training library to be loaded.
    """

    kind: ClassVar[str]
    """Name in :data:`REGRESSORS`."""

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Latency in milliseconds, (kernels,), positive, from features (kernels, features)."""

    def arrays(self) -> Arrays:
        """Everything that :meth:`from_arrays` needs."""

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Regressor: ...

    @classmethod
    def fit(cls, features: np.ndarray, latency_ms: np.ndarray, *, seed: int = 0, tune: bool = True) -> Regressor:
        """Trains on (kernels, features) and (kernels,), choosing hyper-parameters by cross-validation where ``tune``."""


REGRESSORS: Registry[type[Regressor]] = Registry(
    "regressor",
    {
        "lasso": "latcast.predictors.regressors.lasso:Lasso",
        "random_forest": "latcast.predictors.regressors.forest:RandomForest",
        "gbdt": "latcast.predictors.regressors.forest:GradientBoosting",
        "mlp": "latcast.predictors.regressors.mlp:MultiLayerPerceptron",
        "log_residual": "latcast.predictors.regressors.residual:LogResidual",
        "gaussian_process": "latcast.predictors.regressors.gaussian_process:GaussianProcessCorrection",
    },
    group="latcast.regressors",
)

INTERNAL_REGRESSORS = frozenset({"log_residual", "gaussian_process"})
"""Regressors that learn a factor on analytical terms; they do not stand alone."""


def fit_regressor(kind: str, features: np.ndarray, latency_ms: np.ndarray, *, seed: int = 0, tune: bool = True) -> Regressor:
    """Trains a regressor by name."""
    return REGRESSORS.get(kind).fit(features, latency_ms, seed=seed, tune=tune)


def regressor_from_arrays(kind: str, arrays: Arrays) -> Regressor:
    """Rebuilds a regressor from what a bundle holds.

    Raises:
        BundleError: An array is missing.
    """
    try:
        return REGRESSORS.get(kind).from_arrays(arrays)
    except KeyError as problem:
        raise BundleError(f"a '{kind}' regressor lacks its array {problem}; the bundle is damaged") from problem
