"""The networks that nobody here chose, and what is said of predictions of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.outsiders import (
    HALVES,
    INSTRUCTION_SETS_RESULTS,
    _figures,
    half_of,
    instruction_sets_table,
    outsiders,
    outsiders_bench,
    outsiders_table,
)
from latcast.kernels.rules import instruction_set
from latcast.records import Platform
from latcast.spaces.published_segments import HELD_OUT_DESIGNS, design_of


def test_they_are_one_of_each_design_that_nothing_is_trained_on() -> None:
    names = [str(each.name) for each in outsiders()]

    assert sorted(map(design_of, names)) == sorted(HELD_OUT_DESIGNS)
    # Drawn by a checksum, about half each.
    assert [sum(half_of(name) == half for name in names) for half in HALVES] == [31, 29]


def test_figures_hold_the_label_error_and_the_width_beside_the_error() -> None:
    rows = [
        {"model": "timm/a", "latency_ms": 11.0, "low_ms": 10.0, "high_ms": 12.0, "measured_ms": 10.0},
        {"model": "timm/b", "latency_ms": 10.0, "low_ms": 8.0, "high_ms": 16.0, "measured_ms": 20.0},
    ]

    found = _figures(rows, {"timm/a": (9.9, 10.1), "timm/b": None})

    # 10 and 50 % off; one of two inside; the halves of one label differ by 2 %, which makes an error of 1 %.
    assert found["mape"] == pytest.approx(30)
    assert found["interval_coverage"] == 50
    assert found["label_error"] == pytest.approx(1.0)
    assert found["median_high_over_low"] == pytest.approx(np.median([1.2, 2.0]))


def test_the_table_has_a_line_for_each_half_and_says_the_seed() -> None:
    figures = {
        "networks": 2, "label_error": 1.0, "mape": 5.0, "within_5": 50.0, "within_10": 100.0, "rmspe": 6.0, "spearman": 0.99,
        "interval_coverage": 90.0, "median_high_over_low": 1.3,
    }  # fmt: skip
    document = {
        "platform": "local/x/cpu1/fp32", "baselines": {"flops": {"mape": 20.0}, "flops_mac": {"mape": 12.0}},
        **dict.fromkeys(HALVES, figures),
    }  # fmt: skip

    lines = outsiders_table({"x-fp32-2": document}).splitlines()

    assert lines[2].startswith("| local/x/cpu1/fp32, seed 2 | 2 looked at | 1.0 | 5.0 | 50 | 100 |")
    assert lines[3].endswith("| 90 | 1.30 | 20 | 12 |")


def test_a_capped_bench_is_a_platform_of_its_own() -> None:
    plain, capped = outsiders_bench("openvino", "fp32", None, 0), outsiders_bench("openvino", "fp32", None, 0, cap="avx2")

    assert (plain.unit, capped.unit) == ("cpu1", "cpu1+avx2")
    assert (plain.name, capped.name) == ("openvino-fp32-outsiders", "openvino-fp32-avx2-outsiders")
    assert plain.variables == {}


def test_results_say_on_which_processor_and_instruction_set_they_were_found() -> None:
    found = json.loads(INSTRUCTION_SETS_RESULTS.read_text())

    for each in found.values():
        assert each["cpu"]["model"]
        assert each["instruction_set"] == instruction_set(Platform.parse(each["platform"]).unit, each["cpu"]["flags"])
    assert {each["instruction_set"] for each in found.values()} == {"avx2", "avx512"}
    assert len(instruction_sets_table().splitlines()) == 2 + len(found)
