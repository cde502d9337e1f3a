"""Fig. 9: networks of unseen families by the baselines and by ours."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import pytest

from latcast.predictors.metrics import judge
from papers.nn_meter import baselines
from papers.nn_meter.baselines import figure_9
from papers.nn_meter.held_out import HeldOutFamily
from papers.nn_meter.measured import MeasuredBenchmark


class OneMillisecond:
    def latency_ms(self, networks: Sequence[object]) -> np.ndarray:
        return np.ones(len(networks))


@pytest.fixture
def trained_on(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """In place of the graph network, which takes long to train: how many networks it was given each time."""
    counts: list[int] = []

    def fit(networks: Sequence[object], latency_ms: np.ndarray, *, seed: int) -> OneMillisecond:
        assert len(networks) == len(latency_ms)
        counts.append(len(networks))
        return OneMillisecond()

    monkeypatch.setattr(baselines, "fit_graph_network", fit)
    return counts


def test_baselines_learn_from_all_families_but_the_one_held_out(
    benchmark: MeasuredBenchmark, held: list[HeldOutFamily], trained_on: list[int]
) -> None:
    pytest.importorskip("torch", reason="needs the extra 'torch'")
    found = figure_9(benchmark, held)
    assert trained_on == [15] * 4
    rows = {str(row[0]): dict(zip(found.columns, row, strict=True)) for row in found.rows}
    actual = held[0].actual_ms
    assert rows["AlexNets*"]["graph network MAPE %"] == pytest.approx(100 * np.mean(np.abs(1 / actual - 1)))
    assert rows["AlexNets*"]["latcast ±10 %"] == judge(held[0].kernel_level_ms, actual).within_10
    starred = [rows[name]["latcast ±10 %"] for name in ("AlexNets*", "MobileNetv1s*", "NASBench201*")]
    assert rows["mean of those with *"]["latcast ±10 %"] == pytest.approx(np.mean(starred))
    assert rows["mean of all"]["networks"] == 20
    paper = rows["paper, mean of those with * on three devices"]
    assert (paper["latcast ±10 %"], paper["FLOPs ±10 %"], paper["graph network ±10 %"]) == (89.2, 22.1, 8.5)


def test_without_torch_the_other_baselines_remain(
    benchmark: MeasuredBenchmark, held: list[HeldOutFamily], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    found = figure_9(benchmark, held)
    assert not any("graph network" in column for column in found.columns)
    assert "latcast[torch]" in found.notes[0]
