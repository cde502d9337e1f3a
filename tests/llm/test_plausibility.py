"""Tests that predictions for well-known devices and models are possible: within bandwidth, peak and order of size."""

from __future__ import annotations

from itertools import pairwise

import pytest

from latcast.chips.chip_table import chips
from latcast.llm.forecast import LanguagePrediction, language_platforms_meant, predict_language_model
from latcast.llm.learned_prices import known_prices
from latcast.llm.reading import read_language_model
from latcast.llm.speeds import machine_of
from latcast.llm.workload import decode_quantities

DEVICES = (
    "iphone 12", "iphone 13", "iphone 15", "iphone 15 pro", "iphone 16 pro", "iphone 17 pro", "ipad pro m4", "macbook air m1",
    "macbook pro m3", "mac mini m4", "mac studio m2 ultra", "galaxy s20", "galaxy s22", "galaxy s23", "galaxy s24 ultra",
    "galaxy s25", "galaxy a15", "pixel 5", "pixel 6a", "pixel 8", "pixel 10", "oneplus 13", "xiaomi 14", "poco f6",
    "redmi note 12", "nothing phone 2", "moto g84", "huawei p40", "raspberry pi 4", "raspberry pi 5", "orange pi 5",
    "jetson nano", "jetson nano gpu", "jetson orin nano", "jetson agx orin", "snapdragon x elite", "dimensity 9400",
    "ryzen ai max 395", "core ultra 7 258v", "core i5-8250u", "rtx 4090", "rtx 4070 laptop", "steam deck", "intel n100",
)  # fmt: skip

FAMILIES = (
    ("llama-3.2-1b", "llama-3.2-3b", "llama-3.1-8b", "llama-3.3-70b"), ("qwen2.5-0.5b", "qwen2.5-1.5b", "qwen2.5-7b"),
    ("qwen3-0.6b", "qwen3-1.7b", "qwen3-4b", "qwen3-8b"), ("gemma-2-2b", "gemma-2-9b"),
    ("gemma-3-270m", "gemma-3-1b", "gemma-3-4b"), ("gemma-3n-e2b", "gemma-3n-e4b"), ("phi-4-mini", "phi-4"), ("phi-3-mini",),
    ("smollm2-135m", "smollm2-360m", "smollm2-1.7b"), ("deepseek-r1-distill-qwen-1.5b", "deepseek-r1-distill-qwen-7b"),
    ("mistral-7b", "mixtral-8x7b"), ("gpt-oss-20b", "gpt-oss-120b"),
)  # fmt: skip
"""Models of a family, each smaller than the next."""

QUANTISATIONS = ("q4_0", "q8_0", "f16")
HEAVIER = ("q5_k_m", "q8_0", "f16")
"""Quantisations of more bits than q4_0."""

Answers = dict[tuple[str, str], LanguagePrediction]
"""Answers by platform and model."""


@pytest.fixture(scope="module")
def answers() -> Answers:
    models = [f"{name}:{quantisation}" for family in FAMILIES for name in family for quantisation in {*QUANTISATIONS, *HEAVIER}]
    return {(each.platform, each.model): each for device in DEVICES for each in predict_language_model(models, device)}


@pytest.mark.slow
def test_no_token_is_read_faster_than_the_memory_is(answers: Answers) -> None:
    weights_gb = {
        name: sum(count for term, count in decode_quantities(read_language_model(name), 576).items() if term[0] == "weights")
        for name in {model for _, model in answers}
    }
    peaks, faster = {}, []
    for device in DEVICES:
        platforms, prices = language_platforms_meant(device, known_prices(), "ggml")
        peaks |= {name: prices.machines[name].bandwidth_gb_s for name in platforms}
    for (platform, model), answer in answers.items():
        if answer.decode_tokens_per_s * weights_gb[model] > (peaks.get(platform) or float("inf")):
            faster.append((platform, model))
    assert len([peak for peak in peaks.values() if peak]) > 60
    assert faster == []


@pytest.mark.slow
def test_reading_a_prompt_is_no_slower_than_answering(answers: Answers) -> None:
    assert [key for key, each in answers.items() if each.prefill_tokens_per_s < 0.999 * each.decode_tokens_per_s] == []


def test_every_known_cpu_reads_a_prompt_no_slower_than_it_answers_and_within_its_peak() -> None:
    wrong, known = [], [chip.id for chip in chips().values() if chip.cpu and not chip.is_microcontroller]
    for chip in known:
        (answer,) = predict_language_model("llama-3.2-1b:q4_0", f"{chip}/llama.cpp-unstated/cpu4/unstated")
        peak = machine_of(answer.platform, chip).compute_tops or 0.0
        tops = 2 * 0.97e9 * answer.prefill_tokens_per_s / 1e12  # of products with the weights of layers
        if not 0.999 * answer.decode_tokens_per_s <= answer.prefill_tokens_per_s or tops > peak:
            wrong.append((chip, answer.decode_tokens_per_s, answer.prefill_tokens_per_s, peak))
    assert len(known) > 400
    assert wrong == []


@pytest.mark.slow
def test_the_larger_model_of_a_family_is_never_faster_and_takes_more_memory(answers: Answers) -> None:
    wrong = [
        (platform, smaller, larger, quantisation)
        for platform in {platform for platform, _ in answers}
        for family in FAMILIES
        for smaller, larger in pairwise(family)
        for quantisation in QUANTISATIONS
        if (a := answers.get((platform, f"{smaller}:{quantisation}")))
        and (b := answers.get((platform, f"{larger}:{quantisation}")))
        if b.decode_tokens_per_s > a.decode_tokens_per_s
        or b.prefill_tokens_per_s > a.prefill_tokens_per_s
        or b.memory_mb <= a.memory_mb
    ]
    assert wrong == []


@pytest.mark.slow
def test_more_bits_never_answer_faster(answers: Answers) -> None:
    wrong = [
        (platform, model, quantisation)
        for (platform, model), each in answers.items()
        if model.endswith(":q4_0")
        for quantisation in HEAVIER
        if (heavier := answers.get((platform, model.replace(":q4_0", f":{quantisation}"))))
        if heavier.decode_tokens_per_s > each.decode_tokens_per_s or heavier.memory_mb < each.memory_mb
    ]
    assert wrong == []
