"""Detection on a runtime in a worker process, from end to end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from latcast.errors import MeasurementError
from latcast.fusion import detection
from latcast.fusion.running import detect_rules, with_isa
from latcast.fusion.stopwatch import TIMING_PLAN
from latcast.measure.settings import WorkerSettings
from tests.fusion.made_up_worker import RULES, settings

FEW = ("conv", "relu", "tanh", "conv_transpose")


@pytest.fixture(autouse=True)
def few_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latcast.fusion.running.OPERATORS", FEW)
    monkeypatch.setattr("latcast.fusion.detection.PATTERNS", {"silu": "silu"})
    monkeypatch.setattr("latcast.fusion.running.TIMING_PLAN", replace(TIMING_PLAN, rounds=10, runs_per_round=2))


def test_a_runtime_is_detected_scored_and_gone_on_with(tmp_path: Path) -> None:
    found, score = detect_rules(settings(), tmp_path / "s.sqlite", budget_s=300.0)
    again, _ = detect_rules(settings(), tmp_path / "s.sqlite", budget_s=300.0, check=False)

    assert found.platform.id == "local/madeup-1.0/cpu1/fp32"
    assert found.decided == 1.0
    assert found.rules().pairs == RULES.pairs
    assert found.failures == {"conv_transpose": "no kernel for ConvTranspose"}
    assert score is not None
    assert (score.agreement, score.judged) == (1.0, 9)
    assert again.rules().pairs == RULES.pairs


def test_a_cap_on_instruction_sets_is_part_of_the_platform() -> None:
    capped = with_isa(WorkerSettings("openvino"), "AVX2")

    assert capped.variables["ONEDNN_MAX_CPU_ISA"] == "AVX2"
    assert capped.qualifiers == ("avx2",)
    assert with_isa(WorkerSettings("ncnn"), "") == WorkerSettings("ncnn")


def test_a_runtime_without_such_a_switch_is_refused() -> None:
    with pytest.raises(MeasurementError, match="litert has no switch"):
        with_isa(WorkerSettings("litert"), "avx2")


def test_detection_tests_every_pair_by_default() -> None:
    assert len(detection.OPERATORS) >= 20
