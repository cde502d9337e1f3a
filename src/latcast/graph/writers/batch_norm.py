"""Folding batch normalisations into the convolutions before them, weights included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import numpy as np

from latcast.graph.ir import Graph, Node


def fold_batch_norms(graph: Graph, weights: Mapping[str, np.ndarray]) -> tuple[Graph, dict[str, np.ndarray]]:
    """Folds every BatchNormalization whose input is a convolution's only use into that convolution.

    Returns:
        The graph without them (the convolution then writes the normalisation's output, and has a bias) and the weights, the
        folded ones under new names.
    """
    values = dict(weights)
    tensors = dict(graph.tensors)
    folded: dict[str, Node] = {}
    dropped: set[str] = set()
    for norm in graph.nodes:
        conv = graph.producers.get(norm.inputs[0]) if norm.op_type == "BatchNormalization" else None
        foldable = (
            conv is not None
            and conv.op_type == "Conv"
            and len(graph.consumers[norm.inputs[0]]) == 1
            and norm.inputs[0] not in graph.outputs
            and all(name in values for name in (*conv.inputs[1:], *norm.inputs[1:5]) if name)
        )
        if conv is None or not foldable:
            continue
        scale, shift, mean, variance = (values[name].astype(np.float64) for name in norm.inputs[1:5])
        factor = scale / np.sqrt(variance + cast(float, norm.attributes.get("epsilon", 1e-5)))
        filters = values[conv.inputs[1]]
        bias = values[conv.inputs[2]] if len(conv.inputs) > 2 and conv.inputs[2] else np.zeros(filters.shape[0])
        names = (f"{conv.name}_folded_weight", f"{conv.name}_folded_bias")
        values[names[0]] = (filters * factor.reshape(-1, *[1] * (filters.ndim - 1))).astype(np.float32)
        values[names[1]] = ((bias - mean) * factor + shift).astype(np.float32)
        tensors[names[0]] = graph.tensors[conv.inputs[1]]
        tensors[names[1]] = graph.tensors[norm.inputs[1]]
        folded[conv.name] = replace(conv, inputs=(conv.inputs[0], *names), outputs=norm.outputs[:1])
        dropped.add(norm.name)
    nodes = [folded.get(node.name, node) for node in graph.nodes if node.name not in dropped]
    names_of_weights = frozenset(graph.weights | (values.keys() - weights.keys()))
    result = replace(graph, tensors=tensors, weights=names_of_weights).with_nodes(nodes)
    return result, {name: values[name] for name in result.weights}
