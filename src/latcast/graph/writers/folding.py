"""Preparation of a graph for a writer: folds constants and batch normalisations, checks shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from latcast.errors import ModelError, UnsupportedOperatorError
from latcast.graph.ir import Graph, Node
from latcast.graph.operators import OperatorView, lookup, view_of
from latcast.graph.operators.evaluation import evaluate


def check_shapes(graph: Graph) -> None:
    """Raise if the shapes in the graph do not follow from each other: TFLite and ncnn would compute nonsense.

    Raises:
        ModelError: A node's inputs do not fit it, or its output has another shape than the graph says.
    """
    for node in graph.nodes:
        entry = lookup(node.op_type)
        for name, tensor in zip(node.outputs, entry.infer(view_of(graph, node)) if entry else (), strict=False):
            if name and graph.shape(name) != tensor.shape:
                raise ModelError(
                    f"node '{node.name}' ({node.op_type}) makes '{name}' of shape {list(tensor.shape)}, "
                    f"but the graph says {list(graph.shape(name))}; the graph is inconsistent"
                )


def fold_constants(graph: Graph, weights: Mapping[str, np.ndarray]) -> tuple[Graph, dict[str, np.ndarray]]:
    """Remove the nodes that only weights and constants enter, where their values can be worked out.

    Returns:
        The graph without them, and the values of all weights, constants and folded results.
    """
    values = {**graph.constants, **weights}
    left: list[Node] = []
    for node in graph.nodes:
        results = None
        if any(node.inputs) and all(not name or name in values for name in node.inputs):
            view = view_of(graph, node)
            known = tuple(values.get(name) for name in node.inputs)
            results = evaluate(OperatorView(node, view.inputs, known, view.outputs), limit=None)
        if results is None:
            left.append(node)
        else:
            values.update(zip(node.outputs, results, strict=False))
    folded = {name for node in graph.nodes for name in node.outputs if name in values}
    return graph.with_nodes(left, weights=graph.weights | folded), values


def batch_norm_terms(node: Node, values: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return batch normalisation as y = scale x + shift, one pair a channel.

    Raises:
        UnsupportedOperatorError: A scale, bias, mean or variance is missing or computed at run time.
    """
    if len(node.inputs) < 5 or any(name not in values for name in node.inputs[1:5]):
        raise UnsupportedOperatorError(f"node '{node.name}' ({node.op_type}) lacks a constant scale, bias, mean or variance")
    gamma, beta, mean, variance = (values[name].astype(np.float64) for name in node.inputs[1:5])
    scale = gamma / np.sqrt(variance + node.real("epsilon", 1e-5))
    return scale, beta - mean * scale


def fold_batch_norms(graph: Graph, weights: Mapping[str, np.ndarray]) -> tuple[Graph, dict[str, np.ndarray]]:
    """Fold every BatchNormalization whose input is a convolution's only use into that convolution.

    Returns:
        The graph without them (the convolution then writes the normalisation's output, and has a bias) and the weights, the
        folded ones under new names.
    """
    values = dict(weights)
    tensors = dict(graph.tensors)
    folded: dict[str, Node] = {}
    dropped: set[str] = set()
    for norm in graph.nodes_of_type.get("BatchNormalization", ()):
        conv = graph.producers.get(norm.inputs[0])
        if conv is None or conv.op_type != "Conv" or graph.sole_reader(norm.inputs[0]) is not norm:
            continue
        if any(name and name not in values for name in (*conv.inputs[1:], *norm.inputs[1:5])):
            continue
        scale, shift = batch_norm_terms(norm, values)
        filters = values[conv.inputs[1]]
        bias = values[conv.inputs[2]] if len(conv.inputs) > 2 and conv.inputs[2] else np.zeros(filters.shape[0])
        names = (f"{conv.name}_folded_weight", f"{conv.name}_folded_bias")
        values[names[0]] = (filters * scale.reshape(-1, *[1] * (filters.ndim - 1))).astype(np.float32)
        values[names[1]] = (bias * scale + shift).astype(np.float32)
        tensors[names[0]] = graph.tensors[conv.inputs[1]]
        tensors[names[1]] = graph.tensors[norm.inputs[1]]
        folded[conv.name] = replace(conv, inputs=(conv.inputs[0], *names), outputs=norm.outputs[:1])
        dropped.add(norm.name)
    nodes = [folded.get(node.name, node) for node in graph.nodes if node.name not in dropped]
    names_of_weights = frozenset(graph.weights | (values.keys() - weights.keys()))
    result = replace(graph, tensors=tensors, weights=names_of_weights).with_nodes(nodes)
    return result, {name: values[name] for name in sorted(result.weights)}
