"""The choice of a regressor's setting: by squared percentage error in cross-validation (Li et al. §4.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from latcast.predictors.regressors import REGRESSORS, Regressor

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
    def fit(cls: type[Fitted], features: np.ndarray, latency_ms: np.ndarray, *, seed: int = 0, tune: bool = False) -> Fitted:
        """See :class:`~latcast.predictors.regressors.Regressor`; ``tune`` chooses the setting by cross-validation."""

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


def fit_regressor(kind: str, features: np.ndarray, latency_ms: np.ndarray, *, seed: int = 0, tune: bool = False) -> Regressor:
    """Train one of the papers' regressors by name."""
    regressor = REGRESSORS.get(kind)
    assert issubclass(regressor, Tuned)
    return regressor.fit(features, latency_ms, seed=seed, tune=tune)
