"""Building what a reference stands for."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder
from latcast.graph.writers.onnx import to_onnx
from latcast.networks import resolve_model
from latcast.spaces import build
from latcast.spaces.catalogue import models


def test_named_networks_are_listed_with_their_published_sizes() -> None:
    listed = {network.name: network for network in models()}

    assert listed["resnet50"].family == "resnet"
    assert listed["resnet50"].million_parameters == pytest.approx(25.6, abs=0.1)
    assert list(listed) == sorted(listed)
    assert [network.name for network in models("resnet1?")] == ["resnet18"]
    assert models("no such network") == []


def relu_file(path: Path, channels: int) -> Path:
    builder = GraphBuilder("relu")
    graph = builder.finish(builder.relu(builder.input((1, channels, 4, 4))))
    path.write_bytes(to_onnx(graph))
    return path


def test_a_file_that_changed_since_it_was_measured_is_refused(tmp_path: Path) -> None:
    reference = resolve_model(relu_file(tmp_path / "model.onnx", 3))
    assert build(reference).inputs

    relu_file(tmp_path / "model.onnx", 5)

    with pytest.raises(ModelError, match="the file has changed since it was measured"):
        build(reference)


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    reference = resolve_model(relu_file(tmp_path / "model.onnx", 3))
    (tmp_path / "model.onnx").unlink()

    with pytest.raises(ModelError, match=r"model\.onnx"):
        build(reference)
