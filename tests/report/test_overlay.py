"""Latencies on graphs that other tools show."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from latcast.errors import LatcastError
from latcast.graph.importers import load_graph
from latcast.graph.importers.tflite_file import TfliteFile
from latcast.graph.writers.onnx import to_onnx
from latcast.graph.writers.tflite import write_tflite
from latcast.networks import read_model
from latcast.platforms import load
from latcast.report.overlay import node_data, write_overlay
from latcast.spaces.catalogue import build, model

PHONE = "pixel4/tflite-2.10/gpu/fp16"


@pytest.fixture(scope="module")
def onnx_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "resnet18.onnx"
    path.write_bytes(to_onnx(build(model("timm/resnet18"))))
    return path


def test_node_data_has_the_schema_of_model_explorer_and_every_millisecond(onnx_file: Path) -> None:
    graph = read_model(onnx_file)
    found = load(PHONE).predict(graph)

    data = json.loads(json.dumps(node_data(found, graph)))

    assert set(data) == {"name", "results", "gradient"}
    assert {key for result in data["results"].values() for key in result} == {"value"}
    assert (data["gradient"][0]["stop"], data["gradient"][-1]["stop"]) == (0, 1)
    whole_ms = sum(result["value"] for result in data["results"].values())
    assert whole_ms == pytest.approx(found.latency_ms - found.overhead_ms, abs=1e-4)
    first = found.kernels[0]
    stored = {node.name: node for node in onnx.load(onnx_file).graph.node}
    assert data["results"][stored[first.nodes[0]].output[0]]["value"] == pytest.approx(first.latency_ms, abs=1e-6)
    assert data["results"][stored[first.nodes[1]].output[0]]["value"] == 0.0


def test_of_a_tflite_file_every_operator_is_found_by_its_tensor(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(write_tflite(build(model("mobilenet_v2"))).data)
    graph = read_model(path)
    found = load(PHONE).predict(graph)

    results = node_data(found, graph)["results"]

    file = TfliteFile(path).subgraph(0)
    tensors = [file.tensors[operator.outputs[0]].name for operator in file.operators]
    assert len(tensors) > 60
    assert sum(results[name]["value"] for name in tensors) == pytest.approx(found.latency_ms - found.overhead_ms, abs=1e-4)


def test_an_annotated_file_is_the_same_network_with_latencies(onnx_file: Path, tmp_path: Path) -> None:
    graph = read_model(onnx_file)
    found = load(PHONE).predict(graph)

    path = write_overlay(found, graph, tmp_path / "latency.onnx", str(onnx_file))

    stored = onnx.load(path)
    onnx.checker.check_model(stored)
    assert load_graph(path).structure_key == graph.structure_key
    by_node = {node.name: {entry.key: entry.value for entry in node.metadata_props} for node in stored.graph.node}
    whole_ms = sum(float(each["latcast.latency_ms"]) for each in by_node.values())
    assert whole_ms == pytest.approx(found.latency_ms - found.overhead_ms, rel=1e-4)
    first = found.kernels[0]
    assert by_node[first.name]["latcast.limit"] == first.limit
    assert f"ms on {PHONE}, as one kernel: Conv + BatchNormalization + Relu" in stored.graph.node[0].doc_string
    assert f"in the kernel of {first.name}" in stored.graph.node[1].doc_string
    assert {entry.key: entry.value for entry in stored.metadata_props}["latcast.platform"] == PHONE


def test_an_overlay_of_another_kind_or_over_the_model_is_refused(onnx_file: Path, tmp_path: Path) -> None:
    graph = read_model(onnx_file)
    found = load(PHONE).predict(graph)

    with pytest.raises(LatcastError, match=r"neither a \.json file \(Model Explorer\) nor an \.onnx file"):
        write_overlay(found, graph, tmp_path / "x.txt", str(onnx_file))
    with pytest.raises(LatcastError, match="found 'resnet18'; give a"):
        write_overlay(found, graph, tmp_path / "x.onnx", "resnet18")
    with pytest.raises(LatcastError, match="is the model itself"):
        write_overlay(found, graph, onnx_file, str(onnx_file))
