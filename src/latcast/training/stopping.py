"""Stops a campaign where measuring on would teach little: the error expected now, and its decrease by the rest of a budget.

At a few moments of a profile a predictor is trained on two thirds of the networks known, lineages whole, and judged on the
others; at the first moment also a predictor of half as many. All predict the same networks. The remaining gain is estimated
twice: from how their errors fall, ``error² = floor² + slope / networks``, and from how far their predictions move, ``moved² =
slope · (1 / before - 1 / now)``; the second notices learning where the errors of a few dozen networks stand still by chance.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import numpy as np

from latcast.errors import TrainingError
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.training.samples import NetworkSample, TrainingData, lineages_of, restrict

LAST_LOOK, LOOKS_RATIO, FIRST_LOOK_S = 0.7, 0.65, 115.0
"""Part of the measuring at the last look, its ratio to the look before, and seconds before the first; all take about 2 %."""

MOST_COST = 0.025
"""Part of the measuring that looks may have taken for another one to begin."""

HELD_OUT_OF = 3
"""One lineage in this many is judged on."""

FEWEST_PREDICTORS = 3
"""Two show a line, whatever the curve: the first look ends nothing."""

FEWEST_TO_END = 600
"""Networks below which measuring goes on: with fewer the estimates are too uncertain."""

FEWEST_JUDGED = 30
"""Whole networks held out, below which nothing is said."""

LARGEST_ERROR = 0.5
"""Error of one network, as far as it counts: a few that are far off say nothing about what is still being learned."""

LEAST_GAIN = 0.03
"""Part of the error that the rest of a budget must be able to take off it for measuring to go on."""

LEAST_POINTS = 0.1
"""The same in points."""

CAUTION = 0.8
"""Share of drawings of the judged networks, with replacement, in which the errors' curve shows no larger gain."""

DRAWINGS = 200


def look_shares(measuring_s: float) -> tuple[float, ...]:
    """Return the parts of the measuring at which to look, rising; none where it is short."""
    shares, share = [], LAST_LOOK
    while share * measuring_s >= FIRST_LOOK_S:
        shares.append(share)
        share *= LOOKS_RATIO
    return tuple(reversed(shares))


def fit_curves(networks: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``floor²`` and ``slope`` of ``error² = floor² + slope / networks`` by least squares, not negative, each (curves,).

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


TRAINING_SHARE, MOST_TRAINING_SHARE = 0.08, 0.4
"""Part of the budget kept for training on an idle host, and at most on one that is busy otherwise."""

TRIED_S = 0.2
"""Seconds of computing that show how busy a host is."""


def training_share(budget_minutes: float) -> float:
    """Return the part of the budget to keep for training: it takes as much longer than on an idle host as some computing does.

    A budget below a minute is for measuring: its training is short.
    """
    if budget_minutes < 1:
        return TRAINING_SHARE
    begun, computing_s = time.monotonic(), time.process_time()
    while (spent_s := time.process_time() - computing_s) < TRIED_S:
        sum(range(10_000))
    return min(TRAINING_SHARE * max((time.monotonic() - begun) / spent_s, 1.0), MOST_TRAINING_SHARE)


@dataclass(frozen=True)
class Outlook:
    """The expected error, and the gain of measuring on.

    Attributes:
        error: Mean error expected now on unseen lineages, in percent, against latencies measured in one process.
        gain: Upper estimate of the percentage points that the rest would take off it.
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
        """True if the rest of the measuring would gain too little."""
        known = self.predictors >= FEWEST_PREDICTORS and self.networks >= FEWEST_TO_END
        return known and self.gain <= max(LEAST_GAIN * self.error, LEAST_POINTS)

    def in_words(self) -> str:
        """Describe the estimate in one line."""
        rest = f"the remaining {self.left_s:.0f} s would bring {self.gain:.1f} points at most"
        return f"expected error now {self.error:.1f} %, {rest}; stopped"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form for scripts."""
        return {"expected_error": self.error, "gain": self.gain, "networks": self.networks, "left_seconds": self.left_s}


def outlook(
    learned_from: Sequence[int],
    predicted_ms: np.ndarray,
    actual_ms: np.ndarray,
    known: int,
    expected: float,
    left_s: float,
) -> Outlook:
    """Estimate the error now and the gain of the rest: the larger of two estimates.

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
    """Return absolute errors in percent, each at most :data:`LARGEST_ERROR`."""
    return 100 * np.minimum(np.abs(predicted_ms / actual_ms - 1), LARGEST_ERROR)


def held_out_third(networks: Sequence[NetworkSample]) -> np.ndarray:
    """Return which networks are judged on, (networks,) booleans: the same ones every time, lineages whole."""
    return np.array([zlib.crc32(name.encode()) % HELD_OUT_OF == 0 for name in lineages_of(networks)], dtype=bool)


@dataclass
class StoppingRule:
    """Says when to look at what was learned, and what the rest of the measuring would bring.

    Attributes:
        measuring_s: All seconds for measuring networks.
        known_at_start: Networks that the store held before.
        learned_from: (sizes,) networks that each predictor learned from.
        predictors: (sizes,) all judged on the same held-out networks.
    """

    measuring_s: float
    known_at_start: int = 0
    learned_from: list[int] = field(default_factory=list)
    predictors: list[PlatformPredictor] = field(default_factory=list)
    _looks: int = 0
    _looking_s: float = 0.0

    def due(self, spent_s: float) -> bool:
        """Return whether a moment of :func:`look_shares` has passed since the last call, while looks are cheap.

        Args:
            spent_s: Of measuring networks.
        """
        passed = sum(share * self.measuring_s <= spent_s < self.measuring_s for share in look_shares(self.measuring_s))
        if passed <= self._looks or self._looking_s >= MOST_COST * self.measuring_s:
            return False
        self._looks = passed
        return True

    def will_suffice(self, known: int, spent_s: float) -> bool:
        """Return whether there will be networks enough to end at the last look, where ``known`` are measured by now."""
        return self.expected(known, spent_s, max(LAST_LOOK * self.measuring_s, spent_s)) >= FEWEST_TO_END

    def expected(self, known: int, spent_s: float, at_s: float) -> float:
        """Return how many networks will be known at a later second, at the pace so far."""
        return known + (known - self.known_at_start) / spent_s * (at_s - spent_s)

    def look(
        self, collect: Callable[[], TrainingData], train: Callable[[TrainingData], PlatformPredictor], spent_s: float, known: int
    ) -> Outlook | None:
        """Train on two thirds of the networks, at first also on half of these, and judge all predictors so far on the others.

        Args:
            collect: Returns what was measured.
            train: Fits a predictor to a part of it.
            spent_s, known: As for :meth:`will_suffice`.

        Returns:
            None where networks or timed kernels are too few to say.
        """
        begun_s = time.monotonic()
        data = collect()
        held_out = held_out_third(data.networks)
        judged = [sample for sample in compress(data.networks, held_out) if sample.whole]
        keys = [sample.reference.key for sample in compress(data.networks, ~held_out)]
        found = None
        if min(len(judged), len(keys)) >= FEWEST_JUDGED:
            with suppress(TrainingError):
                for count in (len(keys),) if self.predictors else (len(keys) // 2, len(keys)):
                    if count > max(self.learned_from, default=0):
                        chosen = frozenset(keys[:count])
                        self.predictors.append(train(restrict(data, lambda each, chosen=chosen: each.reference.key in chosen)))  # type: ignore[misc]
                        self.learned_from.append(count)
                actual_ms = np.array([sample.latency_ms for sample in judged])
                predicted_ms = np.array(
                    [each.estimate([sample.kernels for sample in judged]).latency_ms for each in self.predictors]
                )
                found = outlook(
                    self.learned_from, predicted_ms, actual_ms, len(data.networks),
                    self.expected(known, spent_s, self.measuring_s), self.measuring_s - spent_s,
                )  # fmt: skip
        self._looking_s += time.monotonic() - begun_s
        return found
