"""Judging of picks under a budget."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import choose
from benchmarks.choose import BUDGETS, PICKED, POINT, Picked, picks_of, summary
from latcast.devices.device_model import KnownPlatform
from latcast.errors import DatasetError
from shipping.arbitration import NEW_NETWORKS, DeviceTrial, MemberForecasts

CERTAIN = 1.2815515655446004
"""Standard deviations below which nine in ten lie."""


def tried(log_ms: np.ndarray) -> MemberForecasts:
    rows = np.arange(len(log_ms))
    platform = KnownPlatform("a/r-1/cpu4/fp32", "cpu", "chip", {}, rows, log_ms, "data")
    trial = DeviceTrial(platform, rows[:0], rows, log_ms[:0], log_ms, NEW_NETWORKS, 0)
    nothing = np.zeros((1, len(rows)))
    return MemberForecasts(trial, ("only",), np.zeros(1), nothing, nothing, nothing, nothing[0], nothing[0])


# Eleven networks of rising latency and quality: budgets are the latencies of those at 2, 3.5, 5, 6.5 and 8.
LOG_MS = np.arange(11.0)
QUALITY = 10.0 * np.arange(11)


def picked(mean: np.ndarray, deviation: float, quality: np.ndarray = QUALITY) -> dict[str, list[Picked]]:
    found = list(picks_of(tried(LOG_MS), mean, np.full(11, deviation), quality, "top-1 accuracy"))
    return {name: [each for each in found if each.method == name] for name in (PICKED, POINT)}


def test_the_best_network_within_the_budget_is_picked_and_the_certain_pick_keeps_a_margin() -> None:
    found = picked(LOG_MS, 1.1 / CERTAIN)

    # The point prediction is exact. The upper bound is 1.1 above it: 2 - 1.1 leaves network 0, 3.5 - 1.1 network 2.
    assert [each.regret for each in found[POINT]] == [0.0] * len(BUDGETS)
    assert [each.regret for each in found[PICKED]] == [20.0, 10.0, 20.0, 10.0, 20.0]
    assert all(each.within for listed in found.values() for each in listed)
    assert [each.over for each in found[PICKED]] == pytest.approx(np.exp([-2, -1.5, -2, -1.5, -2]))


def test_a_pick_that_takes_longer_than_the_budget_does_not_fit() -> None:
    """Everything is predicted one step too fast: of 2 network 3 is picked, of 3.5 network 4."""
    found = picked(LOG_MS - 1, 0.1 / CERTAIN)

    assert [each.within for each in found[POINT]] == [False] * 5
    assert [each.over for each in found[POINT]] == pytest.approx(np.exp([1, 0.5, 1, 0.5, 1]))
    assert [each.regret for each in found[POINT]] == [None] * 5
    # With the margin the last network of a whole budget falls away.
    assert [each.within for each in found[PICKED]] == [True, False, True, False, True]


def test_where_nothing_is_sure_to_fit_nothing_is_picked() -> None:
    found = picked(LOG_MS + 5, 0.1)

    assert [each.within for each in found[PICKED]][:3] == [None] * 3
    assert found[PICKED][-1].within


def test_of_equals_the_faster_is_picked_and_networks_of_unknown_quality_are_left_out() -> None:
    assert [each.over for each in picked(LOG_MS, 0.0, np.ones(11))[POINT]] == pytest.approx(np.exp([-2, -3.5, -5, -6.5, -8]))
    unknown = np.where(np.arange(11) < 7, QUALITY, np.nan)
    assert list(picks_of(tried(LOG_MS), LOG_MS, np.zeros(11), unknown, "top-1 accuracy")) == []
    known = np.where(np.arange(11) < 8, QUALITY, np.nan)
    assert len(list(picks_of(tried(LOG_MS), LOG_MS, np.zeros(11), known, "top-1 accuracy"))) == 2 * len(BUDGETS)


def test_platforms_count_alike_and_picks_by_themselves() -> None:
    a = Picked("a/r-1/cpu4/fp32", "data", "cpu", NEW_NETWORKS, "top-1 accuracy", PICKED, True, 1.0, 0.9)
    b = replace(a, platform="b/r-1/gpu/fp32", kind="gpu")
    listed = [
        a, replace(a, regret=2.0), replace(a, regret=6.0), replace(a, within=None, regret=None, over=None),
        replace(b, within=False, regret=None, over=1.05), replace(b, within=False, regret=None, over=1.2),
    ]  # fmt: skip

    rows = {row["kind"]: row for row in summary(listed)}

    assert (rows["all"]["platforms"], rows["all"]["budgets"], rows["all"]["picked"]) == (2, 6, pytest.approx(500 / 6))
    assert (rows["all"]["within"], rows["all"]["within_by_platform"]) == (60.0, 50.0)
    assert rows["all"]["within_110"] == 80.0
    assert (rows["all"]["regret"], rows["all"]["median_regret"]) == (3.0, 2.0)
    assert (rows["gpu"]["within"], rows["gpu"]["regret"]) == (0.0, None)


def test_a_missing_package_is_named_before_anything_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(choose, "find_spec", lambda _: None)
    choose._top5_percent.cache_clear()

    with pytest.raises(DatasetError, match="pip install pytorchcv"):
        choose.choose(data=tmp_path / "absent")
