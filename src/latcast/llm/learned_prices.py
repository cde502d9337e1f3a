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

import numpy as np

from latcast.errors import BundleError
from latcast.folders import data_folder, made, replacing
from latcast.llm.decoder import LanguageModel
from latcast.llm.prices import BANDWIDTH_GB_S, COMPUTE_TOPS, Phase, PriceList, Timed, effects_of, fit, price_list
from latcast.llm.reading import read_language_model
from latcast.llm.speeds import Machine, SpeedMeasurement
from latcast.llm.workload import Term, decode_quantities, prefill_quantities
from latcast.reading import parse_json
from latcast.records import Platform, device_name

PHASES: Sequence[Phase] = ("prefill", "decode")

FAMILIAR, NEW_QUANTISATION, NEW_OPERATORS = "familiar", "new quantisation", "new operators"
"""How much of a model's time goes to quantities that were measured on the platform: all, all but types of weights, or less."""

LONGER, LONGEST_HELD_OUT = "longer context", 8.0
"""Row of half-widths of prompts and contexts longer than those measured; and how many times the longest one measured the lengths
are up to which they were held out."""

SCHEMA = 3
"""Version of the files of prices: it changes with the effects that a price is a sum of."""

ALL_KINDS, ALONE = "", "alone"
"""Keys of half-widths: of kinds of platforms that were never held out; of new chips of a kind of which no other was measured."""

_OPERATORS = frozenset({"recurrent_layer", "state", "scan", "expert_layer", "embedding_layer"})

_NOTICED = 0.03
"""Share of the time from which on a quantity that was never measured counts."""

_MANY_PAIRS = 30
"""Measured (model, quantisation) pairs from which on a device counts as known."""

Line = tuple[float, float]
"""The simple rule: seconds of a phase without any work, and for each GB of a token's weights or TFLOP of a prompt's products."""

_FEWEST_FOR_A_LINE = 3
"""Measurements that a line needs."""

_STEPS, _USUAL_ERROR = 10, 0.1
"""Steps of a line's fit, and its usual relative error."""

_DOUBT, _FURTHEST = 0.36, 1.5
"""Measurements' worth of doubt that a graph takes longer than by its prices, and the most, in logarithms, that one may say."""

_OF_THE_PEAK: Mapping[Phase, float] = {"decode": 0.55, "prefill": 0.4}
"""Part of a chip's bandwidth or peak that calculators count with."""


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
        lines: Platform id and phase to the line through what was measured there.
        graphs: Platform id and a graph's number of kernels to the logarithm of how much longer prompts take than by the prices.
        shares: Phase, situation and kind of platforms to the line's part of the logarithm of a prediction.
        card: Sources, licences and held-out figures.
    """

    machines: Mapping[str, Machine]
    prices: Mapping[Phase, PriceList]
    pairs: Mapping[str, int]
    longest: Mapping[str, Mapping[Phase, float]] = field(default_factory=dict)
    widths: Mapping[Phase, Mapping[str, Mapping[str, tuple[float, float]]]] = field(default_factory=dict)
    card: Mapping[str, Any] = field(default_factory=dict)
    lines: Mapping[str, Mapping[Phase, Line]] = field(default_factory=dict)
    graphs: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    shares: Mapping[Phase, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)

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
        lines = {**self.lines, machine.platform: self.lines.get(like or "", {})}
        graphs = {**self.graphs, machine.platform: self.graphs.get(like or "", {})}
        pairs = {**self.pairs, machine.platform: 0}
        return replace(self, machines=machines, prices=prices, pairs=pairs, longest=longest, lines=lines, graphs=graphs)

    def adapted(self, machine: Machine, measurements: Sequence[SpeedMeasurement]) -> LearnedPrices:
        """Return the same with a platform learned from its measurements; prices of others stay."""
        known = self.with_machine(machine)
        mine = [replace(each, platform=machine.platform) for each in measurements]
        prices = {phase: fit(timed(phase, mine), known.prices[phase]) for phase in PHASES}
        pairs = {**known.pairs, machine.platform: len({pair_of(each) for each in mine})}
        return replace(
            known, prices=prices, pairs=pairs, longest={**known.longest, **longest_of(mine)},
            lines={**known.lines, **_lines_of(mine)}, graphs={**known.graphs, **_graphs_of(mine, prices["prefill"])},
        )  # fmt: skip

    def seconds(
        self, phase: Phase, platform: str, workloads: Sequence[Mapping[Term, float]]
    ) -> list[tuple[dict[Term, float], str]]:
        """Return the seconds of each term of each workload, and how familiar it is."""
        found, table = [], self.shares.get(phase, {})
        pairs = self._pairs_row(platform, table) if self.pairs[platform] < 10 else None
        for workload, own in zip(workloads, self.prices[phase].seconds_by_term(platform, workloads), strict=True):
            situation = self.situation(phase, platform, own)
            longer = math.exp(self.graphs.get(platform, {}).get(_graph_of(workload), 0.0)) if phase == "prefill" else 1.0
            share = table.get(pairs or situation, {}).get(self.machines[platform].kind, 0.0)
            if share and (line := self.by_line(phase, platform, workload)):
                longer *= (line / (longer * sum(own.values()))) ** share
            found.append(({term: longer * seconds for term, seconds in own.items()}, situation))
        return found

    def by_line(self, phase: Phase, platform: str, workload: Mapping[Term, float]) -> float | None:
        """Return the seconds by the line through what was measured there, or, before that, by the chip's bandwidth or peak."""
        line = self.lines.get(platform, {}).get(phase)
        if line is None and self.pairs.get(platform, 0) < _FEWEST_FOR_A_LINE:
            machine = self.machines[platform]
            peak = machine.bandwidth_gb_s or BANDWIDTH_GB_S if phase == "decode" else machine.compute_tops or COMPUTE_TOPS
            line = (0.0, 1 / (_OF_THE_PEAK[phase] * peak))
        return line and line[0] + line[1] * work_of(phase, workload)

    def _pairs_row(self, platform: str, table: Mapping[str, Any]) -> str | None:
        """Return the row of a new chip's measured pairs; None of a platform that counts as known."""
        counts = [int(row.split()[0]) for row in table if row.endswith(" pairs")]
        pairs = self.pairs.get(platform, 0)
        return f"{max(count for count in counts if count <= pairs)} pairs" if pairs < _MANY_PAIRS and counts else None

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
        machine, table = self.machines[platform], self.widths[phase]
        alone = self.is_alone(platform)

        def of(row: str) -> tuple[float, float]:
            key = ALONE if alone and row.endswith(" pairs") and ALONE in table[row] else machine.kind
            return table[row].get(key, table[row][ALL_KINDS])

        if platform in table.get(situation, {}):
            found = [table[situation][platform]]
        else:
            found, pairs = [of(situation)], self._pairs_row(platform, table)
            found += [of(pairs)] if pairs else []
        wide, error = (max(values) for values in zip(*found, strict=True))
        beyond = max(0.0, math.log(self.times_as_long(phase, platform, tokens) or 1.0) / math.log(LONGEST_HELD_OUT))
        if not beyond:
            return wide, error

        def grown(value: float, longer: float) -> float:
            most = max(value, longer)
            return value + min(beyond, 1.0) * (most - value) + max(0.0, beyond - 1.0) * most

        longer = of(LONGER)
        return grown(wide, longer[0]), grown(error, longer[1])

    def is_alone(self, platform: str) -> bool:
        """Return whether nothing was measured on another chip with such a unit."""
        own = self.machines[platform]
        others = (each for name, each in self.machines.items() if each.kind == own.kind and self.pairs.get(name))
        return all(chip_group(each) == chip_group(own) for each in others)

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
            "shares": self.shares,
            "lines": {name: lines for name, lines in sorted(self.lines.items()) if lines},
            "graphs": {name: graphs for name, graphs in sorted(self.graphs.items()) if graphs},
            "effects": {
                phase: {"|".join(key): round(value, 4) for key, value in sorted(self.prices[phase].effects.items())}
                for phase in PHASES
            },
        }


def chip_group(machine: Machine) -> str:
    """Return what is held out together: all platforms of a chip."""
    return machine.chip or machine.platform.split("/")[0]


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


def work_of(phase: Phase, quantities: Mapping[Term, float]) -> float:
    """Return the GB of weights that a token reads, or the TFLOP of a prompt's products with weights."""
    what = "weights" if phase == "decode" else "multiply"
    return sum(count for term, count in quantities.items() if term[0] == what)


def line_through(phase: Phase, rows: Sequence[Timed]) -> Line | None:
    """Return the line with the least relative errors, none of its parts negative; None where rows are too few or all alike.

    Weights are those of a Cauchy distribution: a row that is far off counts little.
    """
    from scipy.optimize import nnls

    work = np.array([work_of(phase, each.quantities) for each in rows])
    if len(rows) < _FEWEST_FOR_A_LINE or np.ptp(work) < 1e-9:
        return None
    weights = trust = np.array([each.weight for each in rows])
    columns = np.c_[np.ones(len(rows)), work] / np.array([each.seconds for each in rows])[:, None]
    for _ in range(_STEPS):
        root = np.sqrt(trust)
        constant, slope = nnls(columns * root[:, None], root)[0]
        trust = weights / (1 + ((columns @ (constant, slope) - 1) / _USUAL_ERROR) ** 2)
    return float(f"{constant:.4g}"), float(f"{slope:.4g}")


def _graph_of(quantities: Mapping[Term, float]) -> str:
    return f"{quantities['kernel',]:g}"


def _graphs_of(measurements: Sequence[SpeedMeasurement], prices: PriceList) -> dict[str, dict[str, float]]:
    """Return by platform and graph how much longer prompts take than by the prices, in logarithms, shrunk to 0."""
    off: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for each in timed("prefill", measurements):
        (parts,) = prices.seconds_by_term(each.platform, [each.quantities])
        error = math.log(each.seconds / sum(parts.values()))
        off[each.platform, _graph_of(each.quantities)].append((each.weight, max(-_FURTHEST, min(_FURTHEST, error))))
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for (platform, graph), errors in off.items():
        total = sum(weight for weight, _ in errors)
        found[platform][graph] = round(sum(weight * error for weight, error in errors) / (total + _DOUBT), 4)
    return dict(found)


def _lines_of(measurements: Sequence[SpeedMeasurement]) -> dict[str, dict[Phase, Line]]:
    of_platform: dict[str, list[SpeedMeasurement]] = defaultdict(list)
    for each in measurements:
        of_platform[each.platform].append(each)
    lines = {name: {phase: line_through(phase, timed(phase, mine)) for phase in PHASES} for name, mine in of_platform.items()}
    return {name: {phase: line for phase, line in found.items() if line} for name, found in lines.items()}


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


@cache
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
    return LearnedPrices(
        machines, prices, pairs, longest_of(measurements),
        lines=_lines_of(measurements), graphs=_graphs_of(measurements, prices["prefill"]),
    )  # fmt: skip


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
            {key: {phase: (float(a), float(b)) for phase, (a, b) in lines.items()} for key, lines in document["lines"].items()},
            document["graphs"],
            document["shares"],
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
        longest={**known.longest, **added.longest}, widths=widths, lines={**known.lines, **added.lines},
        graphs={**known.graphs, **added.graphs},
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
        lines={platform: prices.lines.get(platform, {})},
        graphs={platform: prices.graphs.get(platform, {})},
        shares={},
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
