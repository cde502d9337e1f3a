"""What rules, defaults and tuning give on sweeps whose best size is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latcast.workgroups.audit import audit, summarise
from latcast.workgroups.sizes import Grid, WorkGroup
from latcast.workgroups.sweep import Sweep
from latcast.workgroups.ways import WAYS, fixed, kfast_default, random, random_measured, rules, tuned
from latcast.workgroups.workloads import CONV
from tests.workgroups.made_up_sweep import DEVICE, many_sizes, sweep_of

GRID = Grid(32, 2, 1)
A, B, C = WorkGroup(32, 1), WorkGroup(16, 2), WorkGroup(8, 1)


def sweep(times: list[list[float]], *, interleaved: bool = True) -> Sweep:
    return Sweep(
        DEVICE, "conv", CONV, GRID, (A, B, C), np.array(times), interleaved=interleaved, tuning_ms=np.array([10.0, 20.0, 40.0])
    )


def test_single_shot_tuning_is_a_trial_for_every_interleaved_round() -> None:
    # A and B divide the grid with 32 items, C has but 8. Round 1 picks A (1.0), round 2 picks B (best 1.2).
    found = tuned(sweep([[1.0, 3.0], [2.0, 1.2], [0.8, 0.8]]), 1)

    assert found.tried == 2
    # C is the best of the sweep, at 0.8.
    assert found.relative == pytest.approx((1.0 + 1.2) / 2 / 0.8)
    assert found.worst == pytest.approx(1.2 / 0.8)
    # 30 ms for both sizes, less the second run of each.
    assert found.tuning_ms == pytest.approx(30 - 3.0 - 1.2)


def test_runs_that_followed_each_other_give_one_trial_without_warm_up() -> None:
    found = tuned(sweep([[5.0, 1.0], [2.0, 1.2], [8.0, 8.0]], interleaved=False), 1)

    assert found.relative == pytest.approx(1.2)


def test_more_shots_than_runs_cannot_be_replayed() -> None:
    assert tuned(sweep([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]), 3).relative is None


def test_all_sizes_are_tried_for_kernels_of_others() -> None:
    others = replace(sweep([[1.0, 3.0], [2.0, 1.2], [0.8, 0.8]]), descriptor=replace(CONV, accesses_counted=False))

    assert tuned(others, 1).tried == 3


def test_defaults_are_looked_up_among_the_sizes_measured() -> None:
    made = sweep([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])

    # kFast: one slice, 256 items, the whole row of 32, both rows halved to one: 32x1x1.
    assert kfast_default(made).relative == 1.0
    assert fixed(made).relative is None
    assert "8x4x1 is not among" in fixed(made).why
    assert fixed(made, C).relative == 3.0


def test_chance_is_the_mean_and_its_best_of_all_is_the_best() -> None:
    made = sweep([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])

    assert random(made).relative == 2.0
    assert random_measured(made, 3).relative == 1.0


def test_rules_are_the_mean_over_the_sizes_they_leave() -> None:
    made = sweep([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    found = rules(made)

    # 2·wx·wy is far from 4 for all three: V is skipped. II: 32, 32 and 8 items of K_ac 16 leave A and B; III keeps both
    # (32 bytes a row item, 64 a line), so does IV; I: 2, 2 groups are no multiple of 4, so it is skipped.
    assert found.relative == 1.5
    assert found.worst == 2.0
    assert "leave 2 of 3" in found.why


def test_an_audit_of_noise_ranks_nothing() -> None:
    noisy = sweep_of(lambda size: 1.0, many_sizes(Grid(16, 16, 4), 40), noise=0.3)
    found = audit(noisy)

    assert found.refused
    assert found.outcomes == ()
    assert found.outcome("rules") is None
    assert found.to_json()["best"] is None
    summary = summarise("noise", [found])
    assert (summary.ranked, summary.chance) == (0, None)
    assert set(summary.ways.values()) == {None}


def test_a_summary_is_the_mean_over_sweeps() -> None:
    first = audit(sweep([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]))
    second = audit(sweep([[2.0, 2.0], [2.0, 2.0], [10.0, 10.0]]))

    found = summarise("both", [first, second])

    assert found.worst_over_best == pytest.approx((3 + 5) / 2)
    assert found.ways["random"] is not None
    assert found.ways["random"][:2] == pytest.approx(((2 + 14 / 6) / 2, 5.0))
    assert set(found.ways) == set(WAYS)


def test_every_way_has_the_name_it_is_listed_under() -> None:
    made = sweep_of(lambda size: size.x + 1 / size.y, many_sizes(Grid(16, 16, 4), 60), rounds=5)

    assert [outcome.way for outcome in audit(made).outcomes] == list(WAYS)


def test_sizes_that_ran_once_have_no_repeatability() -> None:
    once = audit(sweep([[1.0], [2.0], [3.0]]))

    assert once.to_json()["repeatability"] is None
    assert summarise("once", [once]).repeatability is None
