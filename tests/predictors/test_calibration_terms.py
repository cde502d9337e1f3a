"""Calibration terms: overhead, weights, and the short-network correction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.kernels.kernel import Kernel, KernelTable
from latcast.kernels.types import KERNEL_TYPES, kernel_type
from latcast.predictors.calibration_terms import (
    CalibrationTerms,
    ShortNetworkCorrection,
    fit_calibration_terms,
    fit_short_network_correction,
    sums_by_type,
)
from latcast.predictors.kernel_predictor import feature_names
from latcast.predictors.network_terms import size_lengths

CORRECTION = ShortNetworkCorrection(knots_ms=(4.0, 16.0), exponents=(0.5, 0.25), shortest_ms=1.0)


def test_each_knot_takes_its_power_of_what_is_missing_to_it() -> None:
    # 4 of 16 ms to the power of 1/4 is 0.7071; at 1 ms it is 1/16 to 1/4 = 0.5, times 1/4 to 1/2 = 0.5.
    factor = CORRECTION.factor(np.array([100.0, 16.0, 4.0, 1.0]))

    assert factor == pytest.approx([1.0, 1.0, 0.5**0.5, 0.25])


def test_networks_shorter_than_any_measured_are_taken_to_be_as_the_shortest() -> None:
    assert CORRECTION.factor(np.array([0.01, 0.0])) == pytest.approx([0.25, 0.25])


@given(st.lists(st.tuples(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3)), min_size=2, max_size=20))
def test_a_longer_sum_is_never_predicted_shorter_whatever_was_measured(networks: list[tuple[float, float]]) -> None:
    sum_ms, latency_ms = np.array(networks).T
    ordered = np.sort(sum_ms)

    correction = fit_short_network_correction(sum_ms, latency_ms)

    predicted = ordered * correction.factor(ordered)
    assert (np.diff(predicted) >= -1e-9 * predicted[1:]).all()
    assert (correction.factor(ordered) <= 1 + 1e-12).all()
    if correction.exponents:
        assert ShortNetworkCorrection.from_json(correction.to_json()) == correction


def test_networks_whose_kernels_cost_nothing_are_ignored() -> None:
    sum_ms = np.array([0.0, 1.0, 0.0, 10.0, 100.0])
    latency_ms = np.array([0.1, 0.5, 0.1, 8.0, 100.0])

    assert fit_short_network_correction(sum_ms, latency_ms) == fit_short_network_correction(
        sum_ms[[1, 3, 4]], latency_ms[[1, 3, 4]]
    )
    assert fit_short_network_correction(np.zeros(3), np.ones(3)) == ShortNetworkCorrection()


def test_a_factor_that_short_networks_have_is_found_whatever_all_are_off_by() -> None:
    rng = np.random.default_rng(0)
    sum_ms = np.exp(rng.uniform(np.log(0.3), np.log(100), 400))
    knot = np.quantile(sum_ms, 0.6)
    truth = np.minimum(sum_ms / knot, 1.0) ** 0.08
    latency_ms = 1.05 * truth * sum_ms * rng.lognormal(0, 0.03, 400)

    correction = fit_short_network_correction(sum_ms, latency_ms)

    assert np.abs(correction.factor(sum_ms) / truth - 1).mean() < 0.01


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
        ShortNetworkCorrection.from_json({**CORRECTION.to_json(), **change})


def test_a_kernel_costs_its_weighted_latency_and_a_share_of_overhead() -> None:
    model = CalibrationTerms(constant_ms=9.0, per_kernel_ms=0.5, weights={"conv": 2.0})

    assert model.kernel_latency_ms(["conv", "add"], np.array([3.0, 4.0])).tolist() == [6.5, 4.5]


def test_sums_hold_a_column_for_each_type_and_one_that_counts() -> None:
    def kernel(kind: str, value: int) -> Kernel:
        return Kernel(kind, (value,), "k", ("k",), ("K",))

    table = KernelTable.of([[kernel("conv", 1), kernel("add", 1), kernel("conv", 1)], [kernel("conv", 2)]])

    sums, names = sums_by_type(table, np.array([1.0, 10.0, 0.1]))

    assert names == ["conv", "add"]
    assert sums.tolist() == [[2.0, 0.1, 3.0], [10.0, 0.0, 1.0]]


@pytest.mark.parametrize("families", [2, 8])
def test_overhead_and_weights_that_made_the_latencies_are_recovered(families: int) -> None:
    rng = np.random.default_rng(0)
    kernels = rng.integers(5, 80, 120)
    sums = np.stack([*rng.uniform(0.5, 20, (2, 120)), kernels], axis=1)
    latency_ms = 1.2 * sums[:, 0] + 0.8 * sums[:, 1] + 0.05 * kernels + 2.0
    groups = [f"family {index % families}" for index in range(120)]

    model = fit_calibration_terms(sums, ["conv", "add"], latency_ms, groups)

    predicted = model.weights["conv"] * sums[:, 0] + model.weights["add"] * sums[:, 1] + model.per_kernel_ms * kernels
    assert np.abs((predicted + model.constant_ms) / latency_ms - 1).mean() < 0.005
    assert model.weights["conv"] == pytest.approx(1.2, rel=0.05)
    assert model.weights["add"] == pytest.approx(0.8, rel=0.05)
    assert model.constant_ms == pytest.approx(2.0, rel=0.2)
    assert model.per_kernel_ms == pytest.approx(0.05, rel=0.2)


def test_a_type_that_no_network_has_keeps_its_weight_of_one() -> None:
    sums = np.stack([np.linspace(1, 9, 30), np.zeros(30), np.full(30, 10.0)], axis=1)

    model = fit_calibration_terms(sums, ["conv", "add"], 2 * sums[:, 0] + 1, ["a", "b"] * 15)

    assert model.weights["add"] == 1.0


def test_weights_that_held_out_families_do_not_confirm_stay_near_one() -> None:
    """Five families have a type each and take half of what its kernels add up to.

    A family left out has a type that the others say nothing of: no strength predicts it better than another, and the strongest is
    taken. At 0.1, a fifth of the networks draws each weight to a half and the strength to 1: ``0.2 (w - 0.5) / (0.5 w) = 0.1 (1 -
    w)``, so that ``w = (sqrt(17) - 3) / 2``. A fit that saw the family left out would take the weakest, and half.
    """
    sums, groups = np.zeros((20, 6)), [f"family {index // 4}" for index in range(20)]
    sums[np.arange(20), np.arange(20) // 4] = 1.0 + np.arange(20) % 4

    model = fit_calibration_terms(sums, ["a", "b", "c", "d", "e"], sums.sum(axis=1) / 2, groups)

    assert list(model.weights.values()) == pytest.approx([(17**0.5 - 3) / 2] * 5, rel=1e-3)
    assert model.constant_ms == model.per_kernel_ms == 0.0


def test_the_same_seed_fits_the_same_model() -> None:
    rng = np.random.default_rng(3)
    sums = rng.uniform(1, 5, (40, 3))
    latency_ms = sums @ np.array([1.0, 1.0, 0.1]) * rng.lognormal(0, 0.1, 40)
    groups = [f"family {index % 7}" for index in range(40)]

    first, second = (fit_calibration_terms(sums, ["a", "b"], latency_ms, groups, seed=5) for _ in range(2))

    assert first == second


def measured_networks(exponent: float, count: int = 200) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Sums of one type and numbers of kernels, latencies whose short networks take less, and families."""
    rng = np.random.default_rng(1)
    conv_ms = np.exp(rng.uniform(np.log(0.3), np.log(100), count))
    sums = np.stack([conv_ms, np.full(count, 10.0)], axis=1)
    latency_ms = conv_ms * np.minimum(conv_ms / 20, 1) ** exponent * rng.lognormal(0, 0.03, count)
    return sums, latency_ms, [f"family {index % 7}" for index in range(count)]


def test_networks_that_run_the_faster_the_shorter_they_are_get_a_factor() -> None:
    sums, latency_ms, groups = measured_networks(0.1)

    model = fit_calibration_terms(sums, ["conv"], latency_ms, groups)

    inside = model.weights["conv"] * sums[:, 0] + model.per_kernel_ms * sums[:, 1]
    predicted = model.short_network_factor(inside) * (inside + model.constant_ms)
    assert np.abs(predicted / latency_ms - 1).mean() < 0.04
    assert model.short_network_factor(np.array([1.0, 90.0])) == pytest.approx([0.05**0.1, 1.0], abs=0.05)


def test_a_model_with_a_short_network_correction_comes_back_from_json() -> None:
    model = CalibrationTerms(0.25, 0.01, {"conv": 1.1}, ShortNetworkCorrection((1.0, 2.0), (0.1, 0.2), 0.5))

    assert CalibrationTerms.from_json(model.to_json()) == model


def test_weights_are_fitted_to_what_a_given_factor_leaves() -> None:
    sums, _, groups = measured_networks(0.0)
    correction = ShortNetworkCorrection((20.0,), (0.1,), 0.3)
    latency_ms = 1.2 * sums[:, 0] * correction.factor(1.2 * sums[:, 0])

    model = fit_calibration_terms(sums, ["conv"], latency_ms, groups, correction=correction)

    assert model.short_networks == correction
    # The weight is drawn towards 1. Without the factor it would have to be below 1.1.
    assert model.weights["conv"] == pytest.approx(1.2, abs=0.05)


@pytest.mark.parametrize("name", list(KERNEL_TYPES))
def test_the_sizes_that_distinguish_kernels_are_features_of_their_type(name: str) -> None:
    kind = kernel_type(name)

    assert set(size_lengths(kind)) <= set(feature_names(kind))
