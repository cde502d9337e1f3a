"""Objectives of a search: sizes, functions, tables."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from latcast.errors import DatasetError, LatcastError, UnknownNameError
from latcast.graph.operators import graph_macs
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.search.encodings import EncodingPredictor
from latcast.search.objective import CallableObjective, objective_named, table_objective
from latcast.spaces.nas.supernet import SUPERNETS


def test_macs_are_in_millions(transformers: EncodingPredictor) -> None:
    encodings = transformers.supernet.sample_encodings(2, 0)
    graph = transformers.supernet.build(**transformers.supernet.decode(encodings[0]))
    assert objective_named("macs", transformers).values(encodings)[0] == pytest.approx(graph_macs(graph) / 1e6)


def test_a_function_is_asked_once_for_each_network(transformers: EncodingPredictor) -> None:
    asked = []
    objective = CallableObjective("f", lambda parameters: asked.append(parameters) or 1.5, transformers.supernet)  # type: ignore[func-returns-value]
    encodings = transformers.supernet.sample_encodings(3, 0)
    assert objective.values(np.concatenate([encodings, encodings])).tolist() == [1.5] * 6
    assert [transformers.supernet.decode(encoding) for encoding in encodings] == asked


@pytest.mark.parametrize("value", [None, "good", float("nan")])
def test_a_function_that_gives_no_number_is_an_error(transformers: EncodingPredictor, value: object) -> None:
    objective = CallableObjective("m:f", lambda _: value, transformers.supernet)  # type: ignore[arg-type,return-value]
    with pytest.raises(LatcastError, match=r"m:f gave .* expected a finite number"):
        objective.values(transformers.supernet.sample_encodings(1, 0))


def test_a_csv_of_cells_gives_their_accuracies(platform: PlatformPredictor, tmp_path: Path) -> None:
    cells = EncodingPredictor(platform, "nas_bench_201")
    members = cells.supernet.distinct_encodings(3, 1)
    lines = [f"{cells.supernet.decode(row)['cell']},{accuracy},x" for row, accuracy in zip(members, (90, 91.5, 7), strict=True)]
    path = tmp_path / "cells.csv"
    path.write_text("cell,top1,note\n" + "\n".join(lines) + "\n")
    objective = objective_named(f"{path}:top1", cells)
    assert objective.members is not None
    assert objective.members.tolist() == members.tolist()
    assert objective.values(members[[2, 0]]).tolist() == [7, 90]


def test_a_json_table_may_hold_parameters_in_one_object(tmp_path: Path) -> None:
    supernet = SUPERNETS.get("autoformer")
    members = supernet.distinct_encodings(2, 1)
    path = tmp_path / "table.json"
    path.write_text(json.dumps([{"parameters": supernet.decode(row), "accuracy": 0.5 + i} for i, row in enumerate(members)]))
    assert table_objective(path, supernet).values(members).tolist() == [0.5, 1.5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cell,top1\na,1\n", "line 2: no column 'accuracy'"),
        ("cell,accuracy\na,1\n", "line 2: 'a' is no cell of NAS-Bench-201"),
        ("cell,accuracy\na,1e999\n", "line 2: accuracy is 1e999; expected a finite number"),
        ("cell,accuracy\na,NaN\n", "line 2: accuracy is NaN; expected a finite number"),
        ("cell,accuracy\n", "found no members"),
        ("accuracy,cell\n70\n", "line 2: found 1 cells, expected 2"),
    ],
)
def test_a_malformed_table_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(DatasetError, match=message):
        table_objective(path, SUPERNETS.get("nas_bench_201"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("flops", "no objective is called 'flops'; expected macs or parameters"),
        ("no_such_module:f", "the objective 'no_such_module:f' cannot be imported"),
        ("math:pi", "the objective 'math:pi' is a float"),
    ],
)
def test_an_unknown_objective_is_refused(transformers: EncodingPredictor, name: str, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        objective_named(name, transformers)
