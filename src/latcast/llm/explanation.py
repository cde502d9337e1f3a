"""Where the time of a language model goes on a platform, in words, and what other quantisations would bring."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

from latcast.llm.forecast import LanguagePrediction, predict_language_model
from latcast.llm.learned_prices import PHASES, known_prices
from latcast.llm.prices import Phase
from latcast.llm.reading import read_language_model, stating_quantisation
from latcast.llm.speeds import machine_of
from latcast.llm.tensor_types import offered, quantise
from latcast.llm.workload import decode_quantities
from latcast.records import Platform

Limit = Literal["bandwidth", "arithmetic", "launches"]

_WORDS: Mapping[Phase, Mapping[str, tuple[str, Limit]]] = {
    "decode": {
        "weights": ("reading weights", "bandwidth"),
        "unpack": ("unpacking weights", "arithmetic"),
        "head": ("output head", "bandwidth"),
        "cache": ("attention: reading the KV cache", "bandwidth"),
        "attention": ("attention: its products", "arithmetic"),
        "attended": ("attention: each cached token, whatever the heads", "arithmetic"),
        "state": ("reading and writing recurrent states", "bandwidth"),
        "kernel": ("starting kernels", "launches"),
        "passed": ("passing to the CPU", "launches"),
        "constant": ("constant cost of a token", "launches"),
        "recurrent_layer": ("further kernels of recurrent layers", "launches"),
        "expert_layer": ("routing to experts", "launches"),
        "embedding_layer": ("per-layer embeddings", "launches"),
    },
    "prefill": {
        "multiply": ("multiplying by weights", "arithmetic"),
        "unpack": ("unpacking weights", "arithmetic"),
        "attention": ("attention", "arithmetic"),
        "scan": ("recurrent scan", "arithmetic"),
        "whole_head": ("output head for every token", "arithmetic"),
        "weights": ("reading weights", "bandwidth"),
        "head": ("output head for the last token", "bandwidth"),
        "elements": ("element-wise kernels", "bandwidth"),
        "kernel": ("starting kernels", "launches"),
        "constant": ("constant cost of a prompt", "launches"),
        "recurrent_layer": ("further kernels of recurrent layers", "launches"),
        "expert_layer": ("routing to experts", "launches"),
    },
}
"""Each quantity of :mod:`latcast.llm.workload` in words, and what limits it."""


@dataclass(frozen=True)
class Cost:
    """A part of a phase: what it is, its milliseconds and what limits it."""

    text: str
    ms: float
    limit: Limit


@dataclass(frozen=True)
class LanguageExplanation:
    """Costs of a language model on a platform, and the same model in other quantisations.

    Attributes:
        prediction: Its speeds and memory.
        costs: By phase, the longest first: of the whole prompt, and of one token of the answer.
        read_gb: Bytes of weights and cache that a token of the answer reads, in 10^9.
        bandwidth_gb_s: Peak bandwidth of the device's memory; None where unknown.
        alternatives: Predictions of the model in other quantisations.
    """

    prediction: LanguagePrediction
    costs: Mapping[Phase, Sequence[Cost]]
    read_gb: float
    bandwidth_gb_s: float | None
    alternatives: Sequence[LanguagePrediction]

    def by_limit(self, phase: Phase) -> dict[Limit, float]:
        """Return the milliseconds of a phase by what limits them, the longest first."""
        found: dict[Limit, float] = defaultdict(float)
        for cost in self.costs[phase]:
            found[cost.limit] += cost.ms
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            **self.prediction.to_json(),
            "costs": {phase: [asdict(cost) for cost in costs] for phase, costs in self.costs.items()},
            "limits": {phase: self.by_limit(phase) for phase in self.costs},
            "read_gb": self.read_gb,
            "bandwidth_gb_s": self.bandwidth_gb_s,
            "alternatives": [each.to_json() for each in self.alternatives],
        }


def explain_language_model(
    text: str, on: Sequence[str], *, prompt_tokens: int = 512, generated_tokens: int = 128, quantisation: str = ""
) -> list[LanguageExplanation]:
    """Return where the time of a language model goes on each platform.

    Args:
        text: A model as :func:`latcast.llm.reading.read_language_model` takes it.
        on: Platforms, as :func:`latcast.llm.forecast.predict_language_model` takes them.
        prompt_tokens, generated_tokens: Length of the prompt and of the answer.
        quantisation: Of a model whose name or file does not say.

    Raises:
        ModelError: It cannot be read, or its context is shorter than prompt and answer.
        UnknownPlatformError: A name means no platform.
    """
    text = stating_quantisation(text, quantisation)
    model = replace(read_language_model(text, quantisation), name=text)
    predict = partial(predict_language_model, prompt_tokens=prompt_tokens, generated_tokens=generated_tokens)
    predictions = predict(model, on, breakdown=True)
    machines, quantities = known_prices().machines, decode_quantities(model, prompt_tokens + generated_tokens / 2)
    read_gb = sum(count for term, count in quantities.items() if term[0] in ("weights", "cache"))
    found = []
    for prediction in predictions:
        machine = machines.get(prediction.platform) or machine_of(prediction.platform)
        tried = offered(Platform.parse(prediction.platform).runtime)
        others = [quantise(replace(model, name=name), name) for name in tried if name != model.quantisation]
        costs: dict[Phase, Sequence[Cost]] = {phase: _costs(phase, prediction) for phase in PHASES}
        alternatives = predict(others, prediction.platform)
        found.append(LanguageExplanation(prediction, costs, read_gb, machine.bandwidth_gb_s, alternatives))
    return found


def _costs(phase: Phase, prediction: LanguagePrediction) -> list[Cost]:
    """Return the costs of a phase, the longest first."""
    found = []
    for name, ms in (prediction.breakdown or {})[phase].items():
        term, *rest = name.split()
        text, limit = _WORDS[phase].get("head" if "head" in rest else term, (term, "launches"))
        detail = f" of type {rest[0]}" if term in ("weights", "unpack", "multiply") else ""
        detail = f" for {rest[0]}" if term == "passed" else detail
        detail += " (experts)" if "experts" in rest else ""
        found.append(Cost(text + detail, ms, limit))
    return sorted(found, key=lambda cost: -cost.ms)
