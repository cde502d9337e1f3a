import pytest

from benchmarks.phone_splits import METRICS, by_platform, splits_table, summary

Row = dict[str, object]


def _row(platform: str, seed: int, mape: float, coverage: float | None = None, networks: int = 10) -> Row:
    figures = dict.fromkeys(METRICS, 1.0) | {"mape": mape}
    return {
        "platform": platform, "held_out": "network", "seed": seed, "networks": networks, "interval_coverage": coverage, **figures,
    }  # fmt: skip


ROWS = [
    _row("pixel4/tflite-2.10/gpu/fp16", 0, 2.0, coverage=100.0, networks=10),
    _row("s10/tflite-2.10/gpu/fp16", 0, 4.0, coverage=80.0, networks=30),
    _row("pixel4/tflite-2.10/gpu/fp16", 1, 5.0),
    _row("s10/tflite-2.10/gpu/fp16", 1, 9.0),
]


def test_platforms_are_averaged_within_a_split_and_splits_are_what_spreads() -> None:
    (found,) = summary(ROWS)

    assert (found["group"], found["platforms"], found["seeds"]) == ("tflite gpu fp16", 2, 2)
    assert found["mape"] == pytest.approx(5.0)  # of 3 and 7
    assert found["mape_spread"] == pytest.approx(8**0.5)
    assert found["rmspe_spread"] == 0.0


def test_the_interval_coverage_counts_each_prediction_once() -> None:
    (found,) = summary(ROWS)

    assert found["interval_coverage"] == pytest.approx(85.0)  # 10 of 10 and 24 of 30
    assert found["interval_predictions"] == 40


def test_one_split_has_no_spread_and_without_intervals_there_is_no_coverage() -> None:
    (found,) = summary([_row("pixel4/tflite-2.10/2large/int8", 0, 2.0)])

    assert found["mape_spread"] is None
    assert found["interval_coverage"] is None
    assert splits_table([found]).splitlines()[-1] == "| network | tflite cpu int8 (1) | 2.0 | 1.0 | 1.0 | 1.0 | 1.0 | 1.000 | - |"


def test_each_platform_has_the_mean_of_its_splits() -> None:
    rows = by_platform(ROWS)

    assert [(row["platform"], row["seeds"], row["mape"]) for row in rows] == [
        ("pixel4/tflite-2.10/gpu/fp16", 2, 3.5), ("s10/tflite-2.10/gpu/fp16", 2, 6.5),
    ]  # fmt: skip
