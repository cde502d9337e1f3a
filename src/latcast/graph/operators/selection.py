"""Operators that pick, place, sort or sample elements."""

from __future__ import annotations

from math import prod

from latcast.graph.ir import Tensor
from latcast.graph.operators.table import OperatorView, define, no_flops


def infer_gather_nd(view: OperatorView) -> list[Tensor]:
    x, indices = view.shape(0), view.shape(1)
    batch = view.int_attribute("batch_dims", 0)
    depth = indices[-1]
    if batch + depth > len(x):
        raise view.fail(f"indices of {depth} coordinates reach past an input of rank {len(x)}")
    return [Tensor((*indices[:-1], *x[batch + depth :]), view.dtype())]


def infer_as_first(view: OperatorView) -> list[Tensor]:
    return [Tensor(view.shape(), view.dtype())]


def infer_top_k(view: OperatorView) -> list[Tensor]:
    x = view.shape()
    k = view.ints_from("k", 1)
    if k is None:
        raise view.fail("the count k is missing")
    axis = view.int_attribute("axis", -1) % len(x)
    if k[0] > x[axis]:
        raise view.fail(f"cannot take the {k[0]} largest of {x[axis]}")
    shape = (*x[:axis], k[0], *x[axis + 1 :])
    return [Tensor(shape, view.dtype()), Tensor(shape, "int64")]


def infer_one_hot(view: OperatorView) -> list[Tensor]:
    indices = view.shape()
    depth = view.ints_from("depth", 1)
    if depth is None:
        raise view.fail("the depth is missing")
    axis = view.int_attribute("axis", -1) % (len(indices) + 1)
    return [Tensor((*indices[:axis], depth[0], *indices[axis:]), view.dtype(2))]


def infer_grid_sample(view: OperatorView) -> list[Tensor]:
    x, grid = view.shape(0), view.shape(1)
    return [Tensor((*x[:2], *grid[1:-1]), view.dtype())]


def infer_roi_align(view: OperatorView) -> list[Tensor]:
    x, regions = view.shape(0), view.shape(1)
    size = (view.int_attribute("output_height", 1), view.int_attribute("output_width", 1))
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
    """One per element read."""
    return prod(view.shape())


def flops_interpolated(view: OperatorView) -> int:
    """Four neighbours weighed for every sample: 7 FLOPs an output element, as for a bilinear resize."""
    samples = max(1, view.int_attribute("sampling_ratio", 1)) ** 2 if view.node.op_type == "RoiAlign" else 1
    return 7 * samples * view.outputs[0].elements


define("GatherND", infer=infer_gather_nd)
define("ScatterND", "ScatterElements", "Scatter", "Trilu", "ReverseSequence", infer=infer_as_first)
define("CumSum", infer=infer_as_first, flops=flops_first_input)
define("TopK", infer=infer_top_k, flops=flops_first_input)
define("OneHot", infer=infer_one_hot)
define("GridSample", infer=infer_grid_sample, flops=flops_interpolated)
define("RoiAlign", infer=infer_roi_align, flops=flops_interpolated)
define("Range", infer=infer_range, flops=no_flops)
