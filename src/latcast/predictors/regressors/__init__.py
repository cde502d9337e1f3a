"""The interface of regressors, and their table."""

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
        """Return latencies in milliseconds, (kernels,), positive, from features (kernels, features)."""

    def arrays(self) -> Arrays:
        """Return everything that :meth:`from_arrays` needs."""

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Regressor: ...

    @classmethod
    def fit(cls, features: np.ndarray, latency_ms: np.ndarray, *, seed: int = 0) -> Regressor:
        """Train on (kernels, features) and (kernels,)."""


REGRESSORS: Registry[type[Regressor]] = Registry(
    "regressor",
    {
        "log_residual": "latcast.predictors.regressors.trees:LogResidual",
        "gaussian_process": "latcast.predictors.regressors.gaussian_process:GaussianProcessCorrection",
    },
    group="latcast.regressors",
)

INTERNAL_REGRESSORS = frozenset({"log_residual", "gaussian_process"})
"""Regressors that learn a factor on analytical terms; they do not stand alone."""


def fit_regressor(kind: str, features: np.ndarray, latency_ms: np.ndarray, *, seed: int = 0) -> Regressor:
    """Train a regressor by name."""
    return REGRESSORS.get(kind).fit(features, latency_ms, seed=seed)


def regressor_from_arrays(kind: str, arrays: Arrays) -> Regressor:
    """Rebuild a regressor from what a bundle holds.

    Raises:
        BundleError: An array is missing.
    """
    try:
        return REGRESSORS.get(kind).from_arrays(arrays)
    except KeyError as problem:
        raise BundleError(f"a '{kind}' regressor lacks its array {problem}; the bundle is damaged") from problem
