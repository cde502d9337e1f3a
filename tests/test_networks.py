"""The network that a user means."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder
from latcast.graph.writers.onnx import to_onnx
from latcast.networks import ModelOptions, read_model, resolve_model
from latcast.records import Reference
from latcast.spaces.catalogue import build, model


def test_a_graph_is_taken_as_it_is() -> None:
    b = GraphBuilder("small")
    graph = b.finish(b.relu(b.input((1, 4, 8, 8))))

    assert read_model(graph) is graph


def test_a_name_stands_for_the_published_network() -> None:
    assert read_model("squeezenet1_1").structure_key == build(model("squeezenet1_1")).structure_key


def test_an_unknown_name_is_answered_with_the_nearest_ones() -> None:
    with pytest.raises(ModelError, match=r"there is no file 'resnet51', and no published model is called.*resnet50"):
        read_model("resnet51")


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
