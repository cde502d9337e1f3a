"""Costs of an app's loop: only those that were timed have a number."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.predictors.prediction import Coverage, Grade, KernelLatency, Prediction
from latcast.report import app
from latcast.report.app import AppPart, app_parts


@pytest.fixture(autouse=True)
def _costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ship costs of one runtime that are easy to reckon with."""

    def cost(value: float) -> Mapping[str, float]:
        return {"value": value, "low": 0.5 * value, "high": 2 * value}

    costs = {
        "input_ms_per_mb": cost(0.1), "output_ms_per_mb": cost(0.2),
        "pause_33ms_threads1": {"value": 1.2, "low": 0.9, "high": 1.5},
    }  # fmt: skip
    shipped = tmp_path / "app_costs.json"
    shipped.write_text(
        json.dumps({"litert": {"machine": "a board", "costs": costs}, "numpy": {"costs": {"image_ms_per_mb": cost(2.0)}}}),
        encoding="utf-8",
    )
    monkeypatch.setattr(app, "SHIPPED", shipped)
    app._shipped.cache_clear()


def network() -> Graph:
    """Return a network of 6 MB of image, a copy of it, a convolution and 2.5 MB of output."""
    b = GraphBuilder("net")
    image = b.input((1, 3, 500, 1000))
    return b.finish(b.conv(b.relu(image), 5, 1, stride=2))


def prediction(graph: Graph, platform: str) -> Prediction:
    kernels = tuple(KernelLatency(node.name, "any", (node.op_type,), {}, 4.0, True, nodes=(node.name,)) for node in graph.nodes)
    return Prediction("net", platform, 10.0, 9.0, 12.0, Coverage(1.0, ()), Grade.of(3.0, ""), kernels=kernels)


def parts_on(platform: str) -> tuple[str, dict[str, AppPart]]:
    graph = network()
    basis, parts = app_parts(graph, prediction(graph, platform))
    return basis, {part.name: part for part in parts}


def test_copies_and_images_are_priced_by_the_megabyte_and_a_pause_by_the_latency() -> None:
    basis, parts = parts_on("local/litert-2.3/cpu1/fp32")

    assert "a board" in basis
    assert parts["copy 6 MB of inputs in"].added_ms == pytest.approx(0.6)
    assert parts["copy 2.5 MB of outputs out"].high_ms == pytest.approx(1.0)
    assert parts["make floats of an image's bytes"].low_ms == pytest.approx(6.0)
    assert parts["wait 33 ms for the next frame"].added_ms == pytest.approx(2.0)


def test_a_pause_that_makes_runs_shorter_adds_nothing() -> None:
    _, parts = parts_on("local/litert-2.3/cpu1/fp32")

    assert parts["wait 33 ms for the next frame"].low_ms == 0


def test_kernels_before_the_first_layer_are_said_to_be_in_the_latency() -> None:
    _, parts = parts_on("local/litert-2.3/cpu1/fp32")

    assert "4 ms" in parts["1 kernels before the first layer"].advice
    assert not [name for name in parts if "after the last layer" in name]


@pytest.mark.parametrize(
    "platform",
    ["pixel4/litert-2.3/cpu1/fp32", "local/litert-2.3/gpu/fp32", "local/mnn-3.6/cpu1/fp32"],
    ids=["another device", "another unit", "another runtime"],
)
def test_what_was_not_timed_there_has_no_number(platform: str) -> None:
    basis, parts = parts_on(platform)

    assert platform in basis
    assert parts["copy 6 MB of inputs in"].added_ms is None
    assert parts["another size in every run"].added_ms is None


def test_a_cost_that_was_not_timed_in_the_runtime_has_no_number() -> None:
    _, parts = parts_on("local/litert-2.3/cpu2/fp32")

    assert parts["wait 33 ms for the next frame"].added_ms is None
    assert parts["copy 6 MB of inputs in"].added_ms is not None
