from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from latcast.kernels.rules import load_rules
from latcast.kernels.search import find_kernels
from latcast.predictors.analytical import POOLED
from latcast.predictors.device_forecast import FARTHEST_ABOVE, LARGEST_DEVIATION, DeviceForecast, Member, pooled
from latcast.predictors.network_features import ADDED, TERM_NAMES, TERM_UNITS, NetworkFeatures
from latcast.predictors.network_memory import (
    EXTRAPOLATED,
    NEAR,
    NEAR_SHARE,
    WEIGHTS,
    NetworkMemory,
    carried,
    nearness,
    variance_left,
)
from latcast.predictors.process_basis import ProcessBasis
from latcast.spaces.catalogue import build
from latcast.spaces.published_names import published_network
from tests.devices.made_up_devices import features

TERMS = len(TERM_NAMES)
BASIS = ProcessBasis.of(features(), np.zeros(TERMS), 8, 8)
SIZE = TERMS + BASIS.size


def member(weight: float, level: float, variance: float, noise: float, scale: float = 1.0) -> Member:
    """All prices e^level; the device's level has a variance."""
    mean, covariance = np.zeros(SIZE), np.zeros((SIZE, SIZE))
    mean[:TERMS] = level
    covariance[:TERMS, :TERMS] = variance
    return Member("made up", weight, 1 - weight, mean, covariance, noise, scale)


NOWHERE = (np.zeros(1, dtype=int), np.zeros(1))
"""A network that is like none of the memory."""

FACTORS = ((1.5, 0.5), (3.0, 2.0))

MIXED = DeviceForecast(BASIS, 0.3, 0.1, (member(0.25, 0.0, 0.04, 0.1), member(0.75, 0.2, 0.01, 0.2, 2.0)), FACTORS, 7)


def test_a_mixture_s_mean_and_deviation_are_those_worked_out_by_hand() -> None:
    terms = np.full((1, TERMS), 1 / TERMS)  # 1 ms where all logarithms are 0

    new, known = (
        MIXED.of_described(terms, np.zeros((1, BASIS.size)), np.array([0.02]), np.array([known]), NOWHERE) for known in (0.0, 1.0)
    )

    # Means 0 and 0.2 weigh 0.15 for a new network and 0.05 for a known one.
    for (log_ms, deviation), mean, first, factors in ((new, 0.15, 0.25, FACTORS[0]), (known, 0.05, 0.75, FACTORS[1])):
        assert log_ms == pytest.approx([mean])
        opened = first * (0.04 + 0.02 + mean**2) + (1 - first) * (2.0 * (0.01 + 0.02) + (0.2 - mean) ** 2)
        noise = first * 0.1**2 + (1 - first) * 2.0 * 0.2**2
        assert deviation == pytest.approx([np.sqrt(factors[0] * opened + factors[1] * noise)])


def test_a_member_far_above_the_others_is_held_back_and_one_far_below_is_not() -> None:
    weights = np.full((3, 2), 1 / 3)
    log_ms = np.array([[0.0, 0.0], [0.1, 0.1], [5.0, -5.0]])

    nothing = np.zeros((3, 2))
    mean, _ = pooled(weights, ((1.0, 1.0), (1.0, 1.0)), np.zeros(2), log_ms, nothing, nothing)

    # The median is 0.1 and 0: the third member counts as 0.1 + 0.3, and as itself.
    assert mean == pytest.approx([(0.0 + 0.1 + 0.1 + FARTHEST_ABOVE) / 3, (0.0 + 0.1 - 5.0) / 3])


def test_a_network_that_known_devices_ran_is_recalled_and_one_far_from_it_is_not() -> None:
    places = np.array([[0.0, 0.0, 0.0], [3.0, 0.0, 0.0], [9.0, 0.0, 0.0]])
    memory = NetworkMemory(places, np.array([0.2, 0.0, 0.0]), 0.5, np.array([True, True, False]))
    asked = np.array([[0.0, 0.0, 0.7], [0.0, 0.1, 0.0], [1.5, 4.0, 0.0], [3.0, 0.0, 0.0], [9.0, 0.0, 0.0]])

    offset, explained = memory.recalled(asked)

    # The first has other weights alone. A length of 0.1 away half a squared length: e^-½. One platform alone ran the second
    # network of the memory, none the third.
    assert offset == pytest.approx([0.2, 0.2 * np.exp(-0.5), 0.0, 0.0, 0.0])
    assert explained == pytest.approx([1.0, np.exp(-0.5), 0.0, 0.0, 0.0])
    assert memory.known(*memory.nearest(asked)) == pytest.approx([1.0, np.exp(-0.5), 0.0, 1.0, 0.0])


def test_a_network_for_other_classes_is_nearly_the_same() -> None:
    rules = load_rules("tflite")
    ten, thousand = (published_network("netspresso", "MobileNetV3-large", classes=each) for each in (10, 1000))
    places = NetworkFeatures.of([find_kernels(build(each), rules) for each in (ten, thousand)]).place
    memory = NetworkMemory(places[:1], np.array([0.2]), 0.5, np.array([True]))

    assert memory.known(*memory.nearest(places[1:])) > 0.9


def test_a_network_that_the_device_itself_ran_takes_what_was_measured() -> None:
    places = features().place
    nothing = np.zeros(len(places))
    memory = NetworkMemory(places, nothing, 0.5, nothing > 0).with_measured(places[[1, 1]], np.log([2.0, 8.0]))
    forecast = replace(MIXED, memory=memory)
    sums = forecast.sums(features())

    log_ms, deviation = forecast.of_sums(sums)
    covariance = forecast.covariance_of_sums(sums, np.ones((len(sums), len(sums))))
    [known, known_deviation] = DeviceForecast.from_arrays(MIXED.member_names, forecast.arrays()).of_sums(sums[1:2])

    # The geometric mean of both runs; the others are predicted as before, surer where near, and err apart from it.
    assert np.exp(log_ms[1]) == pytest.approx(4.0)
    others = np.arange(len(sums)) != 1
    near = nearness(places, places[[1]])
    mean, wide = MIXED.of_sums(sums)
    assert log_ms[others] == pytest.approx(mean[others])
    assert deviation[1] < deviation[others].min()
    assert deviation[others] == pytest.approx(np.hypot(wide * np.sqrt(variance_left(near)), memory.beyond(log_ms))[others])
    assert covariance[1, others] == pytest.approx(0.0)
    assert np.diag(covariance) == pytest.approx(deviation**2)
    assert (known, known_deviation) == (pytest.approx(log_ms[1:2], rel=1e-6), pytest.approx(deviation[1:2]))


def test_a_network_that_only_the_device_ran_takes_what_was_measured_too() -> None:
    places = features().place
    others = np.arange(len(places)) != 1
    memory = NetworkMemory(places[others], np.zeros(others.sum()), 0.5, others[others])
    forecast = replace(MIXED, memory=memory.with_measured(places[[1]], np.log([3.0])))
    again = DeviceForecast.from_arrays(MIXED.member_names, forecast.arrays())
    sums = forecast.sums(features())

    for each in (forecast, again):
        log_ms, deviation = each.of_sums(sums)
        assert np.exp(log_ms[1]) == pytest.approx(3.0)
        assert deviation[1] < deviation[others].min()
    # What was measured there says nothing of whether other devices ran the networks near it.
    assert memory.known(*memory.nearest(places)) == pytest.approx(forecast.memory.known(*forecast.memory.nearest(places)))
    nothing = forecast.memory.with_measured(places[:0], np.zeros(0)).nearest_measured(places)
    assert [each.tolist() for each in nothing] == [[0.0] * len(places)] * 3


def test_the_nearer_a_measured_network_the_less_variance_is_left() -> None:
    measured = np.array([[0.0, 0.0, 0.0], [3.0, 0.0, 0.0]])

    near = nearness(np.array([[0.0, 0.0, 0.7], [3.0, NEAR, 0.0], [9.0, 9.0, 0.0]]), measured)

    # At the same place, a length away (e^-½), and far away.
    assert near == pytest.approx([1.0, np.exp(-0.5), 0.0])
    assert variance_left(near) == pytest.approx([1 - NEAR_SHARE, 1 - NEAR_SHARE * np.exp(-0.5), 1.0])
    assert nearness(measured, measured[:0]).tolist() == [0.0, 0.0]


def test_a_forecast_is_the_less_sure_the_farther_it_lies_beyond_what_was_measured() -> None:
    memory = NetworkMemory(np.eye(3), np.zeros(3), 0.0, np.zeros(3, dtype=bool))

    beyond = memory.with_measured(np.eye(3)[:2], np.log([2.0, 8.0])).beyond(np.log([2.0, 5.0, 8.0, 80.0, 0.2]))

    # Ten times the longest, and a tenth of the shortest latency.
    assert beyond == pytest.approx([0.0, 0.0, 0.0, EXTRAPOLATED * np.log(10), -EXTRAPOLATED * np.log(10)])
    assert memory.beyond(np.log([2.0, 80.0])).tolist() == [0.0, 0.0]


def test_intervals_have_a_largest_width() -> None:
    wild = replace(MIXED, factors=((1e6, 1.0), (1.0, 1.0)))

    _, deviation = wild.of_described(np.ones((1, TERMS)), np.zeros((1, BASIS.size)), np.ones(1), np.zeros(1), NOWHERE)

    assert deviation == pytest.approx([LARGEST_DEVIATION])


def test_sums_over_kernels_decide_a_forecast() -> None:
    sums = MIXED.sums(features())
    basis, network_open, kernel_open = BASIS.of_networks(features())
    expected = MIXED.of_described(
        features().terms,
        basis,
        0.3**2 * network_open + 0.1**2 * kernel_open,
        np.zeros(len(features())),
        MIXED.memory.nearest(features().place),
    )

    assert sums.shape == (len(features()), MIXED.sum_columns)
    for mine, theirs in zip(MIXED.of_sums(sums), expected, strict=True):
        assert mine == pytest.approx(theirs)
    assert sums[:, :ADDED] == pytest.approx(features().sums)


def test_a_forecast_survives_arrays_in_single_precision() -> None:
    again = DeviceForecast.from_arrays(MIXED.member_names, MIXED.arrays())

    sums = MIXED.sums(features())
    for mine, theirs in zip(again.of_sums(sums), MIXED.of_sums(sums), strict=True):
        assert mine == pytest.approx(theirs, rel=1e-4)
    assert (again.measured, again.factors) == (7, FACTORS)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("member.mean", lambda array: array[:, :-1]),
        ("member.covariance", lambda array: array[:1]),
        ("member.numbers", lambda array: array * np.nan),
        ("numbers", lambda array: array[:4]),
        ("memory.offsets", lambda array: np.ones(3)),
        ("basis.places", lambda array: array[:-1]),
    ],
)
def test_damaged_arrays_are_refused(name: str, damage: Callable[[np.ndarray], np.ndarray]) -> None:
    arrays = MIXED.arrays()

    with pytest.raises(ValueError, match="found"):
        DeviceForecast.from_arrays(MIXED.member_names, {**arrays, name: damage(arrays[name])})


def test_a_forecast_without_members_is_refused() -> None:
    with pytest.raises(ValueError, match="found members"):
        DeviceForecast.from_arrays((), MIXED.arrays())


def test_mean_coefficients_are_the_analytical_terms() -> None:
    found = MIXED.analytical()

    assert MIXED.coefficients == pytest.approx(np.full(TERMS, 0.15))
    # Deviation of the level: 0.25 · (0.04 + 0.15²) + 0.75 · (2 · 0.01 + 0.05²).
    assert MIXED.coefficient_deviation == pytest.approx(np.full(TERMS, np.sqrt(0.0325)))
    assert MIXED.constant_ms == pytest.approx(TERM_UNITS[-1] * np.exp(0.15))
    assert found.coefficients[POOLED][0] == pytest.approx(1e-7 * np.exp(0.15))


def test_the_covariance_of_a_forecast_has_its_variances_and_is_worked_out_by_hand_where_the_level_alone_is_open() -> None:
    sums = MIXED.sums(features())
    log_ms, deviation = MIXED.of_sums(sums)

    whole = MIXED.covariance_of_sums(sums, np.ones((len(log_ms), len(log_ms))))
    apart = replace(MIXED, network_scale=0.0, kernel_scale=0.0).covariance_of_sums(sums, np.eye(len(log_ms)))

    assert np.diag(whole) == pytest.approx(deviation**2)
    # Two members, 0.15 below and 0.05 above their mean, with the variances 0.04 and 2 · 0.01 of the level; noise is not shared.
    [first, second] = [0.25 * (0.04 + 0.15**2), 0.75 * (2.0 * 0.01 + 0.05**2)]
    assert apart[0, 1:] == pytest.approx(np.full(len(log_ms) - 1, 1.5 * (first + second)), rel=1e-6)


def test_what_limits_a_kernel_adds_up_to_its_latency() -> None:
    kernels = features().kernels

    limit_ms = MIXED.limit_ms(kernels)

    assert limit_ms.shape == (len(kernels.terms), 3)
    assert limit_ms.sum(axis=1) == pytest.approx(MIXED.kernel_ms(kernels))
    assert (limit_ms.sum(axis=0) > 0).all()


def test_a_network_takes_over_the_residual_of_a_measured_one_near_it_unless_other_platforms_ran_it() -> None:
    places = np.array([[0.0, 0.0, 0.0], [3.0, 0.0, 0.0], [0.0, NEAR, 0.0], [9.0, 9.0, 0.0]])
    memory = NetworkMemory(places, np.zeros(4), 0.5, np.zeros(4, dtype=bool))
    memory = memory.with_measured(places[:2], np.log([1.0, 2.0]), np.array([0.3, -0.2]))

    near, residual, _ = memory.nearest_measured(places)

    found = carried(residual, np.array([0.0, 0.5, 0.0, 0.0]), near)

    # At the place of a measured network, at one that others half know, a length away (e^-½), far away.
    assert found == pytest.approx([0.3 * NEAR_SHARE, -0.1 * NEAR_SHARE, 0.3 * NEAR_SHARE * np.exp(-0.5), 0.0], abs=1e-9)
    assert carried(residual, np.ones(4), near).tolist() == [0.0] * 4
    assert memory.with_measured(places[:2], np.zeros(2)).nearest_measured(places).residual.tolist() == [0.0] * 4


def test_a_forecast_kept_as_arrays_still_takes_over_residuals() -> None:
    places = features().place
    nothing = np.zeros(len(places))
    memory = NetworkMemory(places, nothing, 0.5, nothing > 0)
    plain, moved = (
        replace(MIXED, memory=memory.with_measured(places[[1]], np.log([2.0]), np.array([residual]))) for residual in (0.0, 0.5)
    )
    sums = moved.sums(features())

    again = DeviceForecast.from_arrays(MIXED.member_names, moved.arrays()).of_sums(sums)[0]

    others = np.arange(len(places)) != 1
    share = NEAR_SHARE * np.exp(-0.5 * (np.delete(places - places[1], WEIGHTS, axis=1) ** 2).sum(axis=1) / NEAR**2)
    assert share[others].max() > 0.01
    assert (moved.of_sums(sums)[0] - plain.of_sums(sums)[0])[others] == pytest.approx(0.5 * share[others])
    assert again == pytest.approx(moved.of_sums(sums)[0], rel=1e-5, abs=1e-5)
