"""Learning prices of language models: what is held out, how far predictions of it are off, and the intervals that follow."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from latcast.datasets.importers.language_model_speeds import attribution
from latcast.llm.learned_prices import (
    ALL_KINDS,
    FAMILIAR,
    LONGER,
    NEW_OPERATORS,
    NEW_QUANTISATION,
    PHASES,
    LearnedPrices,
    learn,
    longest_of,
    model_of,
    pair_of,
    timed,
)
from latcast.llm.prices import Phase
from latcast.llm.speeds import Machine, SpeedMeasurement
from latcast.predictors.intervals import LEVEL, conformal_quantile

FOLDS = 8
"""Parts that are held out in turn."""

PAIR_COUNTS = (0, 1, 3, 10)
"""Measured pairs of a new chip for which predictions are judged."""

_SEEDS = 3
"""Draws of the measured pairs of a new chip."""

_FEWEST, _FEWEST_NAMES = 30, 5
"""Held-out predictions, and lineages or chips, from which on a kind of platforms has intervals of its own."""


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
        trained: Measurements of the same platform that training saw: what a rival may learn from.
        half_width: Of the interval of its logarithm; None where the prices have no intervals yet.
    """

    phase: Phase
    measurement: SpeedMeasurement
    split: str
    fold: int
    kind: str
    situation: str
    seconds: float
    predicted: float
    trained: Sequence[SpeedMeasurement] = ()
    half_width: float | None = None

    @cached_property
    def error(self) -> float:
        """Return the logarithm of predicted over measured."""
        return float(np.log(self.predicted / self.seconds))


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

    longest = longest_of(measurements)

    def part(each: SpeedMeasurement, holds: Callable[[float], bool]) -> SpeedMeasurement:
        """Return a measurement with the phases whose length, as a part of the longest, holds."""
        kept = {phase for phase in PHASES if each.has(phase) and holds(each.tokens(phase) / longest[each.platform][phase])}
        return replace(
            each,
            prefill_tokens_per_s=each.prefill_tokens_per_s if "prefill" in kept else None,
            decode_tokens_per_s=each.decode_tokens_per_s if "decode" in kept else None,
        )

    train = [part(each, lambda share: share <= 0.25) for each in measurements]
    known, shorter = learn(train, machines), longest_of(train)
    for number, platform in enumerate(sorted(shorter)):
        test = [part(each, lambda share: share > 0.5) for each in measurements if each.platform == platform]
        for each in predictions(known, train, test, LONGER, number, LONGER):
            if each.phase in shorter[platform]:
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
    seen: dict[str, list[SpeedMeasurement]] = defaultdict(list)
    for each in trained:
        seen[each.platform].append(each)
    for phase in PHASES:
        having = [each for each in test if each.has(phase)]
        for each, known in zip(having, timed(phase, having), strict=True):
            parts = prices.prices[phase].seconds_by_term(each.platform, [known.quantities])[0]
            familiarity = prices.situation(phase, each.platform, parts)
            half_width = prices.width(phase, each.platform, familiarity)[0] if prices.widths else None
            yield HeldOut(
                phase, each, split, fold, prices.machines[each.platform].kind, situation or familiarity,
                known.seconds, sum(parts.values()), seen[each.platform], half_width,
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


def chip_group(machine: Machine) -> str:
    """Return what is held out together: all platforms of a chip."""
    return machine.chip or machine.platform.split("/")[0]


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
    """Return the prices with the half-widths and mean errors of held-out predictions, by situation and kind of platform.

    A kind has its own where enough predictions of enough lineages, or of a new chip of enough chips, were held out; else the
    wider of its own and of those of all kinds. What is off together has one vote: a new chip without measured pairs, a lineage of
    new operators; of fewer than five the worst decides.
    """

    def name_of(each: HeldOut) -> str:
        return (
            chip_group(prices.machines[each.measurement.platform]) if each.split == "chip" else lineage_of(each.measurement.model)
        )

    def width(members: Sequence[HeldOut], row: str) -> tuple[float, float]:
        errors, names = np.array([each.error for each in members]), [name_of(each) for each in members]
        say, level, counts = np.ones(len(names)), LEVEL, Counter(names)
        if row in (NEW_OPERATORS, f"{PAIR_COUNTS[0]} pairs"):
            say, level = np.array([1 / counts[name] for name in names]), LEVEL if len(counts) >= _FEWEST_NAMES else 1.0
        mean = float(np.average(np.abs(np.expm1(errors)), weights=say))
        return round(conformal_quantile(np.abs(errors), level, say), 4), round(100 * mean, 1)

    def of_its_own(members: Sequence[HeldOut], row: str, pooled: tuple[float, float]) -> tuple[float, float]:
        own = width(members, row)
        enough = len(members) >= _FEWEST and len({name_of(each) for each in members}) >= _FEWEST_NAMES
        return own if enough else (max(own[0], pooled[0]), max(own[1], pooled[1]))

    grouped: dict[tuple[str, str], dict[str, list[HeldOut]]] = defaultdict(lambda: defaultdict(list))
    for each in judged:
        grouped[each.phase, each.situation][each.kind].append(each)
    widths: dict[Phase, dict[str, dict[str, tuple[float, float]]]] = {phase: {} for phase in PHASES}
    for phase in PHASES:
        for row in (FAMILIAR, NEW_QUANTISATION, NEW_OPERATORS, LONGER, *(f"{count} pairs" for count in PAIR_COUNTS)):
            kinds = grouped.get((phase, row), {})
            like = [each for members in kinds.values() for each in members]
            pooled = width(like or [each for each in judged if each.phase == phase], row)
            own = {kind: of_its_own(members, row, pooled) for kind, members in sorted(kinds.items())}
            widths[phase][row] = {ALL_KINDS: pooled, **own}
    return replace(prices, widths=widths)


def _with_half_widths(prices: LearnedPrices, judged: Sequence[HeldOut]) -> list[HeldOut]:
    """Return held-out predictions with the half-widths that those of the other folds of their split, and other splits, give."""
    folds: dict[tuple[str, int], list[HeldOut]] = defaultdict(list)
    for each in judged:
        folds[each.split, each.fold].append(each)
    found = []
    for out, members in folds.items():
        rest = [each for fold, others in folds.items() if fold != out for each in others]
        widths = with_widths(prices, rest).widths
        for each in members:
            kinds = widths[each.phase][each.situation]
            found.append(replace(each, half_width=kinds.get(each.kind, kinds[ALL_KINDS])[0]))
    return found


def learned(measurements: Sequence[SpeedMeasurement], machines: Mapping[str, Machine]) -> tuple[LearnedPrices, list[HeldOut]]:
    """Return prices learned from measurements, with intervals and a card, and the held-out predictions behind these."""
    full = learn(measurements, machines)
    judged = _with_half_widths(full, list(held_out(measurements, machines)))
    card: dict[str, Any] = {
        "sources": attribution(measurements),
        "measurements": len(measurements),
        "models": len({each.model for each in measurements}),
        "platforms": len(machines),
    }
    return replace(with_widths(full, judged), card=card), judged
