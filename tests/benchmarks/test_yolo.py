"""YOLO's graphs have the size that is published, and run."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.named_networks.yolo import PUBLISHED
from latcast import model, models
from latcast.graph.operators import graph_macs
from latcast.graph.writers.onnx import to_onnx
from latcast.spaces.catalogue import build


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_and_multiply_accumulates_are_those_published(name: str) -> None:
    _, million_parameters, gflops = PUBLISHED[name]
    graph = build(model(f"yolo/{name}"))
    # For the transposed convolution of masks the published figures count four times as much.
    [transposed] = graph.nodes_of_type.get("ConvTranspose", [None])
    counted_twice = 0 if transposed is None else 3 * graph.shape(transposed.inputs[0])[1] ** 2 * 4 * 80 * 80
    listed = next(each for each in models(f"yolo/{name}") if each.name == f"yolo/{name}")

    assert listed.million_parameters == pytest.approx(million_parameters, abs=0.06)
    assert 2 * (graph_macs(graph) + counted_twice) / 1e9 == pytest.approx(gflops, rel=0.01)


@pytest.mark.parametrize("name", ["yolov5n", "yolov5nu", "yolov8n-seg", "yolo11n"])
def test_each_kind_runs_and_gives_its_shapes(name: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    make, _, _ = PUBLISHED[name]
    graph = make(name, 64)
    session = onnxruntime.InferenceSession(to_onnx(graph))

    found = session.run(None, {"images": np.ones((1, 3, 64, 64), dtype=np.float32)})

    positions = 8 * 8 + 4 * 4 + 2 * 2
    expected = {"yolov5n": [(1, 3 * positions, 85)], "yolov8n-seg": [(1, 116, positions), (1, 32, 16, 16)]}
    assert [each.shape for each in found] == expected.get(name, [(1, 84, positions)])
