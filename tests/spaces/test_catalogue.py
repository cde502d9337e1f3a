"""Building what a reference stands for."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder
from latcast.graph.writers.onnx import to_onnx
from latcast.networks import resolve_model
from latcast.records import Reference
from latcast.spaces import build
from latcast.spaces.catalogue import model, models


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


def test_a_cell_of_nas_bench_201_is_named_by_its_text() -> None:
    cell = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|none~0|none~1|skip_connect~2|"

    assert model(cell) == Reference("nas_bench_201", {"cell": cell}, cell)
    # The stem, one in each of five cells in three stages, and between stages a residual block of two and its shortcut.
    assert sum(node.op_type == "Conv" for node in build(model(cell)).nodes) == 1 + 3 * 5 + 2 * 3
