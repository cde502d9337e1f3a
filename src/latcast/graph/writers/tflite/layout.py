"""Orders of axes: the logical axis that each physical axis holds.

The graph is logical NCHW; TFLite's spatial kernels want NHWC. An *order* says for each physical axis the logical axis that it
holds: an image is written in (0, 2, 3, 1), everything that no spatial operator asks for in (0, 1, ...). A transpose or a
reshape of the graph is then often only another order of the same bytes, and no operator has to be written for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from latcast.graph.ir import Graph, Node, Shape
from latcast.graph.operators import Kind, names_of, operators

Order = tuple[int, ...]

CHANNELS_LAST: Order = (0, 2, 3, 1)

SPATIAL = names_of(row for row in operators() if row.channels)
"""Operators whose kernels read an image channels last."""

RESHAPING = names_of(operators(Kind.VIEW))
"""Operators that keep the logical order of elements."""

_LAST_AXIS = names_of(row for row in operators() if row.last_axes)


def logical(rank: int) -> Order:
    """Return the order that leaves all axes where ONNX has them."""
    return tuple(range(rank))


def physical_shape(shape: Shape, order: Order) -> Shape:
    return tuple(shape[axis] for axis in order)


def steps_between(held: Order, wanted: Order) -> Order:
    """Return the permutation that a TRANSPOSE needs to bring a tensor from one order to another."""
    return tuple(held.index(axis) for axis in wanted)


def long_axes(shape: Shape, order: Order) -> Order:
    """Return the order without axes of size 1, which may stand anywhere."""
    return tuple(axis for axis in order if shape[axis] != 1)


def same_bytes(shape: Shape, first: Order, second: Order) -> bool:
    """Return whether two orders put the elements in the same sequence."""
    return long_axes(shape, first) == long_axes(shape, second)


def after_transpose(order: Order, perm: Order) -> Order:
    """Return the order in which a tensor, left as it is, holds its transpose."""
    return tuple(perm.index(axis) for axis in order)


def before_transpose(order: Order, perm: Order) -> Order:
    """Return the order that a tensor must have so that its transpose, without moving anything, has ``order``."""
    return tuple(perm[axis] for axis in order)


def _blocks(shape: Shape, target: Shape) -> list[tuple[list[int], list[int]]]:
    """Split a reshape into the smallest groups of axes with equal products; axes of size 1 are left out."""
    left = [axis for axis, size in enumerate(shape) if size != 1]
    right = [axis for axis, size in enumerate(target) if size != 1]
    blocks: list[tuple[list[int], list[int]]] = []
    while left and right:
        a, b = [left.pop(0)], [right.pop(0)]
        product_a, product_b = shape[a[0]], target[b[0]]
        while product_a != product_b:
            if product_a < product_b:
                a.append(left.pop(0))
                product_a *= shape[a[-1]]
            else:
                b.append(right.pop(0))
                product_b *= target[b[-1]]
        blocks.append((a, b))
    return blocks


def _with_short_axes(long: list[int], shape: Shape, preferred: Iterable[Order | None]) -> Order:
    """Put the axes of size 1 where a preferred order has them, or else behind their neighbours."""
    known = [*preferred, logical(len(shape)), CHANNELS_LAST if len(shape) == 4 else None]
    for order in known:
        if order is not None and list(long_axes(shape, order)) == long:
            return order
    result = list(long)
    for axis, size in enumerate(shape):
        if size == 1:
            result.insert(0 if axis == 0 else result.index(axis - 1) + 1, axis)
    return tuple(result)


def through_reshape(shape: Shape, order: Order, target: Shape, preferred: Order | None = None) -> Order | None:
    """Return the order that a tensor has after a plain reshape of its bytes, or None where that would mix up elements.

    Every group of axes that the reshape splits or merges must lie together, in logical sequence.
    """
    groups = {axes[0]: (axes, into) for axes, into in _blocks(shape, target)}
    held = list(long_axes(shape, order))
    result: list[int] = []
    while held:
        axes, into = groups.get(held[0], ([], []))
        if not axes or held[: len(axes)] != axes:
            return None
        result += into
        del held[: len(axes)]
    return _with_short_axes(result, target, (preferred,))


def wished_orders(graph: Graph) -> Mapping[str, Order]:
    """Return for each tensor the order that its readers prefer, found from the outputs backwards.

    Only transposes, inputs and reshapes are free to follow a wish; all others hold what they compute.
    """
    # An image without readers leaves the network as an image.
    wishes: dict[str, Order] = {name: CHANNELS_LAST for name in graph.outputs if len(graph.shape(name)) == 4}
    for node in reversed(graph.nodes):
        for index, name in enumerate(node.inputs):
            if not graph.is_activation(name):
                continue
            wish = _wish(graph, node, index, wishes)
            # Nodes come last to first, so that the first reader has the last word.
            if wish is not None:
                wishes[name] = wish
    return wishes


def _wish(graph: Graph, node: Node, index: int, wishes: Mapping[str, Order]) -> Order | None:
    shape = graph.shape(node.inputs[index])
    rank = len(shape)
    out = node.outputs[0]
    wish = next((wishes[name] for name in node.outputs if name in wishes), None)
    if node.op_type in SPATIAL:
        return CHANNELS_LAST if rank == 4 and index == 0 else None
    if node.op_type in _LAST_AXIS:
        return logical(rank)
    if node.op_type == "Softmax":
        axis = node.integer("axis", -1) % rank
        if wish is not None and wish[-1] == axis:
            return wish
        return CHANNELS_LAST if rank == 4 and axis == 1 else logical(rank)
    if node.op_type == "Transpose":
        perm = transpose_perm(graph, node)
        return None if wish is None else before_transpose(wish, perm)
    if node.op_type in RESHAPING:
        return None if wish is None else through_reshape(graph.shape(out), wish, shape)
    return wish if wish is not None and len(graph.shape(out)) == rank else None


def transpose_perm(graph: Graph, node: Node) -> Order:
    """Return the permutation of a Transpose node, with ONNX's default (all axes reversed)."""
    rank = len(graph.shape(node.inputs[0]))
    return node.integers("perm", tuple(reversed(range(rank))))
