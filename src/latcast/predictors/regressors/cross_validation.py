"""Choosing hyper-parameters by k-fold cross-validation on the squared percentage error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

Setting = TypeVar("Setting")
Predict = Callable[[np.ndarray], np.ndarray]


def folds(count: int, parts: int, seed: int) -> np.ndarray:
    """Fold number of each of ``count`` samples, balanced, shuffled by the seed."""
    return np.random.default_rng(seed).permutation(np.arange(count) % parts)


def squared_percentage_error(predicted: np.ndarray, actual: np.ndarray) -> float:
    """Mean of ((prediction - truth) / truth)²: Li et al. §4.2."""
    return float(np.mean(((predicted - actual) / actual) ** 2))


def choose(
    settings: Sequence[Setting],
    fit: Callable[[Setting, np.ndarray, np.ndarray], Predict],
    features: np.ndarray,
    latency_ms: np.ndarray,
    *,
    seed: int,
    parts: int = 5,
) -> Setting:
    """The setting with the least cross-validated error; the first one where there are too few samples to tell."""
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
