"""Operators moved before a transpose of their input: the same work with permuted axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from latcast.graph.ir import Node
from latcast.graph.operators import Kind, names_of, operators

Array = np.ndarray[Any, Any]
Permutation = tuple[int, ...]
"""``order[a]`` is the axis of the tensor before the transpose that is axis ``a`` after it."""

_UNARY = names_of(operators(Kind.UNARY)) - {"CastLike"}
_BINARY = names_of(operators(Kind.BINARY))
_REDUCTIONS = names_of(operators(Kind.REDUCTION))
_ALONG_AXIS = names_of(row for row in operators() if row.along_axis)
_QUANTIZERS = frozenset({"QuantizeLinear", "DequantizeLinear"})


@dataclass(frozen=True)
class PermutedOperator:
    """An operator that works before the transpose, and what it needs for that.

    Attributes:
        node: With the attributes it has there.
        constants: Constant inputs by position that change their values.
        elementwise: Positions of inputs that go along with the first.
        broadcasts: Whether those inputs may be of lower rank.
    """

    node: Node
    constants: Mapping[int, Array] = field(default_factory=dict)
    elementwise: frozenset[int] = frozenset()
    broadcasts: bool = False


def permuted_operator(node: Node, order: Permutation, constants: Mapping[str, Array]) -> PermutedOperator | None:
    """Return the operator before a transpose of its input, such that the same transpose of its result gives the same.

    Args:
        node: Reads a tensor whose axes were permuted by ``order``.
        order: Of the transpose.
        constants: Values of constant inputs.

    Returns:
        None where the operator does not commute with a transpose.
    """
    op_type = node.op_type
    if op_type in _UNARY:
        return PermutedOperator(node)
    if op_type in _BINARY:
        return PermutedOperator(node, elementwise=frozenset(range(len(node.inputs))), broadcasts=True)
    if op_type == "Concat":
        moved = _with_axis(node, order, default=0)
        return PermutedOperator(moved, elementwise=frozenset(range(len(node.inputs))))
    if op_type == "Split":
        return PermutedOperator(_with_axis(node, order, default=0))
    if op_type in _ALONG_AXIS:
        return PermutedOperator(_with_axis(node, order, default=-1, from_end=True))
    if op_type in _QUANTIZERS:
        scale = constants.get(node.inputs[1])
        return PermutedOperator(node) if scale is not None and scale.size == 1 else None
    if op_type == "Slice":
        return _permuted_slice(node, order, constants)
    if op_type == "Pad":
        return _permuted_pad(node, order, constants)
    if op_type == "Resize":
        return _permuted_resize(node, order, constants)
    return None


def permuted_reduction(node: Node, order: Permutation) -> tuple[Node, Permutation] | None:
    """Return a reduction moved before a transpose of its input, and the transpose left for its result.

    Returns:
        None where the operator is not a reduction over given axes.
    """
    rank = len(order)
    if node.op_type in _REDUCTIONS and len(node.inputs) == 1 and "axes" in node.attributes:
        axes = {order[axis % rank] for axis in node.integers("axes")}
        moved = replace(node, attributes={**node.attributes, "axes": tuple(sorted(axes))})
    elif node.op_type in ("ArgMax", "ArgMin"):
        moved = _with_axis(node, order, default=0)
        axes = {moved.integer("axis")}
    else:
        return None
    if node.attributes.get("keepdims", 1):
        return moved, order
    kept = [axis for axis in order if axis not in axes]
    places = {axis: place for place, axis in enumerate(sorted(kept))}
    return moved, tuple(places[axis] for axis in kept)


def _with_axis(node: Node, order: Permutation, *, default: int, from_end: bool = False) -> Node:
    axis = order[node.integer("axis", default) % len(order)]
    if from_end and axis == len(order) - 1:
        axis = -1
    return replace(node, attributes={**node.attributes, "axis": axis})


def _permuted_slice(node: Node, order: Permutation, constants: Mapping[str, Array]) -> PermutedOperator | None:
    starts = constants.get(node.inputs[1])
    if starts is None:
        return None
    axes = np.arange(starts.size)
    if len(node.inputs) > 3 and node.inputs[3]:
        given = constants.get(node.inputs[3])
        if given is None:
            return None
        axes = given.reshape(-1)
    moved = np.asarray([order[int(axis) % len(order)] for axis in axes], dtype=np.int64)
    return PermutedOperator(node, {3: moved})


def _permuted_pad(node: Node, order: Permutation, constants: Mapping[str, Array]) -> PermutedOperator | None:
    pads = constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
    if pads is None or pads.size != 2 * len(order) or any(node.inputs[3:]):
        return None
    moved = np.empty_like(pads).reshape(2, -1)
    moved[:, list(order)] = pads.reshape(2, -1)
    return PermutedOperator(node, {1: moved.reshape(-1)})


def _permuted_resize(node: Node, order: Permutation, constants: Mapping[str, Array]) -> PermutedOperator | None:
    sizes = constants.get(node.inputs[3]) if len(node.inputs) > 3 else None
    if sizes is None or sizes.size != len(order) or "axes" in node.attributes or any(node.inputs[1:3]):
        return None
    moved = np.empty_like(sizes)
    moved[list(order)] = sizes
    return PermutedOperator(node, {3: moved})
