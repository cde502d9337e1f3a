"""A new platform among known ones, from a few measured networks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.known_rows import KnownRows, kind_similarity, predict_platform
from latcast.errors import TrainingError

PLATFORMS, NETWORKS = 40, 12


def known(seed: int = 0, platforms: int = PLATFORMS, networks: int = NETWORKS) -> KnownRows:
    """Rows on a line: each network follows one number of the platform, beside its level."""
    rng = np.random.default_rng(seed)
    slopes = np.linspace(-1, 1, networks)
    rows = (
        rng.normal(0, 1, (platforms, 1))
        + rng.normal(0, 0.3, (platforms, 1)) * slopes
        + rng.normal(0, 0.01, (platforms, networks))
    )
    return KnownRows(rows, np.ones((platforms, platforms)), np.arange(platforms) // 2)


NEW = 1.5 + 0.4 * np.linspace(-1, 1, NETWORKS)
EVENLY = np.array([0, 4, 7, 11])


def test_a_platform_like_the_known_ones_is_predicted_from_four_networks() -> None:
    found = predict_platform(known(), np.ones(PLATFORMS), EVENLY, NEW[EVENLY])

    assert np.abs(found.log_ms - NEW).max() < 0.05
    assert found.dropped == ()


def test_its_level_alone_is_not_enough_to_know_its_slope() -> None:
    one = predict_platform(known(), np.ones(PLATFORMS), np.array([5]), NEW[[5]])

    assert abs(one.log_ms[11] - NEW[11]) > 0.2
    assert one.deviation[11] > 5 * predict_platform(known(), np.ones(PLATFORMS), EVENLY, NEW[EVENLY]).deviation[11]


@given(st.floats(-5, 5))
def test_a_platform_so_many_times_as_slow_takes_so_many_times_as_long(shift: float) -> None:
    once, slower = (predict_platform(known(), np.ones(PLATFORMS), EVENLY, NEW[EVENLY] + by) for by in (0.0, shift))

    assert slower.log_ms - once.log_ms == pytest.approx(np.full(NETWORKS, shift), abs=1e-9)
    assert slower.deviation == pytest.approx(once.deviation)


def test_a_measured_value_that_the_others_contradict_is_dropped() -> None:
    measured = np.array([0, 2, 4, 6, 8, 10])
    values = NEW[measured].copy()
    values[3] += 1.0

    found = predict_platform(known(), np.ones(PLATFORMS), measured, values)

    assert found.dropped == (3,)
    assert np.abs(found.log_ms - NEW).max() < 0.06


def test_of_many_contradictions_three_are_dropped_and_of_few_networks_a_third() -> None:
    """Who drops more fits the forecast to what is left."""
    eighteen = np.linspace(-1, 1, 24)[:18]
    values = 1.5 + 0.4 * eighteen
    values[[2, 5, 9, 13, 16]] += [1.0, -1.1, 0.9, -1.2, 1.3]

    found = predict_platform(known(networks=24), np.ones(PLATFORMS), np.arange(18), values)

    assert len(found.dropped) == 3
    assert set(found.dropped) < {2, 5, 9, 13, 16}

    six = np.array([0, 2, 4, 6, 8, 10])
    values = NEW[six].copy()
    values[[1, 3, 4]] += [2.0, -2.2, 1.7]

    assert len(predict_platform(known(), np.ones(PLATFORMS), six, values).dropped) == 2


def test_a_value_that_is_a_little_off_is_no_accident() -> None:
    """Platforms on a line contradict 15 % with many standard deviations; 30 % is an accident."""
    measured = np.array([0, 2, 4, 6, 8, 10])

    def dropped(by: float) -> tuple[int, ...]:
        values = NEW[measured].copy()
        values[3] += by
        return predict_platform(known(), np.ones(PLATFORMS), measured, values).dropped

    assert (dropped(0.15), dropped(0.3)) == ((), (3,))


def test_one_accident_among_the_known_latencies_does_not_make_a_network_unknowable() -> None:
    """One of forty platforms took ``e⁵`` times as long: drawn in to ``e^0.7``, it leaves a factor of 1.3 open, and not of 2.3."""
    rows = known()
    rows.log_ms[7, 11] += 5.0
    measured = np.array([0, 4, 7, 9])

    found = predict_platform(rows, np.ones(PLATFORMS), measured, NEW[measured])

    assert found.deviation[11] < 0.3
    assert found.deviation[10] < 0.03


@pytest.mark.parametrize("twins", [2, 4])
def test_a_device_measured_as_several_platforms_makes_no_surer_than_one(twins: int) -> None:
    """A twin would explain what its device alone cannot: left out by rows, the deviation falls from 0.33 to 0.28 and 0.25."""
    once = np.random.default_rng(0).normal(0, 0.3, (8, 6))

    def deviation(copies: int) -> np.ndarray:
        rows = KnownRows(np.repeat(once, copies, axis=0), np.ones((8 * copies, 8 * copies)), np.repeat(np.arange(8), copies))
        return predict_platform(rows, np.ones(8 * copies), np.array([0, 1]), np.array([0.1, -0.1])).deviation[2:]

    assert (deviation(twins) >= deviation(1)).all()
    assert deviation(twins) == pytest.approx(deviation(1), rel=0.15)


def test_platforms_of_another_kind_count_less() -> None:
    """One measured network says nothing of the slope: it is then that of the platforms of the same kind."""
    rows = known()
    steeper = rows.log_ms + np.where(np.arange(PLATFORMS)[:, None] < 20, 0.0, np.linspace(0, 1, NETWORKS))
    own_kind = np.where(np.arange(PLATFORMS) < 20, 1.0, 0.05)
    among = np.where((own_kind == 1.0)[:, None] == (own_kind == 1.0), 1.0, 0.05)
    first = np.array([0])

    alike = predict_platform(KnownRows(steeper, np.ones_like(among), rows.devices), np.ones(PLATFORMS), first, NEW[first])
    apart = predict_platform(KnownRows(steeper, among, rows.devices), own_kind, first, NEW[first])

    slopes = [found.log_ms[11] - found.log_ms[0] for found in (alike, apart)]
    mean_slope = (rows.log_ms[:20, 11] - rows.log_ms[:20, 0]).mean()
    assert slopes[1] == pytest.approx(mean_slope, abs=0.2)
    assert slopes[0] > mean_slope + 0.35


def test_similarity_falls_with_each_difference_of_kind() -> None:
    names = ["a/tflite-2.10/4large/fp32", "a/tflite-2.11/cpu2/fp32", "a/tflite-2.10/gpu/fp16", "a/pytorch-2.0/1large/int8"]

    assert kind_similarity(names[:1], names)[0].tolist() == pytest.approx([1.0, 1.0, 0.1, 0.18])


def test_nothing_measured_or_hardly_any_platform_is_refused() -> None:
    with pytest.raises(TrainingError, match="0 measured networks"):
        predict_platform(known(), np.ones(PLATFORMS), np.array([], dtype=int), np.array([]))
    with pytest.raises(TrainingError, match="2 known platforms"):
        predict_platform(known(platforms=2), np.ones(2), EVENLY, NEW[EVENLY])
