"""Intervals from the errors on networks left out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.predictors.intervals import Interval, calibrate, calibration_networks, conformal_quantile
from latcast.predictors.samples import NetworkSample
from latcast.records import Reference


@pytest.mark.parametrize(
    ("count", "level", "rank"),
    [(19, 0.95, 19), (39, 0.95, 38), (100, 0.95, 96), (9, 0.9, 9), (10, 0.9, 10), (5, 0.95, 5), (1, 0.5, 1)],
)
def test_the_quantile_is_the_score_of_the_rank_by_hand(count: int, level: float, rank: int) -> None:
    """⌈(n + 1) · level⌉, at most n."""
    scores = np.random.default_rng(0).permutation(np.arange(1.0, count + 1))

    assert conformal_quantile(scores, level) == rank


def test_each_side_gets_half_of_what_may_miss() -> None:
    # Predictions from 20 % too high to 60 % too low, in equal steps of the logarithm.
    errors = np.linspace(np.log(0.8), np.log(1.6), 199)

    interval = calibrate(np.exp(errors), np.ones(199))

    # The 190th of 199 on either side: nine errors lie further out on each.
    assert interval.high == pytest.approx(np.exp(errors[189]))
    assert interval.low == pytest.approx(np.exp(errors[9]))
    assert interval.networks == 199


def test_an_interval_is_never_narrower_than_one_percent() -> None:
    interval = calibrate(np.full(50, 2.0), np.full(50, 2.0))

    assert (interval.low, interval.high) == pytest.approx((np.exp(-0.01), np.exp(0.01)))


def test_a_biased_predictor_gets_a_lopsided_interval_that_holds_its_prediction() -> None:
    actual = np.random.default_rng(0).lognormal(0.5, 0.05, 300)

    interval = calibrate(actual, np.ones(300))

    assert interval.low < 1 < interval.high
    assert interval.high > 1.6


def networks(space: str, count: int, processes: int) -> list[NetworkSample]:
    return [NetworkSample(Reference(space, {"seed": seed}), (), 1.0, processes) for seed in range(count)]


def test_steady_networks_are_calibrated_on_where_there_are_twenty() -> None:
    samples = networks("resnet", 20, 3) + networks("resnet", 80, 1) + networks("resnet", 5, 2)

    assert calibration_networks(samples).nonzero()[0].tolist() == list(range(20))
    assert calibration_networks(samples[1:]).all()


def test_designed_networks_are_calibrated_on_where_twenty_of_them_are_steady() -> None:
    samples = networks("random_mixed", 30, 3) + networks("resnet", 20, 3) + networks("vgg", 9, 1)

    assert calibration_networks(samples).nonzero()[0].tolist() == list(range(30, 50))
    assert calibration_networks(samples[:-10]).nonzero()[0].tolist() == list(range(49))


def test_without_networks_the_interval_is_wide() -> None:
    interval = calibrate(np.zeros(0), np.zeros(0))

    assert (interval.low, interval.high, interval.networks) == (0.5, 2.0, 0)


@pytest.mark.parametrize("seed", range(3))
def test_ninety_percent_of_new_networks_lie_inside(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth, predicted = np.exp(rng.normal(size=(2, 400)) * 0.1 + 2)
    interval = calibrate(truth, predicted)
    new_truth, new_predicted = np.exp(rng.normal(size=(2, 4000)) * 0.1 + 2)

    low, high = interval.bounds_ms(new_predicted, np.zeros(4000))

    # 400 calibration networks let the coverage itself vary by about ± 3 %.
    assert 0.86 <= np.mean((low <= new_truth) & (new_truth <= high)) <= 0.94


def test_what_lies_outside_the_training_range_widens_in_proportion() -> None:
    interval = Interval(low=0.5, high=2.0, networks=10, outside_growth=1.0)

    low, high = interval.bounds_ms(np.full(3, 8.0), np.array([0.0, 0.5, 1.0]))

    assert low == pytest.approx([4.0, 8 * 0.5**1.5, 2.0])
    assert high == pytest.approx([16.0, 8 * 2**1.5, 32.0])


@given(st.floats(0.1, 1), st.floats(1, 10), st.integers(0, 1000), st.floats(0, 3))
def test_an_interval_comes_back_from_json(low: float, high: float, networks: int, growth: float) -> None:
    interval = Interval(low, high, networks, growth)

    assert Interval.from_json(interval.to_json()) == interval
