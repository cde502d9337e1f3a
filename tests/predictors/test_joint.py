"""Two latencies on one platform together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.kernels.search import find_kernels
from latcast.networks import read_model
from latcast.platforms import load
from latcast.predictors.joint import (
    JointLatency,
    SharedErrors,
    error_correlation,
    joint_of,
    probability_above,
    shared_parts,
)
from latcast.predictors.joint_platforms import PlacedNetwork, joint_latency
from latcast.predictors.prediction import Coverage, Grade, Prediction
from tests.predictors.test_device_forecast import MIXED

PHONE = "pixel4/tflite-2.10/gpu/fp16"
CORE = "s10/tflite-2.10/1large/fp32"


def prediction(latency_ms: float, low: float, high: float, level: float | None = 90.0) -> Prediction:
    return Prediction(
        "m", PHONE, latency_ms, low * latency_ms, high * latency_ms, Coverage(1.0, ()), Grade.of(5.0, ""), level=level
    )


def convolutions(*widths: int, side: int = 56, size: int = 3) -> Graph:
    b = GraphBuilder("convolutions")
    x = b.input((1, 16, side, side))
    for width in widths:
        x = b.conv(x, width, size)
    return b.finish(x)


def test_narrow_independent_errors_add_up_by_their_squares() -> None:
    joint = joint_of(prediction(100.0, 0.99, 1 / 0.99), prediction(100.0, 0.99, 1 / 0.99), 0.0)

    assert joint.difference_ms() == pytest.approx((-(2**0.5), 2**0.5), rel=0.02)
    assert joint.faster_probability() == pytest.approx(0.5, abs=1e-6)


def test_a_correlation_takes_its_part_off_the_variance_of_the_difference() -> None:
    a, b = prediction(100.0, 0.99, 1 / 0.99), prediction(100.0, 0.99, 1 / 0.99)

    # Of 1 + 1 - 2 · 0.98 = 0.04 the root is a fifth.
    assert joint_of(a, b, 0.98).difference_ms() == pytest.approx((-0.2, 0.2), rel=0.02)
    assert joint_of(a, b, 1.0).difference_ms() == (0.0, 0.0)
    assert joint_of(a, b, 1.0).faster_probability() == 0.5


def test_fully_correlated_errors_leave_the_ratio_certain_and_the_difference_as_uncertain_as_itself() -> None:
    joint = joint_of(prediction(10.0, 0.8, 1.25), prediction(11.0, 0.8, 1.25), 1.0)

    assert joint.growth_percent() == pytest.approx((10.0, 10.0))
    assert joint.difference_ms() == pytest.approx((0.8, 1.25), rel=0.02)  # of 1 ms
    assert (joint.probability_of_growth(9.9), joint.probability_of_growth(10.1)) == (1.0, 0.0)
    assert joint.faster_probability() == 0.0


def test_the_side_of_an_interval_that_is_wide_is_wide_in_the_difference() -> None:
    low_ms, high_ms = joint_of(prediction(1.0, 0.999, 1.001), prediction(10.0, 0.9, 1.5), 0.0).difference_ms()

    assert low_ms == pytest.approx(8.0, abs=0.05)
    assert high_ms == pytest.approx(14.0, abs=0.1)


def test_a_joint_distribution_agrees_with_a_draw_of_both_latencies() -> None:
    a, b = prediction(10.0, 0.8, 1.3), prediction(11.0, 0.7, 1.2)
    random = np.random.default_rng(0)
    score = random.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 400_000).T / 1.6448536
    drawn = [
        found.latency_ms * np.where(row < 0, (found.low_ms / found.latency_ms) ** -row, (found.high_ms / found.latency_ms) ** row)
        for found, row in zip((a, b), score, strict=True)
    ]
    difference = drawn[1] - drawn[0]

    joint = joint_of(a, b, 0.6)

    assert joint.difference_ms() == pytest.approx(tuple(np.quantile(difference, [0.05, 0.95])), abs=0.03)
    assert joint.faster_probability() == pytest.approx(float((difference < 0).mean()), abs=0.003)
    assert joint.probability_of_growth(20) == pytest.approx(float((drawn[1] > 1.2 * drawn[0]).mean()), abs=0.003)
    assert joint_of(b, a, 0.6).faster_probability() == pytest.approx(1 - joint.faster_probability(), abs=1e-9)


def test_from_nothing_every_growth_is_infinite_and_nothing_grows_by_nothing() -> None:
    nothing, something = np.zeros(4), np.ones(4)

    assert JointLatency(nothing, something).growth_percent() == (np.inf, np.inf)
    assert JointLatency(nothing, nothing).growth_percent() == (0.0, 0.0)


def test_shares_of_kernels_give_the_parts_that_are_worked_out_by_hand() -> None:
    predictor = load(CORE)
    one, two = convolutions(16), convolutions(16, 64)
    estimates = predictor.estimate([find_kernels(each, predictor.rules) for each in (one, two)])
    [same_ms, other_ms] = estimates.kernel_ms

    parts = shared_parts(estimates, constant_ms=1.0)

    first = np.array([same_ms, 0.0, 1.0]) / (same_ms + 1.0)
    second = np.array([same_ms, other_ms, 1.0]) / (same_ms + other_ms + 1.0)
    # 64 outputs are two doublings from 16: twice the length of a half of two doublings.
    near = np.exp(-0.5 * 2.0**2)
    of_type = first[0] * (second[0] + second[1]) + first[2] * second[2]
    close = first[0] * (second[0] + near * second[1]) + first[2] * second[2]
    assert parts[:, 0, 1] == pytest.approx([of_type, close, first @ second])
    correlation = SharedErrors(0.0, 0.0, 2.0).combined(parts)
    assert correlation[0, 1] == pytest.approx(first @ second / np.sqrt((first @ first) * (second @ second)))
    assert np.diag(correlation) == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("platform", [PHONE, CORE])
def test_the_more_kernels_are_the_same_the_more_errors_are(platform: str) -> None:
    base, edited, other = convolutions(*[64] * 8), convolutions(*[64] * 7, 48), convolutions(*[64] * 8, size=1)

    found = error_correlation(load(platform), [base, edited, other, base])

    assert found[0, 3] == 1.0
    assert 1.0 > found[0, 1] > found[0, 2] > 0.0
    assert found == pytest.approx(found.T)
    assert np.linalg.eigvalsh(found).min() > -1e-9


def test_a_likelier_network_has_a_narrower_difference() -> None:
    phone = load(PHONE)
    base, edited = convolutions(*[64] * 8), convolutions(*[64] * 7, 80)
    of_base, of_edited = phone.predict_many([base, edited])
    apart = joint_of(of_base, of_edited, 0.0).difference_ms()

    likely = float(error_correlation(phone, [base, edited])[0, 1])
    low_ms, high_ms = joint_of(of_base, of_edited, likely).difference_ms()

    assert high_ms - low_ms < 0.6 * (apart[1] - apart[0])


def test_a_device_known_by_few_measurements_shares_what_its_posterior_says() -> None:
    device = replace(load(CORE), device=MIXED)
    base, edited, other = convolutions(*[64] * 8), convolutions(*[64] * 7, 80), convolutions(8, side=7, size=1)

    found = error_correlation(device, [base, edited, other])

    # The level of all prices is open: networks that share no kernel share it, which errors of a trained platform do not.
    assert 1.0 > found[0, 1] > 0.95
    assert found[0, 2] > 0.15 > 0.05 > error_correlation(load(CORE), [base, other])[0, 1]
    assert error_correlation(device, [base, base])[0, 1] == 1.0


@pytest.mark.parametrize("platform", [PHONE, CORE])
@pytest.mark.parametrize("few_measurements", [False, True])
def test_equal_networks_share_their_error_to_the_last_digit(platform: str, few_measurements: bool) -> None:
    predictor = replace(load(platform), device=MIXED) if few_measurements else load(platform)
    # Of several widths, as a correlation from a quotient is 1 - 1e-16 for some and 1 for others.
    networks = [convolutions(*widths) for widths in ((8,), (24, 40), (64, 48, 80), (16, 16, 24, 96), (32,) * 7)]
    twice = [each for network in networks for each in (network, replace(network, name="again"))]

    found = error_correlation(predictor, twice)

    assert (found[::2, 1::2].diagonal() == 1.0).all()
    assert (found.diagonal() == 1.0).all()


def test_kernels_in_another_number_are_another_network() -> None:
    found = error_correlation(load(CORE), [convolutions(16), convolutions(16, 16), convolutions(16, 16, 16)])

    assert (found[np.triu_indices(3, 1)] < 1.0).all()


@pytest.mark.parametrize("name", ["alexnet", "googlenet", "resnet18", "shufflenet_v2_x1_0"])
def test_a_network_and_itself_differ_by_exactly_nothing(name: str) -> None:
    graph = read_model(name)

    a, b = (PlacedNetwork.predicted(graph, load(CORE)) for _ in range(2))
    joint = joint_latency(a, b)

    assert a.prediction.latency_ms == b.prediction.latency_ms
    assert joint.difference_ms() == (0.0, 0.0)
    assert joint.growth_percent() == (0.0, 0.0)
    assert joint.faster_probability() == 0.5


def test_a_latency_that_is_certain_is_above_a_limit_or_is_not() -> None:
    certain = prediction(10.0, 1.0, 1.0)

    assert [probability_above(certain, limit_ms) for limit_ms in (9.9, 10.0, 10.1)] == [1.0, 0.5, 0.0]


def test_a_latency_is_above_a_limit_by_the_side_of_its_interval_that_the_limit_is_on() -> None:
    """The bounds are 1.645 deviations away: half the way up, as a logarithm, is 0.822 deviations, beyond which 20.5 % lie."""
    wide, lopsided = prediction(10.0, 0.25, 4.0), prediction(10.0, 0.9, 4.0)

    assert probability_above(wide, 20.0) == pytest.approx(0.2054, abs=1e-4)
    assert probability_above(wide, 5.0) == pytest.approx(1 - 0.2054, abs=1e-4)
    assert probability_above(lopsided, 20.0) == pytest.approx(0.2054, abs=1e-4)
