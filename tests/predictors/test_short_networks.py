"""Short networks run faster than their kernels add up to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.predictors.short_networks import (
    ShortNetworkCorrection,
    confirmed_short_network_correction,
    fit_short_network_correction,
)

CACHES = ShortNetworkCorrection(knots_ms=(4.0, 16.0), exponents=(0.5, 0.25), shortest_ms=1.0)


def test_each_knot_takes_its_power_of_what_is_missing_to_it() -> None:
    # 4 of 16 ms to the power of 1/4 is 0.7071; at 1 ms it is 1/16 to 1/4 = 0.5, times 1/4 to 1/2 = 0.5.
    factor = CACHES.factor(np.array([100.0, 16.0, 4.0, 1.0]))

    assert factor == pytest.approx([1.0, 1.0, 0.5**0.5, 0.25])


def test_networks_shorter_than_any_measured_are_taken_to_be_as_the_shortest() -> None:
    assert CACHES.factor(np.array([0.01, 0.0])) == pytest.approx([0.25, 0.25])


def test_without_exponents_nothing_changes() -> None:
    assert ShortNetworkCorrection().factor(np.array([0.0, 3.0])).tolist() == [1.0, 1.0]


@given(st.lists(st.tuples(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3)), min_size=2, max_size=20))
def test_a_longer_sum_is_never_predicted_shorter_whatever_was_measured(networks: list[tuple[float, float]]) -> None:
    sum_ms, latency_ms = np.array(networks).T
    ordered = np.sort(sum_ms)

    caches = fit_short_network_correction(sum_ms, latency_ms)

    predicted = ordered * caches.factor(ordered)
    assert (np.diff(predicted) >= -1e-9 * predicted[1:]).all()
    assert (caches.factor(ordered) <= 1 + 1e-12).all()
    if caches.exponents:
        assert ShortNetworkCorrection.from_json(caches.to_json()) == caches


def test_networks_that_add_up_to_nothing_say_nothing() -> None:
    sum_ms = np.array([0.0, 1.0, 0.0, 10.0, 100.0])
    latency_ms = np.array([0.1, 0.5, 0.1, 8.0, 100.0])

    assert fit_short_network_correction(sum_ms, latency_ms) == fit_short_network_correction(
        sum_ms[[1, 3, 4]], latency_ms[[1, 3, 4]]
    )
    assert fit_short_network_correction(np.zeros(3), np.ones(3)) == ShortNetworkCorrection()
    assert confirmed_short_network_correction(np.zeros(3), np.ones(3), ["a", "b", "c"]) == ShortNetworkCorrection()


def test_a_factor_that_one_lineage_alone_shows_is_not_confirmed_by_the_others() -> None:
    """Six networks of one lineage of 1 to 2 ms take half; 24 of four others, of 10 to 100 ms, take what they add up to.

    What the others teach has no factor, so that the six are as badly off with it as without; who lets the six teach sees a gain.
    """
    sum_ms = np.concatenate([np.linspace(1, 2, 6), *[np.geomspace(10, 100, 6)] * 4])
    latency_ms = np.where(sum_ms < 5, sum_ms / 2, sum_ms)

    found = confirmed_short_network_correction(sum_ms, latency_ms, [name for name in "abcde" for _ in range(6)])

    assert fit_short_network_correction(sum_ms, latency_ms).exponents
    assert found == ShortNetworkCorrection()


def test_a_factor_that_short_networks_have_is_found_whatever_all_are_off_by() -> None:
    rng = np.random.default_rng(0)
    sum_ms = np.exp(rng.uniform(np.log(0.3), np.log(100), 400))
    knot = np.quantile(sum_ms, 0.6)
    truth = np.minimum(sum_ms / knot, 1.0) ** 0.08
    latency_ms = 1.05 * truth * sum_ms * rng.lognormal(0, 0.03, 400)

    caches = fit_short_network_correction(sum_ms, latency_ms)

    assert np.abs(caches.factor(sum_ms) / truth - 1).mean() < 0.01


def test_it_comes_back_from_json() -> None:
    assert ShortNetworkCorrection.from_json(CACHES.to_json()) == CACHES


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"knots_ms": [4.0]}, "two lists of one length"),
        ({"knots_ms": "12"}, "two lists of one length"),
        ({"exponents": [0.5, -0.1]}, "expected positive numbers"),
        ({"exponents": [0.5, float("nan")]}, "expected positive numbers"),
        ({"exponents": [0.5, "0.1"]}, "expected positive numbers"),
        ({"exponents": [0.9, 0.2]}, "exponents of 1.1 together"),
        ({"shortest_ms": 5.0}, "no knot below the shortest network"),
    ],
)
def test_numbers_that_no_fit_gives_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ShortNetworkCorrection.from_json({**CACHES.to_json(), **change})


@pytest.mark.parametrize(("exponent", "kept"), [(0.1, True), (0.0, False)])
def test_a_factor_is_kept_where_families_left_out_confirm_it(exponent: float, kept: bool) -> None:
    rng = np.random.default_rng(2)
    sum_ms = np.exp(rng.uniform(np.log(0.3), np.log(100), 200))
    latency_ms = 1.1 * sum_ms * np.minimum(sum_ms / 20, 1) ** exponent * rng.lognormal(0, 0.03, 200)

    caches = confirmed_short_network_correction(sum_ms, latency_ms, [f"family {index % 7}" for index in range(200)])

    assert any(caches.exponents) is kept
