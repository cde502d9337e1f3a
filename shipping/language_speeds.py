"""Learning prices of language models: what is held out, how far predictions of it are off, and the intervals that follow."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from latcast.llm.learned_prices import (
    ALL_KINDS,
    FAMILIAR,
    KNOWN,
    LONGER,
    NEW_OPERATORS,
    NEW_QUANTISATION,
    PHASES,
    LearnedPrices,
    chip_group,
    learn,
    model_of,
    pair_of,
    timed,
)
from latcast.llm.prices import Phase
from latcast.llm.speeds import Machine, SpeedMeasurement, by_platform
from latcast.predictors.intervals import LEVEL, LEVEL_DEVIATIONS, conformal_quantile
from shipping.language_model_speeds import attribution

FOLDS = 8
"""Parts that are held out in turn."""

PAIR_COUNTS = (0, 1, 3, 10)
"""Measured pairs of a new chip for which predictions are judged."""

_SEEDS = 3
"""Draws of the measured pairs of a new chip."""

_SHARES, _FEWEST_NAMES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5), 5
"""Shares of the line to choose among; lineages or chips from which on a kind of platforms has one."""

_BORROWED = 3
"""Lineages or chips of other kinds that a kind borrows for its intervals. Few names widen them as few samples do Student's t,
each name as two samples: as one it covered 95 % of what was held out, and without t 89 %. Interval scores hardly differ."""


@dataclass(frozen=True)
class HeldOut:
    """A prediction of what training did not see.

    Attributes:
        phase, measurement: What was predicted.
        split: ``lineage``, ``quantisation here``, ``quantisation anywhere``, ``longer context`` or ``chip``.
        fold: Part that was held out with it.
        kind: Of the platform.
        situation: See :data:`latcast.llm.learned_prices.FAMILIAR`; of a chip the number of its measured pairs, ``3 pairs``.
        seconds, predicted: Measured and predicted.
        line: Predicted by a line in bytes or FLOPs; None without one.
        name: What was held out with it: a chip, else a lineage.
        trained: Measurements of the same platform that training saw: what a rival may learn from.
        half_width: Of the interval of its logarithm; None where the prices have no intervals yet.
        doubt: What new operators add to it, see :meth:`latcast.llm.learned_prices.LearnedPrices.seconds`.
    """

    phase: Phase
    measurement: SpeedMeasurement
    split: str
    fold: int
    kind: str
    situation: str
    seconds: float
    predicted: float
    line: float | None
    name: str
    trained: Sequence[SpeedMeasurement] = ()
    half_width: float | None = None
    doubt: float = 0.0

    @cached_property
    def error(self) -> float:
        """Return the logarithm of predicted over measured."""
        return float(np.log(self.predicted / self.seconds))

    @property
    def error_of_line(self) -> float:
        """Return the same of the line; without one of the prediction."""
        return float(np.log((self.line or self.predicted) / self.seconds))


@cache
def lineage_of(name: str) -> str:
    """Return the lineage of a named model: its architecture, and of Llama's, which many share, the maker and the generation."""
    architecture = model_of(name, "f16").architecture
    if architecture != "llama":
        return architecture
    generation = re.match(r"llama-(\d)", name)
    return f"llama-{generation[1]}" if generation else re.split(r"[-.]?\d", name)[0]


def held_out(measurements: Sequence[SpeedMeasurement], machines: Mapping[str, Machine]) -> Iterator[HeldOut]:
    """Yield predictions of all measurements with their lineage, quantisation or chip held out."""
    quantisations = sorted({each.quantisation for each in measurements if "q" in each.quantisation})
    splits: list[tuple[str, Callable[[SpeedMeasurement], str], Sequence[Collection[str]]]] = [
        ("lineage", lambda each: lineage_of(each.model), _folded({lineage_of(each.model) for each in measurements}, 1)),
        ("quantisation here", _quantised_on, _quantisations_here(measurements)),
        ("quantisation anywhere", lambda each: each.quantisation, [{name} for name in quantisations]),
    ]
    for split, name_of, folds in splits:
        for number, out in enumerate(folds):
            train = [each for each in measurements if name_of(each) not in out]
            test = [each for each in measurements if name_of(each) in out]
            if test and train:
                yield from predictions(learn(train, machines), train, test, split, number)
    yield from _longer(measurements, machines)
    yield from _chips(measurements, machines)


def _longer(measurements: Sequence[SpeedMeasurement], machines: Mapping[str, Machine]) -> Iterator[HeldOut]:
    """Yield predictions of lengths of more than half of a platform's longest, from those of up to a quarter."""
    of_platform = by_platform(measurements)
    longest = {
        (name, phase): max((each.tokens(phase) for each in mine if each.has(phase)), default=0.0)
        for name, mine in of_platform.items()
        for phase in PHASES
    }

    def part(each: SpeedMeasurement, holds: Callable[[float], bool]) -> SpeedMeasurement:
        """Return a measurement with the phases whose length, as a part of the longest, holds."""
        kept = {phase for phase in PHASES if each.has(phase) and holds(each.tokens(phase) / longest[each.platform, phase])}
        return replace(
            each,
            prefill_tokens_per_s=each.prefill_tokens_per_s if "prefill" in kept else None,
            decode_tokens_per_s=each.decode_tokens_per_s if "decode" in kept else None,
        )

    train = [part(each, lambda share: share <= 0.25) for each in measurements]
    known = learn(train, machines)
    for number, platform in enumerate(sorted(of_platform)):
        test = [part(each, lambda share: share > 0.5) for each in of_platform[platform]]
        for each in predictions(known, train, test, LONGER, number, LONGER):
            if each.phase in known.evidence[platform].longest:
                yield each


def predictions(
    prices: LearnedPrices,
    trained: Sequence[SpeedMeasurement],
    test: Sequence[SpeedMeasurement],
    split: str,
    fold: int,
    situation: str = "",
) -> Iterator[HeldOut]:
    """Yield predictions of measurements that prices learned from others; see :class:`HeldOut`."""
    seen = by_platform(trained)
    for phase in PHASES:
        having = [each for each in test if each.has(phase)]
        for each, known in zip(having, timed(phase, having), strict=True):
            ((parts, familiarity, doubt),) = prices.seconds(phase, each.platform, [known.quantities])
            half_width = prices.width(phase, each.platform, familiarity, doubt)[0] if prices.widths else None
            machine, named = prices.machines[each.platform], situation or familiarity
            yield HeldOut(
                phase, each, split, fold, machine.kind, named, known.seconds, sum(parts.values()),
                prices.by_line(phase, each.platform, known.quantities),
                chip_group(machine) if named.endswith(" pairs") else lineage_of(each.model),
                seen.get(each.platform, ()), half_width, 0.0 if situation else doubt,
            )  # fmt: skip


def _folded(names: Collection[str], seed: int) -> list[set[str]]:
    shuffled = sorted(names)
    random.Random(seed).shuffle(shuffled)
    return [set(shuffled[part::FOLDS]) for part in range(FOLDS)]


def _quantised_on(measurement: SpeedMeasurement) -> str:
    return f"{measurement.platform} {measurement.quantisation}"


def _quantisations_here(measurements: Sequence[SpeedMeasurement]) -> list[set[str]]:
    """Return folds of quantisations that other platforms know: of each platform another eighth leaves in a fold."""
    of_platform: dict[str, set[str]] = defaultdict(set)
    for each in measurements:
        of_platform[each.platform].add(_quantised_on(each))
    folds: list[set[str]] = [set() for _ in range(FOLDS)]
    for number, (_, names) in enumerate(sorted(of_platform.items())):
        if len(names) > 1:
            for fold, out in zip(folds, _folded(names, number), strict=True):
                fold |= out
    return folds


def _chips(measurements: Sequence[SpeedMeasurement], machines: Mapping[str, Machine]) -> Iterator[HeldOut]:
    for number, out in enumerate(sorted({chip_group(machine) for machine in machines.values()})):
        others = {name: machine for name, machine in machines.items() if chip_group(machine) != out}
        train = [each for each in measurements if each.platform in others]
        prices = learn(train, others)
        for platform in sorted(set(machines) - set(others)):
            mine = [each for each in measurements if each.platform == platform]
            yield from predictions_of_chip(prices, machines[platform], mine, "chip", number)


def predictions_of_chip(
    prices: LearnedPrices, machine: Machine, mine: Sequence[SpeedMeasurement], split: str, fold: int
) -> Iterator[HeldOut]:
    """Yield predictions of one platform of a chip that training did not see, with some of its pairs measured."""
    pairs = sorted({pair_of(each) for each in mine})
    for count in PAIR_COUNTS:
        if count and len(pairs) < count + 3:
            continue
        for seed in range(_SEEDS if count else 1):
            chosen = set(random.Random(100 * seed + count).sample(pairs, count))
            measured = [
                each for pair in sorted(chosen) for each in shortest_and_longest([one for one in mine if pair_of(one) == pair])
            ]
            known = prices.adapted(machine, measured)
            rest = [each for each in mine if pair_of(each) not in chosen]
            yield from predictions(known, measured, rest, split, fold, f"{count} pairs")


def shortest_and_longest(measurements: Sequence[SpeedMeasurement]) -> list[SpeedMeasurement]:
    """Return the measurements of a pair that a kit would take: its shortest and its longest prompt."""
    ordered = sorted(measurements, key=lambda each: each.prompt_tokens or 0)
    return ordered[:1] + (ordered[-1:] if len(ordered) > 1 else [])


def with_widths(prices: LearnedPrices, judged: Sequence[HeldOut]) -> LearnedPrices:
    """Return the prices with the line's shares, half-widths and mean errors of held-out predictions, by situation and kind.

    What is off together has one vote: a new chip, a lineage. A kind of platforms borrows from all kinds as if a few names more
    had been held out, and few names widen the interval. What other operators cost on a unit says nothing of new ones: their
    interval is that of all kinds. Time grows with the length in the same way on all of them.

    Args:
        prices: As learned from all measurements.
        judged: Predictions of the prices alone, without the line.
    """
    rows = (FAMILIAR, NEW_QUANTISATION, NEW_OPERATORS, LONGER, *(f"{count} pairs" for count in PAIR_COUNTS))
    widths, shares = {}, {}
    for phase in PHASES:
        mine = [each for each in judged if each.phase == phase]
        widths[phase] = {row: _widths(mine, row) for row in rows}
        shares[phase] = {row: _shares(mine, row) for row in (KNOWN, *_ROWS_OF_UNITS)}
    return replace(prices, shares=shares, widths=widths)


def _widths(judged: Sequence[HeldOut], row: str) -> dict[str, tuple[float, float]]:
    """Return the half-width and the mean error in one situation by kind of platforms, of predictions drawn to the line."""
    like = [each for each in judged if each.situation == row] or judged
    shares = _shares(judged, _row_of_shares(row))
    names, kinds = np.array([(each.name, each.kind) for each in like]).T
    off = np.array([each.error + _share_of(shares, each.kind) * (each.error_of_line - each.error) for each in like])
    pooled = _off(off, names)
    widths = {ALL_KINDS: _width(pooled if row == LONGER else (0.0, 0.0, 0), pooled)}
    if row != NEW_OPERATORS:
        widths |= {str(kind): _width(_off(off[kinds == kind], names[kinds == kind]), pooled) for kind in np.unique(kinds)}
    return widths


_ROWS_OF_UNITS = ("1 pairs", "3 pairs")
"""Rows of shares by unit alone: of a kind too few chips are known to say what a line through so few pairs is worth."""


def _row_of_shares(situation: str) -> str:
    """Return the row of shares that predictions in a situation are drawn by."""
    return situation if situation in (*_ROWS_OF_UNITS, "0 pairs") else KNOWN


def _shares(judged: Sequence[HeldOut], row: str) -> dict[str, float]:
    """Return the line's share by kind of platforms and, for kinds of few names, of units; none before a first measurement."""
    groups: dict[str, list[HeldOut]] = defaultdict(list)
    for each in judged:
        if each.situation == row != "0 pairs" or (row == KNOWN and not each.situation.endswith(" pairs")):
            groups[each.kind.partition("-")[0]].append(each)
            if row == KNOWN:
                groups[each.kind].append(each)
    found = {group: _share(like, one_vote="-" not in group) for group, like in groups.items()}
    return {group: share for group, share in found.items() if share is not None}


def _share_of(shares: Mapping[str, float], kind: str) -> float:
    return shares.get(kind, shares.get(kind.partition("-")[0], 0.0))


def _votes(names: np.ndarray) -> np.ndarray:
    """Return weights of predictions with which all names weigh the same, (predictions,)."""
    _, place, counts = np.unique(names, return_inverse=True, return_counts=True)
    return 1 / counts[place]


def _share(like: Sequence[HeldOut], *, one_vote: bool) -> float | None:
    """Return the line's share with the least relative error, 0 where it does not bring most names nearer; None of few names."""
    own, line = np.array([(each.error, each.error_of_line) for each in like]).T
    names = np.array([each.name for each in like])
    off = np.abs(np.expm1(own + np.array(_SHARES)[:, None] * (line - own)))
    best = int(np.argmin(np.average(off, axis=1, weights=_votes(names) if one_vote else None)))
    nearer = [off[best, names == name].mean() < off[0, names == name].mean() for name in np.unique(names)]
    if len(nearer) < _FEWEST_NAMES:
        return None
    return _SHARES[best] if np.mean(nearer) > 0.5 else 0.0


def _off(errors: np.ndarray, names: np.ndarray) -> tuple[float, float, int]:
    """Return what held 90 % of log errors, their mean in percent, and how many names they are of."""
    votes = _votes(names)
    mean = 100 * float(np.average(np.abs(np.expm1(errors)), weights=votes))
    return conformal_quantile(np.abs(errors), LEVEL, votes), mean, len(np.unique(names))


def _width(own: tuple[float, float, int], pooled: tuple[float, float, int]) -> tuple[float, float]:
    """Return a half-width and a mean error, drawn to those of all kinds; of a kind that is worse, its own half-width stays."""
    from scipy.special import stdtrit

    part = own[2] / (own[2] + _BORROWED)
    few = stdtrit(2 * own[2] + _BORROWED, 0.5 + LEVEL / 2) / LEVEL_DEVIATIONS
    wide = few * np.sqrt(part * own[0] ** 2 + (1 - part) * max(own[0], pooled[0]) ** 2)
    return round(float(wide), 4), round(part * own[1] + (1 - part) * pooled[1], 1)


def _calibrated(judged: Sequence[HeldOut]) -> list[HeldOut]:
    """Return held-out predictions drawn to the line, with half-widths: both as the other folds of their situation give."""
    groups: dict[tuple[Phase, str, tuple[str, int]], list[HeldOut]] = defaultdict(list)
    for each in judged:
        groups[each.phase, each.situation, (each.split, each.fold)].append(each)
    found = []
    for (phase, situation, fold), like in groups.items():
        rest = [each for each in judged if each.phase == phase and (each.split, each.fold) != fold]
        widths, shares = _widths(rest, situation), _shares(rest, _row_of_shares(situation))
        for each in like:
            predicted = each.predicted * float(np.exp(_share_of(shares, each.kind) * (each.error_of_line - each.error)))
            wide = np.hypot(widths.get(each.kind, widths[ALL_KINDS])[0], each.doubt)
            found.append(replace(each, predicted=predicted, half_width=float(wide)))
    return found


def learned(measurements: Sequence[SpeedMeasurement], machines: Mapping[str, Machine]) -> tuple[LearnedPrices, list[HeldOut]]:
    """Return prices learned from measurements, with intervals and a card, and the held-out predictions behind these."""
    full = learn(measurements, machines)
    held = list(held_out(measurements, machines))
    card: dict[str, Any] = {
        "sources": attribution(measurements),
        "measurements": len(measurements),
        "models": len({each.model for each in measurements}),
        "platforms": len(machines),
    }
    return replace(with_widths(full, held), card=card), _calibrated(held)
