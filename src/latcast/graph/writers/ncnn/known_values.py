"""Nodes that depend on no input of the network: their values are worked out when the network is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np

from latcast.errors import ModelError
from latcast.graph.ir import Graph, Node
from latcast.graph.operators import OperatorView, view_of

Evaluate = Callable[[OperatorView, "list[np.ndarray]"], "list[np.ndarray]"]


def _reshaped(view: OperatorView, inputs: list[np.ndarray]) -> list[np.ndarray]:
    return [inputs[0].reshape(view.outputs[0].shape)]


def _transposed(view: OperatorView, inputs: list[np.ndarray]) -> list[np.ndarray]:
    return [inputs[0].transpose(view.ints("perm", tuple(reversed(range(inputs[0].ndim)))))]


def _gathered(view: OperatorView, inputs: list[np.ndarray]) -> list[np.ndarray]:
    return [np.take(inputs[0], inputs[1].astype(np.int64), axis=view.int_attribute("axis", 0))]


def _expanded(view: OperatorView, inputs: list[np.ndarray]) -> list[np.ndarray]:
    return [np.broadcast_to(inputs[0], view.outputs[0].shape)]


def _concatenated(view: OperatorView, inputs: list[np.ndarray]) -> list[np.ndarray]:
    return [np.concatenate(inputs, axis=view.int_attribute("axis", 0))]


def _cast(view: OperatorView, inputs: list[np.ndarray]) -> list[np.ndarray]:
    dtype = view.outputs[0].dtype
    return [inputs[0].astype("float32" if dtype == "bfloat16" else dtype)]


def _elementwise(function: Callable[..., np.ndarray]) -> Evaluate:
    def evaluate(view: OperatorView, inputs: list[np.ndarray]) -> list[np.ndarray]:
        return [np.asarray(function(*inputs))]

    return evaluate


_EVALUATE: Mapping[str, Evaluate] = {
    **dict.fromkeys(("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Dropout"), _reshaped),
    "Transpose": _transposed,
    "Gather": _gathered,
    "Expand": _expanded,
    "Concat": _concatenated,
    "Cast": _cast,
    "Add": _elementwise(np.add),
    "Sub": _elementwise(np.subtract),
    "Mul": _elementwise(np.multiply),
    "Div": _elementwise(np.divide),
    "Pow": _elementwise(np.power),
    "Neg": _elementwise(np.negative),
    "Exp": _elementwise(np.exp),
    "Sqrt": _elementwise(np.sqrt),
    "Tanh": _elementwise(np.tanh),
}


def fold(graph: Graph, weights: Mapping[str, np.ndarray]) -> tuple[Graph, dict[str, np.ndarray]]:
    """Removes the nodes that only weights and constants enter, and those that lead to no output of the network.

    An operator on weights that is outside a short list (reshapes, arithmetic) is left in the graph.

    Returns:
        The graph without them, and the values of all weights, constants and folded results.
    """
    values = {**graph.constants, **weights}
    left: list[Node] = []
    for node in graph.nodes:
        names = [name for name in node.inputs if name]
        evaluate = _EVALUATE.get(node.op_type)
        if evaluate is None or not names or any(name not in values for name in names):
            left.append(node)
            continue
        results = evaluate(view_of(graph, node), [values[name] for name in names])
        values.update(zip(node.outputs, results, strict=False))
    folded = frozenset(name for node in graph.nodes for name in node.outputs if name in values)
    return graph.with_nodes(needed(graph, left), weights=graph.weights | folded), values


def needed(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """Those nodes that the graph's outputs depend on."""
    read = set(graph.outputs)
    found: list[Node] = []
    for node in reversed(nodes):
        if read.intersection(node.outputs):
            read.update(node.inputs)
            found.append(node)
    return found[::-1]


def check_shapes(graph: Graph) -> None:
    """Makes sure that the shapes in the graph follow from each other: ncnn would compute nonsense without a word.

    Raises:
        ModelError: A node's inputs do not fit it, or its output has another shape than the graph says.
    """
    from latcast.graph.operators import lookup

    for node in graph.nodes:
        entry = lookup(node.op_type)
        if entry is None:
            continue
        view = view_of(graph, node)
        for name, tensor in zip(node.outputs, entry.infer(view), strict=False):
            if name and graph.shape(name) != tensor.shape:
                raise ModelError(
                    f"node '{node.name}' ({node.op_type}) makes '{name}' of shape {list(tensor.shape)}, "
                    f"but the graph says {list(graph.shape(name))}; the graph is inconsistent"
                )


def number(value: object, default: float) -> float:
    """An attribute as a float."""
    return default if value is None else float(cast(float, value))
