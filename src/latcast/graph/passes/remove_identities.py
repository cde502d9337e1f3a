"""Removes operators that give their input back: reshapes to the same shape, pads of nothing, sums with zero.

Runtimes do the same when they load a model; left in, each would be estimated as a kernel. Of several reshapes in a row one
is left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from latcast.graph.ir import Graph, Node, rewire
from latcast.graph.operators import Kind, names_of, operators

IsIdentity = Callable[[Graph, Node], bool]


def remove_identities(graph: Graph) -> Graph:
    """Return the graph without operators that do nothing, and without what only they needed.

    Unused outputs such as dropout masks do not keep an operator; a network of nothing but identities stays as it is.
    """
    aliases: dict[str, str] = {}
    kept: list[Node] = []
    for node in graph.nodes:
        test = _TESTS.get(node.op_type)
        if test is not None and not any(node.outputs[1:]) and test(graph, node):
            # The only activation of a sum or product is passed on, else the first input.
            activations = graph.activation_inputs(node)
            aliases[node.outputs[0]] = activations[0] if activations else node.inputs[0]
        else:
            kept.append(node)
    return rewire(graph, kept, aliases) if aliases and kept else graph


def _always(graph: Graph, node: Node) -> bool:
    return True


def _same_tensor(graph: Graph, node: Node) -> bool:
    """Return whether shape and type stay, for operators that could only change these."""
    return graph.tensors[node.inputs[0]] == graph.tensors[node.outputs[0]]


def _same_order(graph: Graph, node: Node) -> bool:
    order = node.attributes.get("perm", ())
    return isinstance(order, tuple) and list(order) == list(range(len(graph.shape(node.inputs[0]))))


def _one_input(graph: Graph, node: Node) -> bool:
    return len(node.inputs) == 1


def _forward_slice(graph: Graph, node: Node) -> bool:
    """Return whether a slice takes everything in its order (no negative step)."""
    steps = graph.constants.get(node.inputs[4]) if len(node.inputs) > 4 else None
    return _same_tensor(graph, node) and (steps is None or bool((steps > 0).all()))


def _no_padding(graph: Graph, node: Node) -> bool:
    amounts = graph.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
    return amounts is not None and not amounts.any()


def _same_size(graph: Graph, node: Node) -> bool:
    """Return whether a resize keeps the size and crops no region."""
    return _same_tensor(graph, node) and node.attributes.get("coordinate_transformation_mode") != "tf_crop_and_resize"


def _single_window(graph: Graph, node: Node) -> bool:
    """Return whether a pool has windows of one element."""
    kernel = node.attributes.get("kernel_shape", ())
    return isinstance(kernel, tuple) and all(size == 1 for size in kernel) and _same_tensor(graph, node)


def _neutral(value: float, *, second_only: bool = False) -> IsIdentity:
    """Return a test for a binary operator with a constant that changes nothing and does not broadcast the other."""

    def test(graph: Graph, node: Node) -> bool:
        constant = graph.constants.get(node.inputs[1])
        other = node.inputs[0]
        if constant is None and not second_only:
            constant, other = graph.constants.get(node.inputs[0]), node.inputs[1]
        if constant is None or not graph.is_activation(other):
            return False
        return bool(np.all(constant == value)) and graph.tensors[other] == graph.tensors[node.outputs[0]]

    return test


_TESTS: Mapping[str, IsIdentity] = {
    "Add": _neutral(0),
    "AveragePool": _single_window,
    "Cast": _same_tensor,
    "CastLike": _same_tensor,
    "Clip": lambda graph, node: not any(node.inputs[1:]) and not {"min", "max"} & set(node.attributes),
    "Concat": _one_input,
    "Div": _neutral(1, second_only=True),
    "Dropout": _always,
    "Expand": _same_tensor,
    "Flatten": _same_tensor,
    "Identity": _always,
    "Max": _one_input,
    "MaxPool": _single_window,
    "Mean": _one_input,
    "Min": _one_input,
    "Mul": _neutral(1),
    "Pad": _no_padding,
    "Pow": _neutral(1, second_only=True),
    "Reshape": _same_tensor,
    "Resize": _same_size,
    "Slice": _forward_slice,
    "Split": lambda graph, node: len(node.outputs) == 1,
    "Squeeze": _same_tensor,
    "Sub": _neutral(0, second_only=True),
    "Sum": _one_input,
    "Tile": _same_tensor,
    "Transpose": _same_order,
    "Unsqueeze": _same_tensor,
}


_RESHAPING = names_of(operators(Kind.VIEW))


def merge_reshapes(graph: Graph) -> Graph:
    """Return the graph in which a reshape reads what the first of a chain of reshapes read."""
    sources: dict[str, str] = {}
    nodes: list[Node] = []
    changed = False
    for node in graph.nodes:
        if node.op_type in _RESHAPING:
            source = sources.get(node.inputs[0], node.inputs[0])
            sources[node.outputs[0]] = source
            if node.op_type == "Reshape" and source != node.inputs[0]:
                node = Node("Reshape", node.name, (source, *node.inputs[1:]), node.outputs)
                changed = True
        nodes.append(node)
    return rewire(graph, nodes, {}) if changed else graph
