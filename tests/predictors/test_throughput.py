"""Coefficients turned into rates."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.predictors.analytical import POOLED, AnalyticalTerms
from latcast.predictors.throughput import compared, throughputs

# 10⁻⁸ ms a FLOP, 10⁻⁷ ms an element, 4·10⁻⁷ ms a weight, 5 µs a kernel.
ANY = np.array([1e-8, 1e-7, 4e-7, 0.005])


def test_rates_are_inverse_coefficients() -> None:
    [found] = throughputs(AnalyticalTerms({POOLED: ANY}), "fp32")

    assert found.kernel_class == POOLED
    assert found.rates == pytest.approx((100.0, 40.0, 10.0))
    assert found.kernel_us == pytest.approx(5.0)


def test_elements_of_int8_are_a_byte_each() -> None:
    [found] = throughputs(AnalyticalTerms({POOLED: ANY}), "int8")

    assert found.rates == pytest.approx((100.0, 10.0, 2.5))


def test_what_costs_nothing_has_no_rate() -> None:
    _, found = throughputs(AnalyticalTerms({POOLED: ANY, "add": np.array([0.0, 2e-7, 0.0, 0.001])}), "fp32")

    assert found.gflop_per_s is None
    assert found.weight_gb_per_s is None
    assert found.activation_gb_per_s == pytest.approx(20.0)


def test_a_term_that_a_class_lacks_has_no_rate() -> None:
    # A softmax has no weights, so its coefficient stays the pooled one.
    _, found = throughputs(AnalyticalTerms({POOLED: ANY, "softmax": np.array([2e-8, 2e-7, 4e-7, 0.001])}), "fp32")

    assert found.rates == (pytest.approx(50.0), pytest.approx(20.0), None)


def test_all_kernels_together_come_first_then_classes_by_name() -> None:
    found = throughputs(AnalyticalTerms({"b": 2 * ANY, POOLED: ANY, "a": 3 * ANY}), "fp32")

    assert [each.kernel_class for each in found] == [POOLED, "a", "b"]


def test_classes_are_paired_and_missing_ones_are_none() -> None:
    first = throughputs(AnalyticalTerms({POOLED: ANY, "a": 2 * ANY}), "fp32")
    second = throughputs(AnalyticalTerms({POOLED: ANY, "b": 2 * ANY}), "fp32")

    pairs = compared(first, second)

    assert pairs == [(first[0], second[0]), (first[1], None), (None, second[1])]
