"""The same network for inputs of other sizes, as far as a graph of static shapes can tell.

A graph does not know which of its numbers were worked out from the input's size when its file was read. Operators whose
numbers say nothing about sizes (convolutions, reductions, scales) are inferred again; a reshape is, where it only merges the
axes that change. Where a number could have been worked out from a size, the graph is refused rather than guessed at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from latcast.errors import ModelError
from latcast.graph.ir import Graph, Node, Shape, Tensor, shapes_by_input
from latcast.graph.limits import check_graph, check_tensor
from latcast.graph.operators import Kind, OperatorView, lookup, names_of, operators, view_among

_SIZED, _SIZED_ALONG_AXES = (names_of(row for row in operators() if row.sized == where) for where in ("everywhere", "axes"))
"""Operators whose constants may have been worked out from a size, on any axis or on those that they cut."""

_WINDOWED = names_of(operators(Kind.POOL))


def reshape_inputs(graph: Graph, shapes: Mapping[str, Sequence[int]]) -> Graph:
    """Return the graph with other input shapes.

    Args:
        graph: A network.
        shapes: Input name to shape, of as many dimensions as the input has.

    Returns:
        The graph itself where the shapes are those that it has.

    Raises:
        ModelError: A name that is not an input; or the sizes of the graph are in operators that cannot be worked out again; or
            the network does not fit inputs of these shapes; or it would be larger than any machine holds.
    """
    tensors = dict(graph.tensors)
    changed = set()
    for name, shape in shapes_by_input(shapes, graph.inputs, graph.name).items():
        if shape == graph.shape(name):
            continue
        if len(shape) != len(graph.shape(name)) or min(shape) < 1:
            raise ModelError(
                f"input '{name}' of {graph.name} is {list(graph.shape(name))}; found the shape {list(shape)}, "
                "expected as many sizes of at least 1"
            )
        tensors[name] = replace(tensors[name], shape=shape)
        check_tensor(name, tensors[name])
        changed.add(name)
    if not changed:
        return graph
    constants = dict(graph.constants)
    nodes = []
    for node in graph.nodes:
        if changed.isdisjoint(node.inputs):
            nodes.append(node)
            continue
        if node.op_type == "Reshape" and node.inputs[0] in changed:
            fitted = fitted_reshape(graph, node, tensors, constants)
            if fitted is None:
                raise _refused(graph, node)
            node = fitted
        view = view_among(node, tensors, constants)
        for name, tensor in zip(node.outputs, _inferred(graph, node, view), strict=False):
            if name and tensor.shape != graph.shape(name):
                tensors[name] = replace(tensors[name], shape=tensor.shape)
                check_tensor(name, tensors[name])
                changed.add(name)
        nodes.append(node)
    return check_graph(replace(graph, tensors=tensors, constants=constants).with_nodes(nodes))


def _inferred(graph: Graph, node: Node, view: OperatorView) -> list[Tensor]:
    entry = lookup(node.op_type)
    if entry is None or _holds_a_size(graph, node, view):
        raise _refused(graph, node)
    try:
        found = entry.infer(view)
    except ModelError as problem:
        raise ModelError(f"{graph.name} does not fit inputs of these shapes: {problem}") from problem
    if any(min(tensor.shape, default=1) < 1 for tensor in found):
        raise ModelError(f"{graph.name} does not fit inputs of these shapes: node '{node.name}' has an empty output")
    return found


def _holds_a_size(graph: Graph, node: Node, view: OperatorView) -> bool:
    """Return whether a number of the node may have been worked out from a size that changes."""
    if node.op_type in _SIZED or (node.op_type == "Resize" and view.has_input(3)):
        return True
    before, after = graph.shape(node.inputs[0]), view.shape()
    moved = {axis for axis, (old, new) in enumerate(zip(before, after, strict=True)) if old != new}
    if node.op_type in _SIZED_ALONG_AXES:
        if node.op_type == "Slice":
            axes = view.ints_from("axes", 3) or tuple(range(len(view.ints_from("starts", 1) or ())))
        else:
            axes = (view.node.integer("axis"),)
        return any(axis % len(before) in moved for axis in axes)
    if node.op_type in _WINDOWED:
        # A window as large as the map is global pooling spelled out.
        kernel = view.node.integers("kernel_shape")
        return any(axis + 2 in moved and size > 1 and size >= before[axis + 2] for axis, size in enumerate(kernel))
    return False


def fitted_reshape(graph: Graph, node: Node, tensors: dict[str, Tensor], constants: dict[str, np.ndarray]) -> Node | None:
    """Return a reshape for the shape that its input has among ``tensors``, to a target that is added to them and to the
    constants; None where it splits an axis that changes."""
    merged = merged_shape(graph.shape(node.inputs[0]), tensors[node.inputs[0]].shape, graph.shape(node.outputs[0]))
    if merged is None:
        return None
    target = f"{node.name}/shape"
    constants[target] = np.array(merged, dtype=np.int64)
    tensors[target] = Tensor((len(merged),), "int64")
    return replace(node, inputs=(node.inputs[0], target))


def merged_shape(before: Shape, after: Shape, target: Shape) -> Shape | None:
    """Return the target of a reshape for another input, or None where it splits an axis that changes.

    Both shapes are cut into the shortest runs of axes with equal products. A run that becomes one axis is merged, whatever
    its sizes.

    Example:
        >>> merged_shape((1, 64, 7, 7), (1, 64, 9, 9), (1, 64, 49))
        (1, 64, 81)
    """
    found: list[int] = []
    i = j = 0
    while i < len(before) or j < len(target):
        first, start = i, j
        i, j = min(i + 1, len(before)), min(j + 1, len(target))
        while prod(before[first:i]) != prod(target[start:j]):
            if prod(before[first:i]) < prod(target[start:j]):
                i += 1
            else:
                j += 1
        if before[first:i] == after[first:i]:
            found.extend(target[start:j])
        elif j - start == 1:
            found.append(prod(after[first:i]))
        else:
            return None
    return tuple(found)


def _refused(graph: Graph, node: Node) -> ModelError:
    return ModelError(
        f"{graph.name} cannot be given other input shapes: node '{node.name}' ({node.op_type}) may hold sizes that were worked "
        "out from the old ones; load the file again with these shapes, or build the network for them"
    )
