"""Eq. 8 and its value by chance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latcast.workgroups.importance import chance_score, importances, scores
from latcast.workgroups.sizes import Grid, WorkGroup
from latcast.workgroups.sweep import Sweep
from tests.workgroups.made_up_sweep import DEVICE, sweep_of

LATENCIES = {WorkGroup(4, 1): 1.0, WorkGroup(3, 1): 2.0, WorkGroup(2, 1): 4.0, WorkGroup(5, 1): 5.0}


def sweep() -> Sweep:
    return sweep_of(LATENCIES.__getitem__, list(LATENCIES), grid=Grid(8, 1, 1))


def test_scores_run_from_the_worst_to_the_best() -> None:
    assert scores(sweep()).tolist() == [1.0, 0.75, 0.25, 0.0]
    assert chance_score(sweep()) == 0.5


def test_a_rule_scores_the_mean_of_the_sizes_that_follow_it() -> None:
    # 8 is divided by 4 and 2: rule IV scores (1 + 0.25) / 2.
    found = {item.rule: item for item in importances(sweep())}

    assert found["IV"].passing == 2
    assert found["IV"].score == pytest.approx(0.625)
    assert found["IV"].above_chance == pytest.approx(0.125)


def test_a_rule_that_no_size_follows_or_that_is_not_known_has_no_score() -> None:
    unknown = replace(sweep(), device=replace(DEVICE, simultaneous_items=None, compute_units=1000))
    found = {item.rule: item for item in importances(unknown)}

    assert (found["I"].score, found["I"].passing) == (None, 0)
    assert found["II"].score is None
    assert "K_ac" in found["II"].why


def test_filters_by_chance_score_what_is_expected_of_chance() -> None:
    rng = np.random.default_rng(0)
    sizes = [WorkGroup(x, y) for x in range(1, 9) for y in range(1, 9)]
    drawn = dict(zip(sizes, rng.lognormal(size=len(sizes)), strict=True))
    made = sweep_of(drawn.__getitem__, sizes, grid=Grid(8, 8, 1))
    terms = scores(made)

    by_chance = [terms[rng.random(len(sizes)) < 0.3].mean() for _ in range(2000)]

    assert np.mean(by_chance) == pytest.approx(chance_score(made), abs=0.005)
    assert chance_score(made) > 0.6


def test_equal_latencies_score_one() -> None:
    assert chance_score(sweep_of(lambda size: 2.0, list(LATENCIES), grid=Grid(8, 1, 1))) == 1.0
