"""The network that a user means."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder
from latcast.graph.writers.onnx import to_onnx
from latcast.networks import ModelOptions, models_listed, parse_shapes, read_model, resolve_model
from latcast.records import Reference
from latcast.spaces.catalogue import build, model


def test_a_graph_is_taken_as_it_is() -> None:
    b = GraphBuilder("small")
    graph = b.finish(b.relu(b.input((1, 4, 8, 8))))

    assert read_model(graph) is graph


def test_a_name_stands_for_the_published_network() -> None:
    assert read_model("squeezenet1_1").structure_key == build(model("squeezenet1_1")).structure_key


def test_an_unknown_name_is_answered_with_the_nearest_ones() -> None:
    with pytest.raises(ModelError, match=r"name it 'mobilenet_v1_1.0_224', its precision is the platform's: --on 'DEVICE int8'"):
        read_model("mobilenet_v1_1.0_224_quant")
    with pytest.raises(ModelError, match=r"there is no file 'resnet51', and no published model is called.*resnet50"):
        read_model("resnet51")


@pytest.mark.parametrize(
    ("text", "named"),
    [("yolov8n.pt", "yolo/yolov8n"), ("elsewhere/resnet50.onnx", "resnet50"), ("nobody/whisper-tiny", "whisper_tiny")],
)
def test_a_file_that_is_missing_is_answered_with_networks_of_its_name(text: str, named: str) -> None:
    with pytest.raises(ModelError, match=f"there is no file '{text}'; published networks of such a name: .*{named}"):
        read_model(text)


def test_a_file_that_is_missing_is_never_answered_by_a_network_of_its_name() -> None:
    for text in ("resnet50.onnx", "yolov8n.pt", "mobilenet_v2.tflite"):
        with pytest.raises(ModelError, match="there is no file"):
            resolve_model(text)


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("1,3,224,224", {"": (1, 3, 224, 224)}),
        ("[1, 3, 224, 224]", {"": (1, 3, 224, 224)}),
        ("x=(1,3,8,8)", {"x": (1, 3, 8, 8)}),
        ("images:1x3x640x640", {"images": (1, 3, 640, 640)}),
        ("serve:0=1,8", {"serve:0": (1, 8)}),
    ],
)
def test_sizes_are_read_as_other_tools_write_them(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    assert parse_shapes([text]) == shapes


@pytest.mark.parametrize("text", [":1,2", "=1,2", "x=", "x=1,-1", "[]", "x=1;2"])
def test_what_is_no_shape_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(ModelError, match="is not of the form input=1,3,224,224"):
        parse_shapes([text])


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"Model.mlpackage/Manifest.json": b"{}"}, "is a Core ML model"),
        ({"saved/saved_model.pb": b"", "saved/fingerprint.pb": b""}, "convert it to ONNX .tf2onnx"),
        ({"run/weights.pt": b""}, "such files are pickles"),
        ({"run/notes.md": b""}, "found no model file in this folder"),
    ],
)
def test_a_folder_with_a_model_of_another_format_says_what_to_do_with_it(
    tmp_path: Path, files: dict[str, bytes], said: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match=said):
        models_listed([str(tmp_path / next(iter(files)).partition("/")[0])])


def test_an_empty_text_is_no_folder() -> None:
    with pytest.raises(ModelError, match="found an empty text"):
        models_listed([""])


def test_a_reference_stands_for_its_network_and_keeps_its_name(tmp_path: Path) -> None:
    file = tmp_path / "small.onnx"
    file.write_bytes(to_onnx(build(model("squeezenet1_1"))))

    assert read_model(model("resnet18")).name == "resnet18"
    assert read_model(Reference("resnet", model("resnet18").parameters)).name == "resnet"
    wide = read_model(model("resnet18"), ModelOptions({"input": (1, 3, 256, 256)}))
    assert wide.shape("input") == (1, 3, 256, 256)
    assert read_model(resolve_model(file)).structure_key == read_model(file).structure_key


def test_the_reference_of_a_model_is_of_its_file_or_its_name(tmp_path: Path) -> None:
    file = tmp_path / "small.onnx"
    file.write_bytes(to_onnx(build(model("squeezenet1_1"))))

    assert resolve_model("resnet18") == model("resnet18")
    assert resolve_model(model("resnet18")) == model("resnet18")
    assert resolve_model(str(file)) == resolve_model(file)
    sized = resolve_model(file, ModelOptions({"input": (1, 3, 256, 256)}))
    assert sized.parameters == {**resolve_model(file).parameters, "shapes": {"input": [1, 3, 256, 256]}}
    with pytest.raises(ModelError, match="there is no file 'resnet51'"):
        resolve_model("resnet51")


def test_a_reference_to_a_file_changes_with_its_content(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"one")
    first = resolve_model(path)
    path.write_bytes(b"two")
    assert resolve_model(path).key != first.key
    assert first.parameters["path"] == str(path.resolve())


def test_shapes_without_a_name_are_refused_with_the_form() -> None:
    with pytest.raises(ModelError, match=r"found shapes=\(1, 3, 8, 8\), expected .*shapes=\{'input': \(1, 3, 8, 8\)\}"):
        ModelOptions((1, 3, 8, 8))  # type: ignore[arg-type]
