"""Eq. 8 and its value by chance, and the verdict on a sweep."""

from __future__ import annotations

from dataclasses import replace

import pytest

from latcast.workgroups.audit import audit, summarise
from latcast.workgroups.sizes import Grid, WorkGroup
from latcast.workgroups.strategies import STRATEGIES
from latcast.workgroups.sweep import SizeSweep
from tests.workgroups.made_up_sweep import DEVICE, many_sizes, sweep_of, sweep_of_times

LATENCIES = {WorkGroup(4, 1): 1.0, WorkGroup(3, 1): 2.0, WorkGroup(2, 1): 4.0, WorkGroup(5, 1): 5.0}


def sweep() -> SizeSweep:
    return sweep_of(LATENCIES.__getitem__, list(LATENCIES), grid=Grid(8, 1, 1))


def test_a_rule_scores_the_mean_of_the_sizes_that_follow_it() -> None:
    # From the worst to the best the four sizes score 0, 0.25, 0.75 and 1. 8 is divided by 4 and 2: rule IV has (1 + 0.25) / 2.
    found = audit(sweep())
    rule = next(item for item in found.importances if item.rule == "IV")

    assert found.chance == 0.5
    assert (rule.score, rule.above_chance) == (pytest.approx(0.625), pytest.approx(0.125))


def test_a_rule_that_no_size_follows_or_that_is_not_known_has_no_score() -> None:
    unknown = replace(sweep(), device=replace(DEVICE, simultaneous_items=None, compute_units=1000))
    found = {item.rule: item for item in audit(unknown).importances}

    assert found["I"].score is None
    assert found["II"].score is None
    assert "K_ac" in found["II"].why


def test_an_audit_of_noise_gives_no_ranking() -> None:
    noisy = sweep_of(lambda size: 1.0, many_sizes(Grid(16, 16, 4), 40), noise=0.3)
    found = audit(noisy)

    assert found.refused
    assert found.results == ()
    assert found.result("rules") is None
    assert found.to_json()["best"] is None
    summary = summarise("noise", [found])
    assert (summary.ranked, summary.chance) == (0, None)
    assert set(summary.strategies.values()) == {None}


def test_a_summary_is_the_mean_over_sweeps() -> None:
    first = audit(sweep_of_times([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]))
    second = audit(sweep_of_times([[2.0, 2.0], [2.0, 2.0], [10.0, 10.0]]))

    found = summarise("both", [first, second])

    assert found.worst_over_best == pytest.approx((3 + 5) / 2)
    assert found.strategies["random"] is not None
    assert found.strategies["random"][:2] == pytest.approx(((2 + 14 / 6) / 2, 5.0))
    assert set(found.strategies) == set(STRATEGIES)


def test_every_strategy_has_the_name_it_is_listed_under() -> None:
    made = sweep_of(lambda size: size.x + 1 / size.y, many_sizes(Grid(16, 16, 4), 60), rounds=5)

    assert [result.strategy for result in audit(made).results] == list(STRATEGIES)


def test_sizes_that_ran_once_have_no_repeatability() -> None:
    once = audit(sweep_of_times([[1.0], [2.0], [3.0]]))

    assert once.to_json()["repeatability"] is None
    assert summarise("once", [once]).repeatability is None
