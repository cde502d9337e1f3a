"""Where detected rules are kept and found."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from latcast.errors import BundleError, MeasurementError, UnknownNameError
from latcast.fusion.detected_rules import chosen_rules, detect_rules, detected_rules, rules_path, save_detected_rules, with_isa
from latcast.fusion.quantities import LATENCY
from latcast.kernels import FusionRules
from latcast.kernels.rules import rules_for
from latcast.measure.settings import WorkerSettings
from latcast.records import Platform
from tests.fusion.made_up_worker import RULES, settings

PLATFORM = Platform("local", "ncnn", "20261020", "cpu1", "fp32")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path))
    return tmp_path


def rules(first: str) -> FusionRules:
    return FusionRules("ncnn", "20261020", {first: frozenset({"relu"})}, evidence={"pairs": {f"{first} relu": {"fused": True}}})


def test_rules_are_found_where_detection_left_them(home: Path) -> None:
    path = save_detected_rules(rules("conv"), rules_path(PLATFORM))

    assert path == home / "rules" / "local__ncnn-20261020__cpu1__fp32.json"
    assert detected_rules(PLATFORM) == rules("conv")
    assert detected_rules(PLATFORM.id) == rules("conv")
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_rules_of_another_unit_of_the_same_runtime_are_the_substitute() -> None:
    save_detected_rules(rules("conv"), rules_path(PLATFORM))

    assert detected_rules("mybox/ncnn-20261020/cpu4/fp32") == rules("conv")
    with pytest.raises(UnknownNameError):
        detected_rules("local/ncnn-20250101/cpu1/fp32")
    with pytest.raises(UnknownNameError):
        detected_rules("local/ncnn-20261020/cpu1/int8")


def test_a_runtimes_name_stands_for_its_newest_rules() -> None:
    older = save_detected_rules(rules("conv"), rules_path(PLATFORM))
    save_detected_rules(rules("linear"), rules_path("local/ncnn-20261020/cpu2/fp32"))
    os.utime(older, (1, 1))

    assert detected_rules("ncnn") == rules("linear")


def test_missing_rules_are_an_error_that_says_how_to_detect_them() -> None:
    with pytest.raises(UnknownNameError, match="latcast device fusion detect --runtime ncnn"):
        detected_rules(PLATFORM)


def test_an_option_names_shipped_or_detected_rules_or_a_file(tmp_path: Path) -> None:
    save_detected_rules(rules("conv"), rules_path(PLATFORM))
    file = save_detected_rules(rules("linear"), tmp_path / "mine.json")

    assert chosen_rules(None, PLATFORM) == chosen_rules("shipped", PLATFORM) == rules_for("ncnn", "fp32")
    assert chosen_rules("detected", PLATFORM) == rules("conv")
    assert chosen_rules(str(file), PLATFORM) == chosen_rules(str(file), WorkerSettings("ncnn")) == rules("linear")
    assert chosen_rules(None, WorkerSettings("ncnn")) == rules_for("ncnn", "fp32")
    assert chosen_rules(rules("conv"), PLATFORM) == rules("conv")
    with pytest.raises(UnknownNameError):
        chosen_rules(str(tmp_path / "none.json"), PLATFORM)


def test_a_file_that_holds_no_rules_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text("[]")

    with pytest.raises(BundleError):
        chosen_rules(str(path), PLATFORM)


FEW = ("conv", "relu", "tanh", "conv_transpose")


@pytest.fixture(autouse=True)
def few_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latcast.fusion.detected_rules.tested_operators", lambda: FEW)
    monkeypatch.setattr("latcast.fusion.detection.tested_patterns", lambda: {"silu": "silu"})
    quick = replace(LATENCY, plan=replace(LATENCY.plan, rounds=10, runs_per_round=2))
    monkeypatch.setattr("latcast.fusion.detected_rules.LATENCY", quick)


@pytest.mark.parametrize(("profiler", "by"), [(True, "profile"), (False, "latency")])
def test_detection_is_scored_and_goes_on_from_its_store(tmp_path: Path, profiler: bool, by: str) -> None:
    found, score = detect_rules(settings(), tmp_path / "s.sqlite", budget_s=300.0, profiler=profiler)
    again, _ = detect_rules(settings(), tmp_path / "s.sqlite", budget_s=300.0, profiler=profiler, check=False)

    assert found.platform.id == "local/madeup-1.0/cpu1/fp32"
    assert found.quantity.name == by
    assert found.decided == 1.0
    assert found.rules().pairs == RULES.pairs
    assert found.failures == {"conv_transpose": "no kernel for ConvTranspose"}
    assert score is not None
    assert (score.agreement, score.judged) == (1.0, 9)
    assert again.rules().pairs == RULES.pairs


def test_a_runtime_without_a_profiler_is_detected_by_latencies(tmp_path: Path) -> None:
    mute = settings(imports=("tests.fusion.made_up_worker", "tests.fusion.mute_profiler"))

    found, _ = detect_rules(mute, tmp_path / "s.sqlite", budget_s=300.0, check=False)

    assert found.quantity.name == "latency"
    assert found.rules().pairs == RULES.pairs


def test_a_cap_on_instruction_sets_is_part_of_the_platform() -> None:
    capped = with_isa(WorkerSettings("openvino"), "AVX2")

    assert capped.variables["ONEDNN_MAX_CPU_ISA"] == "AVX2"
    assert capped.qualifiers == ("avx2",)
    assert with_isa(WorkerSettings("ncnn"), "") == WorkerSettings("ncnn")


def test_a_runtime_without_such_a_switch_is_refused() -> None:
    with pytest.raises(MeasurementError, match="litert has no switch"):
        with_isa(WorkerSettings("litert"), "avx2")
