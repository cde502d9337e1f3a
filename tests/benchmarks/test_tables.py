"""Which targets a platform misses, and how many kernels are saved."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.platforms import fewer_times
from benchmarks.result_files import kept
from benchmarks.tables import verdict


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
        # An interval that nobody calibrated covers nothing.
        (judged(1.5, 4.5, 90.0, None), "missed: coverage"),
    ],
)
def test_targets_are_held_against_the_label_error(document: dict[str, Any], expected: str) -> None:
    assert verdict(document) == expected


def test_five_times_fewer_kernels_are_needed_on_one_target_of_three() -> None:
    curves = {name: target["curve"] for name, target in kept("platforms")["targets"].items() if "curve" in target}
    found = {name: fewer_times(curve) for name, curve in curves.items()}

    assert found == pytest.approx({"mnn": 1.13, "openvino-avx2": 2.12, "litert-1.4": 14.37}, abs=0.01)
