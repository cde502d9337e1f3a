"""Counting learned values as papers and model zoos do, to compare with what they print."""

from __future__ import annotations

from math import isqrt

from latcast.graph.ir import Graph


def published_count(graph: Graph) -> int:
    """Learned values of a graph, without the running statistics of batch normalisation, which no gradient reaches.

    A gathered relative position bias, (heads, window², window²), counts as the table it is gathered from, with
    (2 window - 1)² values a head.
    """
    statistics = {name for node in graph.nodes if node.op_type == "BatchNormalization" for name in node.inputs[3:5]}
    total = 0
    for name in graph.weights - statistics:
        shape = graph.shape(name)
        if name.startswith("relative_position_bias"):
            total += shape[0] * (2 * isqrt(shape[-1]) - 1) ** 2
        else:
            total += graph.tensors[name].elements
    return total
