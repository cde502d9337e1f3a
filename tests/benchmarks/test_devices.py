"""Judging of devices without measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.devices import (
    DRAWN_NETWORKS,
    FOLDS,
    FORECAST,
    Mixture,
    by_fact,
    missed,
    read_trials,
    rows_of,
    rows_of_suggestions,
    tried_fold,
    write_trials,
)
from latcast.devices.device_model import INTERCEPT, KnownPlatform
from latcast.devices.members import FLOPS_AND_MEMORY
from shipping.arbitration import NEW_LINEAGES, DeviceTrial, MemberForecasts, mixed_by_others
from shipping.known_platforms import KnownPlatforms
from tests.devices.other_answers import TIMES, small_pool


def trial(name: str, silicon: str, fold: int, off: float, source: str = "published") -> MemberForecasts:
    """Five networks that take e^1 to e^5 ms. The first member is exact, the other one says e^off times as much."""
    log_ms = np.arange(1.0, 6.0)
    rows = np.arange(5)
    platform = KnownPlatform(name, "cpu", silicon, {}, rows, log_ms, source)
    one = DeviceTrial(platform, rows[:0], rows, log_ms[:0], log_ms, NEW_LINEAGES, fold)
    variance = np.full((2, 5), 0.01)
    return MemberForecasts(
        one, ("exact", "off"), np.zeros(2), np.stack([log_ms, log_ms + off]), variance, 0 * variance, np.zeros(5), np.ones(5)
    )


def weighed(tried: list[MemberForecasts]) -> list[Mixture]:
    return [*mixed_by_others(tried, FOLDS)]


def test_trials_are_read_as_they_were_written(tmp_path: Path) -> None:
    pool = small_pool()
    written = [replace(trial("a", "chip a", 0, 0.1), rivals={"twin": np.arange(5.0)}), trial("a", "chip a", 1, 0.2)]
    written = [replace(one, trial=replace(one.trial, platform=pool.platforms[1])) for one in written]

    write_trials(tmp_path / "part.npz", pool, written)
    read = read_trials(tmp_path / "part.npz", pool)

    for one, other in zip(read, written, strict=True):
        assert (one.trial.platform.name, one.trial.fold, one.names) == (pool.platforms[1].name, other.trial.fold, other.names)
        assert one.log_ms == pytest.approx(other.log_ms)
        assert one.known == pytest.approx(other.known)
        assert one.rivals.keys() == other.rivals.keys()
        assert one.trial.log_ms == pytest.approx(other.trial.log_ms)


def test_a_row_is_the_mean_over_platforms_whatever_their_trials() -> None:
    tried = [
        trial("a/r-1/cpu4/fp32", "chip a", 0, np.log(1.2)), trial("a/r-1/cpu4/fp32", "chip a", 0, np.log(1.4)),
        trial("b/r-1/cpu4/fp32", "chip b", 1, np.log(2.0)), trial("c/r-1/cpu4/fp32", "chip b", 1, np.log(1.1), "iiswc20"),
    ]  # fmt: skip

    rows = {(row["kind"], row["method"]): row for row in rows_of(weighed(tried))}

    # 30 % on a, 100 on b, 10 on c, whose networks were drawn.
    off = rows["cpu", "off"]
    assert (off["platforms"], off["chips"], off["measured"], off["held_out"]) == (3, 2, 0, NEW_LINEAGES)
    assert (off["mape"], off["median_mape"]) == (pytest.approx(140 / 3), pytest.approx(30))
    designed = rows["cpu, without drawn networks", "off"]
    assert (designed["platforms"], designed["mape"]) == (2, pytest.approx(65))
    assert rows["cpu", "exact"]["mape"] == pytest.approx(0, abs=1e-9)
    assert rows["cpu", FORECAST]["mape"] < 5


@cache
def beside_a_gpu(times: float) -> KnownPlatforms:
    """Eight CPUs and one GPU, a hundred times as slow as anything says, and so many times as slow as that."""
    cpus, like = small_pool().platforms[:8], small_pool().platforms[10]
    covariates = {INTERCEPT: 1.0, "kind gpu": 1.0, "runtime tflite": 1.0, "precision gpu fp32": 1.0}
    log_ms = like.log_ms + np.log(100 * times)
    gpu = replace(like, name="g/tflite-2.14/gpu/fp32", kind="gpu", silicon="chip g", covariates=covariates, log_ms=log_ms)
    return replace(small_pool(), platforms=(*cpus, gpu))


def part_left(row: Mapping[str, Any]) -> float:
    """Percent that the predicted latency is of the measured one, where each is shorter."""
    return 100 - float(row["mape"])


def test_what_facts_say_of_a_chip_is_said_without_its_latencies() -> None:
    """With three times the latencies of the only GPU, the predicted ones are a third of them as before."""
    usual, slower = (by_fact(beside_a_gpu(times)) for times in (1.0, TIMES))

    assert {row["kind"] for row in usual} == {"cpu", "gpu"}
    for before, after in zip(usual, slower, strict=True):
        if before["kind"] == "gpu":
            assert part_left(after) == pytest.approx(part_left(before) / TIMES, rel=1e-9)
            assert after["width"] == pytest.approx(before["width"] * TIMES**2, rel=1e-9)


@pytest.mark.slow
def test_figures_of_a_chip_that_nobody_measured_are_made_without_its_latencies() -> None:
    pools = [beside_a_gpu(times) for times in (1.0, TIMES)]
    tried = [[one for fold in range(FOLDS) for one in tried_fold(pool, fold, draws=1)] for pool in pools]
    usual, slower = (rows_of(weighed(each)) for each in tried)

    compared = 0
    for before, after in zip(usual, slower, strict=True):
        if before["kind"] == "gpu" and before["measured"] == 0 and before["method"] != FORECAST:
            compared += 1
            assert part_left(after) == pytest.approx(part_left(before) / TIMES, rel=1e-9)
    assert compared
    held_out = {row["held_out"] for row in usual}
    assert held_out == {"nothing", "networks", "lineages", DRAWN_NETWORKS}


def test_what_misses_its_aim_is_said() -> None:
    row = {
        "kind": "cpu", "held_out": "lineages", "measured": 10, "method": FORECAST, "platforms": 3, "mape": 22.4, "coverage": 84.0,
    }  # fmt: skip
    members = [{**row, "method": FLOPS_AND_MEMORY, "mape": 22.0}, {**row, "method": "tied", "mape": 20.5}]

    # More than 22 %; fewer than 85 % inside; more than the regression; but not a tenth more than the best member.
    found = missed([row, *members])
    assert len(found) == 3
    assert missed([{**row, "mape": 21.9, "coverage": 85.0}, *members]) == []


def test_suggested_networks_are_better_where_they_leave_four_fifths_of_the_error() -> None:
    found = {
        ("gpu", 3): [np.array([8.0, 10.0]), np.array([9.0, 10.0]), np.array([31.0, 20.0])],
        ("cpu", 10): [np.array([5.0, 9.0])],
    }

    cpu, gpu = rows_of_suggestions(found)

    assert cpu == {"kind": "cpu", "measured": 10, "platforms": 1, "suggested_mape": 5, "drawn_mape": 9, "better": 100}
    assert (gpu["platforms"], gpu["suggested_mape"]) == (3, pytest.approx(16))
    assert (gpu["drawn_mape"], gpu["better"]) == (pytest.approx(40 / 3), pytest.approx(100 / 3))
