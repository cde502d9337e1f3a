from __future__ import annotations

import time
from dataclasses import replace

import pytest

from latcast.errors import ModelError
from latcast.llm.reading import named_models, read_language_model
from latcast.llm.workload import decode_quantities, kernels, memory, prefill_quantities


def test_a_token_reads_its_weights_and_its_cache() -> None:
    model = read_language_model("llama-3.1-8b:q8_0")
    found = decode_quantities(model, 1000)
    assert found["weights", "q8_0"] == pytest.approx((8_030_261_248 - 2 * 128_256 * 4096) * 8.5 / 8 / 1e9, rel=1e-3)
    assert found["weights", "q8_0", "head"] == pytest.approx(128_256 * 4096 * 8.5 / 8 / 1e9)
    assert found["cache",] == pytest.approx(2 * 2 * 32 * 8 * 128 * 1000 / 1e9)
    assert found["attention",] == pytest.approx(4 * 32 * 32 * 128 * 1000 / 1e12)  # of all heads, four times those of the cache
    assert found["attended",] == pytest.approx(32 * 1000 / 1e6)
    assert found["kernel",] == kernels(model) == pytest.approx(17 * 32, abs=10)


def test_a_prompt_multiplies_by_its_weights_and_sees_what_came_before() -> None:
    model = read_language_model("llama-3.1-8b:q8_0")
    found = prefill_quantities(model, 512)
    body = 8_030_261_248 - 2 * 128_256 * 4096
    assert prefill_quantities(model, 512, runtime="mlx")["multiply", "q8_0"] == pytest.approx(2 * body * 512 / 1e12, rel=1e-3)
    assert found["multiply", "q8_0"] < prefill_quantities(model, 512, runtime="mlx")["multiply", "q8_0"]  # the last layer's
    assert found["attention", "128"] == pytest.approx(4 * 4096 * 32 * 512 * 256 / 1e12)
    assert prefill_quantities(model, 512, cached_tokens=512)["attention", "128"] == pytest.approx(3 * found["attention", "128"])
    assert ("whole_head",) in prefill_quantities(model, 512, runtime="openvino-genai-2026.1")


def test_weights_are_read_and_unpacked_once_for_each_batch_of_a_prompt() -> None:
    model = read_language_model("llama-3.1-8b:q8_0")
    one, two = (prefill_quantities(model, tokens) for tokens in (512, 513))
    assert two["weights", "q8_0"] == pytest.approx(2 * one["weights", "q8_0"])
    assert two["weights", "q8_0", "head"] == one["weights", "q8_0", "head"]  # computed for the last token alone
    one, two = (prefill_quantities(model, tokens)["unpack", "q8_0"] for tokens in (512, 513))
    # All but the head, and of the last layer's feed-forward part a row of a batch.
    assert one == pytest.approx((8_030_261_248 - 2 * 128_256 * 4096 - 3 * 4096 * 14_336) / 1e9, rel=1e-3)
    assert two == pytest.approx(2 * one, rel=1e-3)


def test_openvino_reads_weights_once_and_computes_in_32_tokens_at_a_time() -> None:
    model = read_language_model("llama-3.1-8b:int4")
    found, rounded = (prefill_quantities(model, tokens, runtime="openvino-2026.1") for tokens in (1025, 1056))
    assert found == rounded
    short = prefill_quantities(model, 32, runtime="openvino-2026.1")
    weights = [term for term in found if term[0] == "weights"]
    assert [found[term] for term in weights] == [short[term] for term in weights]


def test_a_window_bounds_the_cache() -> None:
    model = read_language_model("gemma-3-1b:q4_0")
    short, long = decode_quantities(model, 512)["cache",], decode_quantities(model, 4096)["cache",]
    assert long == pytest.approx(short * (22 + 8 * 4) / 26)
    assert prefill_quantities(model, 4096)["attention", "256"] < 8 * 8 * prefill_quantities(model, 512)["attention", "256"] / 2


def test_a_token_reads_the_experts_it_is_routed_to() -> None:
    found = decode_quantities(read_language_model("qwen3-30b-a3b:q8_0"), 0)
    assert found["weights", "q8_0", "experts"] == pytest.approx(48 * 8 * 3 * 2048 * 768 * 8.5 / 8 / 1e9)
    assert found["expert_layer",] == 48


def test_states_and_tables_by_layer_are_counted() -> None:
    assert decode_quantities(read_language_model("qwen3.5-0.8b:q8_0"), 0)["state",] == pytest.approx(8 * 18 * 2048 * 128 / 1e9)
    assert decode_quantities(read_language_model("gemma-4-e2b:q8_0"), 0)["embedding_layer",] == 35


def test_memory_holds_a_tied_head_twice_in_llama_cpp() -> None:
    model = read_language_model("llama-3.2-1b:q8_0")
    head = 128_256 * 2048 * 8.5 / 8
    assert memory(model, 512).weights - memory(model, 512, runtime="mlx").weights == pytest.approx(head)
    assert memory(model, 512, mapped=True).weights == memory(model, 512, runtime="mlx").weights
    assert memory(model, 500) == memory(model, 512)
    assert memory(model, 1024).cache == 2 * memory(model, 512).cache
    assert memory(model, 512).compute >= 512 * 128_256 * 4


@pytest.mark.parametrize("tokens", [-1, 8193])
def test_a_context_beyond_the_models_is_refused(tokens: int) -> None:
    model = read_language_model("gemma-2b:q4_0")
    with pytest.raises(ModelError, match=f"found .*{tokens} tokens, expected"):
        decode_quantities(model, tokens)
    with pytest.raises(ModelError, match="expected"):
        memory(model, tokens)


def test_a_model_without_types_is_refused() -> None:
    model = read_language_model("gemma-2b")
    with pytest.raises(ModelError, match="name a quantisation, as in 'gemma-2b:q4_k_m'"):
        decode_quantities(model, 1)
    assert replace(model, context_limit=None).context_limit is None


def test_a_thousand_pairs_take_less_than_half_a_second() -> None:
    pairs = [(name, quantisation) for name in named_models() for quantisation in ("q4_0", "q4_k_m", "q8_0", "q6_k", "iq4_xs")]
    started = time.process_time()
    for name, quantisation in pairs[:1000]:
        model = read_language_model(name, quantisation)
        decode_quantities(model, 128)
        prefill_quantities(model, 512)
    assert time.process_time() - started < 1.5  # half a second where nothing else runs
