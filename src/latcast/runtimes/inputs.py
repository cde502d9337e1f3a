"""The inputs that networks are run on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latcast.errors import RuntimeFailure
from latcast.graph.ir import Graph


def random_inputs(graph: Graph, *, seed: int = 0) -> list[np.ndarray]:
    """Seeded inputs in the graph's order: standard normal, or 0 and 1 where the network reads integers; always float32."""
    rng = np.random.default_rng(seed)
    inputs = []
    for name in graph.inputs:
        tensor = graph.tensors[name]
        if "float" in tensor.dtype:
            inputs.append(rng.standard_normal(tensor.shape, dtype=np.float32))
        else:
            inputs.append(rng.integers(0, 2, tensor.shape).astype(np.float32))
    return inputs


def checked_inputs(graph: Graph, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The inputs as arrays in the element types that the graph gives them.

    Raises:
        RuntimeFailure: Their number or a shape is not the graph's.
    """
    if len(inputs) != len(graph.inputs):
        names = ", ".join(graph.inputs)
        raise RuntimeFailure(f"'{graph.name}' has {len(graph.inputs)} input(s) ({names}); {len(inputs)} were given")
    arrays = []
    for name, given in zip(graph.inputs, inputs, strict=True):
        tensor = graph.tensors[name]
        if tuple(given.shape) != tensor.shape:
            raise RuntimeFailure(
                f"input '{name}' of '{graph.name}' has the shape {list(tensor.shape)}; an array of {list(given.shape)} was given"
            )
        arrays.append(np.ascontiguousarray(given, dtype=tensor.dtype).reshape(tensor.shape))
    return arrays
