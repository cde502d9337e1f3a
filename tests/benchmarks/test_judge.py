"""The figures, baselines, targets and tables that all benchmarks share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.judge import (
    by_flops_and_memory,
    by_one_factor,
    figures,
    figures_of_logarithms,
    interval_of_mean,
    mean_over_platforms,
    table,
    target_cell,
    verdict,
    with_interval,
)


def test_errors_are_of_what_is_predicted_over_what_was_measured() -> None:
    """Measured 100 ms each; predicted 104, 92, 125 and 50."""
    error = -np.log([1.04, 0.92, 1.25, 0.5])

    found = figures_of_logarithms(error, np.array([0.02, 0.06, 0.1, 0.1]), np.log([100.0, 100.0, 100.0, 100.0]))

    assert (found["mape"], found["median_ape"]) == (pytest.approx((4 + 8 + 25 + 50) / 4), pytest.approx((8 + 25) / 2))
    assert (found["within_5"], found["within_10"]) == (25.0, 50.0)
    assert found["rmspe"] == pytest.approx(((16 + 64 + 625 + 2500) / 4) ** 0.5)
    # Logarithms: 0.039 of 1.645 * 0.02, 0.083 of 1.645 * 0.06, 0.22 and 0.69 of 1.645 * 0.1.
    assert found["coverage"] == 25.0
    assert found["width"] == pytest.approx(np.exp(2 * 1.645 * 0.08))


def test_figures_are_those_of_the_package_with_the_interval_of_the_mean_error() -> None:
    found = figures(np.array([11.0, 8.0, 10.0]), np.full(3, 10.0), np.full(3, 9.0), np.array([12.0, 9.5, 10.5]))

    assert (found["networks"], found["mape"], found["interval_coverage"]) == (3, pytest.approx(10), pytest.approx(200 / 3))
    low, high = found["mape_interval"]
    assert 0 <= low < 10 < high <= 20


def test_the_interval_of_a_mean_is_wider_where_values_come_in_groups() -> None:
    values = np.repeat([0.0, 1.0, 2.0, 3.0], 10)
    alone, grouped = interval_of_mean(values), interval_of_mean(values, [f"chip {int(value)}" for value in values])

    # Forty values of deviation 1.12 have a mean within 1.645 * 0.177, four groups within 1.645 * 0.56.
    assert alone == pytest.approx([1.5 - 0.29, 1.5 + 0.29], abs=0.05)
    assert grouped == pytest.approx([1.5 - 0.92, 1.5 + 0.92], abs=0.15)
    assert interval_of_mean(np.full(5, 2.0)) == [2.0, 2.0]


def test_means_over_platforms_leave_out_what_is_not_known() -> None:
    found = mean_over_platforms([{"mape": 10.0, "spearman": float("nan")}, {"mape": 30.0, "spearman": 0.5}], ["a", "b"])

    assert (found["mape"], found["median_mape"], found["spearman"]) == (20.0, 20.0, 0.5)
    assert found["mape_interval"] == [10.0, 30.0]


def test_one_factor_is_taken_on_the_platform_that_differs_least_beyond_it() -> None:
    known = np.log([[1.0, 2.0, 4.0, 8.0], [1.0, 1.0, 5.0, 1.0]])

    found, best = by_one_factor(known, np.array([0, 1, 2]), np.log([3.0, 6.0, 12.0]))

    assert best == 0
    assert np.exp(found) == pytest.approx([3.0, 6.0, 12.0, 24.0])


def test_the_regression_on_flops_and_memory_predicts_what_is_proportional_to_them() -> None:
    totals = np.array([[1e9, 1e6, 1.0], [2e9, 2e6, 1.0], [4e9, 4e6, 1.0], [8e9, 8e6, 1.0]])
    measured_ms = 1e-9 * totals[:, 0]

    found = by_flops_and_memory(totals[:3], np.log(measured_ms[:3]), totals[3:])

    assert np.exp(found) == pytest.approx([8.0], rel=0.05)


def judged(label_error: float | None, mape: float, within_10: float = 90.0, coverage: float | None = 90.0) -> dict[str, Any]:
    return {"label_error": label_error, "mape": mape, "within_10": within_10, "interval_coverage": coverage}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (judged(1.5, 4.5), "all met"),
        # Half of 3 % between halves is 1.5: 4.6 is above 1.5 + 3, though below 3 + 3.
        (judged(1.5, 4.6), "missed: MAPE"),
        (judged(2.0, 5.0, 84.9, 95.1), "missed: ±10 %, coverage"),
        (judged(2.1, 5.0), "all met *"),
        (judged(2.1, 5.2, 84.0, 84.0), "missed: MAPE, ±10 %, coverage *"),
        (judged(None, 1.0), "missed: MAPE *"),
        # An interval that was not calibrated covers nothing.
        (judged(1.5, 4.5, 90.0, None), "missed: coverage"),
    ],
)
def test_targets_are_held_against_the_label_error(document: dict[str, Any], expected: str) -> None:
    assert verdict(document) == expected


def test_a_target_is_met_at_its_value() -> None:
    assert [target_cell(5.0, value) for value in (5.0, 5.1)] == ["5.0, met", "5.0, missed"]
    assert [target_cell(90.0, value, least=True) for value in (90.0, 89.9)] == ["90.0, met", "90.0, missed"]
    assert target_cell(None, 1.0) == "none"


def test_a_table_shows_formats_and_functions_of_rows_and_a_dash_for_what_is_not_known() -> None:
    rows = [
        {"name": "a", "part": {"mape": 1.25}, "mape": 2.0, "mape_interval": [1.0, 3.0]},
        {"name": "b", "part": None, "mape": None},
    ]
    columns = {"network": "{name}", "MAPE %": "{part[mape]:.1f}", "with interval": with_interval("mape")}

    assert table(rows, columns).splitlines() == [
        "| network | MAPE % | with interval |", "|---|---|---|", "| a | 1.2 | 2.0 (1.0 to 3.0) |", "| b | - | - |",
    ]  # fmt: skip
