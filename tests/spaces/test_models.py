"""What users call a model, and the names that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder
from latcast.graph.writers.onnx import to_onnx
from latcast.records import Reference
from latcast.spaces.catalogue import build, model
from latcast.spaces.models import as_graph, file_reference, model_reference, models


def test_a_graph_is_taken_as_it_is() -> None:
    b = GraphBuilder("small")
    graph = b.finish(b.relu(b.input((1, 4, 8, 8))))

    assert as_graph(graph) is graph


def test_a_name_stands_for_the_published_network() -> None:
    assert as_graph("squeezenet1_1").structure_key == build(model("squeezenet1_1")).structure_key


def test_an_unknown_name_is_answered_with_the_nearest_ones() -> None:
    with pytest.raises(ModelError, match=r"there is no file 'resnet51', and no published model is called.*resnet50"):
        as_graph("resnet51")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nowhere\.onnx"):
        as_graph(tmp_path / "nowhere.onnx")


def test_a_reference_stands_for_its_network_and_keeps_its_name(tmp_path: Path) -> None:
    file = tmp_path / "small.onnx"
    file.write_bytes(to_onnx(build(model("squeezenet1_1"))))

    assert as_graph(model("resnet18")).name == "resnet18"
    assert as_graph(Reference("resnet", model("resnet18").parameters)).name == "resnet"
    wide = as_graph(model("resnet18"), shapes={"input": (1, 3, 256, 256)})
    assert wide.shape("input") == (1, 3, 256, 256)
    assert as_graph(file_reference(file)).structure_key == as_graph(file).structure_key


def test_the_reference_of_a_model_is_of_its_file_or_its_name(tmp_path: Path) -> None:
    file = tmp_path / "small.onnx"
    file.write_bytes(to_onnx(build(model("squeezenet1_1"))))

    assert model_reference("resnet18") == model("resnet18")
    assert model_reference(model("resnet18")) == model("resnet18")
    assert model_reference(str(file)) == model_reference(file) == file_reference(file)
    sized = model_reference(file, {"input": (1, 3, 256, 256)})
    assert sized.parameters == {**file_reference(file).parameters, "shapes": {"input": [1, 3, 256, 256]}}
    with pytest.raises(ModelError, match="there is no file 'resnet51'"):
        model_reference("resnet51")


def test_named_networks_are_listed_with_their_published_sizes() -> None:
    listed = {network.name: network for network in models()}

    assert listed["resnet50"].family == "resnet"
    assert listed["resnet50"].million_parameters == pytest.approx(25.6, abs=0.1)
    assert list(listed) == sorted(listed)
    assert [network.name for network in models("resnet1?")] == ["resnet18"]
    assert {"resnet18", "se_resnet50"} <= {network.name for network in models("resnet")}
    assert models("no such network") == []


def test_a_reference_to_a_file_changes_with_its_content(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"one")
    first = file_reference(path)
    path.write_bytes(b"two")
    assert file_reference(path).key != first.key
    assert first.parameters["path"] == str(path.resolve())
