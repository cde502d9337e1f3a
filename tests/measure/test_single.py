"""A network measured by the runtime that is always there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder
from latcast.measure.labels import combine
from latcast.measure.probe import QuietTimesFile
from latcast.measure.settings import MeasurePlan, WorkerSettings
from latcast.measure.single import measure
from latcast.measure.statistics import normalised_runs
from latcast.records import Reference
from latcast.spaces.catalogue import build, model

PLAN = MeasurePlan(rounds=2, runs_per_round=4, warmup_runs=2, profile=True, profiled_runs=3)


@pytest.fixture
def small() -> Reference:
    """A small convolution, as a single kernel."""
    from latcast.kernels.types import kernel_type

    known = kernel_type("conv")
    values = dict.fromkeys(known.fields, 1) | {
        "in_channels": 16, "in_h": 28, "in_w": 28, "out_channels": 32, "out_h": 28, "out_w": 28, "kernel_h": 3,
        "kernel_w": 3, "padded": 1, "fused_flops": 0, "fused_inputs": 0,
    }  # fmt: skip
    return Reference("kernel/conv", {name: values[name] for name in known.fields}, "small conv")


def test_onnxruntime_measures_a_kernel_and_reports_executed_kernels(small: Reference, tmp_path: Path) -> None:
    quiet_times = QuietTimesFile(tmp_path / "quiet.json")
    measurement = measure(small, WorkerSettings(), PLAN, role="kernel", quiet_times=quiet_times)
    assert measurement.error is None
    assert measurement.platform.startswith("local/onnxruntime-")
    assert measurement.role == "kernel"
    assert len(measurement.runs_ms) == len(measurement.probe_ms) == 8
    assert measurement.latency_ms == pytest.approx(float(np.median(normalised_runs(measurement))), rel=1e-4)
    assert combine([measurement]).rounds == 2
    # The convolution is one of the kernels, whatever layout changes the runtime puts around it.
    (graph_node,) = [node.name for node in build(small).nodes if node.op_type == "Conv"]
    assert graph_node in {name for kernel in measurement.executed for name in kernel.nodes}
    assert all(kernel.latency_ms >= 0 for kernel in measurement.executed)
    assert quiet_times.path.is_file()


def test_a_name_and_a_graph_are_measured_as_their_files_are(tmp_path: Path) -> None:
    b = GraphBuilder("tiny")
    graph = b.finish(b.relu(b.conv(b.input((1, 3, 16, 16)), 4, 3)))
    plan, quiet_times = MeasurePlan(rounds=1, runs_per_round=2, warmup_runs=1), QuietTimesFile(tmp_path / "quiet.json")

    found = measure(graph, plan=plan, quiet_times=quiet_times)

    assert found.ok
    assert (found.reference.space, found.reference.name) == ("file", "tiny")
    assert measure(model("squeezenet1_1"), WorkerSettings(), plan, quiet_times=quiet_times).ok
    with pytest.raises(ModelError, match="there is no file 'squeezenet9'"):
        measure("squeezenet9", plan=plan)
    with pytest.raises(ModelError, match=r"example inputs are for a torch.nn.Module, found str"):
        measure("squeezenet1_1", plan=plan, example_inputs=3)
