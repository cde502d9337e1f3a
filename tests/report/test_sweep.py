"""A network over a size of its inputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from latcast.drawing import plot
from latcast.errors import LatcastError, ModelError
from latcast.forecast import predict
from latcast.graph.builder import GraphBuilder
from latcast.report.sweep import sweep, swept_shapes

PHONE = "pixel4/tflite-2.10/gpu/fp16"
IMAGES = "input=1,3,{128..224..32},="


def test_a_range_with_its_end_and_the_size_before_it() -> None:
    assert [size for size, _ in swept_shapes([IMAGES])] == [128, 160, 192, 224]
    assert swept_shapes(["x=1,3,{64..100..32},="]) == [(64, {"x": (1, 3, 64, 64)}), (96, {"x": (1, 3, 96, 96)})]
    assert [shapes["x"] for _, shapes in swept_shapes(["x={1,2,8},3"])] == [(1, 3), (2, 3), (8, 3)]
    assert [shapes["x"] for _, shapes in swept_shapes(["x={1..3},3,3"])] == [(1, 3, 3), (2, 3, 3), (3, 3, 3)]


def test_ranges_of_several_inputs_go_along() -> None:
    found = swept_shapes(["ids=1,{16..48..16}", "mask=1,{16..48..16}", "kind=1,4"])

    assert found[1] == (32, {"ids": (1, 32), "mask": (1, 32), "kind": (1, 4)})
    assert len(found) == 3


def test_shapes_are_taken_as_they_are() -> None:
    assert [size for size, _ in swept_shapes([{"x": (1, 3, 64, 64)}, {"x": (1, 3, 32, 32)}])] == [64, 32]


@pytest.mark.parametrize(
    "text",
    ["input", "=1,{1..2}", "input=1,{a..b}", "input=1,{1..4..0}", "input={1..2},{1..2}", "input={1..5000}"],
)
def test_a_malformed_range_is_answered_with_the_form(text: str) -> None:
    with pytest.raises(LatcastError, match=r"input=1,3,\{128\.\.320\.\.32\},="):
        swept_shapes([text])


def test_ranges_of_different_lengths_are_refused() -> None:
    with pytest.raises(LatcastError, match="ranges of different lengths"):
        swept_shapes(["ids=1,{1..3}", "mask=1,{1..4}"])


def test_every_point_is_the_prediction_at_its_size() -> None:
    found = sweep("resnet18", PHONE, IMAGES)

    alone = predict("resnet18", on=PHONE, shapes={"input": (1, 3, 160, 160)}, breakdown=False)
    assert (found.model, found.platform, found.varies) == ("resnet18", PHONE, "resolution")
    assert found.points[1].prediction == alone
    latencies = [point.prediction.latency_ms for point in found.points]
    assert latencies == sorted(latencies)


@pytest.mark.parametrize(
    ("shapes", "varies"), [("input={1,2},3,64,64", "batch"), ("input=1,3,{64,96},=", "resolution")],
)  # fmt: skip
def test_a_sweep_names_the_varying_size(shapes: str, varies: str) -> None:
    assert sweep("resnet18", PHONE, shapes).varies == varies


def test_images_whose_channels_come_last_vary_in_resolution() -> None:
    b = GraphBuilder("channels last")
    graph = b.finish(b.relu(b.input((1, 32, 32, 3))))

    assert sweep(graph, PHONE, "1,{32,64},=,3").varies == "resolution"
    assert sweep(graph, PHONE, "1,{32,64},32,3").varies == "channels"


def test_a_graph_and_a_network_of_one_size_are_given_other_shapes() -> None:
    b = GraphBuilder("tokens")
    graph = b.finish(b.linear(b.input((1, 16, 8)), 8))

    found = sweep(graph, PHONE, [{"input": (1, size, 8)} for size in (16, 32)])

    assert (found.varies, [point.size for point in found.points]) == ("length", [16, 32])
    assert [point.size for point in sweep("timm/resnet18", PHONE, "input=1,3,{192,224},=").points] == [192, 224]


def test_sizes_that_a_network_cannot_take_are_left_out_with_the_reason() -> None:
    found = sweep("resnet18", PHONE, [{"input": (1, channels, 64, 64)} for channels in (3, 4)])

    assert [point.size for point in found.points] == [3]
    [(size, reason)] = found.refused
    assert size == 4
    assert "channels" in reason
    with pytest.raises(ModelError, match="channels"):
        sweep("resnet18", PHONE, [{"input": (1, channels, 64, 64)} for channels in (4, 5)])


def test_several_platforms_are_curves_of_one_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = sweep("resnet18", [PHONE, "s10/tflite-2.10/gpu/fp16"], IMAGES)

    axes = plot(found, tmp_path / "sweep.png").axes[0]

    assert [line.get_label() for line in axes.lines] == [PHONE, "s10/tflite-2.10/gpu/fp16"]
    assert list(axes.lines[0].get_xdata()) == [128, 160, 192, 224]
    assert axes.get_xlabel() == "resolution"
    assert found[0].plot().axes[0].get_title() == ""


def test_the_json_form_is_what_scripts_rely_on() -> None:
    document = json.loads(json.dumps(sweep("resnet18", PHONE, IMAGES).to_json()))

    assert list(document) == ["model", "platform", "varies", "points", "refused"]
    assert set(document["points"][0]) == {
        "size", "shapes", "latency_ms", "low_ms", "high_ms", "level", "coverage", "grade", "warnings",
    }  # fmt: skip
    assert document["points"][0]["shapes"] == {"input": [1, 3, 128, 128]}
