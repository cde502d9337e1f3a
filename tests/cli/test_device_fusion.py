"""``latcast device fusion detect``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from latcast.cli.device_fusion import describe
from latcast.fusion import detected_rules
from latcast.fusion.detected_rules import rules_path, save_detected_rules
from latcast.fusion.detection import Detection, DetectionProgress, Detector
from latcast.fusion.score import Score, score
from latcast.kernels import FusionRules
from latcast.kernels.rules import load_rules
from latcast.measure.settings import WorkerSettings
from tests.cli.conftest import Latcast
from tests.cli.dataset import DATASET, PLATFORM
from tests.fusion.made_up_runtime import MadeUpStopwatch

RULES = FusionRules("made-up", pairs={"conv": frozenset({"relu"})}, patterns=("silu",))
OPERATORS = ("conv", "relu", "tanh")


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Detection of a made-up runtime in place of a real one; holds what it was called with."""
    called: dict[str, Any] = {}

    def detect(
        settings: WorkerSettings, location: Path, *, isa: str = "", budget_s: float, alpha: float, profiler: bool, check: bool,
        watch: Callable[[DetectionProgress], None],
    ) -> tuple[Detection, Score | None]:  # fmt: skip
        called.update(settings=settings, location=location, isa=isa, budget_s=budget_s, alpha=alpha, profiler=profiler)
        stopwatch = MadeUpStopwatch(RULES)
        found = Detector(stopwatch, budget_s=budget_s, operators=OPERATORS, alpha=alpha, watch=watch, clock=stopwatch.clock).run()
        return found, score(found, stopwatch) if check else None

    monkeypatch.setattr(detected_rules, "detect_rules", detect)
    return called


def test_scripts_get_rules_and_shares(latcast: Latcast, home: Path, made_up: dict[str, Any]) -> None:
    found = latcast("device", "fusion", "detect", "--runtime", "onnxruntime", "--budget", "10", "--json").json

    assert {"schema", "runtime", "rules", "decided", "agreement", "disagreements"} <= set(found)
    assert (found["runtime"], found["decided"], found["agreement"]) == ("made-up", 1.0, 1.0)
    assert found["rules"]["pairs"] == {"conv": ["relu"]}
    assert found["disagreements"] == []
    assert made_up["budget_s"] == 600.0
    saved = Path(found["saved_to"])
    assert saved == home / "rules" / "local__made-up-1.0__cpu1__fp32.json"
    assert load_rules(saved).pairs == RULES.pairs


def test_people_get_a_table_and_sentences(latcast: Latcast, made_up: dict[str, Any], tmp_path: Path) -> None:
    found = latcast("device", "fusion", "detect", "--budget", "10", "-o", tmp_path / "rules.json")

    lines = found.out.splitlines()
    assert lines[0] == "local/made-up-1.0/cpu1/fp32 runs in one kernel"
    assert any(line.split() == ["conv", "relu"] for line in lines)
    assert "patterns in one kernel: silu" in lines
    assert any(line.startswith("100.0 % of 9 ordered pairs decided in") for line in lines)
    assert any(line.startswith("agreement with the kernels executed: 100.0 % of 9 decided pairs") for line in lines)
    assert json.loads((tmp_path / "rules.json").read_text())["evidence"]["pairs"]["conv relu"]["fused"] is True


def test_timings_are_kept_by_runtime_and_unit(latcast: Latcast, home: Path, made_up: dict[str, Any]) -> None:
    latcast("device", "fusion", "detect", "-r", "openvino", "--isa", "avx2", "--budget", "10", "--no-check", "--json")

    assert made_up["isa"] == "avx2"
    assert made_up["location"] == home / "measurements" / "fusion-openvino-cpu1+avx2-fp32.sqlite"


def test_a_profiler_is_asked_unless_it_is_declined(latcast: Latcast, made_up: dict[str, Any]) -> None:
    found = latcast("device", "fusion", "detect", "--budget", "10", "--no-check")
    assert made_up["profiler"] is True
    # The made-up runtime has none.
    assert "by latencies from end to end" in found.out

    latcast("device", "fusion", "detect", "--no-profiler", "--budget", "10", "--no-check", "--json")
    assert made_up["profiler"] is False


def test_undecided_pairs_are_listed() -> None:
    stopwatch = MadeUpStopwatch(RULES)
    found = Detector(stopwatch, budget_s=1.0, operators=OPERATORS, clock=stopwatch.clock).run()

    data = describe(found, None, Path("x.json"))

    assert len(data["undecided"]) == round((1 - data["decided"]) * data["pairs"]) > 0


def test_rules_that_were_detected_are_shown(latcast: Latcast, made_up: dict[str, Any]) -> None:
    latcast("device", "fusion", "detect", "--budget", "10", "--no-check")

    assert "patterns in one kernel: silu" in latcast("device", "fusion", "show", "made-up").out.splitlines()
    assert latcast("device", "fusion", "show", "made-up", "--json").json["pairs"] == {"conv": ["relu"]}
    assert "0 of 9 pairs undecided" in latcast("device", "fusion", "show", "made-up", "--undecided").out


def test_training_takes_detected_rules_and_the_bundle_keeps_them(latcast: Latcast, tmp_path: Path) -> None:
    train = ("train", DATASET, "--learn-from", "networks", "-o", tmp_path / "bundle", "--rules", "detected")
    assert "latcast device fusion detect --runtime onnxruntime" in latcast(*train).reason

    save_detected_rules(FusionRules("onnxruntime", "1.31", pairs={"conv": frozenset({"relu"})}), rules_path(PLATFORM))

    assert latcast(*train).code == 0
    kept = json.loads((tmp_path / "bundle" / "fusion_rules.json").read_text())
    assert kept["pairs"] == {"conv": ["relu"]}


def test_a_profile_with_rules_that_do_not_exist_stops_before_it_measures(latcast: Latcast, tmp_path: Path) -> None:
    found = latcast("profile", "-r", "onnxruntime", "--budget", "1", "--rules", tmp_path / "none.json")

    assert "no fusion rules at" in found.reason
