"""The table of predicted speeds of language models."""

from __future__ import annotations

import pytest

from benchmarks.llm import kept_back, repeats_of, speeds_table
from latcast.llm.speeds import SpeedMeasurement, machine_of


def row(phase: str, mape: float, predictions: int = 100, **more: object) -> dict[str, object]:
    return {
        "phase": phase, "case": "lineage, familiar", "class": "Arm CPUs", "predictions": predictions, "mape": mape,
        "within_10": 50.0, "coverage": 88.0, "bandwidth": 56.0, "llmfit": None, "line": 43.0, **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("figures", "cell"),
    [
        ((5.5, {}), "6"), ((6.5, {}), "6*"), ((6.5, {"line": 5.0}), "6* (5)"), ((5.5, {"coverage": 95.4}), "6"),
        ((50.0, {"line": 43.0, "coverage": 34.2}), "50* (43) 34%"),
    ],
)  # fmt: skip
def test_a_cell_says_which_aim_is_missed_where_the_line_is_nearer_and_which_interval_holds_too_few(figures, cell) -> None:
    mape, more = figures
    assert speeds_table([row("decode", mape, **more)]).splitlines()[::2] == [
        "| decode, held out | aim | Arm CPUs |", f"| lineage, familiar | 6 | {cell} |",
    ]  # fmt: skip


def test_cases_stand_as_their_aims_do_and_what_is_kept_back_stands_together() -> None:
    cases = ("kept back: chip, 10 pairs", "kept back: chip, 3 pairs", "seen", "repeats", "chip, 0 pairs", "quantisation here")
    lines = speeds_table([row("prefill", 11.0, case=case) for case in cases]).splitlines()
    assert [line.split(" | ")[0][2:] for line in lines if line.endswith(" |")] == [
        "prefill, held out", "quantisation here", "chip, 0 pairs", "repeats", "seen",
        "kept back", "Arm CPUs: chip, 3 pairs", "Arm CPUs: chip, 10 pairs",
    ]  # fmt: skip


def test_first_tokens_are_compared_with_reading_the_prompt() -> None:
    assert "off by at most 4 points more" in speeds_table([row("prefill", 9.5), row("first token", 13.5)])


def test_few_predictions_are_not_shown_unless_kept_back() -> None:
    few = [row("prefill", 9.5, predictions=5), row("prefill", 9.5, predictions=5, case="kept back: quantisation")]
    assert "| prefill" not in speeds_table(few[:1])
    assert "Arm CPUs: quantisation" in speeds_table(few)


def test_repeats_of_a_model_and_of_its_shape_are_judged_by_their_distance_from_the_median() -> None:
    speeds = [
        SpeedMeasurement(model, "q8_0", "galaxy-s23/llama.cpp-0.12/cpu6/unstated", decode_tokens_per_s=speed)
        for model, speed in (
            ("qwen2.5-1.5b", 9.0), ("qwen2.5-1.5b", 10.0), ("deepseek-r1-distill-qwen-1.5b", 12.0), ("qwen3-1.7b", 40.0),
        )
    ]  # fmt: skip
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
