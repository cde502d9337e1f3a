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
from latcast.llm.prices import BANDWIDTH_GB_S, COMPUTE_TOPS, NATIVE, UNPACKING, Phase, PriceList, Timed, fit, price_list
from latcast.llm.reading import read_language_model
from latcast.llm.speeds import Machine, SpeedMeasurement, by_platform
from latcast.llm.workload import Term, decode_quantities, prefill_quantities
from latcast.reading import parse_json
from latcast.records import Platform, device_name

PHASES: Sequence[Phase] = ("prefill", "decode")

FAMILIAR, NEW_QUANTISATION, NEW_OPERATORS = "familiar", "new quantisation", "new operators"
"""How much of a model's time goes to quantities that were measured on the platform: all, all but types of weights, or less."""

KNOWN = "known"
"""Row of the line's shares on platforms that ten pairs or more were measured on."""

LONGER, LONGEST_HELD_OUT = "longer context", 8.0
"""Row of half-widths of prompts and contexts longer than those measured; and how many times the longest one measured the lengths
are up to which they were held out."""

SCHEMA = 6
"""Version of the files of prices: it changes with their form and with the effects of a price."""

ALL_KINDS = ""
"""Key of the half-widths of kinds of platforms that were never held out."""

_OPERATORS = frozenset({"recurrent_layer", "state", "scan", "expert_layer", "embedding_layer"})

_WORK: Mapping[Phase, str] = {"decode": "weights", "prefill": "multiply"}

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

_DOUBT, _FURTHEST = 1.0, 1.5
"""Measurements' worth of doubt that a graph takes longer than by its prices, the best for what is held out of 0.1, 0.36, 1
and 100; and the most, in logarithms, that one may say."""

_OF_THE_PEAK: Mapping[Phase, float] = {"decode": 0.55, "prefill": 0.4}
"""Part of a chip's bandwidth or peak that calculators count with."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was measured on one platform.

    Attributes:
        pairs: How many (model, quantisation) pairs.
        longest: Phase to the longest prompt or context.
        lines: Phase to the line through its measurements.
        graphs: A phase and a graph's number of kernels to the logarithm of how much longer it takes than by the prices.
    """

    pairs: int = 0
    longest: Mapping[Phase, float] = field(default_factory=dict)
    lines: Mapping[Phase, Line] = field(default_factory=dict)
    graphs: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class LearnedPrices:
    """Price lists of both phases, the platforms they know, and how far predictions were off on what was held out.

    Attributes:
        machines: Platform id to what is known of it.
        prices: Phase to its price list.
        evidence: Platform id to what was measured there.
        widths: Phase, situation (``familiar``... or ``3 pairs``) and platform or kind of platforms to the half-width, of log
            speeds, that held 90 % of held-out predictions, and to their mean error in percent.
        shares: Phase, row (:data:`KNOWN` or ``3 pairs``) and kind of platforms, or of units, to the line's part of the logarithm
            of a prediction.
        card: Sources, licences and held-out figures.
    """

    machines: Mapping[str, Machine]
    prices: Mapping[Phase, PriceList]
    evidence: Mapping[str, Evidence]
    widths: Mapping[Phase, Mapping[str, Mapping[str, tuple[float, float]]]] = field(default_factory=dict)
    shares: Mapping[Phase, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    card: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def measured_kinds(self) -> frozenset[str]:
        """Return the kinds of platforms on which something was measured."""
        return frozenset(machine.kind for name, machine in self.machines.items() if self.evidence[name].pairs)

    def with_machine(self, machine: Machine, like: str | None = None) -> LearnedPrices:
        """Return the same with one more platform, of which nothing was measured; its own effects are those of one like it."""
        if machine.platform in self.machines:
            return self
        own = Evidence()
        if like is not None:
            machine = replace(machine, profiled=self.machines[like].profiled)
            own = replace(self.evidence[like], pairs=0)
        machines = {**self.machines, machine.platform: machine}
        prices = {}
        for phase, known in self.prices.items():
            alike = {key: value for key, value in known.effects.items() if like in key}
            named = {tuple(machine.platform if part == like else part for part in key): alike[key] for key in alike}
            prices[phase] = price_list(phase, machines, {**known.effects, **named})
        return replace(self, machines=machines, prices=prices, evidence={**self.evidence, machine.platform: own})

    def adapted(self, machine: Machine, measurements: Sequence[SpeedMeasurement]) -> LearnedPrices:
        """Return the same with a platform learned from its measurements; prices of others stay."""
        known = self.with_machine(machine)
        mine = [replace(each, platform=machine.platform) for each in measurements]
        prices = {phase: fit(timed(phase, mine), known.prices[phase]) for phase in PHASES}
        own = _evidence_of(mine, prices, machine.kind)
        return replace(known, prices=prices, evidence={**known.evidence, machine.platform: own})

    def with_added(self, added: LearnedPrices) -> LearnedPrices:
        """Return the same with the prices of other platforms, learned on top of them."""
        machines, prices = {**self.machines, **added.machines}, {}
        for phase, known in self.prices.items():
            prices[phase] = price_list(phase, machines, {**added.prices[phase].effects, **known.effects})
        widths = {
            phase: {row: {**kinds, **added.widths[phase].get(row, {})} for row, kinds in rows.items()}
            for phase, rows in self.widths.items()
        }
        return replace(self, machines=machines, prices=prices, widths=widths, evidence={**self.evidence, **added.evidence})

    def seconds(
        self, phase: Phase, platform: str, workloads: Sequence[Mapping[Term, float]]
    ) -> list[tuple[dict[Term, float], str, float]]:
        """Return the seconds of each term of each workload, how familiar it is, and its doubt.

        The doubt is the deviation of the logarithm of the time that prices of new operators cause, where others were measured.
        """
        found, table = [], self.shares.get(phase, {})
        evidence, kind = self.evidence[platform], self.machines[platform].kind
        pairs = self._pairs_row(platform, self.widths.get(phase, {})) if evidence.pairs < 10 else KNOWN
        of_row = table.get(pairs or KNOWN, {})
        share = of_row.get(kind, of_row.get(kind.partition("-")[0], 0.0))
        for workload, own in zip(workloads, self.prices[phase].seconds_by_term(platform, workloads), strict=True):
            situation = self.situation(phase, platform, own)
            longer = math.exp(evidence.graphs.get(_graph_of(phase, workload, kind), 0.0))
            if share and (line := self.by_line(phase, platform, workload)):
                longer *= (line / (longer * sum(own.values()))) ** share
            longer *= max(1.0, self._least_seconds(phase, platform, workload) / (longer * sum(own.values())))
            new = situation == NEW_OPERATORS and evidence.pairs
            doubt = float(np.linalg.norm(self.prices[phase].slopes_of_unknown(platform, [workload]))) if new else 0.0
            found.append(({term: longer * seconds for term, seconds in own.items()}, situation, doubt))
        return found

    def _least_seconds(self, phase: Phase, platform: str, workload: Mapping[Term, float]) -> float:
        """Return what reading takes at the peak bandwidth, or computing a prompt at the peak of what was never measured."""
        machine = self.machines[platform]
        if phase == "decode" and machine.bandwidth_gb_s and not machine.profiled:  # stacks of layers may lie in a cache
            return (work_of(phase, workload) + workload.get(("cache",), 0.0)) / machine.bandwidth_gb_s
        in_int8 = machine.kind == "gpu-openvino"  # at more than the peak, which is of half precision
        if phase == "prefill" and machine.compute_tops and not in_int8 and not self.evidence[platform].pairs:
            return work_of(phase, workload) / machine.compute_tops
        return 0.0

    def by_line(self, phase: Phase, platform: str, workload: Mapping[Term, float]) -> float | None:
        """Return the seconds by the line through what was measured there, or, before that, by the chip's bandwidth or peak."""
        evidence, machine = self.evidence[platform], self.machines[platform]
        line = evidence.lines.get(phase)
        if line is None and evidence.pairs < _FEWEST_FOR_A_LINE:
            peak = machine.bandwidth_gb_s or BANDWIDTH_GB_S if phase == "decode" else machine.compute_tops or COMPUTE_TOPS
            line = (0.0, 1 / (_OF_THE_PEAK[phase] * peak))
        return line and line[0] + line[1] * work_of(phase, workload)

    def _pairs_row(self, platform: str, table: Mapping[str, Any]) -> str | None:
        """Return the row of a new chip's measured pairs; None of a platform that counts as known."""
        counts = [int(row.split()[0]) for row in table if row.endswith(" pairs")]
        pairs = self.evidence[platform].pairs
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
        only_types = all(
            term[0] in ("weights", "multiply", "unpack")
            and "experts" not in term
            and prices.measured(platform, term, elsewhere=True)
            for term in unseen
        )
        return NEW_QUANTISATION if only_types else NEW_OPERATORS

    def width(self, phase: Phase, platform: str, situation: str, doubt: float = 0.0, tokens: float = 0.0) -> tuple[float, float]:
        """Return the half-width, of log speeds, of a 90 % interval, and the mean error that is to be expected, in percent.

        Args:
            phase, platform, situation, doubt: See :meth:`seconds`.
            tokens: Length of the prompt, or of decoding of the context.
        """
        machine, table = self.machines[platform], self.widths[phase]

        def of(row: str) -> tuple[float, float]:
            return table[row].get(machine.kind, table[row][ALL_KINDS])

        if platform in table.get(situation, {}):
            found = [table[situation][platform]]
        else:
            found, pairs = [of(situation)], self._pairs_row(platform, table)
            found += [of(pairs)] if pairs else []
        beyond = max(0.0, math.log(self.times_as_long(phase, platform, tokens) or 1.0) / math.log(LONGEST_HELD_OUT))
        grown = []
        for *values, longer in zip(*found, of(LONGER), strict=True):
            value, most = max(values), max(*values, longer)
            grown.append(value + min(beyond, 1.0) * (most - value) + max(0.0, beyond - 1.0) * most)
        return math.hypot(grown[0], doubt), grown[1]

    def times_as_long(self, phase: Phase, platform: str, tokens: float) -> float:
        """Return how many times the longest prompt or context that was measured there, or else on such units, so many are."""
        kind = self.machines[platform].kind
        like = (self.evidence[name].longest.get(phase, 0.0) for name, machine in self.machines.items() if machine.kind == kind)
        return tokens / (self.evidence[platform].longest.get(phase) or max(like, default=0.0) or math.inf)


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


def work_of(phase: Phase, quantities: Mapping[Term, float]) -> float:
    """Return the GB of weights that a token reads, or the TFLOP of a prompt's products with weights."""
    return sum(count for term, count in quantities.items() if term[0] == _WORK[phase])


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


def _graph_of(phase: Phase, quantities: Mapping[Term, float], kind: str) -> str:
    """Return the phase, the number of a graph's kernels, and whether most of its weights are left to the CPU."""
    most = max(quantities, key=lambda term: quantities[term] * (term[0] == _WORK[phase]))
    left = NATIVE.get(kind, {*most}).isdisjoint(most)
    return f"{phase} {quantities.get(('kernel',), 0.0):g}{' left' if left else ''}"


def _evidence_of(measurements: Sequence[SpeedMeasurement], prices: Mapping[Phase, PriceList], kind: str) -> Evidence:
    """Return what was measured on one platform, beside its prices; graphs' logarithms are shrunk to 0."""
    rows = {phase: timed(phase, measurements) for phase in PHASES}
    having = {phase: [each.tokens(phase) for each in measurements if each.has(phase)] for phase in PHASES}
    off: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for phase in PHASES[:1] if UNPACKING.match(kind) else PHASES:  # unpacking a type takes a token longer, whatever the graph
        for row in rows[phase]:
            (parts,) = prices[phase].seconds_by_term(row.platform, [row.quantities])
            error = math.log(row.seconds / sum(parts.values()))
            off[_graph_of(phase, row.quantities, kind)].append((row.weight, max(-_FURTHEST, min(_FURTHEST, error))))
    return Evidence(
        len({pair_of(each) for each in measurements}),
        {phase: max(lengths) for phase, lengths in having.items() if lengths},
        {phase: line for phase in PHASES if (line := line_through(phase, rows[phase]))},
        {
            graph: round(sum(weight * error for weight, error in errors) / (sum(weight for weight, _ in errors) + _DOUBT), 4)
            for graph, errors in off.items()
        },
    )


def timed(phase: Phase, measurements: Iterable[SpeedMeasurement]) -> list[Timed]:
    """Return a phase of the measurements that have it: quantities and seconds. Many lengths of one pair count as their root."""
    having = [each for each in measurements if each.has(phase)]
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
    mine = by_platform(measurements)
    evidence = {name: _evidence_of(mine.get(name, []), prices, machine.kind) for name, machine in machines.items()}
    return LearnedPrices(machines, prices, evidence)


def read_prices(text: str, name: str) -> LearnedPrices:
    """Return the prices in a document of :func:`written`.

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
            {
                key: Evidence(
                    int(row["pairs"]), {phase: float(tokens) for phase, tokens in row["longest"].items()},
                    {phase: (float(a), float(b)) for phase, (a, b) in row["lines"].items()}, row["graphs"],
                )
                for key, row in rows.items()
            },
            widths, document["shares"], document["card"],
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
        found = found.with_added(read_prices(file.read_text(encoding="utf-8"), str(file)))
    return found


def written(prices: LearnedPrices) -> str:
    """Return the text of a file of prices, which :func:`read_prices` reads: a line a section; equal prices give equal bytes."""
    document = {
        "schema": SCHEMA,
        "card": prices.card,
        "platforms": {
            name: {**asdict(machine), **asdict(prices.evidence[name])} for name, machine in sorted(prices.machines.items())
        },
        "widths": prices.widths,
        "shares": prices.shares,
        "effects": {
            phase: {"|".join(key): round(value, 4) for key, value in sorted(prices.prices[phase].effects.items())}
            for phase in PHASES
        },
    }
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(document[key])}" for key in document) + "\n}\n"


def save_added(prices: LearnedPrices, platform: str, file: Path | None = None) -> Path:
    """Write a platform's own prices to a file, or to the user's folder, whose platforms are known by name; return the file."""
    own, machines = {}, {platform: prices.machines[platform]}
    for phase, known in prices.prices.items():
        shipped = _shipped().prices[phase].effects
        own[phase] = price_list(phase, machines, {key: value for key, value in known.effects.items() if key not in shipped})
    widths = {
        phase: {row: {platform: kinds[platform]} for row, kinds in rows.items() if platform in kinds}
        for phase, rows in prices.widths.items()
    }
    alone = LearnedPrices(machines, own, {platform: prices.evidence[platform]}, widths)
    file = file or made(added_folder()) / f"{device_name(platform.replace('/', '-'))}.json"
    with replacing(file) as temporary:
        temporary.write_text(written(alone), encoding="utf-8")
    return file
