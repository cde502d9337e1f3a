"""What a few measured latencies say of others, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.devices.conditioning import Conditioned, condition

LITTLE = np.array([1e-6])

THREE_ALIKE = np.array([[1.0, 0.9, 0.9], [0.9, 1.0, 0.9], [0.9, 0.9, 1.0]])


def conditioned(covariance: np.ndarray, measured: list[int], values: list[float], noise: np.ndarray = LITTLE) -> Conditioned:
    """Expected logarithms of zero."""
    chosen = np.array(measured)
    count = len(covariance)
    return condition(np.zeros(count), covariance[:, chosen], np.diag(covariance), chosen, np.array(values), noise)


def test_one_measurement_tells_the_device_s_speed_and_nothing_else() -> None:
    chosen = np.array([1])
    mean = np.array([0.0, 1.0, 3.0])

    found = condition(mean, THREE_ALIKE[:, chosen], np.ones(3), chosen, np.array([1.5]), LITTLE)

    # The offset that is free takes up all of the 0.5, whatever the covariance.
    assert found.mean == pytest.approx([0.5, 1.5, 3.5])


def test_networks_that_have_nothing_in_common_share_the_offset_alone() -> None:
    found = conditioned(np.eye(3), [0, 1], [0.0, 2.0])

    assert found.mean == pytest.approx([0.0, 2.0, 1.0], abs=1e-4)


def test_a_network_follows_the_measured_one_it_goes_together_with() -> None:
    covariance = np.array([[1.0, 0.0, 0.9], [0.0, 1.0, 0.0], [0.9, 0.0, 1.0]])

    found = conditioned(covariance, [0, 1], [2.0, 0.0])

    # The offset is 1, and network 2 takes 0.9 of what network 0 has beside it: 1 + 0.9 x 1.
    assert found.mean[2] == pytest.approx(1.9, abs=1e-4)


def test_the_variance_is_what_is_left_of_the_prior_and_of_the_offset() -> None:
    found = conditioned(np.eye(3), [0, 1], [0.0, 2.0])

    # One of its own, and half of one for the offset, the mean of two; measured ones have next to none.
    assert found.variance[2] == pytest.approx(1.5, rel=1e-3)
    assert found.variance[:2] == pytest.approx([0.0, 0.0], abs=1e-4)


def test_a_measurement_far_off_is_not_believed() -> None:
    covariance = 0.001 * np.eye(6) + 0.01
    values = [0.0, 0.02, -0.02, 0.01, 1.5]

    found = conditioned(covariance, [0, 1, 2, 3, 4], values, np.array([1e-3]))

    assert found.weights[4] < 0.05
    assert found.weights[:4].min() > 0.7
    assert found.mean[5] == pytest.approx(0.0, abs=0.05)


def test_the_scale_of_noise_is_told_by_how_far_measurements_lie_apart() -> None:
    rng = np.random.default_rng(0)
    covariance = 1e-6 * np.eye(21)
    measured = list(range(20))
    scales = np.array([1e-4, 1e-2])

    quiet = conditioned(covariance, measured, list(rng.normal(0, 0.01, 20)), scales)
    noisy = conditioned(covariance, measured, list(rng.normal(0, 0.1, 20)), scales)

    # Student's distribution of 4 degrees of freedom has twice the variance of its scale.
    assert quiet.variance[20] == pytest.approx(2e-4, rel=0.2)
    assert noisy.variance[20] == pytest.approx(2e-2, rel=0.2)


@given(st.floats(-5, 5), st.lists(st.floats(-0.5, 0.5), min_size=2, max_size=2))
def test_a_slower_device_is_slower_on_everything(shift: float, values: list[float]) -> None:
    once = conditioned(THREE_ALIKE, [0, 2], values, np.array([1e-3]))
    slower = conditioned(THREE_ALIKE, [0, 2], [value + shift for value in values], np.array([1e-3]))

    assert slower.mean - once.mean == pytest.approx(np.full(3, shift), abs=1e-6)
    assert slower.variance == pytest.approx(once.variance, abs=1e-6)
