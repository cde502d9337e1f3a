"""Rules, defaults and tuning on sweeps whose best size is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latcast.workgroups.advice import kfast
from latcast.workgroups.sizes import WorkGroup
from latcast.workgroups.strategies import (
    follow_rules,
    measure_at_random,
    recommend_sizes,
    take_any,
    take_fixed,
    take_kfast,
    tune_exhaustively,
)
from latcast.workgroups.sweep import SizeSweep
from latcast.workgroups.workloads import CONV, depthwise_convolution
from tests.workgroups.made_up_gpu import PROFILE
from tests.workgroups.made_up_sweep import THREE_SIZES, sweep_of_times

A, B, C = THREE_SIZES


def test_single_shot_tuning_is_a_trial_for_every_interleaved_round() -> None:
    # A and B divide the grid with 32 items, C has but 8. Round 1 picks A (1.0), round 2 picks B (best 1.2).
    found = tune_exhaustively(sweep_of_times([[1.0, 3.0], [2.0, 1.2], [0.8, 0.8]]), 1)

    assert found.tried == 2
    # C is the best of the sweep, at 0.8.
    assert found.relative == pytest.approx((1.0 + 1.2) / 2 / 0.8)
    assert found.worst == pytest.approx(1.2 / 0.8)
    # 30 ms for both sizes, less the second run of each.
    assert found.tuning_ms == pytest.approx(30 - 3.0 - 1.2)


def test_runs_that_followed_each_other_give_one_trial_without_warm_up() -> None:
    found = tune_exhaustively(sweep_of_times([[5.0, 1.0], [2.0, 1.2], [8.0, 8.0]], interleaved=False), 1)

    assert found.relative == pytest.approx(1.2)


def test_more_shots_than_runs_cannot_be_replayed() -> None:
    assert tune_exhaustively(sweep_of_times([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]), 3).relative is None


def test_all_sizes_are_tried_for_kernels_of_others() -> None:
    others = replace(sweep_of_times([[1.0, 3.0], [2.0, 1.2], [0.8, 0.8]]), descriptor=replace(CONV, accesses_counted=False))

    assert tune_exhaustively(others, 1).tried == 3


def test_defaults_are_looked_up_among_the_sizes_measured() -> None:
    made = sweep_of_times([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])

    # kFast: one slice, 256 items, the whole row of 32, both rows halved to one: 32x1x1.
    assert take_kfast(made).relative == 1.0
    assert take_fixed(made).relative is None
    assert "8x4x1 is not among" in take_fixed(made).why
    assert take_fixed(made, C).relative == 3.0


def test_chance_is_the_mean_and_its_best_of_all_is_the_best() -> None:
    made = sweep_of_times([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])

    assert take_any(made).relative == 2.0
    assert measure_at_random(made, 3).relative == 1.0


def test_rules_are_the_mean_over_the_sizes_they_leave() -> None:
    made = sweep_of_times([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    found = follow_rules(made)

    # 2·wx·wy is far from 4 for all three: V is skipped. II: 32, 32 and 8 items of K_ac 16 leave A and B; III keeps both
    # (32 bytes a row item, 64 a line), so does IV; I: 2, 2 groups are no multiple of 4, so it is skipped.
    assert found.relative == 1.5
    assert found.worst == 2.0
    assert "leave 2 of 3" in found.why


WORKLOAD = depthwise_convolution(8, 8, 32)  # a grid of 8 x 8 x 8: kFast is wz = 8, then 4 x 2 of the 64 items
KFAST, FIXED, WIDE, TINY = WorkGroup(4, 2, 8), WorkGroup(8, 4, 1), WorkGroup(8, 8, 1), WorkGroup(1, 1, 1)


def depthwise_sweep(*rows: tuple[WorkGroup, float]) -> SizeSweep:
    sizes, times = zip(*rows, strict=True)
    return SizeSweep(PROFILE, str(WORKLOAD), WORKLOAD.descriptor, WORKLOAD.grid, tuple(sizes), np.array(times)[:, None])


def test_the_rules_kfast_and_the_fixed_size_are_recommended() -> None:
    assert kfast(WORKLOAD.grid, WORKLOAD.descriptor, PROFILE.limits) == KFAST
    found = recommend_sizes(depthwise_sweep((TINY, 8.0), (KFAST, 3.0), (FIXED, 2.0), (WIDE, 2.5)))

    # Rule V asks for 64 items in the plane, which 8x8x1 alone has.
    assert found == {"rules": WIDE, "kFast": KFAST, "fixed": FIXED}
