"""Tables 2, 11 and 12."""

from __future__ import annotations

import pytest

from papers.nn_meter.held_out import HeldOutFamily
from papers.nn_meter.measured import MeasuredBenchmark
from papers.nn_meter.platforms import table_2, table_11, table_12


def test_sizes_and_latencies_of_what_was_measured(benchmark: MeasuredBenchmark) -> None:
    found = table_2(benchmark)
    first = dict(zip(found.columns, found.rows[0], strict=True))
    assert first["paper mean MMACs"] == 973
    assert first["lowest ms"] == pytest.approx(benchmark.actual_ms("alexnet").min())
    assert first["highest ms"] == pytest.approx(benchmark.actual_ms("alexnet").max())
    assert (first["paper CPU lowest ms"], first["paper CPU highest ms"]) == (7.1, 494.4)


def test_another_platforms_predictor_is_off_by_how_the_platforms_differ(
    benchmark: MeasuredBenchmark, held: list[HeldOutFamily], other: MeasuredBenchmark
) -> None:
    found = table_11(benchmark, held, other, model="analytical")
    rows = {str(row[0]): dict(zip(found.columns, row, strict=True)) for row in found.rows}
    # The other platform computes at a third of the speed.
    assert float(rows["SqueezeNets"]["other's MAPE %"] or 0) > 50
    assert float(rows["SqueezeNets"]["own MAPE %"] or 99) < 5
    assert rows["SqueezeNets"]["paper other's ±10 %"] == 3.0
    assert rows["SqueezeNets"]["paper own ±10 %"] == 100
    assert rows["all"]["paper own ±10 %"] is None


def test_measuring_time_stands_beside_the_papers_days(benchmark: MeasuredBenchmark) -> None:
    found = table_12(benchmark)
    assert found.rows[0][1] == pytest.approx(190 / 3600)
    assert found.column("hours")[1:] == [60.0, 24.0, pytest.approx(105.6)]
    assert found.rows[0][3] == 20
