"""Operators that move, select or rearrange data, and reductions over named axes."""

from __future__ import annotations

from functools import partial
from math import prod

from latcast.graph.ir import Shape, Tensor
from latcast.graph.operators.table import Kind, Operator, OperatorView, define


def infer_reduce(view: OperatorView) -> list[Tensor]:
    x = view.shape()
    axes = view.ints_from("axes", 1)
    if not axes:
        if view.node.integer("noop_with_empty_axes"):
            return [Tensor(x, view.dtype())]
        axes = tuple(range(len(x)))
    chosen = {axis % len(x) for axis in axes} if x else set()
    keep = bool(view.node.integer("keepdims", 1))
    shape = tuple(1 if axis in chosen else size for axis, size in enumerate(x) if keep or axis not in chosen)
    return [Tensor(shape, view.dtype())]


def infer_arg(view: OperatorView) -> list[Tensor]:
    x = view.shape()
    axis = view.node.integer("axis") % len(x)
    keep = bool(view.node.integer("keepdims", 1))
    shape = tuple(1 if a == axis else size for a, size in enumerate(x) if keep or a != axis)
    return [Tensor(shape, "int64")]


def infer_concat(view: OperatorView) -> list[Tensor]:
    first = view.shape()
    axis = view.node.integer("axis") % max(len(first), 1)
    before, after = first[:axis], first[axis + 1 :]
    total = 0
    for index in range(len(view.inputs)):
        shape = view.shape(index)
        if len(shape) != len(first) or shape[:axis] != before or shape[axis + 1 :] != after:
            raise view.fail(f"the inputs differ in more than axis {axis}")
        total += shape[axis]
    return [Tensor((*before, total, *after), view.dtype())]


def infer_split(view: OperatorView) -> list[Tensor]:
    x = view.shape()
    axis = view.node.integer("axis") % len(x)
    count = len(view.node.outputs)
    sizes = view.ints_from("split", 1)
    if not sizes:
        step = -(-x[axis] // count)
        sizes = tuple(min(step, x[axis] - step * index) for index in range(count))
    if sum(sizes) != x[axis] or len(sizes) != count or min(sizes) < 0:
        raise view.fail(f"cannot split axis {axis} of size {x[axis]} into {list(sizes)}")
    return [Tensor((*x[:axis], size, *x[axis + 1 :]), view.dtype()) for size in sizes]


def slice_ranges(view: OperatorView) -> dict[int, range]:
    """Return the places that a slice takes along each axis that it cuts, by axis."""
    x = view.shape()
    starts, ends = view.needed_ints("starts", 1), view.needed_ints("ends", 2)
    axes = view.ints_from("axes", 3) or tuple(range(len(starts)))
    steps = view.ints_from("steps", 4) or (1,) * len(starts)
    if 0 in steps:
        raise view.fail("a slice cannot step by 0")
    cuts = zip(axes, starts, ends, steps, strict=True)
    return {axis % len(x): range(x[axis])[start:end:step] for axis, start, end, step in cuts}


def infer_slice(view: OperatorView) -> list[Tensor]:
    taken = slice_ranges(view)
    return [Tensor(tuple(len(taken[axis]) if axis in taken else size for axis, size in enumerate(view.shape())), view.dtype())]


def pad_amounts(view: OperatorView) -> dict[int, tuple[int, int]]:
    """Return how many elements a padding adds before and behind each axis that it names; negative ones take elements away."""
    rank, pads = len(view.shape()), view.needed_ints("pads", 1)
    axes = [axis % rank for axis in view.ints_from("axes", 3) or range(rank)]
    return {axis: (pads[place], pads[place + len(axes)]) for place, axis in enumerate(axes)}


def infer_pad(view: OperatorView) -> list[Tensor]:
    shape = list(view.shape())
    for axis, amount in pad_amounts(view).items():
        shape[axis] += sum(amount)
    return [Tensor(tuple(shape), view.dtype())]


def resolve_reshape(view: OperatorView, x: Shape, target: tuple[int, ...]) -> Shape:
    """Work out the zeros (copy) and the -1 (the rest) of a reshape target."""
    copied = not view.node.integer("allowzero")
    shape = [x[a] if size == 0 and copied and a < len(x) else size for a, size in enumerate(target)]
    if -1 in shape:
        rest = prod(size for size in shape if size != -1)
        if shape.count(-1) > 1 or rest == 0 or prod(x) % rest:
            raise view.fail(f"cannot reshape to {list(target)}")
        shape[shape.index(-1)] = prod(x) // rest
    if prod(shape) != prod(x):
        raise view.fail(f"cannot reshape {prod(x)} elements to {shape}")
    return tuple(shape)


def infer_reshape(view: OperatorView) -> list[Tensor]:
    return [Tensor(resolve_reshape(view, view.shape(), view.needed_ints("shape", 1)), view.dtype())]


def infer_flatten(view: OperatorView) -> list[Tensor]:
    x = view.shape()
    axis = view.node.integer("axis", 1)
    axis = axis + len(x) if axis < 0 else axis
    return [Tensor((prod(x[:axis]), prod(x[axis:])), view.dtype())]


def infer_transpose(view: OperatorView) -> list[Tensor]:
    x = view.shape()
    order = view.node.integers("perm", tuple(reversed(range(len(x)))))
    if sorted(order) != list(range(len(x))):
        raise view.fail(f"perm {list(order)} does not fit an input of rank {len(x)}")
    return [Tensor(tuple(x[axis] for axis in order), view.dtype())]


def infer_squeeze(view: OperatorView) -> list[Tensor]:
    x = view.shape()
    axes = view.ints_from("axes", 1)
    chosen = {a for a, size in enumerate(x) if size == 1} if axes is None else {axis % len(x) for axis in axes}
    if any(x[axis] != 1 for axis in chosen):
        raise view.fail(f"cannot squeeze axes {sorted(chosen)}")
    return [Tensor(tuple(size for a, size in enumerate(x) if a not in chosen), view.dtype())]


def infer_unsqueeze(view: OperatorView) -> list[Tensor]:
    x = view.shape()
    axes = view.needed_ints("axes", 1)
    rank = len(x) + len(axes)
    chosen = {axis % rank for axis in axes}
    rest = iter(x)
    return [Tensor(tuple(1 if a in chosen else next(rest) for a in range(rank)), view.dtype())]


def infer_expand(view: OperatorView) -> list[Tensor]:
    from latcast.graph.operators.linear import broadcast

    return [Tensor(broadcast(view, view.shape(), view.needed_ints("shape", 1)), view.dtype())]


def infer_tile(view: OperatorView) -> list[Tensor]:
    repeats = view.needed_ints("repeats", 1)
    return [Tensor(tuple(s * r for s, r in zip(view.shape(), repeats, strict=True)), view.dtype())]


def infer_gather(view: OperatorView) -> list[Tensor]:
    x, indices = view.shape(0), view.shape(1)
    axis = view.node.integer("axis") % len(x)
    return [Tensor((*x[:axis], *indices, *x[axis + 1 :]), view.dtype())]


def infer_like_second(view: OperatorView) -> list[Tensor]:
    return [Tensor(view.shape(1), view.dtype())]


def infer_depth_to_space(view: OperatorView) -> list[Tensor]:
    n, c, h, w = view.shape()
    block = view.node.integer("blocksize", 1)
    return [Tensor((n, c // block**2, h * block, w * block), view.dtype())]


def infer_space_to_depth(view: OperatorView) -> list[Tensor]:
    n, c, h, w = view.shape()
    block = view.node.integer("blocksize", 1)
    return [Tensor((n, c * block**2, h // block, w // block), view.dtype())]


def infer_resize(view: OperatorView) -> list[Tensor]:
    """Return the sizes given, or the input's times the scales, rounded down in single precision as runtimes do."""
    import numpy as np

    x = view.shape()
    sizes, scales = view.value(3), view.value(2)
    if view.node.op_type == "Upsample" or len(view.inputs) == 2:
        scales = view.value(1)
        given = view.node.attributes.get("scales")
        if scales is None and given is not None:
            scales = np.asarray(given, dtype=np.float32)
    axes = [axis % len(x) for axis in view.node.integers("axes", tuple(range(len(x))))]
    shape = list(x)
    if sizes is not None and sizes.size:
        wanted = [int(size) for size in sizes.reshape(-1)]
        policy = view.node.text("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            choose = min if policy == "not_larger" else max
            scale = choose(size / x[axis] for axis, size in zip(axes, wanted, strict=True))
            wanted = [int(x[axis] * scale + 0.5) for axis in axes]
        for axis, size in zip(axes, wanted, strict=True):
            shape[axis] = size
    elif scales is not None and scales.size:
        for axis, factor in zip(axes, scales.reshape(-1), strict=True):
            shape[axis] = int(np.float32(x[axis]) * np.float32(factor))
    else:
        raise view.fail("neither sizes nor scales are constant")
    return [Tensor(tuple(shape), view.dtype())]


RESIZE_FLOPS = {"nearest": 1, "linear": 7, "cubic": 31}
"""For each element of an image: a product for each neighbour that is weighed, and a sum for each but the first."""


def flops_resize(view: OperatorView) -> int:
    return view.outputs[0].elements * RESIZE_FLOPS[view.node.text("mode", "nearest")]


def flops_reduce(view: OperatorView) -> int:
    return prod(view.shape())


_FIRST = frozenset({1})
_reduction = partial(Operator, infer=infer_reduce, flops=flops_reduce, kind=Kind.REDUCTION, constants=_FIRST)
_movement = partial(Operator, kind=Kind.MOVEMENT)
_view = partial(Operator, kind=Kind.VIEW, dequantises_late=True)

define(
    _reduction("ReduceMean", combines="mean", tflite="MEAN", ncnn=3),
    _reduction("ReduceSum", tflite="SUM", ncnn=0),
    _reduction("ReduceMax", combines="max", tflite="REDUCE_MAX", ncnn=4),
    _reduction("ReduceMin", tflite="REDUCE_MIN", ncnn=5),
    _reduction("ReduceProd", tflite="REDUCE_PROD", ncnn=6),
    _reduction("ReduceL1", combines="magnitudes", ncnn=7),
    _reduction("ReduceL2", combines="squares", ncnn=8),
    _reduction("ReduceSumSquare", combines="squares", ncnn=2),
    _reduction("ReduceLogSum", ncnn=9),
    _reduction("ReduceLogSumExp", ncnn=10),
    Operator("ArgMax", infer_arg, flops_reduce),
    Operator("ArgMin", infer_arg, flops_reduce),
    _view("Reshape", infer_reshape, constants=_FIRST),
    _view("Flatten", infer_flatten),
    _view("Squeeze", infer_squeeze, constants=_FIRST),
    _view("Unsqueeze", infer_unsqueeze, constants=_FIRST),
    _movement("Concat", infer_concat),
    _movement("Split", infer_split, constants=_FIRST, sized="axes"),
    _movement("Slice", infer_slice, constants=frozenset({1, 2, 3, 4}), sized="axes", picks=True, dequantises_late=True),
    _movement("Pad", infer_pad, constants=frozenset({1, 2, 3}), sized="everywhere"),
    _movement("Transpose", infer_transpose, dequantises_late=True),
    _movement("Expand", infer_expand, constants=_FIRST, sized="everywhere", copies="expand"),
    _movement("Tile", infer_tile, constants=_FIRST, sized="everywhere", copies="expand"),
    _movement("Gather", infer_gather, learned=frozenset({0}), sized="axes", picks=True, copies="gather"),
    _movement("DepthToSpace", infer_depth_to_space, channels=True, copies="rearrange"),
    _movement("SpaceToDepth", infer_space_to_depth, channels=True, copies="rearrange"),
    Operator("GatherElements", infer_like_second, picks=True),
    Operator("Resize", infer_resize, flops_resize, constants=frozenset({1, 2, 3}), channels=True),
    Operator("Upsample", infer_resize, flops_resize, constants=_FIRST, channels=True),
)
