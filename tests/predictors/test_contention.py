"""Latencies beside other programs; unknown where nothing was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.errors import LatcastError
from latcast.predictors.conditions import PROGRAMS, parse_beside, parse_scenarios
from latcast.predictors.contention import factor_of, keep_factors
from latcast.predictors.prediction import Coverage, Grade, Prediction
from latcast.records import Platform

HERE = Prediction("m", "local/onnxruntime-1.31/cpu1/fp32", 20.0, 18.0, 24.0, Coverage(1.0, ()), Grade.of(3.0, ""))


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path))


def test_factors_of_this_device_count_for_every_runtime_on_it() -> None:
    platform = Platform.parse("local/litert-2.3/cpu1/int8")
    for slowed in (1.1, 1.3, 1.2):
        keep_factors(platform, {"memory": slowed, "memory:same": 2 * slowed, "memory+memory": 9.0})

    [beside] = HERE.beside(" memory").contended

    assert beside.beside == "memory"
    assert beside.latency_ms == pytest.approx(24)
    assert beside.low_ms is not None
    assert beside.high_ms is not None
    # Wider than the steady interval by what the networks differ in.
    assert beside.low_ms < 18 * 1.2
    assert beside.high_ms > 24 * 1.2
    assert beside.basis.startswith("3 networks")


def test_programs_on_the_same_core_share_it_with_the_network() -> None:
    factor, low, high = factor_of({"compute:same": [1.0], "memory": [1.1]}, ("compute:same", "compute:same", "memory")) or (
        0,
        0,
        0,
    )

    assert factor == pytest.approx(3.3)
    assert low < 3.3 * 0.96
    assert high > 3.3 * 1.04


def test_nothing_is_said_beside_programs_that_were_not_measured() -> None:
    [here] = HERE.beside("compute").contended
    [phone] = (
        Prediction("m", "pixel4/tflite-2.10/1large/fp32", 20.0, 18.0, 24.0, HERE.coverage, HERE.grade).beside("compute").contended
    )

    assert here.latency_ms is phone.latency_ms is None
    assert "latcast measure MODEL --beside all" in here.basis
    assert "latcast measure" not in phone.basis


def test_commas_separate_scenarios_and_all_is_each_program_by_itself() -> None:
    assert parse_scenarios("memory, compute + compute:same") == ("memory", "compute+compute:same")
    assert parse_scenarios("all") == PROGRAMS
    assert parse_scenarios("memory:same, all,memory+compute") == (
        "memory:same",
        "compute",
        "memory",
        "compute:same",
        "memory+compute",
    )


def test_programs_that_are_named_twice_count_once() -> None:
    assert parse_scenarios("memory,memory") == ("memory",)
    assert HERE.beside("compute+memory").beside("compute + memory") == HERE.beside("compute+memory")


def test_an_unknown_program_is_refused_with_those_there_are() -> None:
    with pytest.raises(LatcastError, match="the program 'video', expected one of compute, memory, compute:same, memory:same"):
        parse_beside("compute+video")
