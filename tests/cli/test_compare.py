"""``latcast compare``."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.predictors.contention import keep_factors
from latcast.records import Platform
from tests.cli.conftest import Latcast
from tests.cli.dataset import PLATFORM

pytestmark = pytest.mark.usefixtures("bundle")


def test_both_latencies_are_the_predictions_and_the_interval_is_of_the_difference(latcast: Latcast, model_file: Path) -> None:
    [pair] = latcast("compare", model_file, "alexnet", "--on", PLATFORM, "--json").json["pairs"]
    predicted = latcast("predict", model_file, "alexnet", "--on", PLATFORM, "--json").json["predictions"]

    assert (pair["a"], pair["b"], pair["platform"]) == (str(model_file), "alexnet", PLATFORM)
    assert [pair["a_ms"], pair["b_ms"]] == [each["latency_ms"] for each in predicted]
    assert pair["difference_ms"] == pytest.approx(pair["b_ms"] - pair["a_ms"])
    assert pair["low_ms"] < pair["difference_ms"] < pair["high_ms"]


def test_the_table_has_a_row_for_each_platform_and_a_breakdown_by_kernel_type(latcast: Latcast, model_file: Path) -> None:
    head_a, head_b, _, columns, row, _, title, types, *kernels = latcast(
        "compare", model_file, "alexnet", "--on", PLATFORM, "--breakdown"
    ).out.splitlines()

    assert (head_a, head_b) == (f"A: {model_file}", "B: alexnet")
    assert columns.split()[:5] == ["platform", "A", "ms", "B", "ms"]
    assert row.split()[0] == PLATFORM
    assert (title, types.split()[:2]) == (PLATFORM, ["kernel", "type"])
    assert "conv" in [line.split()[0] for line in kernels]


def test_both_networks_are_shown_under_the_conditions_asked_for(latcast: Latcast, model_file: Path) -> None:
    keep_factors(Platform.parse(PLATFORM), {"memory": 1.5})
    command = ["compare", model_file, "alexnet", "--on", PLATFORM, "--beside", "memory"]

    [pair] = latcast(*command, "--json").json["pairs"]
    shown = latcast(*command).out.splitlines()

    for side in "ab":
        [beside] = pair[f"{side}_contended"]
        assert beside["latency_ms"] == pytest.approx(1.5 * pair[f"{side}_ms"])
    assert [line.split()[0] for line in shown if line.split()[1:2] == [PLATFORM]] == [str(model_file), "alexnet"]
    assert shown[-1].startswith("beside others: 1 network measured")


def test_a_diff_shows_kernels_that_went_and_came(latcast: Latcast, model_file: Path) -> None:
    lines = latcast("compare", model_file, "alexnet", "--on", PLATFORM, "--diff").out.splitlines()

    assert lines[0].startswith(f"--- {model_file} on {PLATFORM}: ")
    assert lines[1].startswith(f"+++ alexnet on {PLATFORM}: ")
    assert {line[0] for line in lines[3:]} <= set(" !-+@")
    assert any(line.startswith("+ ") for line in lines[3:])


def test_what_the_predictions_warn_of_is_said(latcast: Latcast) -> None:
    assert (
        "nothing was measured on this device" in latcast("compare", "resnet18", "mobilenet_v2", "--on", "redmi note 12 cpu").err
    )
