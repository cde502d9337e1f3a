"""The interface of regressors, their table, and the choice of hyper-parameters: by squared percentage error (Li et al. §4.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

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
    def fit(cls, features: np.ndarray, latency_ms: np.ndarray, *, seed: int = 0, tune: bool = True) -> Regressor:
        """Train on (kernels, features) and (kernels,), choosing hyper-parameters by cross-validation where ``tune``."""


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


def fit_regressor(kind: str, features: np.ndarray, latency_ms: np.ndarray, *, seed: int = 0, tune: bool = True) -> Regressor:
    """Train a regressor by name."""
    return REGRESSORS.get(kind).fit(features, latency_ms, seed=seed, tune=tune)


def regressor_from_arrays(kind: str, arrays: Arrays) -> Regressor:
    """Rebuild a regressor from what a bundle holds.

    Raises:
        BundleError: An array is missing.
    """
    try:
        return REGRESSORS.get(kind).from_arrays(arrays)
    except KeyError as problem:
        raise BundleError(f"a '{kind}' regressor lacks its array {problem}; the bundle is damaged") from problem


Setting = TypeVar("Setting")
Predict = Callable[[np.ndarray], np.ndarray]


def folds(count: int, parts: int, seed: int) -> np.ndarray:
    """Return the fold number of each of ``count`` samples, balanced, shuffled by the seed."""
    return np.random.default_rng(seed).permutation(np.arange(count) % parts)


def squared_percentage_error(predicted: np.ndarray, actual: np.ndarray) -> float:
    """Return the mean of ((prediction - truth) / truth)²: Li et al. §4.2."""
    return float(np.mean(((predicted - actual) / actual) ** 2))


def choose_setting(
    settings: Sequence[Setting],
    fit: Callable[[Setting, np.ndarray, np.ndarray], Predict],
    features: np.ndarray,
    latency_ms: np.ndarray,
    *,
    seed: int,
    parts: int = 5,
) -> Setting:
    """Return the setting with the least cross-validated error; the first one where there are too few samples to tell."""
    if len(settings) == 1 or len(latency_ms) < 4 * parts:
        return settings[0]
    fold = folds(len(latency_ms), parts, seed)
    errors = []
    for setting in settings:
        held_out = []
        for part in range(parts):
            train, test = fold != part, fold == part
            predict = fit(setting, features[train], latency_ms[train])
            held_out.append(squared_percentage_error(predict(features[test]), latency_ms[test]))
        errors.append(float(np.mean(held_out)))
    return settings[int(np.argmin(errors))]


Fitted = TypeVar("Fitted", bound="Tuned")


class Tuned:
    """Training of a regressor with a few settings to choose from.

    Attributes:
        SETTINGS: What cross-validation chooses from.
        USUAL: The setting without it.
        PARTS: Of the samples, in cross-validation.
    """

    SETTINGS: ClassVar[tuple[Any, ...]]
    USUAL: ClassVar[Any]
    PARTS: ClassVar[int] = 3

    @classmethod
    def fit(cls: type[Fitted], features: np.ndarray, latency_ms: np.ndarray, *, seed: int = 0, tune: bool = True) -> Fitted:
        """See :class:`Regressor`."""

        def fit_one(setting: Any, x: np.ndarray, y: np.ndarray) -> Predict:
            return cls.fit_with(setting, x, y, seed).predict

        chosen = cls.USUAL
        if tune:
            chosen = choose_setting(cls.SETTINGS, fit_one, features, latency_ms, seed=seed, parts=cls.PARTS)
        return cls.fit_with(chosen, features, latency_ms, seed)

    @classmethod
    def fit_with(cls: type[Fitted], setting: Any, features: np.ndarray, latency_ms: np.ndarray, seed: int) -> Fitted:
        """Train with one setting."""
        raise NotImplementedError

    def predict(self, features: np.ndarray) -> np.ndarray:
        """See :class:`Regressor`."""
        raise NotImplementedError
