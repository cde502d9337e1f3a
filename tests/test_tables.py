"""Every public result is a data frame, and a table in a notebook."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import latcast
from latcast.records import Reference
from latcast.tables import MOST_SHOWN_ROWS, Tabular, plain_fields

PHONE = "pixel4/tflite-2.10/gpu/fp16"

NOT_RESULTS = {
    "Conditions": "asked for, no result",
    "FusionRules": "rules, a file of their own",
    "Graph": "a network",
    "MeasurePlan": "asked for, no result",
    "Platform": "a name",
    "PlatformPredictor": "a predictor",
    "Reference": "a name",
    "WorkerSettings": "asked for, no result",
}


def result_classes() -> list[str]:
    found = [getattr(latcast, name) for name in latcast.__all__ if name[0].isupper()]
    return sorted(each.__name__ for each in found if dataclasses.is_dataclass(each) and each.__name__ not in NOT_RESULTS)


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """One result of each class that takes neither a measurement nor training."""
    found = latcast.predict("resnet18", on=PHONE)
    explained = latcast.explain("resnet18", on=PHONE)
    return {
        "Advice": latcast.advise("resnet18", on="pixel4"),
        "CheckReport": latcast.check("resnet18", max_ms=20.0, on=PHONE),
        "Choice": latcast.choose(PHONE, models=["resnet18", "mobilenet_v2"], max_ms=30.0),
        "Comparison": latcast.compare("resnet18", "mobilenet_v2", on=PHONE),
        "Explanation": explained,
        "FoundDevice": latcast.find_devices("pixel 4")[0],
        "Kernel": latcast.find_kernels(explained.graph, latcast.load_rules("onnxruntime"))[0],
        "KernelLatency": found.kernels[0],
        "LanguagePrediction": latcast.predict_language_model("qwen2.5-1.5b:q4_0", "galaxy s23 cpu")[0],
        "Measurement": latcast.Measurement(
            PHONE, Reference("model", {"name": "resnet18"}), runs_ms=(2.0, 3.0), rounds=(0, 1), latency_ms=2.5
        ),
        "Memory": explained.memory,
        "NetworkSummary": latcast.models("resnet18")[0],
        "PlatformSummary": latcast.platforms(PHONE)[0],
        "Prediction": found,
        "Sweep": latcast.sweep("resnet18", PHONE, "input=1,3,{96..128..32},="),
    }


@pytest.mark.parametrize("name", result_classes())
def test_every_public_result_is_a_table(name: str) -> None:
    assert issubclass(getattr(latcast, name), Tabular)


@pytest.fixture
def framed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-in for pandas: a frame is its rows."""
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=list))
    monkeypatch.setattr("latcast.extras.require", lambda purpose, *packages: None)


def test_a_result_is_a_frame_and_a_table_of_a_notebook(results: dict[str, Any], framed: None) -> None:
    for name, each in results.items():
        result = each[0] if isinstance(each, list) else each
        rows, shown = result.to_frame(), result._repr_html_()

        assert len(rows), name
        assert all(row and all(isinstance(column, str) for column in row) for row in rows), name
        assert shown.startswith("<table"), name
        assert shown.count("<tr>") >= 2, name


@dataclasses.dataclass(frozen=True)
class Made(Tabular):
    name: str
    latency_ms: float
    parts: tuple[str, ...] = ("a", "b")
    place: Path | None = None

    def _shown(self) -> Any:
        return [plain_fields(self)] * (MOST_SHOWN_ROWS + 3)


def test_a_table_escapes_names_and_says_how_many_rows_it_leaves_out(framed: None) -> None:
    made = Made("<b>", 12.3456)

    assert made.to_frame() == [{"name": "<b>", "latency_ms": 12.3456, "parts": "a, b", "place": None}]
    shown = made._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert "12.35" in shown
    assert shown.count("<tr>") == 1 + MOST_SHOWN_ROWS
    assert "3 more rows" in shown
