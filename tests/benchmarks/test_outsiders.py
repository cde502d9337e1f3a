"""The networks that nobody here chose, and what is said of predictions of them."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.outsiders import (
    HALVES,
    THIRD_NAMES,
    _figures,
    draw_third,
    half_of,
    is_of_the_third_draw,
    outsiders,
    outsiders_table,
    platform_misses,
)
from latcast.records import Reference
from latcast.spaces.published_segments import HELD_OUT_DESIGNS, NAME, NEAR_RELATIVES, design_of


def test_they_are_one_of_each_design_that_nothing_is_trained_on() -> None:
    names = [str(each.name) for each in outsiders()]

    assert sorted(map(design_of, names)) == sorted(HELD_OUT_DESIGNS)
    # Drawn by a checksum, about half each.
    assert [sum(half_of(name) == half for name in names) for half in HALVES] == [31, 29]


def test_the_third_draw_is_of_designs_that_neither_half_holds_and_of_none_like_them() -> None:
    assert draw_third() == THIRD_NAMES
    designs = {design_of(name) for name in THIRD_NAMES}
    assert len(designs) == 20
    assert designs.isdisjoint({*HELD_OUT_DESIGNS, *NEAR_RELATIVES})


def test_segments_of_a_design_of_the_third_draw_are_told_by_their_network() -> None:
    def segment(network: str) -> Reference:
        return Reference(NAME, {"network": network, "first": "a", "last": "b"})

    # mixnet_l is in the draw, mixnet_s of its design; fasternet is not.
    assert [is_of_the_third_draw(segment(name)) for name in ("timm/mixnet_s", "timm/fasternet_t0")] == [True, False]
    assert not is_of_the_third_draw(Reference("random_mixed", {"seed": 1}))


def test_targets_are_two_points_above_the_label_error_and_three_in_int8() -> None:
    figures = {"label_error": 1.0, "mape": 3.5, "within_10": 90.0, "interval_coverage": 90.0, "median_high_over_low": 1.4}

    assert platform_misses("local/x/cpu1/fp32", figures) == ["MAPE", "width"]
    assert platform_misses("local/x/cpu1/int8", figures | {"median_high_over_low": 1.35}) == []
    assert platform_misses("local/x/cpu1/int8", figures | {"within_10": 84.0, "interval_coverage": 96.0}) == [
        "±10 %", "coverage", "width",
    ]  # fmt: skip


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


def test_the_table_has_a_line_for_each_half_and_says_the_seed_and_what_is_missed() -> None:
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
    assert lines[3].endswith("| 90 | 1.30 | 20 | 12 | MAPE |")
    assert lines[5].startswith("Of 1 rows of the reported half miss: 1 the target for MAPE, 0 the target for ±10 %")
