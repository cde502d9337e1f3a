"""A network on several platforms: the errors that these share, and which is fastest."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.predictors.joint_platforms import SHARED, JointPlatforms, SharedByPlatforms, Traits
from latcast.predictors.prediction import Coverage, Grade, Prediction
from latcast.records import Platform

FP32, INT8 = "pi/tflite-2.11/cpu4/fp32", "pi/tflite-2.11/cpu4/int8"
ONE_THREAD, OTHER_RUNTIME = "pi/tflite-2.11/cpu1/fp32", "pi/armnn-22.05/cpu4/fp32"
GPU, OTHER_DEVICE = "pi/armnn-22.05/gpu+opencl/fp32", "rock/tflite-2.11/cpu4/fp32"

INDEPENDENT = SharedByPlatforms({"own": 1.0}, 1.0)


def traits(*names: str) -> list[Traits]:
    return [Traits.of(Platform.parse(name)) for name in names]


def prediction(platform: str, latency_ms: float, reach: float = 1.2) -> Prediction:
    return Prediction(
        "m", platform, latency_ms, latency_ms / reach, latency_ms * reach, Coverage(1.0, ()), Grade.of(5.0, ""), level=90.0
    )


def test_errors_are_correlated_by_the_parts_whose_traits_agree() -> None:
    shared = SharedByPlatforms({"network": 0.1, "device": 0.2, "precision": 0.07, "runtime and precision": 0.13, "own": 0.5}, 1.0)

    found = shared.correlations(traits(FP32, ONE_THREAD, INT8, OTHER_RUNTIME, OTHER_DEVICE))

    # Threads are no part; another precision leaves the network and the device, another runtime the precision as well.
    assert found[0] == pytest.approx([1.0, 0.5, 0.1 + 0.2, 0.1 + 0.2 + 0.07, 0.1 + 0.07 + 0.13])
    assert found == pytest.approx(found.T)


def test_devices_do_not_share_parts() -> None:
    shared = SharedByPlatforms({"device, precision": 0.6, "own": 0.4}, 1.0)

    assert shared.correlations(traits(FP32, INT8, OTHER_DEVICE))[0] == pytest.approx([1.0, 0.0, 0.0])


def test_what_was_learned_is_a_covariance_of_any_platforms() -> None:
    names = [
        f"{device}/{runtime}/{unit}/{precision}"
        for device in ("a", "b")
        for runtime in ("tflite-1.0", "tflite-2.0", "armnn-1.0")
        for unit in ("cpu1", "cpu4+neon", "gpu")
        for precision in ("fp32", "int8")
    ]

    found = SHARED.correlations(traits(*names))

    assert np.diag(found) == pytest.approx(np.ones(len(names)))
    assert np.linalg.eigvalsh(found).min() > -1e-9
    assert sum(SHARED.share.values()) == pytest.approx(1.0, abs=0.01)


def test_drawn_latencies_lie_in_the_prediction_s_interval_as_often_as_it_says() -> None:
    draws_ms = JointPlatforms((prediction(FP32, 10.0, 1.5),), INDEPENDENT).draws_ms

    assert np.quantile(draws_ms[0], [0.05, 0.5, 0.95]) == pytest.approx([10 / 1.5, 10.0, 15.0], rel=0.02)


def test_a_wider_distribution_is_one_of_logarithms() -> None:
    draws_ms = JointPlatforms((prediction(FP32, 10.0, 1.5),), SharedByPlatforms({"own": 1.0}, 2.0)).draws_ms

    assert np.quantile(draws_ms[0], [0.05, 0.95]) == pytest.approx([10 / 1.5**2, 10 * 1.5**2], rel=0.03)


def test_shared_errors_make_decisions_surer() -> None:
    predictions = (prediction(FP32, 11.0), prediction(INT8, 10.0))

    apart = 1 - JointPlatforms(predictions, INDEPENDENT).slower_probability(0, 1)
    shared = SharedByPlatforms({"network": 0.99, "own": 0.01}, 1.0)
    together = 1 - JointPlatforms(predictions, shared).slower_probability(0, 1)

    # The ratio's logarithm is 0.0953; its deviation in units of Student's distribution is sqrt(2) log(1.2) / 2.1318 = 0.1209, of
    # which it is 0.788 times: a probability of 0.763. With a correlation of 0.99 it is 7.88 times: 0.9993.
    assert apart == pytest.approx(0.763, abs=0.01)
    assert together == pytest.approx(0.9993, abs=0.0005)


def test_the_interval_of_a_ratio_is_that_of_the_difference_of_logarithms() -> None:
    found = JointPlatforms((prediction(FP32, 10.0), prediction(INT8, 20.0)), SharedByPlatforms({"device": 0.5, "own": 0.5}, 1.0))

    # Two errors of reach 1.2 with a correlation of one half: sqrt(2 - 1) times the reach of one.
    assert found.ratio(0, 1) == pytest.approx((2 / 1.2, 2 * 1.2), rel=0.01)


def test_probabilities_of_being_fastest_add_up_and_equal_ones_share_them() -> None:
    found = JointPlatforms((prediction(FP32, 10.0), prediction(INT8, 10.0), prediction(GPU, 40.0)), INDEPENDENT)

    probability = found.fastest_probability()

    assert probability.sum() == pytest.approx(1.0)
    assert probability[:2] == pytest.approx([0.5, 0.5], abs=0.02)
    assert probability[2] < 0.01


def test_a_platform_and_itself_differ_by_exactly_nothing_among_any_others() -> None:
    names = (FP32, INT8, ONE_THREAD, OTHER_RUNTIME, GPU, OTHER_DEVICE)
    found = JointPlatforms(tuple(prediction(name, 10.0) for name in names + names))

    for place in range(len(names)):
        assert found.pair(place, place + len(names)).difference_ms() == (0.0, 0.0)
        assert found.slower_probability(place, place + len(names)) == 0.5
        assert found.ratio(place, place + len(names)) == (1.0, 1.0)


def test_a_network_that_takes_no_time_is_as_fast_everywhere() -> None:
    found = JointPlatforms((prediction(FP32, 0.0), prediction(INT8, 0.0)))

    assert found.fastest_probability().tolist() == [0.5, 0.5]
    assert found.slower_probability(0, 1) == 0.5
    assert found.ratio(0, 1) == (1.0, 1.0)
