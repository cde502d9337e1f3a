"""When measuring longer would teach little: the error expected now, and what the rest of a budget would take off it.

At a few moments of a profile a predictor is trained on two thirds of the networks known, lineages whole, and judged on the
others; at the first one also a predictor of half as many. All predict the same networks, and what more would bring is estimated
twice: from how their errors fall, ``error² = floor² + slope / networks``, and from how far their predictions move, as what a
predictor learned between two moments is what it is nearer to the truth by, ``moved² = slope · (1 / before - 1 / now)``. Errors
of some dozens of networks may stand still by chance; predictions that still move tell.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from latcast.errors import TrainingError
from latcast.predictors.intervals import lineages_of
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.samples import NetworkSample, TrainingData, restrict
from latcast.records import Platform

if TYPE_CHECKING:
    from latcast.datasets.store import Store

LAST_LOOK, LOOKS_RATIO, FIRST_LOOK_S = 0.7, 0.65, 120.0
"""Part of the measuring at which is looked last, factor to the look before, and seconds before which is not looked at all: the
looks are to take a fiftieth of the measuring together."""

MOST_COST = 0.025
"""Part of the measuring that looking may have taken for another look; on a slow host there is one."""

HELD_OUT_OF = 3
"""One lineage in so many is judged on."""

FEWEST_PREDICTORS = 3
"""Two show a line, whatever the curve: the first look ends nothing."""

FEWEST_TO_END = 600
"""Networks below which nothing ends, as there the estimates say too little: after seven tenths of four profiles of five minutes
(260 to 490 networks) they promised 1 to 5 % of the error, and the rest took 1 to 11 % off it."""

FEWEST_JUDGED = 30
"""Whole networks held out, below which nothing is said."""

LARGEST_ERROR = 0.5
"""Of one network, as far as it counts: a few that are far off say nothing about what is still being learned."""

LEAST_GAIN = 0.03
"""Part of the error that the rest of a budget must be able to take off it for measuring to go on."""

LEAST_POINTS = 0.1
"""The same in points."""

CAUTION = 0.8
"""Share of drawings of the judged networks, with replacement, in which the errors' curve shows no larger gain."""

DRAWINGS = 200


def look_shares(measuring_s: float) -> tuple[float, ...]:
    """Parts of the measuring after which is looked, rising; none where it is short."""
    shares, share = [], LAST_LOOK
    while share * measuring_s >= FIRST_LOOK_S:
        shares.append(share)
        share *= LOOKS_RATIO
    return tuple(reversed(shares))


def fit_curves(networks: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``floor²`` and ``slope`` of ``error² = floor² + slope / networks`` by least squares, neither negative, each (curves,).

    Args:
        networks: (sizes,) how many were learned from.
        errors: (curves, sizes).
    """
    x, y = 1 / networks, errors**2
    away = x - x.mean()
    slope = (y @ away) / max(float(away @ away), 1e-300)
    floor = y.mean(axis=1) - slope * x.mean()
    # Of two unknowns that must not be negative the one that would be is 0.
    slope = np.where(floor < 0, (y @ x) / (x @ x), np.maximum(slope, 0.0))
    return np.maximum(np.where(slope > 0, floor, y.mean(axis=1)), 0.0), slope


@dataclass(frozen=True)
class Outlook:
    """What more measuring would bring.

    Attributes:
        error: Percent that networks of unseen lineages are expected to be off by now, on average, as measured once.
        gain: Points of that which the rest would take off it, as much as may well be.
        networks: Known now.
        left_s: Seconds of measuring left.
        predictors: On which that rests.
    """

    error: float
    gain: float
    networks: int
    left_s: float
    predictors: int = FEWEST_PREDICTORS

    @property
    def enough(self) -> bool:
        """Whether the rest is not worth measuring."""
        known = self.predictors >= FEWEST_PREDICTORS and self.networks >= FEWEST_TO_END
        return known and self.gain <= max(LEAST_GAIN * self.error, LEAST_POINTS)

    def in_words(self) -> str:
        """One line."""
        rest = f"the remaining {self.left_s:.0f} s would bring {self.gain:.1f} points at most"
        return f"expected error now {self.error:.1f} %, {rest}; stopped"

    def to_json(self) -> dict[str, Any]:
        """For scripts."""
        return {"expected_error": self.error, "gain": self.gain, "networks": self.networks, "left_seconds": self.left_s}


def outlook(
    learned_from: Sequence[int],
    predicted_ms: np.ndarray,
    actual_ms: np.ndarray,
    known: int,
    expected: float,
    left_s: float,
) -> Outlook:
    """The larger of both estimates.

    Args:
        learned_from: (sizes,) networks, rising, at least two numbers.
        predicted_ms: (sizes, judged).
        actual_ms: (judged,).
        known: Networks that a predictor of all would learn from now.
        expected: The same at the end of the measuring.
        left_s: Until then.
    """
    judged = len(actual_ms)
    errors = _off(predicted_ms, actual_ms)
    drawn = np.random.default_rng(0).integers(0, judged, (DRAWINGS, judged))
    networks = np.array(learned_from, dtype=np.float64)
    floor, slope = fit_curves(networks, np.vstack([errors.mean(axis=1), errors[:, drawn].mean(axis=2).T]))
    now = np.sqrt(floor + slope / known)
    by_errors = float(np.quantile((now - np.sqrt(floor + slope / expected))[1:], CAUTION))
    moved = float(_off(predicted_ms[-1], predicted_ms[-2]).mean())
    taken_off = moved**2 * (1 / known - 1 / expected) / (1 / networks[-2] - 1 / networks[-1])
    by_moves = float(now[0] - np.sqrt(max(now[0] ** 2 - taken_off, 0.0)))
    return Outlook(float(now[0]), max(by_errors, by_moves), known, left_s, len(learned_from))


def _off(predicted_ms: np.ndarray, actual_ms: np.ndarray) -> np.ndarray:
    """Percent without a sign, as far as they count."""
    return 100 * np.minimum(np.abs(predicted_ms / actual_ms - 1), LARGEST_ERROR)


def held_out_third(networks: Sequence[NetworkSample]) -> np.ndarray:
    """Which networks are judged on, (networks,) booleans: always the same ones, lineages whole."""
    return np.array([zlib.crc32(name.encode()) % HELD_OUT_OF == 0 for name in lineages_of(networks)], dtype=bool)


@dataclass
class Learning:
    """What predictors of more and more networks showed.

    Attributes:
        learned_from: (sizes,) networks that each predictor learned from.
        predictors: (sizes,).
    """

    learned_from: list[int] = field(default_factory=list)
    predictors: list[PlatformPredictor] = field(default_factory=list)

    def look(
        self, data: TrainingData, train: Callable[[TrainingData], PlatformPredictor], expected: float, left_s: float
    ) -> Outlook | None:
        """Trains on what is known now, at first also on half of it, and judges all predictors so far.

        Args:
            data: All networks known.
            train: Makes a predictor of some of them.
            expected: How many there would be at the end of the measuring.
            left_s: Until then.

        Returns:
            None where the networks are too few to say.

        Raises:
            TrainingError: Too few kernels were timed.
        """
        held_out = held_out_third(data.networks)
        judged = [sample for sample in compress(data.networks, held_out) if sample.whole]
        keys = [sample.reference.key for sample in compress(data.networks, ~held_out)]
        if len(judged) < FEWEST_JUDGED or len(keys) < FEWEST_JUDGED:
            return None
        for count in (len(keys),) if self.predictors else (len(keys) // 2, len(keys)):
            if count > max(self.learned_from, default=0):
                chosen = frozenset(keys[:count])
                rest = restrict(data, lambda sample, chosen=chosen: sample.reference.key in chosen)  # type: ignore[misc]
                self.predictors.append(train(rest))
                self.learned_from.append(count)
        actual = np.array([sample.latency_ms for sample in judged])
        kernels = [sample.kernels for sample in judged]
        predicted_ms = np.array([each.estimate(kernels).latency_ms for each in self.predictors])
        return outlook(self.learned_from, predicted_ms, actual, len(data.networks), expected, left_s)


@dataclass
class Lookout:
    """Ends the measuring of networks where the rest of it would teach little.

    Attributes:
        store: Where the measurements are.
        collect: What is known of a platform.
        train: Makes a predictor of a part of that.
        announce: Called with the part of the measuring that is over before it looks.
        stopped: What ended it; None where nothing did.
    """

    store: Store
    collect: Callable[[Platform], TrainingData]
    train: Callable[[TrainingData, Platform], PlatformPredictor]
    announce: Callable[[float], None] = lambda share: None
    stopped: Outlook | None = None
    _learning: Learning = field(default_factory=Learning)
    _at_start: int | None = None
    _looked: int = 0
    _cost_s: float = 0.0

    def enough(self, platform: Platform, spent_s: float, measuring_s: float) -> bool:
        """Whether to end: asked between batches, it looks at the moments of :func:`look_shares`.

        Args:
            platform: That is measured.
            spent_s: Of measuring networks.
            measuring_s: All there is for that.
        """
        if self._at_start is None:
            # What was known before is no part of what a second adds.
            self._at_start = self._known(platform)
        due = sum(share * measuring_s <= spent_s < measuring_s for share in look_shares(measuring_s))
        if self.stopped is None and due > self._looked and self._cost_s < MOST_COST * measuring_s:
            self._looked = due
            self.announce(spent_s / measuring_s)
            begun = time.monotonic()
            left_s, known = measuring_s - spent_s, self._known(platform)
            a_second = (known - self._at_start) / spent_s
            if known + a_second * max(LAST_LOOK * measuring_s - spent_s, 0.0) < FEWEST_TO_END:
                return False
            expected = known + a_second * left_s
            with suppress(TrainingError):
                found = self._learning.look(self.collect(platform), lambda data: self.train(data, platform), expected, left_s)
                self.stopped = found if found is not None and found.enough else None
            self._cost_s += time.monotonic() - begun
        return self.stopped is not None

    def _known(self, platform: Platform) -> int:
        return sum(tally.succeeded > 0 for tally in self.store.tallies(platform.id, "network").values())
