"""From a few measured networks to all of them: a new platform among those known, by Gaussian regression over platforms.

The known platforms' latencies are rows over networks. The other networks are regressed on the measured ones (logarithms
relative to their mean), linearly and by closeness; platforms of another runtime, unit or precision count less. The covariance of
the residuals of whole devices left out corrects the forecast and gives its deviation. A measured value that the others contradict
is dropped, such as that of a phone that throttles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from latcast.errors import TrainingError
from latcast.kernels.rules import unit_kind
from latcast.records import Platform

OTHER_RUNTIME = 0.3
OTHER_UNIT = 0.1
OTHER_PRECISION = 0.6
"""How alike a platform is whose runtime, kind of unit (CPU or GPU) or precision is another one; they multiply."""

CLOSENESS = 1.0
LINEAR = 1.0
"""Variances of what close platforms share, and of what follows the measured networks linearly, against that of the mean."""

RIDGE = 0.3
"""Variance of what is a platform's own, against the same."""

OWN_SHARE = 0.2
"""Part of the unexplained variance of a network that is not alike between networks."""

MEASUREMENT_VARIANCE = 1e-4
"""Of a measured latency's logarithm: 1 %."""

MOST_UNEXPLAINED = 0.7
"""Logarithm beyond which what the regression leaves unexplained is an accident, and is drawn in."""

DROPPED_AT = 3.0
DROPPED_FROM = 0.2
MOST_DROPPED = 3
"""A measured value is dropped that lies further than so many standard deviations, and so far in logarithms, from what the
others say; so many at most, and never more than a third."""


FEWEST_PLATFORMS = 3
"""Fewer known platforms say nothing of how platforms differ."""


@dataclass(frozen=True)
class PredictedPlatform:
    """Predicted latencies of a new platform.

    Attributes:
        log_ms: (networks,) expected logarithms of milliseconds.
        deviation: (networks,) their standard deviations.
        dropped: Positions among the measured networks of values that were dropped.
    """

    log_ms: np.ndarray
    deviation: np.ndarray
    dropped: tuple[int, ...]


def kind_similarity(platforms: Sequence[str], others: Sequence[str]) -> np.ndarray:
    """Return the similarity of platforms by runtime, kind of unit and precision alone, (platforms, others)."""
    first, second = ([_kind(name) for name in names] for names in (platforms, others))
    found = np.ones((len(first), len(second)))
    for position, factor in enumerate((OTHER_RUNTIME, OTHER_UNIT, OTHER_PRECISION)):
        a, b = (np.array([each[position] for each in kinds]) for kinds in (first, second))
        found *= np.where(a[:, None] == b[None, :], 1.0, factor)
    return found


@cache
def _kind(name: str) -> tuple[str, str, str]:
    platform = Platform.parse(name)
    return platform.runtime, "gpu" if "gpu" in unit_kind(platform.unit) else "cpu", "int8" if platform.precision == "int8" else ""


@dataclass(frozen=True)
class KnownRows:
    """Latencies of known platforms.

    Attributes:
        log_ms: (platforms, networks) measured or predicted logarithms.
        among: (platforms, platforms) :func:`kind_similarity`.
        devices: (platforms,) numbers; platforms of the same device are left out together.
    """

    log_ms: np.ndarray
    among: np.ndarray
    devices: np.ndarray


def predict_platform(known: KnownRows, similarity: np.ndarray, measured: np.ndarray, log_ms: np.ndarray) -> PredictedPlatform:
    """Predict all networks on a new platform.

    Args:
        similarity: (platforms,) of the new one to them, by kind.
        measured: (measured,) columns of the measured networks.
        log_ms: (measured,) their measured logarithms.

    Raises:
        TrainingError: Nothing was measured, or fewer than three platforms are known.
    """
    if not len(measured) or len(known.log_ms) < FEWEST_PLATFORMS:
        raise TrainingError(
            f"{len(measured)} measured networks and {len(known.log_ms)} known platforms; expected at least one network and "
            f"{FEWEST_PLATFORMS} platforms"
        )
    kept = np.ones(len(measured), dtype=bool)
    while True:
        found, contradiction = _regress(known, similarity, measured[kept], log_ms[kept])
        most = min(MOST_DROPPED, len(measured) // 3)
        if contradiction is None or (~kept).sum() >= most:
            dropped = tuple(int(position) for position in np.flatnonzero(~kept))
            return PredictedPlatform(found.log_ms, found.deviation, dropped)
        kept[np.flatnonzero(kept)[contradiction]] = False


def _regress(
    known: KnownRows, similarity: np.ndarray, measured: np.ndarray, log_ms: np.ndarray
) -> tuple[PredictedPlatform, int | None]:
    """Predict the new platform; also return the measured value that the others contradict the most, if any."""
    rows = known.log_ms - known.log_ms[:, measured].mean(axis=1, keepdims=True)
    level = float(log_ms.mean())
    signature = rows[:, measured]
    covariance, cross = _platform_covariance(signature, log_ms - level, known.among, similarity)
    inverse = np.linalg.inv(covariance + RIDGE * np.eye(len(rows)))
    mean = rows.mean(axis=0)
    weights = inverse @ (rows - mean)
    expected = mean + cross @ weights
    unexplained = np.clip(_left_out(inverse, weights, known.devices), -MOST_UNEXPLAINED, MOST_UNEXPLAINED)
    weighted = unexplained * np.sqrt(similarity / similarity.sum())[:, None]
    own = (weighted**2).sum(axis=0)
    joint = (1 - OWN_SHARE) * weighted.T @ weighted[:, measured]
    joint[measured, np.arange(len(measured))] += OWN_SHARE * own[measured]
    observed = joint[measured] + MEASUREMENT_VARIANCE * np.eye(len(measured))
    precision = np.linalg.inv(observed)
    difference = log_ms - level - expected[measured]
    dual = precision @ difference
    left = own - ((joint @ precision) * joint).sum(axis=1)
    found = PredictedPlatform(level + expected + joint @ dual, np.sqrt(np.maximum(left, MEASUREMENT_VARIANCE)), ())
    by_others = dual / np.diag(precision)
    standardised = np.abs(by_others) * np.sqrt(np.diag(precision))
    worst = int(np.argmax(standardised))
    contradicted = len(measured) > 1 and standardised[worst] > DROPPED_AT and abs(by_others[worst]) > DROPPED_FROM
    return found, worst if contradicted else None


def _platform_covariance(
    signature: np.ndarray, new: np.ndarray, among: np.ndarray, similarity: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the covariance of the known platforms, (platforms, platforms), and of the new one with them, (platforms,)."""
    centred = signature - signature.mean(axis=0)
    new_centred = new - signature.mean(axis=0)
    squares = (centred**2).sum(axis=1)
    distance = np.maximum(squares[:, None] + squares - 2 * centred @ centred.T, 0.0)
    to_new = ((centred - new_centred) ** 2).sum(axis=1)
    usual = max(float(np.median(distance)), 1e-12)
    spread = max(float(squares.mean()), 1e-12)
    covariance = among * (1 + CLOSENESS * np.exp(-distance / (2 * usual)) + LINEAR * centred @ centred.T / spread)
    cross = similarity * (1 + CLOSENESS * np.exp(-to_new / (2 * usual)) + LINEAR * centred @ new_centred / spread)
    return covariance, cross


def _left_out(inverse: np.ndarray, weights: np.ndarray, devices: np.ndarray) -> np.ndarray:
    """Return the residual of each platform when its whole device is left out, (platforms, networks)."""
    found = np.empty_like(weights)
    for device in np.unique(devices):
        rows = np.flatnonzero(devices == device)
        found[rows] = np.linalg.solve(inverse[np.ix_(rows, rows)], weights[rows])
    return found
