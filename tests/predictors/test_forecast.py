"""Whatever a user calls a model, on whatever a user calls a platform."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from latcast.errors import ModelError, UnknownOperatorError, UnknownPlatformError
from latcast.graph.builder import GraphBuilder
from latcast.predictors.bundle import save_bundle
from latcast.predictors.forecast import as_graph, load_predictor, predict, predict_many
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.runtimes.contract import unknown_operator_graph
from latcast.spaces.catalogue import build, model


def test_a_graph_is_taken_as_it_is() -> None:
    b = GraphBuilder("small")
    graph = b.finish(b.relu(b.input((1, 4, 8, 8))))

    assert as_graph(graph) is graph


def test_a_name_stands_for_the_published_network() -> None:
    assert as_graph("squeezenet1_1") == build(model("squeezenet1_1"))


def test_an_unknown_name_is_answered_with_the_nearest_ones() -> None:
    with pytest.raises(ModelError, match=r"there is no file 'resnet51', and no published model is called.*resnet50"):
        as_graph("resnet51")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nowhere\.onnx"):
        as_graph(tmp_path / "nowhere.onnx")


def test_only_strictness_minds_an_operator_outside_the_table(predictor: PlatformPredictor) -> None:
    graph = unknown_operator_graph()

    assert predict(graph, predictor).coverage.uncovered == ("NoSuchOperator",)
    with pytest.raises(UnknownOperatorError, match=r"unknown_operator: no entry in the operator table for NoSuchOperator"):
        predict(graph, predictor, strict=True)


def test_many_at_once_are_priced_as_one_by_one(predictor: PlatformPredictor) -> None:
    names = ["squeezenet1_1", "resnet18"]

    together = predict_many(names, predictor)

    assert together == [predict(name, predictor, breakdown=False) for name in names]


def test_kernels_and_overhead_add_up_to_the_latency(predictor: PlatformPredictor) -> None:
    found = predict("resnet18", predictor)

    assert found.overhead_ms + sum(kernel.latency_ms for kernel in found.kernels) == pytest.approx(found.latency_ms)
    assert found.low_ms < found.latency_ms < found.high_ms


def test_a_bundle_predicts_as_before_it_was_saved_and_is_read_again_once_replaced(
    predictor: PlatformPredictor, tmp_path: Path
) -> None:
    path = save_bundle(predictor, tmp_path / "bundle.zip")
    before = predict("resnet18", path).latency_ms

    assert before == pytest.approx(predict("resnet18", predictor).latency_ms, rel=1e-9)
    assert load_predictor(path) is load_predictor(path)

    path.unlink()
    slower = replace(predictor, network=replace(predictor.network, constant_ms=predictor.network.constant_ms + 1))
    save_bundle(slower, path)
    assert predict("resnet18", path).latency_ms == pytest.approx(before + 1)


def test_an_unknown_platform_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path))
    with pytest.raises(UnknownPlatformError, match="no-such-device"):
        predict("resnet18", "no-such-device/onnxruntime-9.9/cpu1/fp32")
