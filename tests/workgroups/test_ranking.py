"""Applying the rules one after another."""

from __future__ import annotations

from dataclasses import replace

from latcast.workgroups.devices import DeviceProfile
from latcast.workgroups.ranking import padding_share, rank
from latcast.workgroups.rules import Situation, judge_sizes
from latcast.workgroups.sizes import Grid, WorkGroup, candidate_sizes, sizes_array
from latcast.workgroups.workloads import CONV, convolution

DEVICE = DeviceProfile("made_up", "Made up", 256, 256, 256, 64, compute_units=4, simultaneous_items=16, cache_line_bytes=64)


def test_the_first_are_those_that_pass_every_rule_that_leaves_any() -> None:
    workload = convolution(56, 56, 64, 64)
    situation = Situation(workload.grid, CONV, DEVICE)
    found = rank(candidate_sizes(workload.grid, DEVICE.limits), situation)

    passing = [all(j.passes[row] for j in found.judgements if j.passes is not None) for row in found.order]

    assert found.applied == ("V", "II", "III", "IV", "I")
    assert sum(passing) == found.survivors > 0
    assert all(passing[: found.survivors])


def test_a_rule_that_would_leave_nothing_is_skipped() -> None:
    # No size of a grid of 5x5x5 divides it with 16 items or more: rule IV leaves nothing after rule II.
    situation = Situation(Grid(5, 5, 5), CONV, DEVICE)
    found = rank([WorkGroup(4, 4, 1), WorkGroup(4, 2, 4), WorkGroup(5, 1, 1), WorkGroup(3, 3, 3)], situation)

    assert "IV" not in found.applied
    assert found.shortlist(1) == [WorkGroup(4, 2, 4)]


def test_a_rule_that_cannot_be_evaluated_is_left_out_of_the_order() -> None:
    situation = Situation(Grid(28, 56, 16), CONV, replace(DEVICE, simultaneous_items=None))
    found = rank(candidate_sizes(situation.grid, DEVICE.limits), situation)

    assert "II" not in found.applied


def test_padding_is_the_share_of_idle_items() -> None:
    situation = Situation(Grid(5, 4, 1), CONV, DEVICE)

    # 8 x 4 launched for 5 x 4.
    assert padding_share(sizes_array([WorkGroup(4, 4, 1), WorkGroup(5, 2, 1)]), situation).tolist() == [1 - 20 / 32, 0.0]


def test_ranking_keeps_every_size_once() -> None:
    situation = Situation(Grid(6, 5, 4), CONV, DEVICE)
    sizes = candidate_sizes(situation.grid, DEVICE.limits)
    found = rank(sizes, situation)

    assert sorted(found.order.tolist()) == list(range(len(sizes)))
    assert len(judge_sizes(sizes, situation)) == len(found.judgements)
