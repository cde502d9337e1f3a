"""Table 8 and Fig. 10."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latcast.measure.statistics import LabelError
from latcast.predictors.metrics import judge
from papers.nn_meter.end_to_end import figure_10, goal_sentence, table_8
from papers.nn_meter.held_out import HeldOutFamily
from papers.nn_meter.measured import MeasuredBenchmark


def predicted(held: list[HeldOutFamily], ratios: list[float], actual: list[float]) -> list[HeldOutFamily]:
    """One family with these labels and predictions off by these ratios."""
    labels = np.array(actual)
    return [replace(held[0], actual_ms=labels, kernel_level_ms=labels * np.array(ratios))]


def test_a_family_stands_beside_the_papers(benchmark: MeasuredBenchmark, held: list[HeldOutFamily]) -> None:
    found = table_8(benchmark, held)
    assert [row[0] for row in found.rows] == ["AlexNets", "SqueezeNets", "MobileNetv1s", "NASBench201", "all"]
    first = dict(zip(found.columns, found.rows[0], strict=True))
    expected = judge(held[0].kernel_level_ms, held[0].actual_ms)
    assert first["networks"] == 5
    assert first["±10 %"] == expected.within_10
    assert first["RMSPE %"] == expected.rmspe
    assert first["label error %"] == pytest.approx(1.0)
    assert (first["paper CPU RMSPE %"], first["paper CPU ±10 %"], first["paper VPU ±10 %"]) == (3.90, 98.6, 60.9)
    last = dict(zip(found.columns, found.rows[-1], strict=True))
    assert last["networks"] == 20
    assert (last["paper CPU ±10 %"], last["paper GPU ±10 %"], last["paper VPU ±10 %"]) == (99.0, 99.1, 83.4)


def error(percent: float) -> LabelError:
    return LabelError(percent, (percent - 0.1, percent + 0.1), 100)


def test_goals_are_met_or_missed_by_their_own_figures() -> None:
    actual = np.full(100, 10.0)
    good = judge(actual * 1.02, actual)
    assert goal_sentence(good, error(0.5)).count("met") == 2
    # 2 % does not lie above 0.5 + 2, 3 % does.
    assert "MAPE 3.0 % beside a label error of 0.5 % (0.4 to 0.6) (goal: 2.5 %): missed" in goal_sentence(
        judge(actual * 1.03, actual), error(0.5)
    )
    bad = judge(actual * np.where(np.arange(100) < 94, 1.0, 1.2), actual)
    assert "94.0 % of the networks are within ±10 % (goal: 95 %): missed" in goal_sentence(bad, error(1.5))
    assert "no label error" in goal_sentence(good, None)
    assert "measure more" not in goal_sentence(good, error(2.0))
    assert "a goal met counts where the label error is at most 2 %" in goal_sentence(good, error(2.1))


def test_errors_are_grouped_by_measured_latency(benchmark: MeasuredBenchmark, held: list[HeldOutFamily]) -> None:
    found = figure_10(benchmark, predicted(held, [1.1, 0.9, 1.02, 1.5], [1, 9.99, 10, 250]))
    assert found.column("latency") == ["0 to 10 ms", "10 to 30 ms", "30 to 100 ms", "100 ms and more"]
    assert found.column("networks") == [2, 1, 0, 1]
    assert found.column("of all %") == [50, 25, 0, 25]
    shown = found.column("MAPE %")
    assert [shown[0], shown[1], shown[3]] == pytest.approx([10, 2, 50])
    assert shown[2] is None
