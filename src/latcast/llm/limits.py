"""Language models under limits: the probability that one keeps to them, and the best of many that does."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import linear_regression
from typing import Any

from latcast.errors import ModelError
from latcast.llm import read_facts
from latcast.llm.decoder import LanguageModel
from latcast.llm.forecast import LanguagePrediction, language_platforms_meant, predict_language_model
from latcast.llm.learned_prices import known_prices
from latcast.llm.reading import named_as, named_models, read_language_model, stating_quantisation
from latcast.llm.tensor_types import bytes_of, offered, quantise
from latcast.predictors.intervals import LEVEL_DEVIATIONS
from latcast.records import Platform

FEWEST_BITS_OF_QUALITY = 4.0
"""Bits a weight below which answers suffer more than from the next smaller model; such picks come last."""


@dataclass(frozen=True)
class Limits:
    """Limits for a language model on a platform; None is no limit.

    Attributes:
        min_decode_tokens_per_s: Speed of the answer.
        max_first_token_ms: Time until its first token.
        max_memory_mb: Weights, cache and buffers, in 10^6 bytes; None is what an app can count on, where known.
    """

    min_decode_tokens_per_s: float | None = None
    max_first_token_ms: float | None = None
    max_memory_mb: float | None = None

    def probability(self, found: LanguagePrediction) -> float:
        """Return the probability that a prediction keeps to the limits: that of the one which it is likeliest to miss.

        Logarithms of speeds and times are normal about the prediction, with the deviation of the 90 % interval.
        """
        parts = [1.0]
        if self.min_decode_tokens_per_s is not None:
            ends = found.decode_low_tokens_per_s, found.decode_high_tokens_per_s
            parts.append(1 - _probability_below(self.min_decode_tokens_per_s, found.decode_tokens_per_s, ends))
        if self.max_first_token_ms is not None:
            ends = found.first_token_low_ms, found.first_token_high_ms
            parts.append(_probability_below(self.max_first_token_ms, found.first_token_ms, ends))
        if memory_mb := self._memory_mb(found):
            parts.append(float(found.memory_mb <= memory_mb))
        return min(parts)

    def miss(self, found: LanguagePrediction) -> float:
        """Return the logarithm of how many times a prediction is beyond the limit that it misses most."""
        ratios = [
            limit / value if least else value / limit
            for limit, value, least in (
                (self.min_decode_tokens_per_s, found.decode_tokens_per_s, True),
                (self.max_first_token_ms, found.first_token_ms, False),
                (self._memory_mb(found), found.memory_mb, False),
            )
            if limit
        ]
        return max(map(math.log, ratios), default=0.0)

    def _memory_mb(self, found: LanguagePrediction) -> float | None:
        return found.usable_memory_mb if self.max_memory_mb is None else self.max_memory_mb


def _probability_below(limit: float, value: float, ends: tuple[float, float]) -> float:
    deviation = math.log(ends[1] / ends[0]) / (2 * LEVEL_DEVIATIONS)
    return 0.5 * math.erfc((math.log(value) - math.log(limit)) / (deviation * math.sqrt(2)))


@dataclass(frozen=True)
class LanguageCandidate:
    """A model and a quantisation on a platform, against the limits.

    Attributes:
        prediction: Its speeds and memory.
        parameters: Weights of the model.
        active_parameters: Those that one token is multiplied by: fewer in a mixture of experts.
        bits: Bits a weight, the mean.
        score: Published score of its answers in percent; see :func:`benchmark_scores`. None where there is none.
        score_source: Model card that states it.
        probability: That it keeps to the limits.
        fits: Whether that is at least the certainty asked for.
    """

    prediction: LanguagePrediction
    parameters: float
    active_parameters: float
    bits: float
    probability: float
    fits: bool
    score: float | None = None
    score_source: str = ""

    @property
    def expected_score(self) -> float:
        """Return the published score, or the one to be expected of so many active parameters."""
        slope, constant = _line_through_scores()
        return self.score if self.score is not None else slope * math.log(self.active_parameters) + constant

    @property
    def quality(self) -> tuple[bool, float, float]:
        """Return what orders candidates: enough bits, score, bits."""
        return self.bits >= FEWEST_BITS_OF_QUALITY, self.expected_score, self.bits

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        own = {name: value for name, value in vars(self).items() if name != "prediction"}
        return {**self.prediction.to_json(), **own, "expected_score": self.expected_score}


def benchmark_scores() -> tuple[str, Mapping[str, Mapping[str, Any]]]:
    """Return a benchmark's name and, by named model, ``score`` in percent, ``source`` and the variant that was ``measured``."""
    document = read_facts("benchmark_scores.json")
    return document["benchmark"], document["scores"]


@cache
def _line_through_scores() -> tuple[float, float]:
    """Return the slope and the constant of scores over the logarithm of active parameters."""
    scores = {name: entry["score"] for name, entry in benchmark_scores()[1].items()}
    found = linear_regression([math.log(read_language_model(name).active_parameters) for name in scores], list(scores.values()))
    return found.slope, found.intercept


def choose_language_models(
    on: str | Sequence[str],
    limits: Limits,
    models: Sequence[str] = (),
    *,
    prompt_tokens: int = 512,
    generated_tokens: int = 128,
    certainty: float = 0.9,
) -> list[LanguageCandidate]:
    """Return candidates on platforms, the best that fits first, then the others by how likely they fit.

    The best has, of at least 4 bits a weight, the highest score of a public benchmark, or of what its active parameters promise.

    Args:
        on: Platforms, as :func:`latcast.llm.forecast.predict_language_model` takes them.
        limits: What to keep to.
        models: Candidates with their quantisations; by default all named models in each runtime's usual ones.
        prompt_tokens, generated_tokens: Length of the prompt and of the answer.
        certainty: Probability from which on a candidate fits.

    Raises:
        ModelError: A candidate cannot be read; or none is left whose context holds prompt and answer.
        UnknownPlatformError: There is no such platform.
    """
    tokens = prompt_tokens + generated_tokens
    tried: dict[tuple[str, ...], list[tuple[str, LanguageModel]]] = {}
    devices: dict[str, str] = {}
    if models:
        stated = map(stating_quantisation, models)
        tried[(on,) if isinstance(on, str) else tuple(on)] = [(text, read_language_model(text)) for text in stated]
    else:
        by_runtime = defaultdict[str, list[str]](list)
        for text in [on] if isinstance(on, str) else on:
            for platform in language_platforms_meant(text, known_prices())[0]:
                # Only a file's path leads to its prices.
                by_runtime[Platform.parse(platform).runtime].append(text if text.endswith(".json") else platform)
                devices[platform] = text
        tried = {tuple(platforms): _offered(runtime) for runtime, platforms in by_runtime.items()}
    usable = {
        platforms: {
            text: replace(model, name=text)
            for text, model in read
            if model.context_limit is None or model.context_limit >= tokens
        }
        for platforms, read in tried.items()
    }
    if not any(usable.values()):
        raise ModelError(f"found no candidate with a context of {tokens} tokens; expected a shorter prompt or answer")
    predictions = [
        (models[each.model], each)
        for platforms, models in usable.items()
        for each in predict_language_model(
            list(models.values()), platforms, prompt_tokens=prompt_tokens, generated_tokens=generated_tokens, devices=devices
        )
    ]
    found = []
    for model, each in predictions:
        bits = 8 * sum(bytes_of(matrix, matrix.stored) for matrix in model.matrices) / model.parameters
        likely, scored = limits.probability(each), benchmark_scores()[1].get(named_as(each.model) or "", {})
        size, score = (model.parameters, model.active_parameters, bits), (scored.get("score"), scored.get("source", ""))
        found.append(LanguageCandidate(each, *size, likely, likely >= certainty, *score))

    def order(each: LanguageCandidate) -> tuple[bool, tuple[float, ...]]:
        return each.fits, each.quality if each.fits else (each.probability, -limits.miss(each.prediction))

    return sorted(found, key=order, reverse=True)


def _offered(runtime: str) -> list[tuple[str, LanguageModel]]:
    return [
        (f"{name}:{quantisation}", quantise(model, quantisation))
        for name in named_models()
        for model in [read_language_model(name)]
        for quantisation in offered(runtime)
    ]
