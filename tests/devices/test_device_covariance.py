"""How alike devices are, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.devices.device_covariance import DevicePairs, DeviceScales, SignatureSpace, trimmed_mean

UNIT = SignatureSpace(typical=np.zeros(2), centre=0.0, scale=1.0)


def distance(first: list[float], second: list[float], space: SignatureSpace = UNIT) -> float:
    a, b = (space.signature(np.array([row])) for row in (first, second))
    return float(space.squared_distance(a, b)[0, 0])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3.0], 3.0),
        ([1.0, 3.0], 2.0),
        ([1.0, 2.0, 30.0], 2.0),
        ([-50.0, 1.0, 2.0, 3.0, 100.0], 2.0),
        # Of ten, two at each end are left out.
        ([0, 0, 1, 2, 3, 4, 5, 6, 90, 90], 3.5),
    ],
)
def test_a_level_is_a_mean_without_the_extremes(values: list[float], expected: float) -> None:
    assert trimmed_mean(np.array([values])) == pytest.approx([expected])


def test_a_signature_is_a_level_and_a_pattern() -> None:
    space = SignatureSpace(typical=np.array([1.0, 2.0]), centre=0.5, scale=1.0)

    found = space.signature(np.array([[2.0, 5.0]]))

    # 1 and 3 above the typical: a level of 2, which is 1.5 above the median one and counts 0.3.
    assert found.pattern.tolist() == [[-1.0, 1.0]]
    assert found.level == pytest.approx([0.45])


def test_a_device_that_is_only_slower_differs_in_level_alone() -> None:
    assert distance([0.0, 0.0], [2.0, 2.0]) == pytest.approx((0.3 * 2) ** 2)


def test_small_differences_of_pattern_count_by_their_squares_and_large_ones_linearly() -> None:
    assert distance([0.05, -0.05], [0.0, 0.0]) == pytest.approx(0.05**2)
    assert distance([0.3, -0.3], [0.0, 0.0]) == pytest.approx(2 * 0.1 * 0.3 - 0.1**2)


def test_distances_are_in_units_of_the_median_one() -> None:
    rng = np.random.default_rng(0)
    log_ms = rng.normal(0, 1, (9, 4))

    space = SignatureSpace.of(log_ms, np.zeros(4))

    signature = space.signature(log_ms)
    between = np.sqrt(space.squared_distance(signature, signature))[np.triu_indices(9, 1)]
    assert np.median(between) == pytest.approx(1.0, abs=0.01)


def test_the_covariance_is_made_of_what_all_alike_and_single_devices_have() -> None:
    pairs = DevicePairs(distance=np.array([[0.0, 2.0], [2.0, 0.0]]), product=np.array([[1.0, 0.5], [0.5, 2.0]]))
    scales = DeviceScales(typical=3.0, alike=0.5, own=0.25, network=0.1, network_alike=0.2, reach=0.5, linear=0.1)

    same_a, same_b = pairs.covariance(scales, same=True)
    other_a, other_b = pairs.covariance(scales, same=False)

    similarity = np.array([[1 + 0.1, np.exp(-1) + 0.05], [np.exp(-1) + 0.05, 1 + 0.2]])
    assert same_a == pytest.approx(3 + 0.5 * similarity + 0.25 * np.eye(2))
    assert other_a == pytest.approx(3 + 0.5 * similarity)
    assert same_b == pytest.approx(0.1 + 0.2 * similarity)
    assert np.array_equal(same_b, other_b)


def test_scales_survive_their_logarithms() -> None:
    scales = DeviceScales(typical=0.3, reach=2.0)

    assert DeviceScales.of(scales.logarithms()).logarithms() == pytest.approx(scales.logarithms())


def test_derivatives_by_the_scales_are_those_of_small_steps() -> None:
    rng = np.random.default_rng(1)
    log_ms = rng.normal(0, 1, (4, 5))
    space = SignatureSpace.of(log_ms, np.zeros(5))
    signature = space.signature(log_ms)
    pairs = DevicePairs.of(space, signature, signature)
    by_a, by_b = rng.normal(0, 1, (2, 4, 4))
    logarithms = DeviceScales().logarithms()

    def value(at: np.ndarray) -> float:
        a, b = pairs.covariance(DeviceScales.of(at), same=True)
        return float((by_a * a).sum() + (by_b * b).sum())

    step = 1e-6
    expected = [(value(logarithms + step * unit) - value(logarithms - step * unit)) / (2 * step) for unit in np.eye(7)]
    assert pairs.pulled_back(DeviceScales(), by_a, by_b) == pytest.approx(expected, rel=1e-5, abs=1e-8)
