"""Latencies that are no milliseconds are noticed."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.devices.latency_units import mismatch_of

TYPICAL_MS = np.array([10.0, 20.0, 50.0, np.nan])


@pytest.mark.parametrize("times", [0.125, 1.0, 8.0, 99.0])
def test_a_device_up_to_a_hundred_times_as_fast_or_slow_is_believed(times: float) -> None:
    assert mismatch_of(times * np.array([10.0, 20.0, 50.0, 1.0]), TYPICAL_MS) is None


@pytest.mark.parametrize(("times", "unit"), [(1e-3, "s"), (1e3, "us")])
def test_seconds_and_microseconds_are_doubted_and_named_with_their_factor(times: float, unit: str) -> None:
    found = mismatch_of(times * np.array([10.0, 20.0, 50.0, 1.0]), TYPICAL_MS)

    assert found is not None
    assert (found.unit, found.times) == (unit, pytest.approx(times))
    assert str(found).startswith("1,000 times below those" if unit == "s" else "1,000 times above those")


def test_one_outlier_of_three_does_not_question_the_unit() -> None:
    assert mismatch_of(np.array([0.01, 20.0, 50.0]), TYPICAL_MS[:3]) is None


def test_networks_of_which_nothing_is_known_are_not_questioned() -> None:
    assert mismatch_of(np.array([1e-6]), np.array([np.nan])) is None
