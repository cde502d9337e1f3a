"""Fusion and threads on the machine at hand."""

from __future__ import annotations

from typing import Any

import pytest

from latcast.spaces.catalogue import model
from papers.peva.live_analysis import analyse_live, latency_ms_by_operation


def event(op_name: str, microseconds: int, *shapes: list[int]) -> dict[str, Any]:
    arguments = {"op_name": op_name, "input_type_shape": [{"float": shape} for shape in shapes]}
    return {"cat": "Node", "name": f"node_{op_name}_kernel_time", "dur": microseconds, "args": arguments}


def test_convolutions_are_told_apart_by_their_weights_and_all_runs_share_the_time() -> None:
    events = [
        event("Conv", 300, [1, 32, 14, 14], [64, 32, 3, 3]),
        event("FusedConv", 100, [1, 32, 14, 14], [64, 32, 1, 1]),
        event("Conv", 50, [1, 32, 14, 14], [32, 1, 3, 3]),
        event("Conv", 70, [1, 32, 14, 14], [32, 8, 3, 3]),
        event("Conv", 20, [1, 1, 14, 14], [32, 1, 3, 3]),
        event("Relu", 10, [1, 32, 14, 14]),
        event("GlobalAveragePool", 6, [1, 32, 14, 14]),
        {"cat": "Session", "name": "model_run", "dur": 1000},
    ]

    assert latency_ms_by_operation(events, 2) == pytest.approx(
        {
            "convolution": 0.21,
            "depthwise convolution": 0.025,
            "grouped convolution": 0.035,
            "element-wise": 0.005,
            "mean": 0.003,
        }
    )


def test_fusion_leaves_fewer_kernels_and_one_core_has_no_threads_to_compare() -> None:
    fusion, by_operation, threads, threads_by_operation = analyse_live([model("mobilenet_v1_0_25")], runs=2, threads=1)

    [row] = fusion.rows
    assert row[1] > row[2] > 27  # type: ignore[operator]  # 27 convolutions and more
    assert {"convolution", "depthwise convolution", "element-wise"} <= set(by_operation.column("operation"))
    assert threads.rows == threads_by_operation.rows == ()
    assert threads.notes == threads_by_operation.notes == ("not run: this process may use one core only",)


def test_two_threads_are_compared_by_network_and_by_operation() -> None:
    _, _, threads, by_operation = analyse_live([model("mobilenet_v1_0_25")], runs=2, threads=2)

    [row] = threads.rows
    assert row[4] == pytest.approx(float(row[2]) / float(row[3]))  # type: ignore[arg-type]
    assert row[5] == pytest.approx(50 * float(row[4]))  # type: ignore[arg-type]
    assert "convolution" in by_operation.column("operation")
