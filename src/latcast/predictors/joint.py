"""Two latencies on one platform together: the distributions of their difference and of their ratio.

Networks that share kernels share their errors. The error of a network's logarithm is the mean error of its kernels, weighted by
their shares of its latency; errors of kernels are correlated as far as they are of one type, of close sizes, or the same
(:data:`SHARED`). On a platform known by few measurements its posterior adds what two forecasts share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from latcast.graph.ir import Graph
from latcast.kernels.search import find_kernels
from latcast.kernels.types import kernel_type
from latcast.predictors.intervals import LEVEL
from latcast.predictors.kernel_predictor import feature_matrix
from latcast.predictors.network_terms import size_lengths
from latcast.predictors.platform_predictor import Estimates, PlatformPredictor
from latcast.predictors.prediction import Prediction
from latcast.predictors.regressors.gaussian_process import SizeCovariance

QUANTILES = 100
"""Quantiles of what two errors share, and as many of what they do not, for the distribution of both latencies."""

CLOSE = 0.5
"""Sizes are close over this part of the lengths over which kernel predictors take them for alike."""


@dataclass(frozen=True)
class SharedErrors:
    """Variances of a kernel's error, of which two networks share what their kernels share; their scale does not matter.

    Attributes:
        kind: What all kernels of a type share.
        close: What kernels of a type and of close sizes share.
        same: What the same kernels share alone.
    """

    kind: float
    close: float
    same: float

    def combined(self, parts: np.ndarray) -> np.ndarray:
        """Return the correlations of errors, (networks, networks), from :func:`shared_parts`."""
        return np.maximum(_correlations(np.tensordot([self.kind, self.close, self.same], parts, 1)), 0.0)


SHARED = SharedErrors(kind=0.0, close=0.6, same=0.4)
"""Shares fitted by ``python -m benchmarks differences`` to published phones in fp32 and fp16, lineages held out."""


def shared_parts(estimates: Estimates, constant_ms: float) -> np.ndarray:
    """Return how much of the latencies of two networks is in kernels of one type, close or the same, (3, networks, networks).

    Args:
        estimates: Of the networks.
        constant_ms: What a network takes beside its kernels; the same for all.
    """
    table = estimates.table
    kernel_ms = np.zeros((table.networks, len(estimates.kernel_ms) + 1))
    np.add.at(kernel_ms, (table.network, table.kernel), estimates.kernel_ms[table.kernel])
    kernel_ms[:, -1] = constant_ms
    whole_ms = kernel_ms.sum(axis=1, keepdims=True)
    kernel_ms[whole_ms[:, 0] <= 0, -1] = 1.0  # a network of views alone
    share = kernel_ms / np.where(whole_ms > 0, whole_ms, 1.0)
    overhead = np.outer(share[:, -1], share[:, -1])
    found = np.stack([overhead, overhead, share @ share.T])
    start = 0
    for name, rows in table.configurations.items():
        part = share[:, start : start + len(rows)]
        start += len(rows)
        found[0] += np.outer(part.sum(axis=1), part.sum(axis=1))
        lengths = size_lengths(kernel_type(name))
        sizes = feature_matrix(kernel_type(name), rows, tuple(lengths))
        close = SizeCovariance(CLOSE * np.array(list(lengths.values())), 0, level=0.0, path=0.0, smooth=1.0, own=0.0)
        found[1] += part @ close.between(sizes, sizes) @ part.T
    return found


def error_correlation(predictor: PlatformPredictor, networks: Sequence[Graph]) -> np.ndarray:
    """Return the correlations of the errors of predictions, (networks, networks): of their logarithms, from 0 to 1.

    Networks of the same kernels have 1: whatever is wrong of one is wrong of the other.
    """
    estimates = predictor.estimate([find_kernels(graph, predictor.rules) for graph in networks])
    alike = SHARED.combined(shared_parts(estimates, predictor.network.constant_ms))
    if predictor.device is not None:
        alike = _correlations(predictor.device.covariance_of_sums(estimates.sums_ms[:, 4:], alike))
    # Rounding leaves 1 - 1e-16, and with it a difference of equal networks.
    return np.where(estimates.table.same_networks(), 1.0, alike)


def _correlations(covariance: np.ndarray) -> np.ndarray:
    deviation = np.sqrt(np.diag(covariance))
    return np.clip(covariance / np.outer(deviation, deviation), -1.0, 1.0)


@dataclass(frozen=True)
class JointLatency:
    """Two latencies: equally probable pairs of them.

    Attributes:
        a_ms, b_ms: (pairs,) milliseconds.
        level: Percent of differences that should lie in an interval.
    """

    a_ms: np.ndarray
    b_ms: np.ndarray
    level: float = 100 * LEVEL

    def difference_ms(self) -> tuple[float, float]:
        """Return the interval of ``b - a`` in milliseconds."""
        return self._interval(self.b_ms - self.a_ms)

    def growth_percent(self) -> tuple[float, float]:
        """Return the interval of how much more b takes, in percent of a; infinite where a takes nothing."""
        return self._interval(100 * (_ratio(self.b_ms, self.a_ms) - 1))

    def faster_probability(self) -> float:
        """Return the probability that b is faster than a; 0.5 where they are identical."""
        difference = self.b_ms - self.a_ms
        return float((difference < 0).mean() + (difference == 0).mean() / 2)

    def probability_of_growth(self, percent: float) -> float:
        """Return the probability that b takes over ``percent`` percent more than a."""
        return float((_ratio(self.b_ms, self.a_ms) > 1 + percent / 100).mean())

    def _interval(self, values: np.ndarray) -> tuple[float, float]:
        outside = (1 - self.level / 100) / 2
        low, high = np.quantile(values, [outside, 1 - outside], method="nearest")  # infinite ones are not to be mixed
        return float(low), float(high)


def joint_of(a: Prediction, b: Prediction, correlation: float) -> JointLatency:
    """Join two predictions whose errors have a correlation.

    The logarithm of each latency is assumed normal on either side of the prediction, with the deviation of that side from the
    prediction's interval. The interval of a difference is of the predictions' level, of 90 % where they have none.
    """
    normal = NormalDist()
    score = np.array([normal.inv_cdf((index + 0.5) / QUANTILES) for index in range(QUANTILES)])
    shared, apart = np.sqrt((1 + correlation) / 2) * score[:, None], np.sqrt((1 - correlation) / 2) * score
    return JointLatency(
        latencies_ms(a, (shared + apart).ravel() / _level_deviations(a)),
        latencies_ms(b, (shared - apart).ravel() / _level_deviations(b)),
        100 * LEVEL if a.level is None else a.level,
    )


def probability_above(found: Prediction, limit_ms: float) -> float:
    """Return the probability that a latency is above a limit, by the distribution of :func:`joint_of`."""
    if found.latency_ms <= 0 or limit_ms <= 0:
        return float(found.latency_ms > limit_ms)
    bound_ms = found.high_ms if limit_ms > found.latency_ms else found.low_ms
    away, reach = abs(np.log(limit_ms / found.latency_ms)), abs(np.log(bound_ms / found.latency_ms))
    beyond = 1 - NormalDist().cdf(_level_deviations(found) * float(away / reach)) if reach > 0 else 0.5 * (away == 0)
    return float(beyond if limit_ms >= found.latency_ms else 1 - beyond)


def _level_deviations(found: Prediction) -> float:
    """Return the standard deviations to either side that hold the level of a prediction's interval."""
    level = 100 * LEVEL if found.level is None else found.level
    return NormalDist().inv_cdf((1 + level / 100) / 2)


def latencies_ms(found: Prediction, score: np.ndarray) -> np.ndarray:
    """Return the latencies, (scores,), where -1 and 1 are the bounds of the interval."""
    if found.latency_ms <= 0:
        return np.zeros(len(score))
    low, high = np.log(found.low_ms / found.latency_ms), np.log(found.high_ms / found.latency_ms)
    return np.asarray(found.latency_ms * np.exp(np.where(score < 0, -score * low, score * high)))


def _ratio(b_ms: np.ndarray, a_ms: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(b_ms == a_ms, 1.0, b_ms / a_ms)
