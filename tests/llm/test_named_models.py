from __future__ import annotations

import pytest

from latcast.errors import ModelError
from latcast.llm.reading import _joined, is_language_model, named_models, read_language_model
from latcast.llm.tensor_types import quantisations
from latcast.llm.workload import decode_quantities, memory, prefill_quantities

MOST_OFF = 0.02


def test_totals_are_the_published_ones() -> None:
    off = {name: read_language_model(name).parameters / entry["published"] - 1 for name, entry in named_models().items()}
    assert len(off) >= 120
    assert {name: share for name, share in off.items() if abs(share) > MOST_OFF} == {}
    assert not any(read_language_model(name).notes for name in off)


def test_no_two_models_share_a_spelling() -> None:
    found: dict[str, str] = {}
    for name, entry in named_models().items():
        for spelling in (name, *entry.get("also", ())):
            assert found.setdefault(_joined(spelling), name) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("qwen2.5-1.5b", "qwen2.5-1.5b"),
        ("Qwen2.5-1.5B-Instruct", "qwen2.5-1.5b"),
        ("Qwen/Qwen2.5-Coder-1.5B-Instruct", "qwen2.5-1.5b"),
        ("llama_v3_2_1b_instruct", "llama-3.2-1b"),
        ("llama3.2:1b", "llama-3.2-1b"),
        ("bartowski/Qwen_Qwen3.5-0.8B-GGUF/Q4_K_M", "qwen3.5-0.8b"),
        ("gemma-3-27b-it-UD-Q4_K_XL", "gemma-3-27b"),
        ("mistral_7b_instruct_v0_3", "mistral-7b"),
        ("TheBloke/TinyLlama-1.1B-Chat-v1.0-GGUF", "tinyllama-1.1b"),
        ("tinyllama", "tinyllama-1.1b"),
        ("phi4-mini:3.8b", "phi-4-mini"),
        ("deepseek-r1:8b", "qwen3-8b"),
        ("smollm3:latest", "smollm3-3b"),
        ("phi4:14b", "phi-4"),
        ("phi4:14b:q4_k_m", "phi-4"),
        ("codellama:7b-code", "codellama-7b"),
    ],
)
def test_names_may_be_spelled_in_many_ways(text: str, name: str) -> None:
    assert is_language_model(text)
    assert read_language_model(text).name == name


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    assert is_language_model("qwen2.5-1.6b")
    assert not is_language_model("mobilenet_v2")
    assert not is_language_model("timm/vit_base_patch16_clip_224.laion2b")
    with pytest.raises(ModelError, match=r"no language model is named so; nearest: .*qwen2\.5-1\.5b"):
        read_language_model("qwen2.5-1.6b")


def test_every_model_and_every_recipe_is_counted() -> None:
    for number, name in enumerate(named_models()):
        for quantisation in quantisations()[number % 5 :: 5]:
            model = read_language_model(name, quantisation)
            assert memory(model, 512).total > 0
            assert all(value >= 0 for value in decode_quantities(model, 512).values())
            assert all(value >= 0 for value in prefill_quantities(model, 512).values())


@pytest.mark.parametrize(
    ("text", "quantisation"),
    [
        ("Llama-3.2-1B-Instruct-Q4_K_M.gguf", "q4_k_m"),
        ("qwen2.5:1.5b-instruct-q8_0", "q8_0"),
        ("llama3.2:3b-instruct-fp16", "f16"),
        ("google/gemma-3-4b-it-qat-q4_0-gguf", "q4_0"),
        ("unsloth/Qwen3-4B-GGUF:UD-Q4_K_XL", "q4_k_xl"),
        ("Llama-3.2-1B-Instruct-Q4_0_4_4.gguf", "q4_0"),
        ("mlx-community/Qwen3-4B-4bit-DWQ", "mlx-4bit"),
        ("TheBloke/Mistral-7B-Instruct-v0.2-AWQ", "linear-int4_g128"),
        ("Qwen/Qwen2.5-0.5B-Instruct-GPTQ-Int8", "linear-int8_g128"),
        ("unsloth/Llama-3.2-1B-Instruct-bnb-4bit", "linear-int4_g64"),
        ("qwen3:4b", ""),
    ],
)
def test_a_name_may_state_its_quantisation(text: str, quantisation: str) -> None:
    assert read_language_model(text).quantisation == quantisation


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("smollm2", "'smollm2' names 3 language models: smollm2-135m, smollm2-360m, smollm2-1.7b; expected one"),
        ("granite4:micro", "no language model is named so"),
        ("phi4-mini:7b", "'7b' is not a quantisation"),
        ("Llama-3.2-1B-Q4_0:q8_0", "found two quantisations"),
    ],
)
def test_a_name_that_means_no_model_or_several_is_refused(text: str, said: str) -> None:
    assert is_language_model(text)
    with pytest.raises(ModelError, match=said):
        read_language_model(text)
