"""Rules of delegates, held against a table of the form in which Qualcomm AI Hub says where layers ran."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.delegates import (
    CrossingRow,
    DelegateRow,
    RulePredictor,
    chosen_rules,
    figures,
    graphs_of,
    held_out_outcomes,
    in_first_half,
    judge_delegates,
    observed_rules,
    rate_of,
    read_rows,
)
from latcast.errors import DatasetError, ModelError
from latcast.graph.builder import GraphBuilder
from latcast.graph.writers.onnx import to_onnx

COLUMNS = (
    "network", "weights_or_input", "device", "chip", "core_or_unit", "threads", "runtime", "backend", "precision", "batch",
    "latency_ms", "published_precision", "npu_layers", "gpu_layers", "cpu_layers",
)  # fmt: skip

PLAIN, NORMED = "plain/Encoder", "normed"
"""Two convolutions; a convolution and a layer normalisation."""


def row(network: str, device: str, unit: str, precision: str, layers: tuple[int, int, int]) -> dict[str, Any]:
    runtime = "onnxruntime-1.23.0" + ("+qairt-2.37.1" if unit == "npu" else "")
    given = (network, "1x8x8x8", device, "chip", unit, "", runtime, "onnx", precision, 1, 1.0)
    return dict(zip(COLUMNS, (*given, "float" if precision == "fp16" else precision, *layers), strict=True))


ROWS = [
    row(PLAIN, "Phone", "npu", "w8a16", (2, 0, 0)),
    row(NORMED, "Phone", "npu", "fp16", (2, 0, 0)),
    row(NORMED, "Phone", "npu", "w8a16", (1, 0, 3)),
    row(PLAIN, "Snapdragon 7 Gen 4 QRD", "cpu", "w8a16", (0, 0, 2)),
    row("unknown", "Phone", "npu", "fp16", (2, 0, 0)),
]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    with (tmp_path / "latency_ms.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(ROWS)
    return tmp_path


@pytest.fixture
def models(tmp_path: Path) -> Path:
    b = GraphBuilder("plain")
    (tmp_path / "plain__Encoder.onnx").write_bytes(to_onnx(b.finish(b.conv(b.conv(b.input((1, 8, 8, 8)), 8, 3), 8, 3))))
    b = GraphBuilder("normed")
    (tmp_path / "normed.onnx").write_bytes(to_onnx(b.finish(b.layer_norm(b.conv(b.input((1, 8, 8, 8)), 8, 3)))))
    return tmp_path


def test_a_row_asks_for_the_npu_wherever_it_ran(table: Path) -> None:
    rows = read_rows(table)

    assert [row.outcome for row in rows] == ["all", "all", "mixed", "none", "all"]
    assert {row.platform.unit for row in rows} == {"npu+onnx"}
    assert [row.platform.precision for row in rows] == ["w8a16", "fp16", "w8a16", "w8a16", "fp16"]
    assert rows[0].model == "plain"


def test_shipped_rules_are_judged_beside_taking_everything_to_run_on_the_npu(table: Path, models: Path) -> None:
    found = judge_delegates(table, models, seeds=2)

    assert (found["rows"], found["rows_with_graph"], found["models_with_graph"], found["models"]) == (5, 4, 2, 3)
    assert found["baseline"] == pytest.approx(
        {"rows": 50.0, "all": 100.0, "mixed": 0.0, "none": 0.0, "balanced": 100 / 3, "models": 0.0}
    )
    assert found["shipped"] == {"rows": 100.0, "all": 100.0, "mixed": 100.0, "none": 100.0, "balanced": 100.0, "models": 100.0}
    # The layer normalisation is one of two operators, and one of four layers.
    assert found["share_error"] == {"rows": 1, "shipped": 25.0, "baseline": 75.0}
    assert found["wrong"] == []


def test_an_observed_rule_is_chosen_where_it_gets_a_row_right(table: Path, models: Path) -> None:
    rows = [row for row in read_rows(table) if row.network != "unknown"]
    judge, candidates = RulePredictor(graphs_of(rows, models)), observed_rules(["onnxruntime-qnn"])

    assert chosen_rules(judge, rows[:2], candidates) == []
    assert [sorted(rule.operators) for rule in chosen_rules(judge, rows[:3], candidates)] == [
        ["LayerNormalization", "layer_norm", "plain_layer_norm"]
    ]
    assert {rule.confidence for rule in candidates} == {"observed"}


def test_what_rows_of_a_model_came_to_does_not_change_what_is_predicted_of_it(table: Path, models: Path) -> None:
    rows = [row for row in read_rows(table) if row.network != "unknown"]
    judge, candidates = RulePredictor(graphs_of(rows, models)), observed_rules(["onnxruntime-qnn"])
    seed = next(seed for seed in range(100) if in_first_half("plain", seed) != in_first_half("normed", seed))
    others: dict[str, tuple[int, int, int]] = {"all": (0, 0, 2), "mixed": (2, 0, 0), "none": (1, 0, 1)}

    def with_other_answers(row: DelegateRow) -> DelegateRow:
        return replace(row, layers=others[row.outcome]) if row.model == "normed" else row

    before, after = (
        held_out_outcomes(judge, listed, candidates, seed)[:2] for listed in (rows, [*map(with_other_answers, rows)])
    )

    own, learned_from_it = (
        [place for place, row in enumerate(rows) if (row.model == "normed") == same] for same in (True, False)
    )
    for was, now in zip(before, after, strict=True):
        assert [now[place] for place in own] == [was[place] for place in own]
    assert [after[1][place] for place in learned_from_it] != [before[1][place] for place in learned_from_it]


def test_rows_right_are_counted_by_outcome_and_by_model(table: Path) -> None:
    rows = read_rows(table)

    assert figures(rows, ["none"] * len(rows)) == pytest.approx(
        {"rows": 20.0, "all": 0.0, "mixed": 0.0, "none": 100.0, "balanced": 100 / 3, "models": 0.0}
    )


def test_without_the_table_or_without_a_graph_it_says_so(tmp_path: Path, table: Path) -> None:
    with pytest.raises(DatasetError, match="expected the folder of Qualcomm AI Hub's table"):
        read_rows(tmp_path / "nowhere")
    with pytest.raises(ModelError, match="give ONNX files with --models"):
        judge_delegates(table, seeds=1)


def test_the_rate_of_crossings_is_what_networks_took_beyond_the_npu_and_the_synchronisations() -> None:
    """Ten crossings of 0.3 ms each: 3 ms; what is left is 1 ms of 1,000 bytes and 4 ms: 2 ms in the geometric mean."""
    rows = [
        CrossingRow("a", "onnxruntime-qnn", 14.0, 10.0, 9.0, 11.0, 10, 1000.0),
        CrossingRow("b", "onnxruntime-qnn", 17.0, 10.0, 9.0, 11.0, 10, 1000.0),
        CrossingRow("faster", "onnxruntime-qnn", 5.0, 10.0, 9.0, 11.0, 10, 1000.0),
    ]

    assert rate_of(rows) == pytest.approx(2 / 1000)
    assert rows[0].crossing_ms(2 / 1000) == pytest.approx(5.0)
