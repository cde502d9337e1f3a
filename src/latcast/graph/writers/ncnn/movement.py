"""Operators that move, select or rearrange data."""

from __future__ import annotations

from itertools import permutations
from math import prod

import numpy as np

from latcast.graph.ir import Node, Shape
from latcast.graph.operators import Kind, names_of, operators
from latcast.graph.operators.movement import pad_amounts, slice_ranges
from latcast.graph.writers.ncnn.layers import ParamValue, dims_params
from latcast.graph.writers.ncnn.lowering import MAX_DIMS, Blob, Lowering, failure, fitting_axes, lowers

_PAD_MODES = {"constant": 0, "edge": 1, "reflect": 2}
"""ONNX's mode to parameter 4 of Padding."""


@lowers("Cast", *names_of(row for row in operators() if row.kind is Kind.VIEW or row.passes))
def lower_view(ctx: Lowering, node: Node) -> None:
    """Nothing to compute; what reads it decides whether the blob must be reshaped."""
    ctx.alias(node)


# Transposition


def merged_permutation(shape: Shape, order: tuple[int, ...]) -> tuple[Shape, tuple[int, ...]]:
    """Return the smallest transposition that moves the same data: without axes of size 1, and with neighbours that stay together
    as one axis.

    Returns:
        The input's shape and the order of its axes in the output; empty where nothing moves.

    Example:
        >>> merged_permutation((1, 16, 3, 4, 8), (2, 0, 3, 1, 4))
        ((16, 12, 8), (1, 0, 2))
    """
    moved = [axis for axis in order if shape[axis] != 1]
    groups: list[list[int]] = []
    rank = {axis: position for position, axis in enumerate(sorted(moved))}
    for axis in moved:
        if groups and rank[axis] == rank[groups[-1][-1]] + 1:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    if len(groups) <= 1:
        return (), ()
    in_order = sorted(groups)
    sizes = tuple(prod(shape[axis] for axis in group) for group in in_order)
    return sizes, tuple(in_order.index(group) for group in groups)


def order_type(order: tuple[int, ...]) -> int:
    """Return parameter 0 of ncnn's Permute for an order of axes, outermost first."""
    rank = len(order)
    # ncnn lists the orders of (c, d, h, w) with the outermost axis changing slowest: c before d before h before w.
    return sorted(permutations(range(rank))).index(order)


@lowers("Transpose")
def lower_transpose(ctx: Lowering, node: Node) -> None:
    """Permute on as few axes as the data need; more than four cannot be moved at once."""
    shape = ctx.shape(node.inputs[0])
    order = node.integers("perm", tuple(reversed(range(len(shape)))))
    sizes, merged = merged_permutation(shape, order)
    if not merged:
        ctx.alias(node)
        return
    if len(merged) > MAX_DIMS:
        raise failure(node, f"it moves {len(merged)} groups of axes at once, a blob has at most four axes")
    bottom = ctx.shaped(node.inputs[0], sizes)
    result = [sizes[axis] for axis in merged]
    ctx.emit("Permute", [bottom], {node.outputs[0]: result}, [node], {0: order_type(merged)})


@lowers("ChannelShuffle")
def lower_channel_shuffle(ctx: Lowering, node: Node) -> None:
    shape = ctx.shape(node.inputs[0])
    bottom = ctx.shaped(node.inputs[0], shape[1:])
    ctx.emit("ShuffleChannel", [bottom], {node.outputs[0]: shape[1:]}, [node], {0: node.integer("group", 1)})


@lowers("DepthToSpace")
def lower_depth_to_space(ctx: Lowering, node: Node) -> None:
    """PixelShuffle."""
    params: dict[int, ParamValue] = {
        0: node.integer("blocksize", 1),
        1: int(node.text("mode", "DCR") == "DCR"),
    }
    bottom = ctx.shaped(node.inputs[0], ctx.shape(node.inputs[0])[1:])
    ctx.emit("PixelShuffle", [bottom], {node.outputs[0]: ctx.shape(node.outputs[0])[1:]}, [node], params)


@lowers("SpaceToDepth")
def lower_space_to_depth(ctx: Lowering, node: Node) -> None:
    """Reorg in the order of channels that ONNX has."""
    bottom = ctx.shaped(node.inputs[0], ctx.shape(node.inputs[0])[1:])
    params: dict[int, ParamValue] = {0: node.integer("blocksize", 1), 1: 1}
    ctx.emit("Reorg", [bottom], {node.outputs[0]: ctx.shape(node.outputs[0])[1:]}, [node], params)


# Joining and cutting


@lowers("Concat")
def lower_concat(ctx: Lowering, node: Node) -> None:
    output = ctx.shape(node.outputs[0])
    axis = node.integer("axis") % len(output)
    names = [name for name in node.inputs if name]
    if len(names) == 1:
        ctx.alias(node)
        return
    axes = fitting_axes(node, output, keep=(axis,))
    bottoms = [ctx.shaped(name, [ctx.shape(name)[kept] for kept in axes]) for name in names]
    ctx.emit("Concat", bottoms, {node.outputs[0]: [output[kept] for kept in axes]}, [node], {0: axes.index(axis)})


@lowers("Split")
def lower_split(ctx: Lowering, node: Node) -> None:
    """ncnn's Slice (its Split copies)."""
    shape = ctx.shape(node.inputs[0])
    axis = node.integer("axis") % len(shape)
    if len(node.outputs) == 1:
        ctx.alias(node)
        return
    axes = fitting_axes(node, shape, keep=(axis,))
    bottom = ctx.shaped(node.inputs[0], [shape[kept] for kept in axes])
    outputs = {name: [ctx.shape(name)[kept] for kept in axes] for name in node.outputs}
    sizes = tuple(ctx.shape(name)[axis] for name in node.outputs)
    ctx.emit("Slice", [bottom], outputs, [node], {0: sizes, 1: axes.index(axis)})


@lowers("Slice")
def lower_slice(ctx: Lowering, node: Node) -> None:
    """Crop; a step takes a reshape that sets the step apart as an axis, and a crop of it."""
    shape = ctx.shape(node.inputs[0])
    cuts: dict[int, tuple[int, int]] = {}
    strides: dict[int, range] = {}
    for axis, taken in slice_ranges(ctx.view(node)).items():
        if taken.step < 1 and len(taken) > 1:
            raise failure(node, f"step {taken.step} on axis {axis} goes backwards, which no layer does")
        if taken.step == 1 or len(taken) == 1:
            cuts[axis] = (taken.start, len(taken))
        else:
            strides[axis] = taken
    if strides:
        _write_strided(ctx, node, shape, cuts, strides)
    else:
        _write_crop(ctx, node, node.inputs[0], shape, cuts)


def _write_crop(ctx: Lowering, node: Node, source: str, shape: Shape, cuts: dict[int, tuple[int, int]]) -> None:
    """Take ``length`` elements from ``start`` along each axis in ``cuts``."""
    cuts = {axis: cut for axis, cut in cuts.items() if cut != (0, shape[axis])}
    if not cuts:
        ctx.alias(node)
        return
    axes = fitting_axes(node, shape)
    bottom = ctx.shaped(source, [shape[axis] for axis in axes])
    result = [cuts[axis][1] if axis in cuts else shape[axis] for axis in axes]
    ctx.emit("Crop", [bottom], {node.outputs[0]: result}, [node], _crop_params(axes, cuts))


def _crop_params(axes: tuple[int, ...], cuts: dict[int, tuple[int, int]]) -> dict[int, ParamValue]:
    return {
        9: tuple(start for start, _ in cuts.values()),
        10: tuple(start + length for start, length in cuts.values()),
        11: tuple(axes.index(axis) for axis in cuts),
    }


def _write_strided(ctx: Lowering, node: Node, shape: Shape, cuts: dict[int, tuple[int, int]], strides: dict[int, range]) -> None:
    """Slice one axis at a time, as (before, axis, after): cut to whole steps, then (before, kept, step, after),
    of which one element a step stays. Axes that are cut without a step go first."""
    sizes = list(shape)
    cuts = {axis: cut for axis, cut in cuts.items() if cut != (0, shape[axis])}
    bottom: Blob | None = None
    for axis, (start, length) in cuts.items():
        bottom = _along(ctx, node, bottom, sizes, axis)
        bottom = _cropped(ctx, bottom, 1, start, length)
        sizes[axis] = length
    for index, (axis, taken) in enumerate(strides.items()):
        kept, step = len(taken), taken.step
        # Whole steps from the first element on where they fit; else from as far before it as lets them; else they are padded.
        before = min(max(0, taken.start + kept * step - sizes[axis]), step - 1, taken.start)
        first, missing = taken.start - before, max(0, taken.start - before + kept * step - sizes[axis])
        if first or missing or sizes[axis] != kept * step:
            bottom = _along(ctx, node, bottom, sizes, axis)
            if missing:
                outer, inner = bottom.shape[0], bottom.shape[2]
                padded = (outer, sizes[axis] + missing, inner)
                bottom = ctx.emit_inner("Padding", [bottom], padded, {1: missing})
            bottom = _cropped(ctx, bottom, 1, first, kept * step)
        outer, inner = prod(sizes[:axis]), prod(sizes[axis + 1 :])
        apart = (outer, kept, step, inner)
        source = ctx.shaped(node.inputs[0], apart) if bottom is None else _reshaped(ctx, bottom, apart)
        sizes[axis] = kept
        if index == len(strides) - 1:
            params = _crop_params((0, 1, 2, 3), {2: (before, 1)})
            ctx.emit("Crop", [source], {node.outputs[0]: (outer, kept, 1, inner)}, [node], params)
        else:
            bottom = _cropped(ctx, source, 2, before, 1)


def _along(ctx: Lowering, node: Node, bottom: Blob | None, sizes: list[int], axis: int) -> Blob:
    """Return the result so far, or the node's input, as (before, axis, after)."""
    shape = (prod(sizes[:axis]), sizes[axis], prod(sizes[axis + 1 :]))
    return ctx.shaped(node.inputs[0], shape) if bottom is None else _reshaped(ctx, bottom, shape)


def _reshaped(ctx: Lowering, blob: Blob, shape: Shape) -> Blob:
    return blob if blob.shape == shape else ctx.emit_inner("Reshape", [blob], shape, dims_params(shape))


def _cropped(ctx: Lowering, blob: Blob, axis: int, start: int, length: int) -> Blob:
    """Write a Crop of a part of a blob along one of its axes."""
    if (start, length) == (0, blob.shape[axis]):
        return blob
    shape = (*blob.shape[:axis], length, *blob.shape[axis + 1 :])
    return ctx.emit_inner("Crop", [blob], shape, _crop_params(tuple(range(len(shape))), {axis: (start, length)}))


@lowers("Gather")
def lower_gather(ctx: Lowering, node: Node) -> None:
    """Crop, where the indices are constant and follow each other."""
    indices = ctx.known(node.inputs[1])
    if indices is None or ctx.known(node.inputs[0]) is not None:
        raise failure(node, "only constant indices into an activation are a layer")
    shape = ctx.shape(node.inputs[0])
    axis = node.integer("axis") % len(shape)
    taken = np.asarray(indices).reshape(-1).astype(int) % shape[axis]
    if not np.array_equal(taken, np.arange(taken[0], taken[0] + taken.size)):
        raise failure(node, f"its indices {taken.tolist()[:8]} do not follow each other")
    _write_crop(ctx, node, node.inputs[0], shape, {axis: (int(taken[0]), taken.size)})


@lowers("Pad")
def lower_pad(ctx: Lowering, node: Node) -> None:
    """Write a padding; a blob of four axes can be padded along all but the first."""
    view = ctx.view(node)
    shape, output = ctx.shape(node.inputs[0]), ctx.shape(node.outputs[0])
    amounts = {axis: amount for axis, amount in pad_amounts(view).items() if any(amount)}
    mode = node.text("mode", "constant")
    if not amounts:
        ctx.alias(node)
        return
    if mode not in _PAD_MODES or min(map(min, amounts.values())) < 0:
        raise failure(node, f"padding is constant, edge or reflect and not negative; this is {mode} {list(amounts.values())}")
    axes = fitting_axes(node, shape, keep=tuple(amounts))
    names = {1: ("w",), 2: ("h", "w"), 3: ("c", "h", "w"), 4: ("", "c", "h", "w")}[len(axes)]
    numbers = {"h": (0, 1), "w": (2, 3), "c": (7, 8)}
    value = ctx.weight(node, 2)
    fill = float(value.reshape(-1)[0]) if value is not None else node.real("value")
    params: dict[int, ParamValue] = {4: _PAD_MODES[mode], 5: fill}
    for axis, amount in amounts.items():
        name = names[axes.index(axis)]
        if not name:
            raise failure(node, "the outermost of four axes cannot be padded")
        params.update(zip(numbers[name], amount, strict=True))
    bottom = ctx.shaped(node.inputs[0], [shape[axis] for axis in axes])
    ctx.emit("Padding", [bottom], {node.outputs[0]: [output[axis] for axis in axes]}, [node], params)


@lowers("Expand", "Tile")
def lower_tile(ctx: Lowering, node: Node) -> None:
    """Tile, unless nothing is repeated."""
    shape, output = ctx.shape(node.inputs[0]), ctx.shape(node.outputs[0])
    full: Shape = (*(1,) * (len(output) - len(shape)), *shape)
    repeats = [size // given for size, given in zip(output, full, strict=True)]
    if prod(repeats) == 1:
        ctx.alias(node)
        return
    axes = fitting_axes(node, output)
    bottom = ctx.shaped(node.inputs[0], [full[axis] for axis in axes])
    params: dict[int, ParamValue] = {2: tuple(repeats[axis] for axis in axes)}
    ctx.emit("Tile", [bottom], {node.outputs[0]: [output[axis] for axis in axes]}, [node], params)


@lowers("Resize", "Upsample")
def lower_resize(ctx: Lowering, node: Node) -> None:
    """Interp: nearest as floor(x / scale), bilinear and bicubic between pixel centres or aligned corners."""
    shape, output = ctx.shape(node.inputs[0]), ctx.shape(node.outputs[0])
    if len(shape) != 4 or shape[:2] != output[:2]:
        raise failure(node, f"only height and width can be resized, not {list(shape)} to {list(output)}")
    mode = node.text("mode", "nearest")
    default = "asymmetric" if node.op_type == "Upsample" else "half_pixel"
    position = node.text("coordinate_transformation_mode", default)
    enlarges = all(new % old == 0 for new, old in zip(output[2:], shape[2:], strict=True))
    if mode == "nearest":
        floors = position == "asymmetric" and (
            node.op_type == "Upsample" or node.text("nearest_mode", "round_prefer_floor") == "floor"
        )
        # Whole-number enlargement copies every pixel whichever way its position is rounded.
        centred = position in ("half_pixel", "pytorch_half_pixel") and enlarges
        if not floors and not centred:
            raise failure(node, f"nearest neighbours at {position} positions are not those that ncnn takes")
        params: dict[int, ParamValue] = {0: 1}
    elif mode in ("linear", "bilinear", "cubic") and position in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        params = {0: 3 if mode == "cubic" else 2, 6: int(position == "align_corners")}
    else:
        raise failure(node, f"'{mode}' at {position} positions is not one of ncnn's interpolations")
    params |= {3: output[2], 4: output[3]}
    ctx.emit("Interp", [ctx.shaped(node.inputs[0], shape[1:])], {node.outputs[0]: output[1:]}, [node], params)
