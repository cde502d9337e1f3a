"""The table of predicted speeds of language models."""

from __future__ import annotations

import pytest

from benchmarks.llm import kept_back, repeats_of, speeds_table
from latcast.llm.speeds import SpeedMeasurement, machine_of


def row(phase: str, mape: float, predictions: int = 100) -> dict[str, object]:
    return {
        "phase": phase, "case": "lineage, familiar", "class": "Arm CPUs", "predictions": predictions, "mape": mape,
        "within_10": 50.0, "coverage": 88.0, "bandwidth": 56.0, "llmfit": None, "line": 43.0,
    }  # fmt: skip


def test_a_cell_says_whether_the_aim_is_missed_and_what_the_rival_does() -> None:
    lines = speeds_table([row("decode", 5.5), row("prefill", 9.5), row("first token", 12.6)]).splitlines()

    assert lines[0] == "| decode, held out | aim | Arm CPUs |"
    assert [line for line in lines if line.startswith("| lineage")] == [
        "| lineage, familiar | 6 | 6 (43), 88 |",
        "| lineage, familiar | 9 | 10* (43), 88 |",
        "| lineage, familiar | prefill + 3 | 13* (43), 88 |",
    ]


def test_few_predictions_are_not_shown() -> None:
    assert "prefill" not in speeds_table([row("decode", 5.5), row("prefill", 9.5, predictions=5)])


def test_repeats_are_judged_by_their_distance_from_the_median() -> None:
    speeds = [
        SpeedMeasurement("qwen2.5-1.5b", "q4_0", "galaxy-s23/llama.cpp-0.12/cpu6/unstated", decode_tokens_per_s=speed)
        for speed in (9.0, 10.0, 12.0)
    ]
    (found,) = repeats_of(speeds)
    assert (found["phase"], found["class"], found["predictions"]) == ("decode", "Arm CPUs", 3)
    assert found["mape"] == pytest.approx(10)


def test_a_fifth_is_kept_back_by_its_names_alone() -> None:
    platform = "galaxy-s23/llama.cpp-1/cpu4/unstated"

    def of(model: str, quantisation: str) -> list[str]:
        return kept_back(SpeedMeasurement(model, quantisation, platform), machine_of(platform))

    assert (of("qwen3-1.7b", "q4_0"), of("phi-3-mini", "q4_0"), of("phi-3-mini", "iq1_s")) == (
        [], ["lineage"], ["lineage", "quantisation"],
    )  # fmt: skip
