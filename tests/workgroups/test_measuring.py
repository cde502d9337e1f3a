"""Interleaved rounds over work-group sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from latcast.errors import MeasurementError
from latcast.workgroups.advice import FIXED, kfast
from latcast.workgroups.kernel_tuner_cache import read_cache
from latcast.workgroups.measuring import SweepPlan, divisor_sizes, measure_sweep, sampled_sizes, save_sweep, shortlisted_sizes
from latcast.workgroups.rules import Situation
from latcast.workgroups.sizes import SizeLimits, WorkGroup, candidate_sizes
from latcast.workgroups.sweep import SizeSweep
from latcast.workgroups.workloads import convolution, depthwise_convolution
from tests.workgroups.made_up_gpu import PROFILE, MadeUpSession, quiet_ms

WORKLOAD = depthwise_convolution(8, 8, 16)
SIZES = [WorkGroup(1), WorkGroup(2), WorkGroup(4, 2), WorkGroup(8, 4), WorkGroup(8, 8)]
SITUATION = Situation(WORKLOAD.grid, WORKLOAD.descriptor, PROFILE)


def ticking(step_s: float) -> Callable[[], float]:
    """A clock that goes on by a step each time it is looked at."""
    ticks = count()
    return lambda: step_s * next(ticks)


def measured(session: MadeUpSession, plan: SweepPlan, earlier: SizeSweep | None = None) -> SizeSweep:
    return measure_sweep(session, PROFILE, SIZES, plan, earlier=earlier)


def test_the_order_of_a_quiet_device_is_found() -> None:
    sweep = measured(MadeUpSession(WORKLOAD), SweepPlan(rounds=3))

    assert sweep.latency_ms.tolist() == [5.0, 4.0, 2.0, 2.0, 3.0]  # 1, 2, 8, 32 and 64 items: 4, 3, 1, 1, 2 octaves from 16
    assert (sweep.rounds, sweep.repeatability, sweep.interleaved) == (3, 1.0, True)
    assert sweep.rankable


def test_every_round_launches_each_size_once_and_in_another_order() -> None:
    session = MadeUpSession(WORKLOAD)
    measured(session, SweepPlan(rounds=4))

    prepared = 2 * len(SIZES)
    assert session.launched[:prepared] == [size for size in SIZES for _ in range(2)]
    rounds = np.array([size.items for size in session.launched[prepared:]]).reshape(4, len(SIZES))
    assert all(sorted(order) == sorted(size.items for size in SIZES) for order in rounds)
    assert len({tuple(order) for order in rounds.tolist()}) > 1


def test_the_least_of_a_sizes_rounds_is_its_latency() -> None:
    sweep = measured(MadeUpSession(WORKLOAD, noise=3.0), SweepPlan(rounds=30))

    quiet = np.array([quiet_ms(size) for size in SIZES])
    assert np.all(sweep.latency_ms >= quiet)
    assert np.all(sweep.latency_ms < 1.5 * quiet)
    assert sweep.times_ms.max() > 2 * sweep.latency_ms.max()


def test_sizes_that_do_not_run_are_kept_as_failed() -> None:
    session = MadeUpSession(WORKLOAD, refused=frozenset({WorkGroup(2)}), limits=SizeLimits(32, 64, 64, 64))

    sweep = measured(session, SweepPlan(rounds=2))

    assert sweep.sizes == (WorkGroup(1), WorkGroup(4, 2), WorkGroup(8, 4))
    assert sweep.failed == {WorkGroup(2): "does not run", WorkGroup(8, 8): "not allowed"}


def test_fewer_than_two_sizes_are_an_error() -> None:
    session = MadeUpSession(WORKLOAD, refused=frozenset(SIZES[1:]))

    with pytest.raises(MeasurementError, match="1 of 5 work-group sizes run dwconv:8x8x16,k3,s1 on made-up GPU"):
        measured(session, SweepPlan())


def test_a_wrong_result_stops_the_sweep() -> None:
    with pytest.raises(MeasurementError, match="with 8x4x1 computed a wrong result"):
        measured(MadeUpSession(WORKLOAD, wrong=frozenset({WorkGroup(8, 4)})), SweepPlan())


def test_a_clock_that_stands_still_is_an_error() -> None:
    class Standing(MadeUpSession):
        def run(self, size: WorkGroup) -> float:
            return 0.0 * super().run(size)

    with pytest.raises(MeasurementError, match=r"took 0 ms; its steps are too coarse"):
        measured(Standing(WORKLOAD), SweepPlan())


def test_no_round_begins_when_the_time_is_up() -> None:
    # The clock is read once at the start and after each round from the second on: 0, 10, 20, 30 s.
    sweep = measure_sweep(MadeUpSession(WORKLOAD), PROFILE, SIZES, SweepPlan(100, budget_s=25), clock=ticking(10))

    assert sweep.rounds == 4


def test_two_rounds_are_run_whatever_the_time() -> None:
    sweep = measure_sweep(MadeUpSession(WORKLOAD), PROFILE, SIZES, SweepPlan(100, budget_s=0), clock=ticking(10))

    assert sweep.rounds == 2


class Interrupted(Exception):
    """Stands for Ctrl-C."""


def test_an_interrupted_sweep_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "sweep.json"
    rounds_left = iter(range(3))

    def save(sweep: SizeSweep) -> None:
        save_sweep(path, sweep)
        if next(rounds_left) == 2:
            raise Interrupted

    with pytest.raises(Interrupted):
        measure_sweep(MadeUpSession(WORKLOAD, noise=0.5), PROFILE, SIZES, SweepPlan(rounds=5), save=save)
    (earlier,) = read_cache(path)
    sweep = measured(MadeUpSession(WORKLOAD, noise=0.5, seed=1), SweepPlan(rounds=5), earlier)

    assert earlier.rounds == 3
    assert sweep.rounds == 5
    np.testing.assert_array_equal(sweep.times_ms[:, :3], earlier.times_ms)
    assert sorted(file.name for file in path.parent.iterdir()) == ["sweep.json"]


def test_an_earlier_sweep_with_enough_rounds_is_taken_as_it_is() -> None:
    earlier = measured(MadeUpSession(WORKLOAD), SweepPlan(rounds=4))
    session = MadeUpSession(WORKLOAD)

    assert measured(session, SweepPlan(rounds=4), earlier) is earlier
    assert session.launched == []


def test_the_cost_of_tuning_counts_compiling_once() -> None:
    earlier = measured(MadeUpSession(WORKLOAD), SweepPlan(rounds=2))
    sweep = measured(MadeUpSession(WORKLOAD), SweepPlan(rounds=4), earlier)

    assert earlier.tuning_ms is not None
    assert sweep.tuning_ms is not None
    assert np.all(earlier.tuning_ms > earlier.times_ms.sum(axis=1))
    np.testing.assert_allclose(sweep.tuning_ms - earlier.tuning_ms, sweep.times_ms[:, 2:].sum(axis=1))


def test_rounds_of_another_operator_or_other_sizes_are_refused() -> None:
    earlier = measured(MadeUpSession(WORKLOAD), SweepPlan(rounds=2))
    other = convolution(8, 8, 16, 16)

    with pytest.raises(MeasurementError, match=r"of dwconv:8x8x16,k3,s1 .* not of conv:8x8x16,k3,s1,c16 .* another output file"):
        measure_sweep(MadeUpSession(other), PROFILE, SIZES, earlier=earlier)
    with pytest.raises(MeasurementError, match="of 5 other sizes than the 2 asked for"):
        measure_sweep(MadeUpSession(WORKLOAD), PROFILE, SIZES[:2], earlier=earlier)


def test_all_sizes_are_all_that_the_device_allows_where_there_is_time() -> None:
    assert sampled_sizes(SITUATION, most=10_000) == candidate_sizes(WORKLOAD.grid, PROFILE.limits)


def test_a_sample_holds_the_recommended_sizes_and_is_the_same_twice() -> None:
    found = sampled_sizes(SITUATION, most=40)

    assert found == sampled_sizes(SITUATION, most=40)
    assert found != sampled_sizes(SITUATION, most=40, seed=1)
    assert len(set(found)) == 40
    assert set(shortlisted_sizes(SITUATION)) <= set(found) <= set(candidate_sizes(WORKLOAD.grid, PROFILE.limits))


def test_divisors_are_all_sizes_of_32_items_or_more_that_pad_nothing() -> None:
    # Of an 8 x 8 x 4 grid with 64 items at most: 2^a x 2^b x 2^c of 32 or 64 items, a and b to 3, c to 2.
    found = divisor_sizes(SITUATION)

    # For c of 0, 1 and 2 there are 2, 3 and 4 ways to have 32 items and 1, 2 and 3 ways to have 64.
    assert sorted(size.items for size in found) == [32] * 9 + [64] * 6
    assert all(8 % size.x == 0 and 8 % size.y == 0 and 4 % size.z == 0 for size in found)


def test_the_shortlist_is_the_rules_tflites_default_and_the_fixed_size() -> None:
    found = shortlisted_sizes(SITUATION, 3)

    assert {kfast(WORKLOAD.grid, WORKLOAD.descriptor, PROFILE.limits), FIXED} <= set(found)
    assert 3 <= len(found) <= 5


def test_a_size_that_the_device_does_not_allow_is_not_recommended() -> None:
    narrow = Situation(WORKLOAD.grid, WORKLOAD.descriptor, replace(PROFILE, max_x=4))

    assert FIXED not in shortlisted_sizes(narrow)
