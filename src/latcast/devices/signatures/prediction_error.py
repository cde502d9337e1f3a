"""The networks from which all others are predicted with the least error.

Greedy: each time the network is added that leaves the least error when every known device in turn is predicted from the
chosen networks by what the other devices say (a Gaussian over networks in logarithms, the device's level free). The worst
devices, phones that throttled while they were measured, do not count: no choice of networks would help them.
"""

from __future__ import annotations

import numpy as np

from latcast.devices.cross_device_fit import typical_pattern
from latcast.devices.signatures import check_size

FOLDS = 5

RIDGE = 3e-3
"""Variance of what a network's latency does on its own."""

COUNTED_SHARE = 0.9
"""Of the devices, the best ones, whose errors count."""

CLIPPED_AT = 0.3
"""Logarithmic deviation from the typical pattern beyond which a cell is taken for a slip."""


def select(latency_ms: np.ndarray, size: int, seed: int = 0) -> tuple[int, ...]:
    """See :class:`latcast.devices.signatures.Selection`."""
    check_size(latency_ms, size)
    log_ms = np.log(latency_ms)
    typical, level = typical_pattern(log_ms)
    deviations = np.clip(log_ms - typical - level[:, None], -CLIPPED_AT, CLIPPED_AT)
    order = np.random.default_rng(seed).permutation(len(deviations))
    folds = [part for part in np.array_split(order, min(FOLDS, len(deviations))) if len(part)]
    covariances = [_covariance(np.delete(deviations, part, axis=0)) for part in folds]
    chosen: list[int] = []
    while len(chosen) < size:
        left = [network for network in range(deviations.shape[1]) if network not in chosen]
        errors = [_error(deviations, folds, covariances, [*chosen, network]) for network in left]
        chosen.append(left[int(np.argmin(errors))])
    return tuple(chosen)


def _covariance(deviations: np.ndarray) -> np.ndarray:
    return deviations.T @ deviations / max(len(deviations), 1)


def _error(deviations: np.ndarray, folds: list[np.ndarray], covariances: list[np.ndarray], chosen: list[int]) -> float:
    """Mean absolute error of the devices that count."""
    errors = np.zeros(len(deviations))
    one = np.ones(len(chosen))
    columns = np.array(chosen)
    for part, covariance in zip(folds, covariances, strict=True):
        inverse = np.linalg.inv(covariance[np.ix_(columns, columns)] + RIDGE * np.eye(len(columns)))
        right = deviations[np.ix_(part, columns)]
        offset = (right @ inverse @ one) / (one @ inverse @ one)
        predicted = offset[:, None] + (right - offset[:, None]) @ inverse @ covariance[chosen]
        errors[part] = np.abs(predicted - deviations[part]).mean(axis=1)
    counted = max(1, int(COUNTED_SHARE * len(errors)))
    return float(np.sort(errors)[:counted].mean())
