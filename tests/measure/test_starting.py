"""A start is timed in two parts: loading a file of the runtime's own, and the first run."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.errors import MeasurementError
from latcast.graph.builder import GraphBuilder
from latcast.graph.writers.onnx import to_onnx
from latcast.measure.record import loading_ms
from latcast.measure.settings import START_PLAN, MeasurePlan, WorkerSettings
from latcast.measure.single import measure
from latcast.runtimes import get_runtime


@pytest.mark.parametrize("name", ["onnxruntime", "openvino", "litert", "ncnn", "mnn"])
def test_every_runtime_of_files_times_the_start_of_a_network(name: str) -> None:
    if (reason := get_runtime(name).available()) is not None:
        pytest.skip(reason)

    found = measure("squeezenet1_1", WorkerSettings(name), START_PLAN, role="start")

    assert found.error is None
    assert found.role == "start"
    assert len(found.runs_ms) == 1
    assert loading_ms(found) > 0
    moment = found.environment["moment"]
    assert moment["page_cache"] == "warm"
    # 1.24 million weights of 4 bytes, whatever the format says beside them.
    assert 4.9e6 < moment["file_bytes"] < 5.6e6


def test_a_file_of_the_runtime_starts_as_it_is(tmp_path: Path) -> None:
    b = GraphBuilder("small")
    path = tmp_path / "small.onnx"
    path.write_bytes(to_onnx(b.finish(b.relu(b.conv(b.input((1, 3, 32, 32)), 8, 3)))))

    found = measure(path, WorkerSettings("onnxruntime"), START_PLAN, role="start")

    assert found.error is None
    assert found.environment["moment"]["file_bytes"] == path.stat().st_size


def test_a_plan_names_what_the_memory_holds_of_the_file() -> None:
    with pytest.raises(MeasurementError, match="expected one of warm, dropped"):
        MeasurePlan(start="cold")
