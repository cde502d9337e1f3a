"""``latcast search``."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from latcast.measure.settings import WorkerSettings
from latcast.predictors.bundle import load_bundle, save_bundle
from latcast.records import Measurement, Platform, Reference
from latcast.search import constrained_search, result
from latcast.spaces.catalogue import build
from tests.cli.conftest import Latcast
from tests.predictors.made_up_platform import graphs_of, made_up_samples, make_predictor


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    predictor = make_predictor("analytical_gbdt", made_up_samples(graphs_of({"mobilenet_v2": 6, "resnet": 4, "vit": 8}, seed=1)))
    return save_bundle(predictor, tmp_path_factory.mktemp("bundles") / "made_up.zip")


LIMIT_MS = 40
"""Limit on autoformer, made-up platform: some networks keep to it with their interval, others by the prediction alone."""


def test_json_has_picks_that_can_be_built(latcast: Latcast, made_up: Path) -> None:
    found = latcast(
        "search", "autoformer", "--on", made_up, "--max-latency-ms", LIMIT_MS, "--evaluations", 120, "--population", 40,
        "--picks", 3, "--json",
    )  # fmt: skip
    assert found.code == 0, found
    document = found.json
    assert [pick["objective"] for pick in document["picks"]] == sorted((p["objective"] for p in document["picks"]), reverse=True)
    for pick in document["picks"]:
        assert pick["latency_ms"] <= LIMIT_MS
        assert pick["low_ms"] < pick["latency_ms"] < pick["high_ms"]
    assert document["picks"] == document["front"][:3]
    assert build(Reference.from_json(document["picks"][0])).nodes
    assert "'macs' is a size, not an accuracy" in found.err


def test_a_plot_is_drawn(latcast: Latcast, made_up: Path, tmp_path: Path) -> None:
    picture = tmp_path / "front.png"
    found = latcast(
        "search", "autoformer", "--on", made_up, "--max-latency-ms", LIMIT_MS, "--evaluations", 80, "--population", 40,
        "--plot", picture,
    )  # fmt: skip
    assert found.code == 0, found
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert f"front: {picture}" in found.out


def test_the_upper_bound_is_held_to_the_limit_unless_hopeful(latcast: Latcast, made_up: Path) -> None:
    call = (
        "search", "autoformer", "--on", made_up, "--max-latency-ms", LIMIT_MS, "--evaluations", 120, "--population", 40, "--json",
    )  # fmt: skip
    careful, hopeful = latcast(*call).json["picks"], latcast(*call, "--hopeful").json["picks"]
    assert max(pick["high_ms"] for pick in careful) <= LIMIT_MS
    assert max(pick["latency_ms"] for pick in hopeful) <= LIMIT_MS < max(pick["high_ms"] for pick in hopeful)


def test_a_plot_that_cannot_be_drawn_is_refused_before_the_search(
    latcast: Latcast, made_up: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(constrained_search, "search", lambda *args, **options: pytest.fail("searched first"))
    found = latcast("search", "autoformer", "--on", made_up, "--max-latency-ms", LIMIT_MS, "--plot", tmp_path / "front.png")
    assert found.code == 1
    assert "pip install 'latcast[plots]'" in found.err


def test_a_limit_that_nothing_meets_is_one_line(latcast: Latcast, made_up: Path) -> None:
    found = latcast("search", "autoformer", "--on", made_up, "--max-latency-ms", 0.01, "--evaluations", 40, "--population", 40)
    assert found.code == 1
    assert "raise --max-latency-ms" in found.err


def test_measured_picks_are_shown_beside_predictions(latcast: Latcast, made_up: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Reference] = []

    def measured(reference: Reference, settings: WorkerSettings) -> Measurement:
        assert (settings.runtime, settings.threads, settings.precision) == ("onnxruntime", 1, "fp32")
        asked.append(reference)
        error = "made up" if len(asked) == 3 else None
        return Measurement("p", reference, latency_ms=None if error else LIMIT_MS - 1 + 2 * (len(asked) - 1), error=error)

    monkeypatch.setattr(result, "measure", measured)
    found = latcast(
        "search", "autoformer", "--on", made_up, "--max-latency-ms", LIMIT_MS, "--evaluations", 80, "--population", 40,
        "--picks", 3, "--measure", "--json",
    )  # fmt: skip
    assert found.code == 0, found
    assert [pick["measured_ms"] for pick in found.json["picks"]] == [LIMIT_MS - 1, LIMIT_MS + 1, None]
    assert [pick["name"] for pick in found.json["picks"]] == [reference.name for reference in asked]
    assert found.json["within_limit"] == 50  # of the two that could be measured
    assert "could not be measured: made up" in found.err


def test_a_pattern_of_several_platforms_is_refused(latcast: Latcast, made_up: Path, home: Path) -> None:
    for name in ("a", "b"):
        (home / "bundles").mkdir(parents=True, exist_ok=True)
        save_bundle(
            replace(load_bundle(made_up), platform=Platform.parse(f"{name}/tflite-2.10/gpu/fp16")), home / f"bundles/{name}.zip"
        )

    reason = latcast("search", "autoformer", "--on", "*/gpu/*", "--max-latency-ms", LIMIT_MS).reason

    assert reason == "--on '*/gpu/*' names 2 platforms, expected one: a/tflite-2.10/gpu/fp16, b/tflite-2.10/gpu/fp16"


def test_picks_are_exported_as_models_with_the_same_prediction(latcast: Latcast, made_up: Path, tmp_path: Path) -> None:
    call = (
        "search", "autoformer", "--on", made_up, "--max-latency-ms", LIMIT_MS, "--evaluations", 40, "--population", 40,
        "--picks", 1, "--export", tmp_path / "picks",
    )  # fmt: skip
    picks = latcast(*call, "--json").json["picks"]
    assert [Path(pick["file"]).name for pick in picks] == [f"{pick['name']}.onnx" for pick in picks]
    again = latcast("predict", *[pick["file"] for pick in picks], "--on", made_up, "--json").json["predictions"]
    assert [each["latency_ms"] for each in again] == pytest.approx([pick["latency_ms"] for pick in picks], rel=1e-6)


def test_picks_are_drawn_in_the_terminal_unless_json_is_asked_for(latcast: Latcast, made_up: Path) -> None:
    call = (
        "search", "autoformer", "--on", made_up, "--max-latency-ms", LIMIT_MS, "--evaluations", 40, "--population", 40,
        "--picks", 2, "--plot", "-",
    )  # fmt: skip
    assert re.search(r"[|│] 40 ms$", latcast(*call).out)
    assert latcast(*call, "--json").code == 2
