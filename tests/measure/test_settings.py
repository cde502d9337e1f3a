"""The settings that a worker is started with, and the library that it then finds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from latcast.errors import MeasurementError
from latcast.measure.settings import KERNEL_PLAN, NETWORK_PLAN, MeasurePlan, WorkerSettings


@pytest.mark.parametrize("plan", [NETWORK_PLAN, KERNEL_PLAN, MeasurePlan(rounds=1, profile=True)])
def test_a_plan_survives_json(plan: MeasurePlan) -> None:
    assert MeasurePlan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(("field", "value"), [("rounds", 0), ("runs_per_round", 0), ("warmup_runs", -1), ("batch_size", 0)])
def test_a_plan_without_runs_is_refused_with_field_and_value(field: str, value: int) -> None:
    with pytest.raises(MeasurementError, match=rf"{field} = {value}; expected at least"):
        MeasurePlan(**{field: value})


def test_a_plan_of_another_version_names_the_unknown_field() -> None:
    with pytest.raises(MeasurementError, match="no field 'temperature'"):
        MeasurePlan.from_json({"rounds": 2, "temperature": 40})


@pytest.fixture
def other_version(tmp_path: Path) -> Path:
    """A folder as ``pip install --target`` leaves it, of a version that never was."""
    about = tmp_path / "old" / "onnxruntime-0.9.3.dist-info" / "METADATA"
    about.parent.mkdir(parents=True)
    about.write_text("Metadata-Version: 2.1\nName: onnxruntime\nVersion: 0.9.3\n")
    return tmp_path / "old"


def test_a_library_path_comes_before_pythons_own_path(other_version: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere/else")
    assert WorkerSettings().process_variables()["PYTHONPATH"] == "/somewhere/else"
    settings = WorkerSettings(library_path=str(other_version))
    assert settings.process_variables()["PYTHONPATH"] == f"{other_version}{os.pathsep}/somewhere/else"
    monkeypatch.delenv("PYTHONPATH")
    assert settings.process_variables()["PYTHONPATH"] == str(other_version)


def test_a_relative_library_path_holds_wherever_the_worker_runs(other_version: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(other_version.parent)
    assert WorkerSettings(library_path="old").process_variables()["PYTHONPATH"] == str(other_version)


def test_a_library_path_is_this_machines_alone(other_version: Path) -> None:
    with pytest.raises(MeasurementError, match=r"which dask:tcp://.* cannot import from"):
        WorkerSettings(library_path=str(other_version), address="dask:tcp://127.0.0.1:8786")
