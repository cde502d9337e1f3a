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


def synthetic_weights(graph: Graph, *, seed: int = 0, compressible: bool = False) -> Mapping[str, np.ndarray]:
    """Return the values for every weight of the graph, scaled so that activations neither explode nor turn subnormal.

    Matrices and filters are normal with variance 2 / fan-in; normalisation scales and variances lie near 1, biases near 0.

    Args:
        graph: The network.
        seed: Equal seeds, equal values.
        compressible: Whether the values repeat so often that a file of them packs to a few percent of its size. They are
            equally distributed and not 0; normalisations have one variance and few scales, as what is folded into filters
            must repeat too.
    """
    first_reader: dict[str, Node] = {}
    for node in graph.nodes:
        for name in node.inputs:
            if name in graph.weights:
                first_reader.setdefault(name, node)
    return {name: _draw(graph, name, first_reader.get(name), seed, compressible=compressible) for name in sorted(graph.weights)}


_POOL_SIZE = 1_048_573
"""A prime, so that no row of a matrix begins like the one before."""

_REPEATING_POOL_SIZE = 1021
"""A prime too: both scales of the pool fit several times into the 32 kB in which zip finds repetitions, and most layers have
fewer channels. Where one has more, outputs repeat, and what the next layer sums cancels less."""

_REPEATING_SCALES = np.array([0.9, 1.1], dtype=np.float32)
"""Scales of normalisations; few, since each changes the values of the filters that it is folded into."""


@lru_cache(maxsize=2)
def _pool(seed: int) -> np.ndarray:
    return np.random.default_rng([seed, _POOL_SIZE]).standard_normal(2 * _POOL_SIZE, dtype=np.float32)


def _repeating_pool(seed: int) -> np.ndarray:
    """Return numbers of mean 0, since another mean would add up over the channels of every layer."""
    values = _pool(seed)[:_REPEATING_POOL_SIZE]
    return np.tile(values - values.mean(), 2)


def _normal(shape: Shape, rng: np.random.Generator, pool: np.ndarray) -> np.ndarray:
    """Return standard normal numbers, repeated from a pool that is given twice over, from a place that the generator draws.

    Drawing a hundred million fresh ones takes seconds, and a runtime does not mind the repetition.
    """
    count, size = prod(shape), len(pool) // 2
    start = int(rng.integers(size))
    period = pool[start : start + size]
    return np.resize(period, count).reshape(shape) if count > size else period[:count].reshape(shape).copy()


def _draw(graph: Graph, name: str, reader: Node | None, seed: int, *, compressible: bool) -> np.ndarray:
    tensor = graph.tensors[name]
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    op_type, position = (reader.op_type, reader.inputs.index(name)) if reader is not None else ("", 0)
    if (op_type == "BatchNormalization" and position in (1, 4)) or ("Normalization" in op_type and position == 1):
        if not compressible:
            values = rng.uniform(0.8, 1.2, tensor.shape)
        else:
            values = rng.choice(_REPEATING_SCALES, tensor.shape) if position == 1 else np.ones(tensor.shape)
    elif len(tensor.shape) >= 2:
        if op_type in ("Conv", "ConvInteger"):
            fan_in = int(np.prod(tensor.shape[1:]))
        elif op_type == "Gemm" and reader is not None and reader.attributes.get("transB", 0):
            fan_in = tensor.shape[1]
        else:
            fan_in = int(np.prod(tensor.shape[:-1])) if op_type == "ConvTranspose" else tensor.shape[-2]
        values = _normal(tensor.shape, rng, _repeating_pool(seed) if compressible else _pool(seed))
        values *= np.float32((2.0 / max(fan_in, 1)) ** 0.5)
    else:
        values = rng.standard_normal(tensor.shape) * 0.05
    dtype = np.float32 if tensor.dtype not in ("float16", "float64", "int64", "int32") else tensor.dtype
    return values.astype(dtype, copy=False)
