"""The prices that latcast comes with, those of platforms that a user added, and their file."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from latcast.errors import BundleError
from latcast.folders import data_folder, made, replacing
from latcast.llm.decoder import LanguageModel
from latcast.llm.prices import Phase, PriceList, Timed, effects_of, fit, price_list
from latcast.llm.reading import read_language_model
from latcast.llm.speeds import Machine, SpeedMeasurement
from latcast.llm.workload import Term, decode_quantities, prefill_quantities
from latcast.reading import parse_json
from latcast.records import Platform, device_name

PHASES: Sequence[Phase] = ("prefill", "decode")

FAMILIAR, NEW_QUANTISATION, NEW_OPERATORS = "familiar", "new quantisation", "new operators"
"""How much of a model's time goes to quantities that were measured on the platform: all, all but types of weights, or less."""

LONGER, LONGER_BY, LONGEST_HELD_OUT = "longer context", 2.0, 8.0
"""Row of half-widths of prompts and contexts longer than those measured; factor of the longest one measured from which on the row
counts; and factor up to which lengths were held out, beyond which the half-width is doubled."""

SCHEMA = 2
"""Version of the files of prices: it changes with the effects that a price is a sum of."""

ALL_KINDS = ""
"""Key of half-widths that hold for kinds of platforms with too few held-out predictions of their own."""

_OPERATORS = frozenset({"recurrent_layer", "state", "scan", "expert_layer", "embedding_layer"})

_NOTICED = 0.03
"""Share of the time from which on a quantity that was never measured counts."""

_MANY_PAIRS = 30
"""Measured (model, quantisation) pairs from which on a device counts as known."""


@dataclass(frozen=True)
class LearnedPrices:
    """Price lists of both phases, the platforms they know, and how far predictions were off on what was held out.

    Attributes:
        machines: Platform id to what is known of it.
        prices: Phase to its price list.
        pairs: Platform id to the (model, quantisation) pairs measured there.
        longest: Platform id and phase to the longest prompt and context measured there.
        widths: Phase, situation (``familiar``... or ``3 pairs``) and platform or kind of platforms to the half-width, of log
            speeds, that held 90 % of held-out predictions, and to their mean error in percent.
        card: Sources, licences and held-out figures.
    """

    machines: Mapping[str, Machine]
    prices: Mapping[Phase, PriceList]
    pairs: Mapping[str, int]
    longest: Mapping[str, Mapping[Phase, float]] = field(default_factory=dict)
    widths: Mapping[Phase, Mapping[str, Mapping[str, tuple[float, float]]]] = field(default_factory=dict)
    card: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def measured_kinds(self) -> frozenset[str]:
        """Return the kinds of platforms on which something was measured."""
        return frozenset(machine.kind for name, machine in self.machines.items() if self.pairs[name])

    def with_machine(self, machine: Machine, like: str | None = None) -> LearnedPrices:
        """Return the same with one more platform, of which nothing was measured; its own effects are those of one like it."""
        if machine.platform in self.machines:
            return self
        if like is not None:
            machine = replace(machine, profiled=self.machines[like].profiled)
        machines = {**self.machines, machine.platform: machine}
        prices = {
            phase: replace(
                known,
                path=effects_of(phase, machines),
                effects={
                    **known.effects,
                    **{
                        tuple(machine.platform if part == like else part for part in key): value
                        for key, value in known.effects.items()
                        if like in key
                    },
                },
            )
            for phase, known in self.prices.items()
        }
        longest = {**self.longest, machine.platform: self.longest.get(like or "", {})}
        return replace(self, machines=machines, prices=prices, pairs={**self.pairs, machine.platform: 0}, longest=longest)

    def adapted(self, machine: Machine, measurements: Sequence[SpeedMeasurement]) -> LearnedPrices:
        """Return the same with a platform learned from its measurements; prices of others stay."""
        known = self.with_machine(machine)
        mine = [replace(each, platform=machine.platform) for each in measurements]
        prices = {phase: fit(timed(phase, mine), known.prices[phase]) for phase in PHASES}
        pairs = {**known.pairs, machine.platform: len({pair_of(each) for each in mine})}
        return replace(known, prices=prices, pairs=pairs, longest={**known.longest, **longest_of(mine)})

    def situation(self, phase: Phase, platform: str, seconds: Mapping[Term, float]) -> str:
        """Return how familiar a workload is, by what of it was measured on this platform or its kind.

        A type of weights counts only where it takes more than a small share of the time. An operator always counts: where it was
        not measured, its time is not known.
        """
        total, prices = sum(seconds.values()), self.prices[phase]
        unseen = [
            term
            for term, share in seconds.items()
            if (share > _NOTICED * total or term[0] in _OPERATORS or "experts" in term) and not prices.measured(platform, term)
        ]
        if not unseen:
            return FAMILIAR
        only_types = all(term[0] in ("weights", "multiply", "unpack") and "experts" not in term for term in unseen)
        return (
            NEW_QUANTISATION
            if only_types and all(prices.measured(platform, term, elsewhere=True) for term in unseen)
            else NEW_OPERATORS
        )

    def width(self, phase: Phase, platform: str, situation: str, tokens: float = 0.0) -> tuple[float, float]:
        """Return the half-width, of log speeds, of a 90 % interval, and the mean error that is to be expected, in percent.

        Args:
            phase, platform, situation: See :meth:`situation`.
            tokens: Length of the prompt, or of decoding of the context.
        """
        kind, table = self.machines[platform].kind, self.widths[phase]

        def of(row: str) -> tuple[float, float]:
            return table[row].get(kind, table[row][ALL_KINDS])

        if platform in table.get(situation, {}):
            found = [table[situation][platform]]
        else:
            found, pairs = [of(situation)], self.pairs.get(platform, 0)
            counts = [int(row.split()[0]) for row in table if row.endswith(" pairs")]
            if pairs < _MANY_PAIRS and counts:
                found.append(of(f"{max(count for count in counts if count <= pairs)} pairs"))
        times = self.times_as_long(phase, platform, tokens)
        if times > LONGER_BY:
            found.append(of(LONGER))
        more = 2.0 if times > LONGEST_HELD_OUT else 1.0
        return more * max(wide for wide, _ in found), more * max(error for _, error in found)

    def times_as_long(self, phase: Phase, platform: str, tokens: float) -> float:
        """Return how many times the longest prompt or context that was measured there, or else on such units, so many are."""
        kind = self.machines[platform].kind
        like = (name for name, machine in self.machines.items() if machine.kind == kind)
        own = self.longest.get(platform, {}).get(phase)
        return tokens / (own or max((self.longest.get(name, {}).get(phase, 0.0) for name in like), default=0.0) or math.inf)

    def to_json(self) -> dict[str, Any]:
        """Return the document that :func:`read_prices` reads; equal prices give equal bytes."""
        return {
            "schema": SCHEMA,
            "card": self.card,
            "platforms": {
                name: {**asdict(machine), "pairs": self.pairs.get(name, 0), "longest": self.longest.get(name, {})}
                for name, machine in sorted(self.machines.items())
            },
            "widths": self.widths,
            "effects": {
                phase: {"|".join(key): round(value, 4) for key, value in sorted(self.prices[phase].effects.items())}
                for phase in PHASES
            },
        }


def pair_of(measurement: SpeedMeasurement) -> tuple[str, str]:
    """Return what one download gives: a model and its quantisation."""
    return measurement.model, measurement.quantisation


@cache
def model_of(name: str, quantisation: str) -> LanguageModel:
    """Return a named model for measurements of it, whose contexts may be longer than those it was made for."""
    return replace(read_language_model(name, quantisation), context_limit=None)


def longest_of(measurements: Iterable[SpeedMeasurement]) -> dict[str, dict[Phase, float]]:
    """Return the longest prompt and context that were measured on each platform."""
    found: dict[str, dict[Phase, float]] = defaultdict(dict)
    for each in measurements:
        for phase in PHASES:
            if each.has(phase):
                found[each.platform][phase] = max(found[each.platform].get(phase, 0.0), each.tokens(phase))
    return dict(found)


def timed(phase: Phase, measurements: Iterable[SpeedMeasurement]) -> list[Timed]:
    """Return a phase of the measurements that have it: quantities and seconds. Many lengths of one pair count as their root."""
    having = [
        each for each in measurements if getattr(each, f"{phase}_tokens_per_s") and (phase == "decode" or each.prompt_tokens)
    ]
    counts = Counter((each.platform, pair_of(each)) for each in having)
    return [
        Timed(each.platform, quantities, seconds, counts[each.platform, pair_of(each)] ** -0.5)
        for each in having
        for quantities, seconds in [_quantities_and_seconds(phase, each)]
    ]


def _quantities_and_seconds(phase: Phase, measurement: SpeedMeasurement) -> tuple[Mapping[Term, float], float]:
    model = model_of(*pair_of(measurement))
    if phase == "decode":
        return decode_quantities(model, measurement.context_tokens), 1 / (measurement.decode_tokens_per_s or math.nan)
    tokens = measurement.prompt_tokens or 0
    runtime = Platform.parse(measurement.platform).runtime
    return prefill_quantities(model, tokens, 0, runtime), tokens / (measurement.prefill_tokens_per_s or math.nan)


def learn(measurements: Sequence[SpeedMeasurement], machines: Mapping[str, Machine]) -> LearnedPrices:
    """Return prices learned from all measurements, without intervals."""
    prices = {phase: fit(timed(phase, measurements), price_list(phase, machines, {})) for phase in PHASES}
    pairs = {platform: len({pair_of(each) for each in measurements if each.platform == platform}) for platform in machines}
    return LearnedPrices(machines, prices, pairs, longest_of(measurements))


def read_prices(text: str, name: str) -> LearnedPrices:
    """Return the prices in a document of :meth:`LearnedPrices.to_json`.

    Raises:
        BundleError: It is none, or of another schema.
    """
    document = parse_json(text, name, error=BundleError)
    try:
        if document["schema"] != SCHEMA:
            older = document["schema"] < SCHEMA
            do = "delete it, then write it again with latcast device add or profile" if older else "update latcast"
            raise BundleError(f"{name}: found schema {document['schema']}, expected {SCHEMA}; {do}")
        rows = document["platforms"]
        known = [each.name for each in fields(Machine)]
        machines = {key: Machine(**{part: row[part] for part in known if part in row}) for key, row in rows.items()}
        effects = {
            phase: {tuple(key.split("|")): float(value) for key, value in document["effects"][phase].items()} for phase in PHASES
        }
        widths = {
            phase: {
                row: {kind: (float(a), float(b)) for kind, (a, b) in kinds.items()}
                for row, kinds in document["widths"].get(phase, {}).items()
            }
            for phase in PHASES
        }
        return LearnedPrices(
            machines, {phase: price_list(phase, machines, effects[phase]) for phase in PHASES},
            {key: int(row["pairs"]) for key, row in rows.items()},
            {key: {phase: float(tokens) for phase, tokens in row["longest"].items()} for key, row in rows.items()},
            widths, document["card"],
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise BundleError(
            f"{name}: found {problem!r} where prices of language models should stand; write the file again"
        ) from problem


def shipped_file() -> Path:
    """Return the file of the prices that latcast ships."""
    return Path(__file__).parent / "shipped" / "prices.json"


@cache
def _shipped() -> LearnedPrices:
    return read_prices(shipped_file().read_text(encoding="utf-8"), "prices.json")


def added_folder() -> Path:
    """Return the folder of platforms that the user added."""
    return data_folder() / "language_platforms"


def known_prices() -> LearnedPrices:
    """Return the shipped prices with those of the platforms that the user added."""
    found = _shipped()
    for file in sorted(added_folder().glob("*.json")):
        found = with_added(found, read_prices(file.read_text(encoding="utf-8"), str(file)))
    return found


def with_added(known: LearnedPrices, added: LearnedPrices) -> LearnedPrices:
    """Return prices with those of other platforms, learned on top of them."""
    machines = {**known.machines, **added.machines}
    prices = {
        phase: replace(
            known.prices[phase],
            path=effects_of(phase, machines),
            effects={**added.prices[phase].effects, **known.prices[phase].effects},
        )
        for phase in PHASES
    }
    widths = {
        phase: {row: {**kinds, **added.widths[phase].get(row, {})} for row, kinds in known.widths[phase].items()}
        for phase in PHASES
    }
    return replace(
        known, machines=machines, prices=prices, pairs={**known.pairs, **added.pairs},
        longest={**known.longest, **added.longest}, widths=widths,
    )  # fmt: skip


def written(prices: LearnedPrices) -> str:
    """Return the text of a file of prices: a line a section, so that equal prices give equal bytes."""
    document = prices.to_json()
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(document[key])}" for key in document) + "\n}\n"


def save_added(prices: LearnedPrices, platform: str, file: Path | None = None) -> Path:
    """Write a platform's own prices to a file, or to the user's folder, whose platforms are known by name; return the file."""
    own = {
        phase: replace(
            prices.prices[phase],
            effects={
                key: value for key, value in prices.prices[phase].effects.items() if key not in _shipped().prices[phase].effects
            },
        )
        for phase in PHASES
    }
    alone = replace(
        prices,
        machines={platform: prices.machines[platform]},
        prices=own,
        pairs={platform: prices.pairs[platform]},
        longest={platform: prices.longest.get(platform, {})},
        widths={
            phase: {row: {platform: kinds[platform]} for row, kinds in rows.items() if platform in kinds}
            for phase, rows in prices.widths.items()
        },
        card={},
    )
    file = file or made(added_folder()) / f"{device_name(platform.replace('/', '-'))}.json"
    with replacing(file) as temporary:
        temporary.write_text(written(alone), encoding="utf-8")
    return file
