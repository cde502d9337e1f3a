"""Methods that choose a signature: the networks whose latencies describe a phone (Ganesan et al. §III-C).

Each sees the latencies of known phones alone, (phones, networks), complete, and returns ``size`` different columns, best first.
The seed is for what is random.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from latcast.predictors.metrics import ranks


def select_random(latency_ms: np.ndarray, size: int, seed: int = 0) -> tuple[int, ...]:
    """Select at random (Ganesan et al. §III-C, RS)."""
    order = np.random.default_rng(seed).permutation(latency_ms.shape[1])
    return tuple(int(index) for index in order[:size])


LEVELS = 3


def levels(latency_ms: np.ndarray) -> np.ndarray:
    """Return the tercile (0 to 2) of each network's latencies that a device lies in, (devices, networks)."""
    cuts = np.quantile(latency_ms, np.arange(1, LEVELS) / LEVELS, axis=0)
    found: np.ndarray = (latency_ms[None] >= cuts[:, None]).sum(axis=0)
    return found


def entropy(codes: np.ndarray) -> float:
    """Return the entropy of the distribution of codes over devices, in nats."""
    _, counts = np.unique(codes, return_counts=True)
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def select_by_mutual_information(latency_ms: np.ndarray, size: int, seed: int = 0) -> tuple[int, ...]:
    """Select by mutual information (Ganesan et al., Algorithm 1, MIS).

    Each network's latencies become terciles over the devices. The first network is random; each next one maximises
    ``H(chosen, new) - H(new)``, as the released code does: it repeats least of the chosen ones. Of equal ones the last is taken.
    """
    table = levels(latency_ms)
    networks = table.shape[1]
    alone = np.array([entropy(column) for column in table.T])
    first = int(np.random.default_rng(seed).integers(networks))
    chosen, joint = [first], table[:, first]
    while len(chosen) < size:
        best, index = -np.inf, -1
        for candidate in range(networks):
            if candidate in chosen:
                continue
            gain = entropy(joint * LEVELS + table[:, candidate]) - alone[candidate]
            if gain >= best:
                best, index = gain, candidate
        chosen.append(index)
        # Codes renumbered, so that they stay small however many networks are joined.
        joint = np.unique(joint * LEVELS + table[:, index], return_inverse=True)[1]
    return tuple(chosen)


THRESHOLD = 0.98
"""γ of Algorithm 2."""


def rank_correlations(latency_ms: np.ndarray) -> np.ndarray:
    """Return Spearman correlations over the devices, (networks, networks); 0 with a network equal on all devices."""
    by_device = np.apply_along_axis(ranks, 0, latency_ms)
    by_device -= by_device.mean(axis=0)
    length = np.sqrt((by_device**2).sum(axis=0))
    by_device /= np.where(length > 0, length, 1)
    return np.asarray(by_device.T @ by_device)


def distinct(correlations: np.ndarray, size: int, threshold: float = THRESHOLD) -> list[int]:
    """Apply Algorithm 2: ``size`` networks, or fewer where it runs out of them."""
    left = list(range(len(correlations)))
    chosen: list[int] = []
    while left and len(chosen) < size:
        alike = correlations[np.ix_(np.array(left), np.array(left))] >= threshold
        best = int(alike.sum(axis=1).argmax())
        chosen.append(left[best])
        left = [network for place, network in enumerate(left) if not alike[best, place] and place != best]
    return chosen


def select_by_spearman(latency_ms: np.ndarray, size: int, seed: int = 0, threshold: float = THRESHOLD) -> tuple[int, ...]:
    """Select by Spearman correlation (Ganesan et al., Algorithm 2, SCCS).

    The network that the most others correlate with is taken, and they are removed. Where the algorithm runs out of networks,
    which the paper leaves open, each further one correlates least with those chosen. Nothing is random.
    """
    correlations = rank_correlations(latency_ms)
    chosen = distinct(correlations, size, threshold)
    while len(chosen) < size:
        highest = correlations[:, chosen].max(axis=1)
        highest[chosen] = np.inf
        chosen.append(int(highest.argmin()))
    return tuple(chosen)


ERROR_FOLDS = 5

RIDGE = 3e-3
"""Variance of what a network's latency does on its own."""

COUNTED_SHARE = 0.9
"""Part of the devices, the best ones, whose errors count."""

CLIPPED_AT = 0.3
"""Logarithmic deviation from the typical pattern beyond which a cell is taken for a slip."""


def select_by_prediction_error(latency_ms: np.ndarray, size: int, seed: int = 0) -> tuple[int, ...]:
    """Select the networks from which all others are predicted best.

    Greedy: each time the network is added that leaves the least error when every known device in turn is predicted from the
    chosen networks by the other devices (a Gaussian over networks in logarithms, the device's level free). The worst devices do
    not count, as they throttled while they were measured.
    """
    log_ms = np.log(latency_ms)
    typical, level = typical_pattern(log_ms)
    deviations = np.clip(log_ms - typical - level[:, None], -CLIPPED_AT, CLIPPED_AT)
    order = np.random.default_rng(seed).permutation(len(deviations))
    folds = [part for part in np.array_split(order, min(ERROR_FOLDS, len(deviations))) if len(part)]
    others = [np.delete(deviations, part, axis=0) for part in folds]
    covariances = [rows.T @ rows / max(len(rows), 1) for rows in others]
    chosen: list[int] = []
    while len(chosen) < size:
        left = [network for network in range(deviations.shape[1]) if network not in chosen]
        errors = [_left_out_error(deviations, folds, covariances, [*chosen, network]) for network in left]
        chosen.append(left[int(np.argmin(errors))])
    return tuple(chosen)


def typical_pattern(log_ms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fit the typical pattern (networks,) of a table's rows and the level (devices,) of each; NaN cells are ignored."""
    level = np.nanmedian(log_ms, axis=1)
    for _ in range(3):
        pattern = np.nanmedian(log_ms - level[:, None], axis=0)
        level = np.nanmedian(log_ms - pattern, axis=1)
    return np.nanmedian(log_ms - level[:, None], axis=0), level


def _left_out_error(deviations: np.ndarray, folds: list[np.ndarray], covariances: list[np.ndarray], chosen: list[int]) -> float:
    """Return the mean absolute error of the devices that count."""
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


SELECTIONS: Mapping[str, Callable[[np.ndarray, int, int], tuple[int, ...]]] = MappingProxyType(
    {
        "random": select_random,
        "mutual_information": select_by_mutual_information,
        "spearman": select_by_spearman,
        "prediction_error": select_by_prediction_error,
    }
)
