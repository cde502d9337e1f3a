"""Operators that pick, place, sort or sample elements."""

from __future__ import annotations

from math import ceil, log2, prod

from latcast.graph.ir import Tensor
from latcast.graph.operators.table import Operator, OperatorView, always, define


def infer_gather_nd(view: OperatorView) -> list[Tensor]:
    x, indices = view.shape(0), view.shape(1)
    batch = view.node.integer("batch_dims")
    depth = indices[-1]
    if batch + depth > len(x):
        raise view.fail(f"indices of {depth} coordinates reach past an input of rank {len(x)}")
    return [Tensor((*indices[:-1], *x[batch + depth :]), view.dtype())]


def infer_as_first(view: OperatorView) -> list[Tensor]:
    return [Tensor(view.shape(), view.dtype())]


def axis_of(view: OperatorView, axis: int, rank: int) -> int:
    """Return an axis counted from the front.

    Raises:
        ModelError: The axis is out of range.
    """
    if not -rank <= axis < rank:
        raise view.fail(f"axis {axis} is out of range for an input of rank {rank}")
    return axis % rank


def infer_top_k(view: OperatorView) -> list[Tensor]:
    x = view.shape()
    axis = axis_of(view, view.node.integer("axis", -1), len(x))
    k = (x[axis],) if _computed_count(view) else view.needed_ints("k", 1)
    if k[0] > x[axis]:
        raise view.fail(f"cannot take the {k[0]} largest of {x[axis]}")
    shape = (*x[:axis], k[0], *x[axis + 1 :])
    return [Tensor(shape, view.dtype()), Tensor(shape, "int64")]


def _computed_count(view: OperatorView) -> bool:
    """Return whether the second input, how many elements are taken, is computed at run time."""
    return view.has_input(1) and view.value(1) is None


def infer_one_hot(view: OperatorView) -> list[Tensor]:
    indices, depth = view.shape(), view.needed_ints("depth", 1)
    axis = view.node.integer("axis", -1) % (len(indices) + 1)
    return [Tensor((*indices[:axis], depth[0], *indices[axis:]), view.dtype(2))]


def infer_grid_sample(view: OperatorView) -> list[Tensor]:
    x, grid = view.shape(0), view.shape(1)
    return [Tensor((*x[:2], *grid[1:-1]), view.dtype())]


def infer_roi_align(view: OperatorView) -> list[Tensor]:
    x, regions = view.shape(0), view.shape(1)
    size = (view.node.integer("output_height", 1), view.node.integer("output_width", 1))
    return [Tensor((regions[0], x[1], *size), view.dtype())]


def infer_range(view: OperatorView) -> list[Tensor]:
    bounds = [view.value(index) for index in range(3)]
    if any(bound is None for bound in bounds):
        raise view.fail("start, limit and step must be constant; static shapes need them")
    start, limit, step = (float(bound.reshape(-1)[0]) for bound in bounds if bound is not None)
    if step == 0:
        raise view.fail("a range cannot step by 0")
    return [Tensor((max(0, -int((start - limit) // step)),), view.dtype())]


def flops_first_input(view: OperatorView) -> int:
    """Count one per element read."""
    return prod(view.shape())


def flops_roi_align(view: OperatorView) -> int:
    """Count 7 per sample: four neighbours weighed, as for a bilinear resize."""
    return 7 * max(1, view.node.integer("sampling_ratio", 1)) ** 2 * view.outputs[0].elements


def neighbours(mode: str, axes: int) -> int:
    """Return how many elements are weighed for one sample of a grid."""
    return (4 if "cubic" in mode else 2 if "linear" in mode else 1) ** axes


def flops_grid_sample(view: OperatorView) -> int:
    """Count a product for each neighbour and a sum for each but the first; 1 where the nearest one is copied."""
    count = neighbours(view.node.text("mode", "linear"), len(view.shape()) - 2)
    return (2 * count - 1) * view.outputs[0].elements


BOX_FLOPS = 12
"""To compare two boxes: four bounds of the overlap, its two sides and its area, the union, the quotient and the test."""


def boxes_kept(view: OperatorView) -> tuple[int, int, int, int]:
    """Return images, classes, boxes, and how many boxes of a class may stay."""
    boxes, scores = view.shape(0), view.shape(1)
    if len(boxes) != 3 or len(scores) != 3 or (boxes[0], boxes[1], 4) != (scores[0], scores[2], boxes[2]):
        raise view.fail("expected boxes of (images, boxes, 4) and scores of (images, classes, boxes)")
    most = view.value(2)
    kept = scores[2] if most is None else min(int(most.reshape(-1)[0]), scores[2])
    return scores[0], scores[1], scores[2], kept if view.has_input(2) else 0


def infer_non_max_suppression(view: OperatorView) -> list[Tensor]:
    """Return a row for every box that may stay: the upper bound, as the number depends on the scores."""
    images, classes, _, kept = boxes_kept(view)
    return [Tensor((images * classes * kept, 3), "int64")]


def flops_non_max_suppression(view: OperatorView) -> int:
    """Count sorting by score (boxes times their logarithm), then each box that stays against all others."""
    images, classes, boxes, kept = boxes_kept(view)
    return images * classes * (boxes * ceil(log2(max(boxes, 2))) + BOX_FLOPS * boxes * kept)


def infer_non_zero(view: OperatorView) -> list[Tensor]:
    """Return a column for every element, the most that there can be."""
    x = view.shape()
    return [Tensor((max(len(x), 1), prod(x)), "int64")]


def infer_compress(view: OperatorView) -> list[Tensor]:
    """Return the slices that a condition picks; all that it has a flag for, where the flags are computed."""
    x, flags = view.shape(), view.value(1)
    axis = axis_of(view, view.node.integer("axis"), len(x)) if "axis" in view.node.attributes else None
    most = prod(x) if axis is None else x[axis]
    kept = min(most, prod(view.shape(1)) if flags is None else int(flags.astype(bool).reshape(-1)[:most].sum()))
    return [Tensor((kept,) if axis is None else (*x[:axis], kept, *x[axis + 1 :]), view.dtype())]


def infer_unique(view: OperatorView) -> list[Tensor]:
    """Return all elements or slices, places, inverse and counts, as if none was there twice."""
    x = view.shape()
    axis = axis_of(view, view.node.integer("axis"), len(x)) if "axis" in view.node.attributes else None
    most = prod(x) if axis is None else x[axis]
    counts = [Tensor((most,), "int64")] * 3
    return [Tensor((most,) if axis is None else x, view.dtype()), *counts][: len(view.node.outputs)]


def flops_sort(view: OperatorView) -> int:
    """Count a comparison for each element and each halving of the axis."""
    elements = prod(view.shape())
    return elements * ceil(log2(max(elements, 2)))


def infer_max_roi_pool(view: OperatorView) -> list[Tensor]:
    return [Tensor((view.shape(1)[0], view.shape()[1], *view.node.integers("pooled_shape", (1, 1))), view.dtype())]


def infer_max_unpool(view: OperatorView) -> list[Tensor]:
    x, given = view.shape(), view.ints_from("output_shape", 2)
    if given is not None:
        return [Tensor(given, view.dtype())]
    kernel = view.node.integers("kernel_shape")
    strides, pads = view.node.integers("strides", (1,) * len(kernel)), view.node.integers("pads", (0,) * 2 * len(kernel))
    sizes = [(size - 1) * strides[axis] + kernel[axis] - pads[axis] - pads[axis + len(kernel)] for axis, size in enumerate(x[2:])]
    return [Tensor((*x[:2], *sizes), view.dtype())]


_AXIS = frozenset({1})

define(
    Operator("GatherND", infer_gather_nd, picks=True),
    Operator("ScatterND", infer_as_first),
    Operator("ScatterElements", infer_as_first),
    Operator("Scatter", infer_as_first),
    Operator("Trilu", infer_as_first, constants=_AXIS),
    Operator("ReverseSequence", infer_as_first),
    Operator("TensorScatter", infer_as_first),
    Operator("CumSum", infer_as_first, flops_first_input, constants=_AXIS),
    Operator("CumProd", infer_as_first, flops_first_input, constants=_AXIS),
    Operator("TopK", infer_top_k, flops_first_input, constants=_AXIS, at_most=_computed_count),
    Operator("NonZero", infer_non_zero, flops_first_input, at_most=always),
    Operator("Compress", infer_compress, constants=_AXIS, at_most=_computed_count),
    Operator("Unique", infer_unique, flops_sort, at_most=always),
    Operator("MaxRoiPool", infer_max_roi_pool, flops_first_input),
    Operator("MaxUnpool", infer_max_unpool, constants=frozenset({2})),
    Operator("OneHot", infer_one_hot, constants=frozenset({1, 2})),
    Operator("GridSample", infer_grid_sample, flops_grid_sample, sized="everywhere"),
    Operator("RoiAlign", infer_roi_align, flops_roi_align),
    Operator(
        "NonMaxSuppression", infer_non_max_suppression, flops_non_max_suppression, constants=frozenset({2, 3, 4}), at_most=always
    ),
    Operator("Range", infer_range, constants=frozenset({0, 1, 2}), sized="everywhere"),
)
