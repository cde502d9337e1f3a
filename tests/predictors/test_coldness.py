"""Coldness: how much of the caches is overwritten between two runs of a network, and the latency that comes of it."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.kernels.types import kernel_type
from latcast.predictors.calibration_terms import LEVELS, Coldness, at_coldness, kernel_weight_bytes

MANY = np.array([1e18])
"""Bytes of weights beside which no cache counts."""


def test_half_is_overwritten_after_the_half_time_and_less_where_weights_stay_in_the_cache() -> None:
    caches = Coldness(half_cold_ms=2.0, l2_bytes=1e6)

    # Weights of twice the cache expose half of the latency: 1 / (1 + 2); without weights nothing is overwritten.
    found = caches.of(np.array([2.0, 2.0, 2.0, 6.0]), np.array([1e18, 2e6, 0.0, 1e18]))

    assert found == pytest.approx([1 / 2, 1 / 3, 0.0, 3 / 4])


def test_a_network_takes_as_long_as_its_kernels_do_at_the_coldness_that_it_causes() -> None:
    # 1 ms warm and 3 ms cold: L = 1 + 2 L / (L + 1), so that L² - 2 L - 1 = 0.
    sums_ms = (1 + 2 * LEVELS)[None, :]

    latency_ms = Coldness(half_cold_ms=1.0).latency_ms(sums_ms, MANY)

    assert latency_ms == pytest.approx([1 + np.sqrt(2)])
    # The same kernels without weights stay warm.
    assert Coldness(half_cold_ms=1.0).latency_ms(sums_ms, np.array([0.0])) == pytest.approx([1.0])


def test_kernels_that_take_as_long_cold_as_warm_add_up_whatever_the_network() -> None:
    sums_ms = np.repeat([[0.01], [1.0], [500.0]], len(LEVELS), axis=1)

    assert Coldness().latency_ms(sums_ms, np.array([0.0, 1e6, 1e9])) == pytest.approx([0.01, 1.0, 500.0])


def test_values_between_levels_are_interpolated() -> None:
    # Two networks; the second one's values are ten times the first's, which are the coldness itself.
    values = np.stack([LEVELS, 10 * LEVELS], axis=1)

    assert at_coldness(values, np.array([0.3, 1.0])) == pytest.approx([0.3, 10.0])
    assert at_coldness(values[:, :, None], np.array([0.0, 0.99]))[:, 0] == pytest.approx([0.0, 9.9])


def test_weights_are_counted_in_the_bytes_of_the_precision() -> None:
    kind = kernel_type("linear")
    row = dict.fromkeys(kind.fields, 0) | {"rows": 1, "in_features": 100, "out_features": 10}
    configurations = {"linear": np.array([[row[name] for name in kind.fields]])}

    assert kernel_weight_bytes(configurations, "fp32").tolist() == [4 * 1000]
    assert kernel_weight_bytes(configurations, "int8").tolist() == [1000]
    assert kernel_weight_bytes({}, "fp32").tolist() == []


@pytest.mark.parametrize("change", [{"half_cold_ms": 0.0}, {"l2_bytes": float("inf")}, {"l2_bytes": -1.0}])
def test_numbers_that_no_machine_has_are_refused(change: dict[str, float]) -> None:
    good = Coldness(1.5, 2e6)

    assert Coldness.from_json(good.to_json()) == good
    with pytest.raises(ValueError, match="expected a positive number"):
        Coldness.from_json(good.to_json() | change)
