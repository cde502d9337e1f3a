"""A curve does not enter what the others say of it."""

from __future__ import annotations

import pytest

from benchmarks.sustained import PublishedCurve, class_curve, judge, time_constant_s


def curve(last: float, mean: float = 0.0) -> PublishedCurve:
    return PublishedCurve("phone", "gpu", "m", 100.0, last, mean or last + 0.2 * (100 - last))


def test_a_class_has_the_geometric_mean_of_its_rises() -> None:
    found = class_curve([curve(50.0), curve(50.0), curve(50.0)])

    assert (found.rise, found.rise_low, found.rise_high) == (pytest.approx(1), pytest.approx(1), pytest.approx(1))
    assert "3 curves of 10 minutes without a pause on 1 phone (phone)" in found.basis


def test_the_time_constant_follows_from_the_mean_speed() -> None:
    # A fifth of the loss is missing on average: the constant is a fifth of the ten minutes.
    assert time_constant_s(curve(50.0, 60.0)) == pytest.approx(120, rel=0.03)
    assert time_constant_s(curve(50.0, 40.0)) is None


def test_each_curve_is_judged_by_the_others() -> None:
    found = judge([curve(50.0), curve(50.0), curve(25.0)])

    # Of 2, 2 and 4 times as long: 2.83 for the first two, 2 for the third.
    assert found["mape"] == pytest.approx((41.4 + 41.4 + 50) / 3, abs=0.1)
    assert found["unchanged_mape"] == pytest.approx((50 + 50 + 75) / 3)
