"""Coldness: how much of the caches is overwritten between two runs of a network, and the latency that comes of it."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.predictors.calibration_terms import LEVELS, Coldness, at_coldness


def test_half_is_overwritten_after_the_half_time_and_all_but_an_eighth_after_three_times_as_long() -> None:
    assert Coldness(half_cold_ms=2.0).of(np.array([0.0, 2.0, 6.0])) == pytest.approx([0.0, 1 / 2, 7 / 8])


def test_a_network_takes_as_long_as_its_kernels_do_at_the_coldness_that_it_causes() -> None:
    # 1 ms warm and 5 ms cold: at 4 ms three quarters are overwritten where half is after 2 ms, and 1 + 4 · 3/4 = 4.
    sums_ms = (1 + 4 * LEVELS)[None, :]

    latency_ms = Coldness(half_cold_ms=2.0).latency_ms(sums_ms)

    assert latency_ms == pytest.approx([4.0])


def test_kernels_that_take_as_long_cold_as_warm_add_up_whatever_the_network() -> None:
    sums_ms = np.repeat([[0.01], [1.0], [500.0]], len(LEVELS), axis=1)

    assert Coldness().latency_ms(sums_ms) == pytest.approx([0.01, 1.0, 500.0])


def test_values_between_levels_are_interpolated() -> None:
    # Two networks; the second one's values are ten times the first's, which are the coldness itself.
    values = np.stack([LEVELS, 10 * LEVELS], axis=1)

    assert at_coldness(values, np.array([0.3, 1.0])) == pytest.approx([0.3, 10.0])
    assert at_coldness(values[:, :, None], np.array([0.0, 0.99]))[:, 0] == pytest.approx([0.0, 9.9])


@pytest.mark.parametrize("half_cold_ms", [0.0, -1.0, float("inf")])
def test_half_times_that_no_machine_has_are_refused(half_cold_ms: float) -> None:
    good = Coldness(1.5)

    assert Coldness.from_json(good.to_json()) == good
    with pytest.raises(ValueError, match="expected a positive number"):
        Coldness.from_json({"half_cold_ms": half_cold_ms})
