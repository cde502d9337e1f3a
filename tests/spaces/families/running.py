"""Running a graph in ONNX Runtime with its made-up weights."""

from __future__ import annotations

import numpy as np

from latcast.graph.ir import Graph
from latcast.graph.writers.onnx import to_onnx


def run(graph: Graph, *images: np.ndarray) -> np.ndarray:
    """The graph's first output on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(to_onnx(graph), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, dict(zip(graph.inputs, images, strict=True)))[0])


def image(graph: Graph, seed: int = 0) -> np.ndarray:
    """Noise in the shape of the graph's input."""
    return np.random.default_rng(seed).standard_normal(graph.shape(graph.inputs[0]), dtype=np.float32)
