"""Operators that move, select or rearrange data, reductions over named axes, and resizing.

TFLite knows three ways to place the samples of a resized image, ONNX many; they are compared sample by sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from latcast.graph.ir import Node
from latcast.graph.operators import Kind, names_of, operators
from latcast.graph.operators.movement import pad_amounts, slice_ranges
from latcast.graph.writers.tflite.layout import (
    CHANNELS_LAST,
    Order,
    after_transpose,
    logical,
    physical_shape,
    same_bytes,
    steps_between,
    through_reshape,
    transpose_perm,
)
from latcast.graph.writers.tflite.operators.elementwise import common_order
from latcast.graph.writers.tflite.steps import Step, unsupported
from latcast.graph.writers.tflite.writer import GraphWriter, emits

REDUCTIONS = {row.op_type: row.tflite or "SUM" for row in operators(Kind.REDUCTION) if row.tflite or row.combines}


@emits(*names_of(operators(Kind.VIEW)))
def reshape(writer: GraphWriter, step: Step) -> None:
    """Write a RESHAPE of the bytes; a TRANSPOSE first only where the sequence of elements would be wrong."""
    source, out = step.inputs[0], step.output
    shape, target = writer.shape(source), writer.shape(out)
    held, wish = writer.orders[source], writer.wishes.get(out)
    order = through_reshape(shape, held, target, wish)
    if order is None and _read_by_matrix_products(writer, out) and held[0] == 0 and target == (shape[0], prod(shape[1:])):
        # The features stay where they are and the rows of the next matrix move instead, as in a model trained in NHWC.
        positions = np.arange(prod(shape[1:])).reshape(shape[1:])
        writer.feature_order[out] = positions.transpose([axis - 1 for axis in held[1:]]).reshape(-1)
        order = (0, 1)
    elif order is None:
        backwards = None if wish is None else through_reshape(target, wish, shape)
        held = backwards if backwards is not None else logical(len(shape))
        order = through_reshape(shape, held, target, wish)
        assert order is not None
    index = writer.operand(source, held)
    final = physical_shape(target, order)
    if writer.model.tensors[index].shape == final and held == writer.orders[source]:
        writer.alias(step, order)
        return
    writer.finish("RESHAPE", (index, writer.indices(final, f"{out}/shape")), step, order)


def _read_by_matrix_products(writer: GraphWriter, name: str) -> bool:
    """Return whether every reader multiplies the tensor with a constant matrix."""
    readers = writer.graph.consumers.get(name, [])
    return name not in writer.graph.outputs and bool(readers) and all(_multiplies(writer, node, name) for node in readers)


def _multiplies(writer: GraphWriter, node: Node, name: str) -> bool:
    if node.op_type in ("Identity", "Dropout"):
        return _read_by_matrix_products(writer, node.outputs[0])
    return (
        node.op_type in ("Gemm", "MatMul")
        and node.inputs[0] == name
        and node.inputs[1] in writer.values
        and writer.values[node.inputs[1]].ndim == 2
        and not node.attributes.get("transA", 0)
    )


@emits("Transpose")
def transpose(writer: GraphWriter, step: Step) -> None:
    """Write a transpose, or nothing where the bytes already lie as wanted."""
    perm = transpose_perm(writer.graph, step.node)
    shape = writer.shape(step.output)
    seen = after_transpose(writer.orders[step.inputs[0]], perm)
    rank = len(shape)
    wanted = writer.wish(step.output, logical(rank))
    if rank == 4 and step.output not in writer.wishes and same_bytes(shape, seen, CHANNELS_LAST):
        wanted = CHANNELS_LAST
    if same_bytes(shape, seen, wanted):
        if physical_shape(shape, seen) == physical_shape(shape, wanted):
            writer.alias(step, wanted)
        else:
            index = writer.operand(step.inputs[0], writer.orders[step.inputs[0]])
            target = writer.indices(physical_shape(shape, wanted), f"{step.output}/shape")
            writer.finish("RESHAPE", (index, target), step, wanted)
        return
    index = writer.operand(step.inputs[0], writer.orders[step.inputs[0]])
    table = writer.indices(steps_between(seen, wanted), f"{step.output}/perm")
    writer.finish("TRANSPOSE", (index, table), step, wanted)


@emits("Concat")
def concat(writer: GraphWriter, step: Step) -> None:
    rank = len(writer.shape(step.output))
    order = common_order(writer, step)
    axis = order.index(step.node.integer("axis") % rank)
    inputs = [_laid_out(writer, name, order) for name in step.inputs]
    writer.finish("CONCATENATION", inputs, step, order, axis=axis)


def _laid_out(writer: GraphWriter, name: str, order: Order) -> int:
    """Return the operand as ``operand`` does, but a constant keeps its axes of size 1."""
    if name in writer.values:
        return writer.constant(writer.values[name].transpose(order), name)
    return writer.operand(name, order)


@emits("Split")
def split(writer: GraphWriter, step: Step) -> None:
    index, order = writer.source(step)
    axis = step.node.integer("axis") % len(order)
    sizes = [writer.shape(name)[axis] for name in step.outputs]
    position = writer.constant(np.int32(order.index(axis)), f"{step.output}/axis")
    if len(set(sizes)) == 1:
        writer.finish_several("SPLIT", (position, index), step, order, num_splits=len(sizes))
    else:
        table = writer.indices(sizes, f"{step.output}/sizes")
        writer.finish_several("SPLIT_V", (index, table, position), step, order, num_splits=len(sizes))


def _strided(writer: GraphWriter, step: Step, taken: Mapping[int, range]) -> tuple[tuple[int, int, int, int], Order]:
    """Return the inputs of a STRIDED_SLICE that takes these places along some logical axes."""
    order = writer.orders[step.inputs[0]]
    shape = writer.shape(step.inputs[0])
    rows = [taken.get(axis, range(shape[axis])) for axis in order]
    begin, end, stride = (
        writer.indices([getattr(row, part) for row in rows], f"{step.output}/{name}")
        for part, name in (("start", "begin"), ("stop", "end"), ("step", "strides"))
    )
    return (writer.operand(step.inputs[0], order), begin, end, stride), order


@emits("Slice")
def slice_(writer: GraphWriter, step: Step) -> None:
    taken = slice_ranges(writer.view(step))
    backwards = [each.step for each in taken.values() if each.step < 1]
    if backwards:
        raise unsupported(step.node, f"it steps by {backwards[0]}; TFLite's delegate goes forwards only")
    inputs, order = _strided(writer, step, taken)
    writer.finish("STRIDED_SLICE", inputs, step, order)


@emits("Gather")
def gather(writer: GraphWriter, step: Step) -> None:
    """Write a STRIDED_SLICE and a RESHAPE for one index, as converters take a class token; else a GATHER."""
    source, where = step.inputs[:2]
    shape = writer.shape(source)
    axis = step.node.integer("axis") % len(shape)
    if where not in writer.values:
        raise unsupported(step.node, "its indices are computed at run time")
    picked = writer.values[where]
    if picked.ndim == 0:
        at = int(picked) % shape[axis]
        inputs, order = _strided(writer, step, {axis: range(at, at + 1)})
        sliced = physical_shape((*shape[:axis], 1, *shape[axis + 1 :]), order)
        part = writer.add("STRIDED_SLICE", inputs, sliced, f"{step.output}/sliced")
        final = tuple(a - (a > axis) for a in order if a != axis)
        target = writer.indices(physical_shape(writer.shape(step.output), final), f"{step.output}/shape")
        writer.finish("RESHAPE", (part, target), step, final)
        return
    order = logical(len(shape))
    both = (writer.operand(source, order), writer.constant(picked.astype(np.int32), where))
    writer.finish("GATHER", both, step, logical(len(writer.shape(step.output))), axis=axis)


@emits("Pad")
def pad(writer: GraphWriter, step: Step) -> None:
    view = writer.view(step)
    order = writer.orders[step.inputs[0]]
    around = pad_amounts(view)
    if min(map(min, around.values())) < 0:
        raise unsupported(step.node, f"its pads {list(around.values())} take elements away; slice instead")
    table = np.array([around.get(axis, (0, 0)) for axis in order], dtype=np.int32)
    inputs = [writer.operand(step.inputs[0], order), writer.constant(table, f"{step.output}/paddings")]
    mode = step.node.text("mode", "constant")
    filler = view.value(2)
    value = float(filler.reshape(-1)[0]) if filler is not None else step.node.real("value")
    if mode == "reflect":
        writer.finish("MIRROR_PAD", inputs, step, order, mode=0)
    elif mode != "constant":
        raise unsupported(step.node, f"its mode is '{mode}'; TFLite pads with a constant or by reflection")
    elif value:
        writer.finish("PADV2", [*inputs, writer.constant(np.float32(value), f"{step.output}/value")], step, order)
    else:
        writer.finish("PAD", inputs, step, order)


@emits("Expand")
def expand(writer: GraphWriter, step: Step) -> None:
    rank = len(writer.shape(step.output))
    held = writer.orders[step.inputs[0]]
    order = held if len(held) == rank else logical(rank)
    if writer.shape(step.inputs[0]) == writer.shape(step.output):
        writer.alias(step, held)
        return
    target = physical_shape(writer.shape(step.output), order)
    inputs = (writer.operand(step.inputs[0], order), writer.indices(target, f"{step.output}/shape"))
    writer.finish("BROADCAST_TO", inputs, step, order)


@emits("Tile")
def tile(writer: GraphWriter, step: Step) -> None:
    source, order = writer.source(step)
    repeats = writer.view(step).needed_ints("repeats", 1)
    inputs = (source, writer.indices([repeats[axis] for axis in order], f"{step.output}/repeats"))
    writer.finish("TILE", inputs, step, order)


@emits(*REDUCTIONS)
def reduce(writer: GraphWriter, step: Step) -> None:
    """Write a reduction; norms are sums of absolute values or of squares, the Euclidean one the root of it."""
    view = writer.view(step)
    order = writer.orders[step.inputs[0]]
    axes = view.ints_from("axes", 1)
    if not axes:
        if axes == () and step.node.integer("noop_with_empty_axes"):
            writer.alias(step, order)
            return
        axes = tuple(range(len(order)))
    chosen = sorted(axis % len(order) for axis in axes)
    positions = sorted(order.index(axis) for axis in chosen)
    keep = bool(step.node.integer("keepdims", 1))
    final = order
    if not keep:
        left = [axis for axis in range(len(order)) if axis not in chosen]
        final = tuple(left.index(axis) for axis in order if axis not in chosen)
    source = writer.operand(step.inputs[0], order)
    shape = physical_shape(writer.shape(step.inputs[0]), order)
    if step.op_type == "ReduceL1":
        source = writer.add("ABS", (source,), shape, f"{step.output}/magnitudes")
    elif step.op_type in ("ReduceL2", "ReduceSumSquare"):
        source = writer.add("MUL", (source, source), shape, f"{step.output}/squares")
    inputs = (source, writer.indices(positions, f"{step.output}/axes"))
    if step.op_type == "ReduceL2":
        target = physical_shape(writer.shape(step.output), final)
        summed = writer.add("SUM", inputs, target, f"{step.output}/summed", {"keep_dims": keep})
        writer.finish("SQRT", (summed,), step, final)
    else:
        writer.finish(REDUCTIONS[step.op_type], inputs, step, final, keep_dims=keep)


@emits("DepthToSpace", "SpaceToDepth")
def depth_and_space(writer: GraphWriter, step: Step) -> None:
    """Write the column-row-depth form of DepthToSpace (pixel shuffle): a reshape, a transpose and a reshape."""
    block = step.node.integer("blocksize", 1)
    source = writer.operand(step.inputs[0], CHANNELS_LAST)
    if step.op_type == "SpaceToDepth":
        writer.finish("SPACE_TO_DEPTH", (source,), step, CHANNELS_LAST, block_size=block)
    elif step.node.text("mode", "DCR") == "DCR":
        writer.finish("DEPTH_TO_SPACE", (source,), step, CHANNELS_LAST, block_size=block)
    else:
        n, c, h, w = writer.shape(step.inputs[0])
        kept = c // block**2
        split_up = writer.reshaped(source, (n, h, w, kept, block, block), f"{step.output}/blocks")
        perm = writer.indices((0, 1, 4, 2, 5, 3), f"{step.output}/perm")
        moved = writer.add("TRANSPOSE", (split_up, perm), (n, h, block, w, block, kept), f"{step.output}/moved")
        target = writer.indices(physical_shape(writer.shape(step.output), CHANNELS_LAST), f"{step.output}/shape")
        writer.finish("RESHAPE", (moved, target), step, CHANNELS_LAST)


_PLACEMENTS: Mapping[str, dict[str, bool]] = {
    "asymmetric": {}, "half_pixel": {"half_pixel_centers": True}, "align_corners": {"align_corners": True},
}  # fmt: skip
"""Placements that TFLite has, as ONNX names them (coordinate_transformation_mode), with its options for them."""


@emits("Resize", "Upsample")
def resize(writer: GraphWriter, step: Step) -> None:
    """RESIZE_NEAREST_NEIGHBOR or RESIZE_BILINEAR, with options that sample where the graph does."""
    x, out = writer.shape(step.inputs[0]), writer.shape(step.output)
    mode = step.node.text("mode", "nearest")
    placement = step.node.text("coordinate_transformation_mode", "half_pixel" if step.op_type == "Resize" else "asymmetric")
    if len(x) != 4 or x[:2] != out[:2] or mode not in ("nearest", "linear"):
        raise unsupported(step.node, f"mode '{mode}' from {list(x)} to {list(out)}; images are resized nearest or linear")
    rounding = step.node.text("nearest_mode", "round_prefer_floor" if step.op_type == "Resize" else "floor")
    axes = list(zip(x[2:], out[2:], strict=True))
    ours = rounding if mode == "nearest" else ""
    for name, options in _PLACEMENTS.items():
        theirs = ("round_prefer_ceil" if options else "floor") if ours else ""
        if all(
            np.allclose(_sampled(*sizes, placement, ours, step), _sampled(*sizes, name, theirs, step), atol=1e-4)
            for sizes in axes
        ):
            size = writer.indices(out[2:], f"{step.output}/size")
            builtin = "RESIZE_NEAREST_NEIGHBOR" if mode == "nearest" else "RESIZE_BILINEAR"
            writer.finish(builtin, (writer.operand(step.inputs[0], CHANNELS_LAST), size), step, CHANNELS_LAST, **options)
            return
    raise unsupported(step.node, f"'{placement}' with '{rounding}' from {list(x)} to {list(out)} samples where TFLite does not")


def _samples(size: int, resized: int, placement: str, step: Step) -> np.ndarray:
    """Return the places in the source of the output's samples."""
    at = np.arange(resized, dtype=np.float64)
    scale = size / resized
    if placement == "asymmetric":
        return at * scale
    if placement == "half_pixel" or (placement == "pytorch_half_pixel" and resized > 1):
        return (at + 0.5) * scale - 0.5
    if placement == "align_corners":
        return at * ((size - 1) / (resized - 1)) if resized > 1 else at
    raise unsupported(step.node, f"coordinate_transformation_mode '{placement}'")


def _sampled(size: int, resized: int, placement: str, rounding: str, step: Step) -> np.ndarray:
    """Return the places that are read, whole ones by a rule of rounding and others without."""
    samples = _samples(size, resized, placement, step)
    rules = {
        "": samples, "floor": np.floor(samples), "ceil": np.ceil(samples), "round_prefer_floor": np.ceil(samples - 0.5),
        "round_prefer_ceil": np.floor(samples + 0.5),
    }  # fmt: skip
    if rounding not in rules:
        raise unsupported(step.node, f"nearest_mode '{rounding}'")
    return np.clip(rules[rounding], 0, size - 1)
