"""Running graphs in ONNX Runtime on one thread, with made-up weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime

from latcast.graph.ir import Graph
from latcast.graph.writers.onnx import to_onnx

Array = np.ndarray[Any, Any]


def run_file(content: bytes, feeds: Mapping[str, Array], outputs: Sequence[str], **entries: str) -> list[Array]:
    """Run a file without optimisations; ``entries`` are configured for the session."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for name, value in entries.items():
        options.add_session_config_entry(f"session.{name}", value)
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return [np.asarray(value) for value in session.run(list(outputs), dict(feeds))]


def run(graph: Graph, *inputs: Array, seed: int = 0, feeds: Mapping[str, Array] | None = None) -> list[Array]:
    """Return the outputs of a graph, on random inputs unless they are given; weights depend on the seed and on names alone."""
    if inputs:
        feeds = dict(zip(graph.inputs, inputs, strict=True))
    elif feeds is None:
        rng = np.random.default_rng(seed)
        feeds = {name: rng.standard_normal(graph.shape(name)).astype(np.float32) for name in graph.inputs}
    return run_file(to_onnx(graph, seed=seed), feeds, graph.outputs)


def run_first(graph: Graph, *inputs: Array) -> Array:
    """Return the first output."""
    return run(graph, *inputs)[0]


def image(graph: Graph, seed: int = 0) -> Array:
    """Return noise in the shape of the graph's input."""
    return np.random.default_rng(seed).standard_normal(graph.shape(graph.inputs[0]), dtype=np.float32)
