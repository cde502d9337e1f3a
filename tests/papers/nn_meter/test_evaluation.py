"""Tables and figures, all together, and their drawings."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.training.profiling import Stage
from papers.harness import PaperTable
from papers.nn_meter.benchmark import MeasuredBenchmark, Training
from papers.nn_meter.evaluation import ITEMS, draw, reproduce

QUICK = tuple(name for name in ITEMS if name not in ("figure 9", "table 10", "table 11"))


def test_everything_a_store_allows_is_made_in_order(benchmark: MeasuredBenchmark) -> None:
    stages: list[Stage] = []
    found = reproduce(benchmark, QUICK, training=Training(model="analytical"), watch=stages.append)
    assert [comparison.name for comparison in found] == list(QUICK)
    assert [stage.share for stage in stages] == sorted(stage.share for stage in stages)


def test_tables_that_need_no_predictor_train_none(benchmark: MeasuredBenchmark) -> None:
    stages: list[Stage] = []
    found = reproduce(benchmark, ["table 12", "table 4"], watch=stages.append)
    assert [comparison.name for comparison in found] == ["table 4", "table 12"]
    assert not stages


BARS = PaperTable("table 8", "Accuracy", ("family", "±10 %", "paper CPU ±10 %"), (("a", 90.0, None), ("b", 80.0, 70.0)))
SHARES = PaperTable("figure 6", "Shares", ("family", "Conv and DWConv %", "conv %", "others %"), (("a", 60.0, 60.0, 40.0),))
PLAIN = PaperTable("table 12", "Time", ("platform", "hours"), (("a", 1.0),))


def test_what_can_be_drawn_is_drawn_into_the_folder(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra 'plots'")
    files = draw([BARS, SHARES, PLAIN], tmp_path / "plots")
    assert [file.name for file in files] == ["table-8.png", "figure-6.png"]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)
