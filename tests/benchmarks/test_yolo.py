"""Detectors' graphs have the size that is published, and run."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.named_networks.npu_zoos import HAILO, NETSPRESSO, ROCKCHIP
from benchmarks.named_networks.yolo import HEADS_ALONE, PUBLISHED, graphs
from latcast import model, models
from latcast.graph.operators import graph_macs
from latcast.graph.writers.onnx import to_onnx
from latcast.spaces.catalogue import build


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_and_multiply_accumulates_are_those_published(name: str) -> None:
    _, million_parameters, gflops = PUBLISHED[name]
    called = f"yolo/{name}-heads" if name in HEADS_ALONE else f"yolo/{name}"
    graph = build(model(called))
    # For the transposed convolution of masks the published figures count four times as much.
    transposed = graph.nodes_of_type.get("ConvTranspose", []) if name.endswith("-seg") else []
    counted_twice = sum(3 * graph.shape(each.inputs[0])[1] ** 2 * 4 * 80 * 80 for each in transposed)
    listed = next(each for each in models(called) if each.name == called)

    assert listed.million_parameters == pytest.approx(million_parameters, abs=0.1)
    assert 2 * (graph_macs(graph) + counted_twice) / 1e9 == pytest.approx(gflops, rel=0.01)


POSITIONS = 8 * 8 + 4 * 4 + 2 * 2
MAPS = (8, 4, 2)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("yolov5n", [(1, 3 * POSITIONS, 85)]), ("yolov5n-seg", [(1, 3 * POSITIONS, 117), (1, 32, 16, 16)]),
        ("yolov8n-seg", [(1, 116, POSITIONS), (1, 32, 16, 16)]), ("yolov7-tiny", [(1, 3 * POSITIONS, 85)]),
        ("yolox-s", [(1, POSITIONS, 85)]),
        *((name, [(1, 84, POSITIONS)]) for name in ("yolov5nu", "yolo11n", "yolov6n", "yolov9c", "yolov10n")),
        ("yolov5n-heads", [(1, 255, side, side) for side in MAPS]), ("yolox-s-heads", [(1, 85, side, side) for side in MAPS]),
        ("yolov10n-heads", [(1, channels, side, side) for side in MAPS for channels in (64, 80)]),
        (
            "yolov8n-obb-heads",
            [*((1, channels, side, side) for side in MAPS for channels in (64, 15)), *((1, 1, side, side) for side in MAPS)],
        ),
    ],
)  # fmt: skip
def test_each_kind_runs_and_gives_its_shapes(name: str, shapes: list[tuple[int, ...]]) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    make, _ = graphs()[name]
    session = onnxruntime.InferenceSession(to_onnx(make(name, 64)))

    found = session.run(None, {"images": np.ones((1, 3, 64, 64), dtype=np.float32)})

    assert [each.shape for each in found] == shapes


def test_a_network_without_decoding_does_the_same_convolutions() -> None:
    whole, heads = (build(model(f"yolo/{name}")) for name in ("yolov7-tiny", "yolov7-tiny-heads"))

    assert len(whole.nodes_of_type["Conv"]) == len(heads.nodes_of_type["Conv"])
    assert len(whole.nodes) > len(heads.nodes)


@pytest.mark.parametrize(
    ("space", "name", "make"),
    [
        (space, name, make)
        for space, networks in (("hailo", HAILO), ("rknn", ROCKCHIP), ("netspresso", NETSPRESSO))
        for name, (_, make, _, _) in networks.items()
    ],
)
def test_a_network_of_a_zoo_is_the_one_that_comes_with_latcast(space: str, name: str, make: object) -> None:
    assert callable(make)
    assert graph_macs(make(name)) == graph_macs(build(model(f"{space}/{name}")))
