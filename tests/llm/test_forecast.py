"""Speeds of language models on platforms named by users."""

from __future__ import annotations

import pytest

from latcast.errors import UnknownPlatformError
from latcast.llm.forecast import predict_language_model


def test_a_known_phone_answers_for_each_of_its_units():
    found = predict_language_model("qwen2.5-1.5b:q4_0", "snapdragon 8 gen 2")
    assert [each.platform.split("/")[2] for each in found] == ["cpu6", "gpu+opencl", "npu+hexagon"]
    for each in found:
        assert each.decode_low_tokens_per_s < each.decode_tokens_per_s < each.decode_high_tokens_per_s
        assert each.prefill_tokens_per_s > each.decode_tokens_per_s
        assert each.first_token_ms == pytest.approx(1e3 * (512 / each.prefill_tokens_per_s + 1 / each.decode_tokens_per_s))
    assert set(found[0].to_json()["grade"]) == {"word", "expected_error_pct", "why"}


def test_an_unmeasured_chip_is_answered_from_its_facts_with_a_wide_interval():
    (phone,) = predict_language_model("qwen2.5-1.5b:q4_0", "s23 cpu")
    (board,) = predict_language_model("qwen2.5-1.5b:q4_0", "raspberry pi 5 cpu")
    assert (
        board.decode_high_tokens_per_s / board.decode_low_tokens_per_s
        > phone.decode_high_tokens_per_s / phone.decode_low_tokens_per_s
    )
    assert any("nothing" in text or "no language model was measured" in text for text in board.warnings)


def test_a_unit_that_the_chip_lacks_is_refused_with_those_it_has():
    with pytest.raises(UnknownPlatformError, match="expected a unit that BCM2712 has: cpu, gpu"):
        predict_language_model("qwen2.5-1.5b:q4_0", "raspberry pi 5 npu")


def test_costs_of_a_token_add_up():
    (found,) = predict_language_model("qwen3-1.7b:q4_k_m", "s23 cpu", breakdown=True)
    assert found.breakdown is not None
    assert sum(found.breakdown["decode"].values()) == pytest.approx(1e3 / found.decode_tokens_per_s)
    assert next(iter(found.breakdown["decode"])).startswith("weights q4_k")
