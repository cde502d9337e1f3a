"""Language models on the command line: tables, JSON, and refusals of one line."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Latcast


def test_predict_shows_both_phases_the_first_token_and_the_memory(latcast: Latcast) -> None:
    found = latcast("predict", "qwen2.5-1.5b:q4_0", "--on", "snapdragon 8 gen 2 cpu")

    head, row = found.out.splitlines()[:2]
    assert head.split()[:8] == ["model", "platform", "prefill", "tok/s", "decode", "tok/s", "first", "token"]
    assert row.startswith("qwen2.5-1.5b:q4_0")


def test_json_has_both_phases_with_their_intervals_beside_a_network_s_latency(latcast: Latcast) -> None:
    given = ("--on", "galaxy s23", "--prompt", 256, "--generate", 64, "--json")

    predictions = latcast("predict", "qwen2.5-1.5b:q4_0", "resnet18", *given).json["predictions"]

    networks = [each for each in predictions if "latency_ms" in each]
    spoken = [each for each in predictions if "decode_tokens_per_s" in each]
    assert networks
    for each in spoken:
        assert each["prefill_low_tokens_per_s"] < each["prefill_tokens_per_s"] < each["prefill_high_tokens_per_s"]
        # The first token comes after the whole prompt.
        assert each["first_token_ms"] > 1000 * 256 / each["prefill_tokens_per_s"]
        assert each["grade"]["word"] in ("good", "fair", "rough")


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("qwen2.5-1.5b", "name a quantisation"),
        ("qwen2.5-1.5b:q9_9", "is not a quantisation"),
        ("nonesuch-3b:q4_0", "no language model is named so"),
    ],
)
def test_what_is_not_known_is_said_in_one_line(latcast: Latcast, model: str, said: str) -> None:
    assert said in latcast("predict", model, "--on", "galaxy s23").reason


def test_a_context_beyond_the_model_s_is_refused(latcast: Latcast) -> None:
    assert "expected at most" in latcast("predict", "qwen2.5-1.5b:q4_0", "--on", "galaxy s23", "--prompt", 1_000_000).reason
