"""Predicting how fast a language model reads and answers on platforms, both by name."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from latcast.chips.chip_names import chips_of, nearest_known
from latcast.chips.chip_table import Device, chips
from latcast.chips.device_memory import memory_shortage, usable_memory_gb
from latcast.errors import ModelError, UnknownPlatformError
from latcast.llm.decoder import LanguageModel
from latcast.llm.learned_prices import LONGEST_HELD_OUT, NEW_OPERATORS, NEW_QUANTISATION, LearnedPrices, known_prices, read_prices
from latcast.llm.prices import Phase
from latcast.llm.reading import read_language_model, stating_quantisation
from latcast.llm.speeds import Machine, machine_of
from latcast.llm.tensor_types import kind_of_weights, made_for, offered, runs
from latcast.llm.workload import Term, decode_quantities, memory, prefill_quantities, require
from latcast.predictors.card import graded_by_memory
from latcast.predictors.platform_names import Named, read_name, words_of_platform
from latcast.predictors.prediction import Grade
from latcast.records import PUBLISHED_PRECISIONS, UNIT_KINDS, UNSTATED, Platform, Unit, device_name
from latcast.registry import is_pattern, matched
from latcast.tables import Rows, Tabular, plain_fields

LEVEL = 90.0
"""Percent of speeds that lie in their interval."""


@dataclass(frozen=True)
class LanguagePrediction(Tabular):
    """Speed and memory of a language model on a platform.

    Attributes:
        model: What the user called it.
        platform: Platform id.
        prompt_tokens, generated_tokens: Length of the prompt and of the answer.
        prefill_tokens_per_s, decode_tokens_per_s: Speeds of reading the prompt and of answering, with their 90 % interval.
        first_token_ms: From the prompt to the first token of the answer, which reading the prompt gives.
        answer_ms: From the prompt to the last token.
        memory_mb: Weights, cache and buffers at the end of the answer, in 10^6 bytes.
        usable_memory_mb: What an app can count on of the largest memory that the device is sold with; None where not known.
        grade: The error to expect of the decode speed, and why.
        warnings: What the user should know, a sentence each.
        breakdown: Phase to milliseconds by quantity, of one token for ``decode`` and of the whole prompt for ``prefill``.
    """

    model: str
    platform: str
    prompt_tokens: int
    generated_tokens: int
    prefill_tokens_per_s: float
    prefill_low_tokens_per_s: float
    prefill_high_tokens_per_s: float
    decode_tokens_per_s: float
    decode_low_tokens_per_s: float
    decode_high_tokens_per_s: float
    first_token_ms: float
    first_token_low_ms: float
    first_token_high_ms: float
    answer_ms: float
    answer_low_ms: float
    answer_high_ms: float
    memory_mb: float
    usable_memory_mb: float | None
    grade: Grade
    warnings: tuple[str, ...] = ()
    breakdown: Mapping[Phase, Mapping[str, float]] | None = None
    level: float = LEVEL

    def _rows(self) -> Rows:
        return [{**plain_fields(self), "grade": str(self.grade)}]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that scripts rely on."""
        found = {name: value for name, value in vars(self).items() if name != "breakdown"}
        found |= {"warnings": list(self.warnings), "grade": asdict(self.grade)}
        if self.breakdown is not None:
            found["breakdown"] = {phase: dict(parts) for phase, parts in self.breakdown.items()}
        return found


def predict_language_model(
    models: str | LanguageModel | Sequence[str | LanguageModel],
    on: str | Sequence[str],
    *,
    prompt_tokens: int = 512,
    generated_tokens: int = 128,
    quantisation: str = "",
    breakdown: bool = False,
    devices: Mapping[str, str] = MappingProxyType({}),
) -> list[LanguagePrediction]:
    """Predict how fast language models read a prompt and answer, and the memory that they take.

    Args:
        models: ``NAME:QUANTISATION``, GGUF files, config.json files, folders of onnxruntime-genai, or models that were read.
        on: Platform ids or devices and chips in any spelling; see :func:`language_platforms_meant`.
        prompt_tokens: Length of the prompt.
        generated_tokens: Length of the answer.
        quantisation: Of models whose name or file does not say; of names q4_k_m by default, as Ollama's tags have.
        breakdown: Whether to list what each quantity costs.
        devices: Platform id to the device that is meant, whose memory counts, where another one with its chip was measured.

    Returns:
        One prediction for each model on each platform, a model after the other.

    Raises:
        ModelError: A model cannot be read, or its context is shorter than prompt and answer.
        UnknownPlatformError: A name means no platform.

    Example:
        >>> import latcast
        >>> found = latcast.predict_language_model("qwen2.5-1.5b:q4_0", on="Galaxy S23 CPU")[0]
        >>> found.decode_low_tokens_per_s < found.decode_tokens_per_s < found.decode_high_tokens_per_s
        True
    """
    if prompt_tokens < 1 or generated_tokens < 1:
        raise ModelError(f"found {prompt_tokens} tokens of prompt and {generated_tokens} of answer; expected at least 1 of each")
    listed = [models] if isinstance(models, str | LanguageModel) else list(models)
    named = [stating_quantisation(each, quantisation) if isinstance(each, str) else each for each in listed]
    read = [(each, read_language_model(each, quantisation)) if isinstance(each, str) else (each.name, each) for each in named]
    for text, model in read:
        require(replace(model, name=text), prompt_tokens + generated_tokens)
    texts = [on] if isinstance(on, str) else on
    prices, by_kind = known_prices(), defaultdict[str, list[int]](list)
    for row, (_, model) in enumerate(read):
        by_kind[kind_of_weights(model)].append(row)
    found: list[list[LanguagePrediction]] = [[] for _ in read]
    for kind, rows in by_kind.items():
        platforms: dict[str, str] = {}
        for text in texts:
            meant, prices = language_platforms_meant(text, prices, kind)
            platforms |= {name: devices.get(name, text) for name in meant}
        for platform, runtime in ((each, Platform.parse(each).runtime) for each in platforms):
            if not runs(runtime, kind):
                raise ModelError(
                    f"{read[rows[0]][0]}: found weights of {kind}, with which {runtime} on {platform} cannot compute; expected a "
                    f"quantisation such as {', '.join(offered(runtime))}"
                )
        forecast = _Forecast(prices, prompt_tokens, generated_tokens, breakdown)
        for row, predictions in zip(rows, forecast.predictions([read[row] for row in rows], platforms), strict=True):
            found[row] = predictions
    return [each for predictions in found for each in predictions]


@dataclass(frozen=True)
class _Forecast:
    prices: LearnedPrices
    prompt: int
    generated: int
    breakdown: bool

    def predictions(
        self, models: Sequence[tuple[str, LanguageModel]], platforms: Mapping[str, str]
    ) -> list[list[LanguagePrediction]]:
        """Return the predictions of each model on the platforms, each with the device that is meant."""
        decodes = [decode_quantities(model, self.prompt + self.generated / 2) for _, model in models]
        found: list[list[LanguagePrediction]] = [[] for _ in models]
        for name, device in platforms.items():
            chip = chips().get(self.prices.machines[name].chip)
            named = read_name(device, sorted(self.prices.machines))
            meant = [each.name for each in named.entries if isinstance(each, Device)] if named else []
            usable = usable_memory_gb(meant[0] if meant else device, chip, device)
            runtime = Platform.parse(name).runtime
            prefills = [prefill_quantities(model, self.prompt, 0, runtime) for _, model in models]
            reading, answering = self.prices.seconds("prefill", name, prefills), self.prices.seconds("decode", name, decodes)
            for row, (text, model) in enumerate(models):
                found[row].append(
                    self._prediction(text, model, name, {"prefill": reading[row], "decode": answering[row]}, usable)
                )
        return found

    def _prediction(
        self, text: str, model: LanguageModel, platform: str,
        found: Mapping[Phase, tuple[Mapping[Term, float], str, float]], usable_gb: Mapping[float, float],
    ) -> LanguagePrediction:  # fmt: skip
        parts = {phase: dict(seconds) for phase, (seconds, *_) in found.items()}
        situations = {phase: situation for phase, (_, situation, _) in found.items()}
        tokens: dict[Phase, float] = {"prefill": self.prompt, "decode": self.prompt + self.generated / 2}
        width = {phase: self.prices.width(phase, platform, *found[phase][1:], tokens[phase]) for phase in parts}
        wider = 2.0 if model.notes else 1.0  # what is not known of a model is outside of what was held out
        wide, wide_token = wider * width["prefill"][0], wider * width["decode"][0]
        token_s = sum(parts["decode"].values())
        faster = max(1.0, sum(parts["prefill"].values()) / (self.prompt * token_s))  # a prompt can be read token by token
        parts["prefill"] = {term: seconds / faster for term, seconds in parts["prefill"].items()}
        first, further = sum(parts["prefill"].values()), (self.generated - 1) * token_s  # the first token comes with the prompt
        prefill, decode = self.prompt / first, 1 / token_s
        worst = NEW_OPERATORS if NEW_OPERATORS in situations.values() else situations["decode"]
        longer = any(self.prices.times_as_long(phase, platform, tokens[phase]) > LONGEST_HELD_OUT for phase in tokens)
        why, warnings = self._why(model, platform, worst, longer=longer)
        maps = self.prices.machines[platform].kind == "gpu-metal"  # weights, from their file, for all units
        takes = memory(model, self.prompt + self.generated, Platform.parse(platform).runtime, mapped=maps).total / 1e6
        shortage = memory_shortage(takes / 1e3, usable_gb)
        return LanguagePrediction(
            text, platform, self.prompt, self.generated, *_around(prefill, wide), *_around(decode, wide_token),
            *_around(1e3 * first, wide),
            *_around(1e3 * (first + further), math.hypot(first * wide, further * wide_token) / (first + further)),
            takes, 1e3 * max(usable_gb.values()) if usable_gb else None,
            graded_by_memory(Grade.of(wider * width["decode"][1], why), shortage),
            (*warnings, *([shortage.sentence] if shortage else [])),
            {phase: _in_ms(terms) for phase, terms in parts.items()} if self.breakdown else None,
        )  # fmt: skip

    def _why(self, model: LanguageModel, platform: str, situation: str, *, longer: bool) -> tuple[str, tuple[str, ...]]:
        """Return what decides the error that is to be expected, and the warnings."""
        pairs, warnings = self.prices.evidence[platform].pairs, list(model.notes)
        machine = self.prices.machines[platform]
        chip = chips()[machine.chip].name if machine.chip in chips() else "its chip"
        sibling = _sibling(self.prices, machine) if not pairs else None
        why = ""
        if sibling:
            why = f"measured as {sibling}, with other threads or another release; answered from its prices"
        elif machine.kind not in self.prices.measured_kinds:
            why = f"no language model was measured on any such unit; answered from the bandwidth and peak of {chip}"
        elif not pairs:
            why = f"no language model was measured here; answered from the bandwidth and peak of {chip}"
        elif situation == NEW_OPERATORS:
            why = "no model of such operators or weights was measured here"
        elif situation == NEW_QUANTISATION:
            why = "no weights of such types were measured here"
        elif longer:
            why = "no prompt or context of such a length was measured here"
        warnings += [why] if why else []
        if pairs and pairs < 10:
            why = f"{platform} was measured with {pairs} pairs of a model and a quantisation"
        return why or f"models of other lineages held out on {platform}", tuple(warnings)


def _around(value: float, width: float) -> tuple[float, float, float]:
    """Return a value with the ends of its interval, of half a ``width`` in logarithms."""
    return value, value * math.exp(-width), value * math.exp(width)


def _in_ms(terms: Mapping[Term, float]) -> dict[str, float]:
    """Return the milliseconds of each term, the longest first."""
    return {" ".join(term): 1e3 * seconds for term, seconds in sorted(terms.items(), key=lambda pair: -pair[1])}


def language_platforms_meant(text: str, prices: LearnedPrices, weights: str = "") -> tuple[list[str], LearnedPrices]:
    """Return the ids of the platforms that a text means, and the prices that know them.

    A file that ``latcast device add`` wrote, a platform id or a beginning of it, a pattern, or a device or chip in any spelling
    with what tells its platforms apart ("s23 npu"): the best measured of each kind of unit. A chip on which nothing was measured
    is answered from its facts, another number of threads or release of the runtime from the prices of the measured one.

    Args:
        text: As a user types it.
        prices: Of the platforms that are known.
        weights: Kind of weights, by which runtimes of one device are chosen; see :func:`latcast.llm.tensor_types.runs`.

    Raises:
        UnknownPlatformError: It means none, or the device was not measured on such a unit; the message says what there is.
    """
    if text.endswith(".json") and Path(text).is_file():
        added = read_prices(Path(text).read_text(encoding="utf-8"), text)
        return sorted(added.machines), prices.with_added(added)
    known = sorted(prices.machines)
    parts = text.rstrip("/").split("/")
    if is_pattern(text):
        mine = matched(text, known, "platform of language models", "latcast platforms --llm")
    else:
        mine = [name for name in known if name.split("/")[: len(parts)] == parts]
    if mine:
        fit = [name for name in mine if runs(Platform.parse(name).runtime, weights)] or mine
        return (fit if is_pattern(text) else _best_measured(fit, prices)), prices
    named = read_name(text, known)
    if named is None:
        here = "latcast profile --runtime llama.cpp measures this machine" if re.match("local|here$|this machine", text) else ""
        near = here or f"name a device or chip, such as {', '.join(nearest_known(text)) or 'Galaxy S23'}"
        raise UnknownPlatformError(f"no platform of language models is known as '{text}'; {near}")
    mine = _measured_on(named, known, prices)
    fit = [name for name in mine if runs(Platform.parse(name).runtime, weights)]
    if fit or (mine and (named.is_id or not named.entries)):
        return _best_measured(fit or mine, prices), prices
    new = _unmeasured(text, named, prices, weights)
    for machine in new:
        prices = prices.with_machine(machine, _sibling(prices, machine))
    return [machine.platform for machine in new], prices


def _best_measured(names: Sequence[str], prices: LearnedPrices) -> list[str]:
    """Return of each kind of unit the platform with the most measured pairs, then threads."""
    units = {name: Unit.parse(name.split("/")[2]) for name in names}
    best = {units[name].kind: name for name in sorted(names, key=lambda name: (prices.evidence[name].pairs, units[name].threads))}
    return sorted(best.values(), key=lambda name: [*UNIT_KINDS, *best].index(units[name].kind))


def _measured_on(named: Named, known: Sequence[str], prices: LearnedPrices) -> list[str]:
    """Return the platforms that a name means: those of the device, else those of other devices with its chip."""
    if named.platforms and not (named.alike and any(isinstance(each, Device) for each in named.entries)):
        return list(named.platforms)
    ids = {chip.id for entry in named.entries for chip in chips_of(entry)}
    return [name for name in known if prices.machines[name].chip in ids and words_of_platform(name).issuperset(named.said)]


def _unmeasured(text: str, named: Named, prices: LearnedPrices, weights: str) -> list[Machine]:
    """Return a platform of each unit of the named chip that the words allow, under a runtime that was measured on such units.

    Raises:
        UnknownPlatformError: Nothing is known of its chip, it has no such unit, or no runtime of language models runs there.
    """
    chip = next((each for entry in named.entries for each in chips_of(entry)), None)
    units = [word for word in named.said if Unit.parse(word).kind in UNIT_KINDS]
    measured_units = [Unit.parse(name.split("/")[2]) for name in prices.machines]
    of_backend = {word: unit.kind for unit in measured_units for word in unit.qualifiers if word in named.said}
    units += sorted(set(of_backend.values()) - {Unit.parse(word).kind for word in units})
    if chip is None:
        own = [machine for name, machine in prices.machines.items() if name.split("/")[0] == device_name(named.device)]
        like = [(machine, unit) for unit in units for machine in own if machine.kind.startswith(Unit.parse(unit).kind)]
        if like:
            machine, unit = like[0]
            platform = "/".join((*machine.platform.split("/")[:2], unit, UNSTATED))
            return [machine_of(platform, machine.chip) if machine.chip else replace(machine, platform=platform)]
        raise UnknownPlatformError(f"no language model was measured on '{text}', and nothing is known of its chip; name its chip")
    has, kinds = [kind for kind in UNIT_KINDS if chip.has(kind)], prices.measured_kinds
    if not all(Unit.parse(word).kind in has for word in units):
        raise UnknownPlatformError(
            f"found '{' '.join(units)}' in '{text}'; expected a unit that {chip.name} has: {', '.join(has)}"
        )
    threads = f"cpu{min(4, sum(cluster.cores or 0 for cluster in chip.cpu) or 4)}"
    measured, counts = set(), Counter[str]()
    for name, evidence in prices.evidence.items():
        runtime = Platform.parse(name).runtime
        measured.add((runtime, Unit.parse(name.split("/")[2]).kind))
        counts[runtime] += evidence.pairs
    usual = sorted(counts, key=lambda runtime: -counts[runtime])

    def machines(unit: str, runtimes: Sequence[str]) -> list[Machine]:
        """Return the unit under each runtime that was measured on such units; a GPU that is named also where only others were."""
        found, kind = [], Unit.parse(unit).kind
        for runtime in runtimes:
            platform = Platform.stated(named.device, runtime, threads if unit == "cpu" else unit, UNSTATED)
            machine = machine_of(platform.id, chip.id)
            if (platform.runtime, kind) in measured and made_for(platform.runtime, chip, kind):
                found += [machine] if machine.kind in kinds or (kind == "gpu" and unit in units) else []
        return found

    rest = [word for word in named.said if word not in (*units, *of_backend, UNSTATED)]
    precisions = [word for word in rest if word in PUBLISHED_PRECISIONS]
    runtimes = [word for word in rest if word not in precisions] or usual
    backends = of_backend.keys()
    allowed = ([each for each in machines(unit, runtimes) if backends <= {each.kind.partition("-")[2]}] for unit in units or has)
    listed = [found for found in allowed if found]
    if not listed:
        places = {name: [unit for unit in has if machines(unit, [name])] for name in usual}
        known = [f"{name} ({', '.join(there)})" for name, there in places.items() if there]
        raise UnknownPlatformError(
            f"found '{' '.join(named.said or has)}' in '{text}', with which no language model was measured on any device; "
            f"expected {' or '.join(known) or 'a phone, a computer or a board that runs Linux'}"
        )
    if precisions:
        raise UnknownPlatformError(
            f"found the precision '{precisions[0]}' in '{text}'; a language model's is named with the model, as in NAME:q4_0"
        )
    fit = [[each for each in found if runs(Platform.parse(each.platform).runtime, weights)] for found in listed]
    return [found[0] for found in fit if found] or [found[0] for found in listed]


def _sibling(prices: LearnedPrices, machine: Machine) -> str | None:
    """Return the best measured platform of the same chip, runtime and kind of unit: of other threads or another release."""
    own = Platform.parse(machine.platform)
    same = [
        (prices.evidence[name].pairs, name)
        for name, each in prices.machines.items()
        if each.kind == machine.kind and prices.evidence[name].pairs and Platform.parse(name).runtime == own.runtime
        if (each.chip == machine.chip != "") or Platform.parse(name).device == own.device
    ]
    return max(same)[1] if same else None
