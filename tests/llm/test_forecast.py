"""Speeds of language models on platforms named by users."""

from __future__ import annotations

from dataclasses import replace

import pytest

from latcast.errors import ModelError, UnknownPlatformError
from latcast.llm.forecast import language_platforms_meant, predict_language_model
from latcast.llm.learned_prices import Evidence, known_prices
from latcast.llm.speeds import Machine


def test_a_known_phone_answers_for_each_of_its_units():
    found = predict_language_model("qwen2.5-1.5b:q4_0", "snapdragon 8 gen 2")
    assert [each.platform.split("/")[2] for each in found] == ["cpu6", "gpu+opencl", "npu+hexagon"]
    for each in found:
        assert each.decode_low_tokens_per_s < each.decode_tokens_per_s < each.decode_high_tokens_per_s
        assert each.prefill_tokens_per_s > each.decode_tokens_per_s
        assert each.first_token_ms == pytest.approx(1e3 * 512 / each.prefill_tokens_per_s)
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


def test_an_answer_from_facts_names_the_chip_where_a_device_has_several():
    (one,), (other,) = (predict_language_model("llama-3.2-1b:q4_0", f"galaxy s24{which} cpu") for which in ("", " snapdragon"))
    assert (one.grade.why[-11:], other.grade.why[-18:]) == ("Exynos 2400", "Snapdragon 8 Gen 3")


def test_costs_of_a_token_add_up():
    (found,) = predict_language_model("qwen3-1.7b:q4_k_m", "s23 cpu", breakdown=True)
    assert found.breakdown is not None
    assert sum(found.breakdown["decode"].values()) == pytest.approx(1e3 / found.decode_tokens_per_s)
    assert next(iter(found.breakdown["decode"])).startswith("unpack q4_k")


@pytest.mark.parametrize(
    ("model", "platform", "said"),
    [
        (
            "qwen2.5-1.5b:q4_0",
            "pixel4/tflite-2.10/1large/int8",
            r"'tflite-2.10 1large int8'.*llama.cpp \(cpu\)",
        ),
        ("qwen2.5-1.5b:q4_0", "s23 mlx", "found 'mlx'.*expected llama.cpp"),
        ("qwen2.5-1.5b:q4_0", "iphone 15 pro npu", r"found 'npu'.*expected llama.cpp \(cpu, gpu\)"),
        ("qwen2.5-1.5b:q4_0", "s23 fp16 gpu", "found the precision 'fp16'.*NAME:q4_0"),
        ("qwen2.5-1.5b:q4_0", "local", "latcast profile --runtime llama.cpp"),
        ("qwen2.5-1.5b:q4_0", "here", "latcast profile --runtime llama.cpp"),
        ("qwen2.5-1.5b:q4_0", "galxy s23", "such as Galaxy S23"),
        ("qwen2.5-1.5b:q4_0", "galaxy 5000 ultra", "name a device or chip"),
    ],
)
def test_a_platform_that_runs_no_language_models_is_refused_with_what_does(model: str, platform: str, said: str):
    with pytest.raises(UnknownPlatformError, match=said):
        predict_language_model(model, platform)


@pytest.mark.parametrize(
    ("model", "platform"),
    [("qwen2.5-1.5b:mlx-4bit", "s23"), ("qwen3-1.7b:q4_0", "core-ultra-7-155h/openvino-unstated/gpu/unstated")],
)
def test_weights_that_a_runtime_cannot_compute_with_are_refused(model: str, platform: str):
    with pytest.raises(ModelError, match=r"found weights of .*expected a quantisation such as"):
        predict_language_model(model, platform)


@pytest.mark.parametrize(
    ("model", "device", "runtimes"),
    [
        ("qwen3-1.7b:q4_0", "mac-m4-max", ["llama.cpp-unstated"]),
        ("qwen3-1.7b:mlx-4bit", "iphone-17-pro", ["mlx-unstated"]),
        ("qwen3-1.7b:int4", "core ultra 5 125h", ["openvino-unstated"]),
        ("qwen3-1.7b:w4a16", "galaxy s25", ["qairt-unstated"]),
    ],
)
def test_the_weights_choose_among_the_runtimes_of_a_device(model: str, device: str, runtimes: list[str]):
    assert [each.platform.split("/")[1] for each in predict_language_model(model, device)] == runtimes


def test_another_number_of_threads_starts_from_the_prices_of_the_measured_one():
    measured, fewer = predict_language_model("qwen2.5-1.5b:q4_0", ["s23 cpu6", "s23 cpu2"])
    assert measured.warnings == ()
    assert "measured as galaxy-s23/llama.cpp-0.12/cpu6/unstated" in fewer.warnings[0]
    assert fewer.prefill_tokens_per_s < measured.prefill_tokens_per_s
    assert (
        fewer.prefill_high_tokens_per_s / fewer.prefill_low_tokens_per_s
        > measured.prefill_high_tokens_per_s / measured.prefill_low_tokens_per_s
    )


def test_a_prompt_far_longer_than_those_measured_is_graded_by_it():
    known, long = (predict_language_model("llama-3.2-1b:q4_0", "s23 cpu6", prompt_tokens=count)[0] for count in (256, 40_000))

    assert long.grade.word != known.grade.word == "good"
    assert "of such a length" in long.grade.why
    assert long.decode_high_tokens_per_s / long.decode_tokens_per_s > known.decode_high_tokens_per_s / known.decode_tokens_per_s


def test_one_sentence_says_that_nothing_was_measured():
    (found,) = predict_language_model("smollm2-135m:q4_0", "raspberry pi 5")
    assert found.warnings == (found.grade.why,)


@pytest.mark.parametrize(
    ("device", "usable_mb", "said"),
    [
        ("s23 cpu", 4800, "tight: takes 5.4 GB of 8 GB"),  # 60 %
        ("oneplus 11 cpu", 9600, "needs 8 GB"),  # another phone with the chip of the S23, sold with up to 16 GB
        ("pixel 6a cpu", 3600, "does not fit"),  # 6 GB
        ("rtx 4090", 24000, ""),
        ("snapdragon 8 gen 2 cpu", None, ""),
    ],
)
def test_a_model_that_the_memory_of_the_device_does_not_hold_is_said(device: str, usable_mb: float | None, said: str):
    (found,) = predict_language_model("llama-3.1-8b:q4_k_m", device)
    assert found.usable_memory_mb == (usable_mb if usable_mb is None else pytest.approx(usable_mb))
    assert (found.grade.word, "memory" in found.grade.why) == ("rough", True) or said != "does not fit"
    assert any(said in text for text in found.warnings) if said else not any("GB" in text for text in found.warnings)


def test_a_microcontroller_is_expected_to_run_no_language_model():
    with pytest.raises(UnknownPlatformError, match="no language model was measured on any device"):
        predict_language_model("pythia-70m:q8_0", "esp32")


def test_a_device_of_unknown_chip_answers_at_other_threads_too():
    known = known_prices().with_machine(Machine("my-box/llama.cpp-1/cpu1/unstated", "cpu-x86"))
    known = replace(known, evidence={**known.evidence, "my-box/llama.cpp-1/cpu1/unstated": Evidence(pairs=12)})
    found, prices = language_platforms_meant("my-box/cpu2", known)
    assert found == ["my-box/llama.cpp-1/cpu2/unstated"]
    assert prices.machines[found[0]].kind == "cpu-x86"


@pytest.mark.parametrize(
    ("text", "unit"), [("galaxy s25 hexagon", "npu"), ("snapdragon 8 elite opencl", "gpu"), ("rtx 4090 cuda", "gpu")]
)
def test_the_name_of_a_backend_names_the_unit_that_it_computes_on(text: str, unit: str):
    (found,) = predict_language_model("llama-3.2-1b:q4_0", text)
    assert found.platform.split("/")[2] == unit


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rtx 4090 opencl", "found 'opencl'.*expected llama.cpp"),
        ("snapdragon 855 gpu", "found 'gpu'.*expected llama.cpp"),  # Adreno 640
        ("snapdragon 855 npu", "found 'npu'.*expected llama.cpp"),  # Hexagon v66
        ("hailo-8", "found 'npu' in 'hailo-8'.*expected a phone, a computer"),
    ],
)
def test_units_that_no_backend_computes_on_are_refused(text: str, said: str):
    with pytest.raises(UnknownPlatformError, match=said):
        predict_language_model("llama-3.2-1b:q4_0", text)


def test_no_prediction_is_faster_than_the_memory_or_slower_to_read_than_to_answer():
    (fast,) = predict_language_model("llama-3.3-70b:f16", "rtx 4070 laptop")
    assert fast.decode_tokens_per_s * 139 <= 256  # GB of weights, GB/s
    (slow,) = predict_language_model("llama-3.1-8b:f16", "jetson orin nano cpu")
    assert slow.prefill_tokens_per_s >= slow.decode_tokens_per_s * (1 - 1e-12)  # of sums in another order
    (small,) = predict_language_model("gemma-3-270m:q4_0", "jetson nano gpu")
    assert small.prefill_tokens_per_s * 2 * 0.1e9 < 0.4719e12  # products of 0.1 billion weights in layers, of 472 GFLOPS in half
