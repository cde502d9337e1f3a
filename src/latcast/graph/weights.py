"""Synthetic weights for writing a graph to a file.

Latency does not depend on values as long as they are ordinary numbers, so a graph keeps none. Writers draw them here, from
the seed and the tensor's name alone: the same graph written to ONNX, TFLite and ncnn holds the same weights, and what the
three compute can be compared.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import lru_cache
from math import prod

import numpy as np

from latcast.graph.ir import Graph, Node, Shape


def _role(node: Node, tensor: str) -> tuple[str, int]:
    return node.op_type, node.inputs.index(tensor)


def synthetic_weights(graph: Graph, *, seed: int = 0) -> Mapping[str, np.ndarray]:
    """Values for every weight of the graph, scaled so that activations neither explode nor turn subnormal.

    Matrices and filters are normal with variance 2 / fan-in; normalisation scales and variances lie near 1, biases near 0.
    """
    first_reader: dict[str, Node] = {}
    for node in graph.nodes:
        for name in node.inputs:
            if name in graph.weights:
                first_reader.setdefault(name, node)
    return {name: _draw(graph, name, first_reader.get(name), seed) for name in sorted(graph.weights)}


_POOL_SIZE = 1_048_573
"""A prime, so that no row of a matrix begins like the one before."""


@lru_cache(maxsize=2)
def _pool(seed: int) -> np.ndarray:
    return np.random.default_rng([seed, _POOL_SIZE]).standard_normal(2 * _POOL_SIZE, dtype=np.float32)


def _normal(shape: Shape, rng: np.random.Generator, seed: int) -> np.ndarray:
    """Standard normal numbers, repeated from a pool of a million, begun where the generator says.

    Drawing a hundred million fresh ones takes seconds, and a runtime does not mind the repetition.
    """
    count = prod(shape)
    start = int(rng.integers(_POOL_SIZE))
    period = _pool(seed)[start : start + _POOL_SIZE]
    return np.resize(period, count).reshape(shape) if count > _POOL_SIZE else period[:count].reshape(shape).copy()


def _draw(graph: Graph, name: str, reader: Node | None, seed: int) -> np.ndarray:
    tensor = graph.tensors[name]
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    op_type, position = _role(reader, name) if reader is not None else ("", 0)
    if (op_type == "BatchNormalization" and position in (1, 4)) or ("Normalization" in op_type and position == 1):
        values = rng.uniform(0.8, 1.2, tensor.shape)
    elif len(tensor.shape) >= 2:
        if op_type in ("Conv", "ConvInteger"):
            fan_in = int(np.prod(tensor.shape[1:]))
        elif op_type == "Gemm" and reader is not None and reader.attributes.get("transB", 0):
            fan_in = tensor.shape[1]
        else:
            fan_in = int(np.prod(tensor.shape[:-1])) if op_type == "ConvTranspose" else tensor.shape[-2]
        values = _normal(tensor.shape, rng, seed)
        values *= np.float32((2.0 / max(fan_in, 1)) ** 0.5)
    else:
        values = rng.standard_normal(tensor.shape) * 0.05
    dtype = np.float32 if tensor.dtype not in ("float16", "float64", "int64", "int32") else tensor.dtype
    return values.astype(dtype, copy=False)
