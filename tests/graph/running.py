"""Running a graph with made-up weights, to see whether a pass keeps what it computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime

from latcast.graph.ir import Graph
from latcast.graph.writers.onnx import to_onnx

Array = np.ndarray[Any, Any]


def run(graph: Graph, *, seed: int = 0, feeds: Mapping[str, Array] | None = None) -> list[Array]:
    """The outputs of a graph, on random inputs unless they are given; weights depend on the seed and on names alone."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(to_onnx(graph, seed=seed), options, providers=["CPUExecutionProvider"])
    if feeds is None:
        rng = np.random.default_rng(seed)
        feeds = {name: rng.standard_normal(graph.shape(name)).astype(np.float32) for name in graph.inputs}
    return [np.asarray(value) for value in session.run(list(graph.outputs), dict(feeds))]
