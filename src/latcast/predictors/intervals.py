"""Networks held out by whole lineages, and intervals calibrated on them (split conformal prediction)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

FOLDS = 5
"""Parts, wherever nothing else is said."""

WIDEST = 100.0
"""Upper over lower bound from which on an interval says that a latency is hardly known."""

LEVEL_DEVIATIONS = 1.645
"""Standard deviations to either side that hold 90 % of a normal distribution."""

LARGEST_SHARE = 0.5
"""Part of the networks in one group: what is left without a larger one would not teach."""


def held_out_by(groups: Sequence[str], parts: int, seed: int) -> str:
    """Describe what :func:`group_folds` holds out: "lineage (random_mixed by network)"."""
    fold, labels = group_folds(groups, parts, seed), np.array(groups)
    split = [name for name in sorted(set(groups)) if len(set(fold[labels == name].tolist())) > 1]
    return "lineage" + (f" ({', '.join(split)} by network)" if split else "")


def group_folds(groups: Sequence[str], parts: int, seed: int) -> np.ndarray:
    """Return the fold of each network, (networks,); groups stay whole.

    Two kinds are split instead: more than :data:`LARGEST_SHARE` of all networks, and a synthetic space, whose networks
    share no blocks.
    """
    from latcast.spaces.catalogue import SYNTHETIC_NAMES

    rng = np.random.default_rng(seed)
    names, counts = np.unique(groups, return_counts=True)
    fold = np.zeros(len(groups), dtype=int)
    load = np.zeros(parts)
    labels = np.array(groups)
    for index in np.argsort(-counts, kind="stable"):
        members = np.flatnonzero(labels == names[index])
        if names[index] in SYNTHETIC_NAMES or counts[index] > LARGEST_SHARE * len(groups):
            fold[members] = rng.permutation(np.arange(len(members)) % parts)
            load += len(members) / parts
        else:
            target = int(np.argmin(load))
            fold[members] = target
            load[target] += len(members)
    return fold


LEVEL = 0.9
"""Share of networks whose latency should lie inside the interval."""


OUTSIDE_GROWTH = 1.0
"""How much wider (in logarithms) an interval is by default where all of a latency is outside the training range."""

GPUS_OUTSIDE_GROWTH = 4.0
"""The same for GPUs, whose errors on novel networks are two to four times as large."""


GROWTHS = (0.0, *(2.0 ** np.arange(-1, 5.5, 0.5)).tolist())
"""Growths among which the one of a platform is learned (:func:`learned_growth`)."""

RANGE, VARIANCE = "range", "variance"
"""Novelty: the latency's share outside the trained range; or the root of its variance's unexplained share."""


@dataclass(frozen=True)
class HeldOut:
    """Networks as predicted without having seen them (nor, better, their lineages).

    Attributes:
        latency_ms: (networks,) predicted.
        outside_share: (networks,) how much of it is novel to what was trained on without them (:meth:`Interval.outside_share`).
    """

    latency_ms: np.ndarray
    outside_share: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> HeldOut:
        return HeldOut(self.latency_ms[rows], self.outside_share[rows])


@dataclass(frozen=True)
class Length:
    """How much farther off short networks are than long ones, whose kernels' errors are many and cancel.

    Attributes:
        exponent: In logarithms an interval reaches ``(latency / middle) ^ -exponent`` times as far; 0 where all reach alike.
        shortest_ms, longest_ms: Latencies beyond which it does not change; the middle is their geometric mean.
    """

    exponent: float = 0.0
    shortest_ms: float = 1.0
    longest_ms: float = 1.0

    def factor(self, latency_ms: np.ndarray) -> np.ndarray:
        """Return how many times as far as in the middle an interval reaches, (networks,)."""
        if not self.exponent:
            return np.ones(len(latency_ms))
        middle = np.sqrt(self.shortest_ms * self.longest_ms)
        return np.asarray((np.clip(latency_ms, self.shortest_ms, self.longest_ms) / middle) ** -self.exponent)


LONGEST_EXPONENT = 0.5
"""Exponent of errors that are independent kernel by kernel."""

LENGTH_QUANTILES = (0.1, 0.9)
"""Quantiles of the calibration networks' latencies: between them an interval changes with the length."""


def fitted_length(score: np.ndarray, latency_ms: np.ndarray, weights: np.ndarray) -> Length:
    """Fit the errors' logarithms to those of the latencies; longer networks never get wider intervals.

    Args:
        score: (networks,) errors, in logarithms.
        latency_ms: (networks,) predicted.
        weights: (networks,).
    """
    shortest, longest = np.quantile(latency_ms, LENGTH_QUANTILES)
    place = np.log(np.clip(latency_ms, shortest, longest))
    size = np.log(np.maximum(np.abs(score), LEAST_REACH))
    away = place - np.average(place, weights=weights)
    spread = float((weights * away**2).sum())
    if spread <= 0:
        return Length()
    exponent = float(np.clip(-(weights * away * size).sum() / spread, 0.0, LONGEST_EXPONENT))
    return Length(exponent, float(shortest), float(longest)) if exponent else Length()


@dataclass(frozen=True)
class Interval:
    """Factors around a prediction.

    Attributes:
        low, high: The interval is ``[low · latency, high · latency]``, of networks of middle length.
        networks: How many held-out networks calibrated it.
        outside_growth: How much wider (in logarithms) a prediction gets whose latency rests entirely on novel kernels or such
            without a predictor; in proportion for less.
        novelty: How novelty is counted, :data:`RANGE` or :data:`VARIANCE`.
        length: How the length of a network widens or narrows it.
    """

    low: float = 0.5
    high: float = 2.0
    networks: int = 0
    outside_growth: float = OUTSIDE_GROWTH
    novelty: str = RANGE
    length: Length = Length()

    @property
    def level(self) -> float | None:
        """Percent of networks whose latency should lie inside; None where it is uncalibrated."""
        return 100 * LEVEL if self.networks else None

    @property
    def kind(self) -> str:
        """Name of the interval: "90 %" or "uncalibrated"."""
        return "uncalibrated" if self.level is None else f"{self.level:g} %"

    def outside_share(self, novel_share: np.ndarray) -> np.ndarray:
        """Return how novel networks are as :meth:`bounds_ms` counts it, (networks,), from the novel shares of their latencies."""
        return np.sqrt(np.maximum(novel_share, 0.0)) if self.novelty == VARIANCE else novel_share

    def bounds_ms(self, latency_ms: np.ndarray, outside_share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper bound, each (networks,), for latencies and the shares of them that are novel."""
        growth = (1 + self.outside_growth * outside_share) * self.length.factor(latency_ms)
        return latency_ms * np.exp(np.log(self.low) * growth), latency_ms * np.exp(np.log(self.high) * growth)

    def in_words(self) -> str:
        """Return the factors, of short and of long networks where these differ."""

        def factors(reach: float = 1.0) -> str:
            return f"{self.low**reach:.3f} to {self.high**reach:.3f} times the prediction"

        if not self.length.exponent:
            return factors()
        ends = np.array([self.length.shortest_ms, self.length.longest_ms])
        short, long = self.length.factor(ends).tolist()
        return f"{factors(short)} up to {ends[0]:.3g} ms, narrowing to {factors(long)} from {ends[1]:.3g} ms on"

    def to_json(self) -> dict[str, Any]:
        found = {"level": LEVEL if self.networks else None, "low": self.low, "high": self.high, "networks": self.networks,
                 "outside_growth": self.outside_growth, "novelty": self.novelty}  # fmt: skip
        return {**found, "length": asdict(self.length)} if self.length.exponent else found

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Interval:
        """Read an interval; without a length, all lengths are alike.

        Raises:
            ValueError: A novelty of an unknown kind, or a length that no fit gives.
        """
        novelty = data["novelty"]
        if novelty not in (RANGE, VARIANCE):
            raise ValueError(f"found an interval that grows by '{novelty}', expected {RANGE} or {VARIANCE}")
        length = Length(**{name: float(value) for name, value in data.get("length", {}).items()})
        if not (0 <= length.exponent <= LONGEST_EXPONENT and 0 < length.shortest_ms <= length.longest_ms < np.inf):
            raise ValueError(f"found an interval that changes with the length by {length}, expected an exponent from 0 to 0.5")
        return cls(
            float(data["low"]), float(data["high"]), int(data["networks"]), float(data["outside_growth"]), str(novelty), length
        )


def conformal_quantile(scores: np.ndarray, level: float, weights: np.ndarray | None = None) -> float:
    """Return the smallest score with the level of the weight at or below it; a new network has the mean weight.

    Args:
        scores: (networks,).
        level: Share to be covered.
        weights: (networks,); equal where None, which makes it the ⌈(n+1)·level⌉-th smallest.

    Returns:
        The largest score where the networks are too few for the level.
    """
    return float(conformal_quantiles(scores, level, np.ones((1, len(scores))) if weights is None else weights[None])[0])


def conformal_quantiles(scores: np.ndarray, level: float, weights: np.ndarray) -> np.ndarray:
    """Return :func:`conformal_quantile` for several choices of the networks at once, (choices,).

    Args:
        scores: (networks,).
        level: Share to be covered.
        weights: (choices, networks); 0 for a network that is not among the chosen ones.
    """
    order = np.argsort(scores)
    heavy = weights[:, order]
    total, count = heavy.sum(axis=1), np.count_nonzero(heavy, axis=1)
    reached = np.cumsum(heavy, axis=1) / (total + total / count)[:, None] >= level - 1e-9
    # The weight below grows at chosen networks alone, so that the first to reach the level is one of them.
    last = len(scores) - 1 - np.argmax(heavy[:, ::-1] > 0, axis=1)
    return np.asarray(scores[order][np.where(reached[:, -1], np.argmax(reached, axis=1), last)])


LEAST_REACH = 0.01
"""Reach of an interval to either side, in logarithms: what repeating the measurement alone would move."""


def conformal_interval(
    latency_ms: np.ndarray,
    held_out: HeldOut,
    lineages: Sequence[str] | np.ndarray | None = None,
    *,
    outside_growth: float = OUTSIDE_GROWTH,
    by_length: bool = False,
    weights: np.ndarray | None = None,
) -> Interval:
    """Calibrate an interval on held-out networks: signed log errors, of which half of the allowed misses lie on each side.

    The errors of novel and of short networks count for as much less as their intervals will be wider.

    Networks of one lineage err alike. With lineages given, each has equal influence, unless weights say otherwise; each is
    compared with the interval of the others, and the interval is widened until the level lies inside: never narrower, nor wider
    than the largest error.

    Args:
        latency_ms: (networks,) measured.
        held_out: The same networks, predicted.
        lineages: (networks,) from :func:`latcast.training.samples.lineages_of`.
        outside_growth: Of the interval, see :class:`Interval`.
        by_length: Whether it changes with the length of a network, as is fitted.
        weights: (networks,) how much each counts.
    """
    if len(latency_ms) == 0:
        return Interval(outside_growth=outside_growth)
    if weights is None:
        weights = np.ones(len(latency_ms)) if lineages is None else _equal_say(lineages)
    growth = 1.0
    error = np.log(latency_ms / held_out.latency_ms)
    score = error / (1 + outside_growth * held_out.outside_share)
    length = fitted_length(score, held_out.latency_ms, weights) if by_length else Length()
    score = score / length.factor(held_out.latency_ms)
    if lineages is not None and len(set(lineages)) > 1:
        names, own = np.unique(lineages, return_inverse=True)
        others = weights * (own != np.arange(len(names))[:, None])
        other_low, other_high = _reaches(score, others)
        wanted = np.maximum(score / other_high[own], -score / other_low[own])
        growth = conformal_quantile(wanted, LEVEL, weights)
    largest = float(np.abs(score).max())
    low, high = (max(float(reach[0]), min(growth * float(reach[0]), largest)) for reach in _reaches(score, weights[None]))
    return Interval(float(np.exp(-low)), float(np.exp(high)), len(latency_ms), outside_growth, length=length)


def learned_growth(latency_ms: np.ndarray, held_out: HeldOut, with_relatives: HeldOut) -> float:
    """Return the growth with novelty, of ``GROWTHS``, at which the errors are the likeliest.

    The same networks are predicted twice: by what saw none of their lineage, and by what saw some of it. Their errors in
    logarithms are taken for draws from Laplace's distribution, whose scale grows with novelty as the interval does; the least of
    growths that do equally well.

    Args:
        latency_ms: (networks,) measured.
        held_out: Predicted without their lineages.
        with_relatives: Predicted with the other networks of their lineages.
    """
    both = (held_out, with_relatives)
    error = np.maximum(np.abs(np.log(np.concatenate([latency_ms / found.latency_ms for found in both]))), LEAST_REACH / 2)
    outside = np.concatenate([found.outside_share for found in both])

    def unlikely(growth: float) -> float:
        """Return minus the log-likelihood, up to a constant, at the scale that suits the growth best."""
        scale = 1 + growth * outside
        return float(np.log(scale).mean() + np.log((error / scale).mean()))

    return min(GROWTHS, key=lambda growth: round(unlikely(growth), 9))


def interval_with_relatives(
    latency_ms: np.ndarray, held_out: HeldOut, with_relatives: HeldOut, lineages: Sequence[str] | np.ndarray
) -> Interval:
    """Calibrate an interval for seen and unseen lineages, which grows with novelty by :func:`learned_growth`.

    Each network counts once: of a dozen lineages a few hold one network, whose error would decide.

    Args:
        latency_ms, held_out, with_relatives: As for :func:`learned_growth`.
        lineages: As for :func:`conformal_interval`.
    """
    growth = learned_growth(latency_ms, held_out, with_relatives)
    unseen = conformal_interval(latency_ms, held_out, lineages, outside_growth=growth, weights=np.ones(len(latency_ms)))
    seen = conformal_interval(latency_ms, with_relatives, outside_growth=growth)
    return replace(unseen, low=min(unseen.low, seen.low), high=max(unseen.high, seen.high))


def unseen_bounds_ms(
    latency_ms: np.ndarray,
    held_out: HeldOut,
    lineages: Sequence[str],
    *,
    outside_growth: float = OUTSIDE_GROWTH,
    with_relatives: HeldOut | None = None,
    by_length: bool = False,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return bounds of each network by an interval calibrated on the other lineages, each (networks,).

    Args:
        latency_ms, held_out, lineages, outside_growth, by_length: As for :func:`conformal_interval`.
        with_relatives: As for :func:`learned_growth`: the interval is then :func:`interval_with_relatives` of the other lineages.

    Returns:
        None where there is one lineage: nothing then tells of another.
    """
    if len(set(lineages)) < 2:
        return None
    low_ms, high_ms = np.empty(len(latency_ms)), np.empty(len(latency_ms))
    labels = np.array(lineages)
    for lineage in np.unique(labels):
        rows, others = labels == lineage, labels != lineage
        names = labels[others]
        if with_relatives is None:
            found = conformal_interval(
                latency_ms[others], held_out[others], names, outside_growth=outside_growth, by_length=by_length
            )
        else:
            found = interval_with_relatives(latency_ms[others], held_out[others], with_relatives[others], names)
        low_ms[rows], high_ms[rows] = found.bounds_ms(held_out.latency_ms[rows], held_out.outside_share[rows])
    return low_ms, high_ms


def _equal_say(lineages: Sequence[str] | np.ndarray) -> np.ndarray:
    """Return weights that give every lineage equal influence, (networks,)."""
    _, own, counts = np.unique(lineages, return_inverse=True, return_counts=True)
    return np.asarray(1 / counts[own])


def _reaches(score: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the logarithms by which intervals reach down and up, each (choices,)."""
    side = 1 - (1 - LEVEL) / 2
    low, high = conformal_quantiles(-score, side, weights), conformal_quantiles(score, side, weights)
    return np.maximum(low, LEAST_REACH), np.maximum(high, LEAST_REACH)
