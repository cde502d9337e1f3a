"""Prices of language models are learned from stacks of layers that were timed here once, and predict other shapes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from latcast.errors import TrainingError
from latcast.llm.forecast import predict_language_model
from latcast.llm.learned_prices import save_added
from latcast.llm.tensor_types import bytes_of
from latcast.measure.language_models import SHAPES, TimedModel, read_store, stacks
from latcast.training.language_profile import learn_here

STACKS = Path(__file__).parent / "data" / "stacks.jsonl"
"""25 stacks under llama.cpp of xllamacpp 2026.10, one thread of an x86-64 processor with AVX-512."""

PLATFORM = "local/llama.cpp-2026.10/cpu1/unstated"


@pytest.fixture(scope="module")
def found() -> list[TimedModel]:
    return read_store(STACKS)


def test_shapes_that_were_held_out_are_predicted_within_a_tenth_and_prompts_within_a_thirtieth(found: list[TimedModel]) -> None:
    _, errors = learn_here(found, PLATFORM)

    for phase in ("prefill", "decode"):
        assert len(errors[phase]) > 20
        assert np.mean(np.abs(errors[phase])) < {"prefill": 1 / 30, "decode": 0.1}[phase]


def test_the_interval_holds_about_nine_of_ten_held_out_stacks(found: list[TimedModel]) -> None:
    prices, errors = learn_here(found, PLATFORM)

    for phase in ("prefill", "decode"):
        half_width, _ = prices.widths[phase]["familiar"][PLATFORM]
        assert 0.85 <= np.mean(np.abs(errors[phase]) <= half_width) <= 1


def test_a_learned_machine_is_predicted_for_by_name(
    found: list[TimedModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path))
    prices, _ = learn_here(found, PLATFORM)
    save_added(prices, PLATFORM)

    small, large = predict_language_model(["qwen2.5-0.5b:q8_0", "llama-3.2-1b:q8_0"], "local")

    assert small.platform == large.platform == PLATFORM
    # Weights of 1.24e9 against 0.49e9 parameters: a token takes about 2.5 times as long.
    assert 2 < small.decode_tokens_per_s / large.decode_tokens_per_s < 3
    assert small.decode_low_tokens_per_s < small.decode_tokens_per_s < small.decode_high_tokens_per_s


def test_stacks_separate_what_whole_models_do_not(found: list[TimedModel]) -> None:
    prices, _ = learn_here(found, PLATFORM)

    def seconds(platform: str) -> dict[tuple[str, ...], float]:
        (parts,) = prices.prices["prefill"].seconds_by_term(platform, [{("unpack", "q6_k"): 1.0, ("unpack", "q4_0"): 1.0}])
        return parts

    own = seconds(PLATFORM)
    # llama.cpp turns k-quants into another layout for each batch, and multiplies by Q4_0 as it lies.
    assert own["unpack", "q6_k"] > 2 * own["unpack", "q4_0"]
    assert not seconds("ryzen-9-7950x/llama.cpp-b4384/cpu2/unstated")


def test_too_few_stacks_teach_nothing(found: list[TimedModel]) -> None:
    with pytest.raises(TrainingError, match="longer --budget"):
        learn_here(found[:3], PLATFORM)


def test_a_line_that_was_cut_off_is_left_out_of_a_store(tmp_path: Path) -> None:
    lines = STACKS.read_text(encoding="utf-8").splitlines()
    store = tmp_path / "stacks.jsonl"
    store.write_text("\n".join([*lines[:2], lines[2][:100]]), encoding="utf-8")

    assert len(read_store(store)) == 2


def test_stacks_have_the_weights_asked_for_and_every_recipe_meets_several_shapes() -> None:
    made = list(stacks(60, 100e6))

    for configuration, quantisation in made:
        model = TimedModel(configuration, quantisation, 1, {}, {}, 0.0).model
        weights = sum(bytes_of(matrix, matrix.stored) for matrix in model.matrices)
        # Layers are whole: of the widest shape in 16 bits a layer has 134 MB.
        assert 0.5 * 100e6 < weights < 4.7 * 100e6
    assert {each["hidden_size"] for each, quantisation in made if quantisation == "q4_0"} == {shape[0] for shape in SHAPES}
