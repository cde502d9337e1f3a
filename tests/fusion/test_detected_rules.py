"""Where detected rules are kept and found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from latcast.errors import BundleError, UnknownNameError
from latcast.fusion.detected_rules import chosen_rules, detected_rules, rules_path, save_detected_rules
from latcast.kernels import FusionRules
from latcast.kernels.rules import rules_for
from latcast.records import Platform

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


def test_another_unit_of_the_same_runtime_does_where_there_is_none() -> None:
    save_detected_rules(rules("conv"), rules_path(PLATFORM))

    assert detected_rules("mybox/ncnn-20261020/cpu4/fp32") == rules("conv")
    with pytest.raises(UnknownNameError):
        detected_rules("local/ncnn-20250101/cpu1/fp32")
    with pytest.raises(UnknownNameError):
        detected_rules("local/ncnn-20261020/cpu1/int8")


def test_a_runtimes_name_means_its_newest_rules() -> None:
    older = save_detected_rules(rules("conv"), rules_path(PLATFORM))
    save_detected_rules(rules("linear"), rules_path("local/ncnn-20261020/cpu2/fp32"))
    os.utime(older, (1, 1))

    assert detected_rules("ncnn") == rules("linear")


def test_none_says_how_to_detect_them() -> None:
    with pytest.raises(UnknownNameError, match="latcast fusion detect --runtime ncnn"):
        detected_rules(PLATFORM)


def test_an_option_means_shipped_detected_or_a_file(tmp_path: Path) -> None:
    save_detected_rules(rules("conv"), rules_path(PLATFORM))
    file = save_detected_rules(rules("linear"), tmp_path / "mine.json")

    assert chosen_rules(None, PLATFORM) == chosen_rules("shipped", PLATFORM) == rules_for("ncnn", "fp32")
    assert chosen_rules("detected", PLATFORM) == rules("conv")
    assert chosen_rules(str(file), PLATFORM) == rules("linear")
    with pytest.raises(UnknownNameError):
        chosen_rules(str(tmp_path / "none.json"), PLATFORM)


def test_a_file_that_holds_no_rules_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text("[]")

    with pytest.raises(BundleError):
        chosen_rules(str(path), PLATFORM)
