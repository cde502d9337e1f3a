"""TFLite's operators that move, select or rearrange data, in ONNX's vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from latcast.graph.importers.tflite_conversion import Attributes, Conversion
from latcast.graph.ir import Tensor

Convert = Callable[[Conversion], Any]

_TO_THE_END = 2**31 - 1


def _reshape(c: Conversion) -> None:
    """Reshape to a target that is an input, an option, or only the shape of the output."""
    target: tuple[int, ...] = ()
    if c.has(1) and c.reading.value(c.operator.inputs[1]) is not None:
        target = c.ints(1)
    if not target and not c.reading.shapes:
        target = c.stated().shape
    c.reshape(c.input(0), target, output=c.outputs[0])


def _squeeze(c: Conversion) -> None:
    axes = [int(axis) for axis in np.atleast_1d(c.options("SqueezeOptions").SqueezeDimsAsNumpy())]
    axes = [] if c.options("SqueezeOptions").SqueezeDimsIsNone() else axes
    c.result("Squeeze", [c.input(0), c.constant(axes)] if axes else [c.input(0)])


def _concatenation(c: Conversion) -> None:
    options = c.options("ConcatenationOptions")
    parts = [c.input(position) for position in range(len(c))]
    axis = options.Axis() % len(c.shape())
    c.result("Concat", parts, {"axis": axis}, activation=options.FusedActivationFunction())


def _pack(c: Conversion) -> None:
    axis = c.options("PackOptions").Axis() % (len(c.shape()) + 1)
    axes = c.constant([axis])
    rows = [c.op("Unsqueeze", [c.input(position), axes]) for position in range(len(c))]
    c.result("Concat", rows, {"axis": axis})


def _unpack(c: Conversion) -> None:
    axis = c.options("UnpackOptions").Axis() % len(c.shape())
    parts = [c.assembly.fresh(f"{name}_part") for name in c.outputs]
    c.many("Split", [c.input(0), c.constant([1] * len(parts))], {"axis": axis}, parts)
    axes = c.constant([axis])
    for part, output in zip(parts, c.outputs, strict=True):
        c.op("Squeeze", [part, axes], output=output)


def _split(c: Conversion) -> None:
    """Split evenly; inputs: axis, value."""
    axis = c.ints(0)[0] % len(c.shape(1))
    count = len(c.outputs)
    sizes = [c.shape(1)[axis] // count] * count
    c.many("Split", [c.input(1), c.constant(sizes)], {"axis": axis}, c.outputs)


def _split_by_sizes(c: Conversion) -> None:
    """Split into sizes; inputs: value, sizes (one may be -1), axis."""
    axis = c.ints(2)[0] % len(c.shape())
    sizes = list(c.ints(1))
    if -1 in sizes:
        sizes[sizes.index(-1)] = c.shape()[axis] - sum(size for size in sizes if size != -1)
    c.many("Split", [c.input(0), c.constant(sizes)], {"axis": axis}, c.outputs)


def _slice(c: Conversion) -> None:
    """Slice; inputs: value, begins, sizes (-1: to the end). The size is known where only the begins are computed."""
    if c.reading.value(c.operator.inputs[1]) is None and min(c.ints(2), default=-1) >= 0:
        c.keep_unknown([Tensor(c.ints(2), c.assembly.tensor(c.input(0)).dtype)])
        return
    begins = c.ints(1)
    ends = [_TO_THE_END if size < 0 else begin + size for begin, size in zip(begins, c.ints(2), strict=True)]
    axes = range(len(begins))
    c.result("Slice", [c.input(0), *(c.constant(list(numbers)) for numbers in (begins, ends, axes))])


def _strided_slice(c: Conversion) -> Any:
    """Slice; masks say for each axis whether its begin or end is left open, and whether it disappears."""
    options = c.options("StridedSliceOptions")
    if options.EllipsisMask() or options.NewAxisMask():
        return NotImplemented
    begins, ends, strides = list(c.ints(1)), list(c.ints(2)), list(c.ints(3))
    dropped = [axis for axis in range(len(begins)) if options.ShrinkAxisMask() >> axis & 1]
    for axis, (begin, stride) in enumerate(zip(begins, strides, strict=True)):
        if axis in dropped:
            ends[axis] = begin + 1 if begin != -1 else _TO_THE_END
            strides[axis] = 1
            continue
        if options.BeginMask() >> axis & 1:
            begins[axis] = 0 if stride > 0 else _TO_THE_END
        if options.EndMask() >> axis & 1:
            ends[axis] = _TO_THE_END if stride > 0 else -_TO_THE_END
    axes = range(len(begins))
    inputs = [c.input(0), *(c.constant(list(numbers)) for numbers in (begins, ends, axes, strides))]
    if not dropped:
        c.result("Slice", inputs)
        return None
    c.result("Squeeze", [c.op("Slice", inputs), c.constant(dropped)])
    return None


def _reverse(c: Conversion) -> None:
    axes = c.ints(1)
    rows = ([-1] * len(axes), [-_TO_THE_END] * len(axes), axes, [-1] * len(axes))
    c.result("Slice", [c.input(0), *(c.constant(list(numbers)) for numbers in rows)])


def _pad(c: Conversion) -> None:
    """Pad, or mirror, also in the mode that repeats the border: ONNX lacks it, and it costs the same."""
    pads = c.constant(c.value(1).reshape(-1, 2).T.reshape(-1).astype(np.int64))
    mirrored: Attributes = {"mode": "reflect"} if c.operator.kind == "MIRROR_PAD" else {}
    c.result("Pad", [c.input(0), pads, *([c.input(2)] if c.has(2) else [])], mirrored)


def _gather(c: Conversion) -> Any:
    options = c.options("GatherOptions")
    if options.BatchDims():
        return NotImplemented
    c.result("Gather", [c.input(0), c.input(1)], {"axis": options.Axis() % len(c.shape())})
    return None


def _gather_nd(c: Conversion) -> None:
    """ONNX takes coordinates of 64 bits alone."""
    known = c.reading.value(c.operator.inputs[1])
    indices = c.input(1) if known is None else c.constant(known)
    if known is None and c.assembly.tensor(indices).dtype != "int64":
        indices = c.op("Cast", [indices], {"to": 7})
    c.result("GatherND", [c.input(0), indices])


def _resize(mode: str, table: str) -> Convert:
    def convert(c: Conversion) -> None:
        options = c.options(table)
        height, width = c.ints(1)
        batch, _, _, channels = c.shape()
        placement = "asymmetric"
        if options.AlignCorners():
            placement = "align_corners"
        elif options.HalfPixelCenters():
            placement = "half_pixel"
        attributes: Attributes = {"mode": mode, "coordinate_transformation_mode": placement, "nearest_mode": "floor"}
        sizes = c.constant([batch, channels, height, width])
        c.result("Resize", [c.channels_first(), "", "", sizes], attributes, from_channels_first=True)

    return convert


def _by_blocks(op_type: str, table: str) -> Convert:
    return lambda c: c.result(
        op_type, [c.channels_first()], {"blocksize": c.options(table).BlockSize()}, from_channels_first=True
    )


def _cast(c: Conversion) -> None:
    dtype = c.stated().dtype
    codes = {"float32": 1, "uint8": 2, "int8": 3, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10}
    c.result("Cast", [c.input(0)], {"to": codes.get(dtype, 1)})


def _top_k(c: Conversion) -> None:
    k = c.constant(c.ints(1)[:1])
    c.many("TopK", [c.input(0), k], {"axis": len(c.shape()) - 1}, c.outputs)


def _one_hot(c: Conversion) -> None:
    """Add a OneHot; inputs: indices, depth, on, off."""
    axis = c.options("OneHotOptions").Axis()
    depth, values = c.constant(c.ints(1)[:1]), c.constant([0.0, 1.0], "float32")
    c.result("OneHot", [c.input(0), depth, values], {"axis": axis})


def _where(c: Conversion) -> None:
    """Keep the search for true elements, with the most that there can be."""
    shape = c.shape()
    c.keep_unknown([Tensor((prod(shape), len(shape)), "int64")])
    c.reading.note_run_time_size(
        c.operator.kind, f"{c.name} gives as many rows as its input has true elements; all {prod(shape):,} are assumed"
    )


def _unique(c: Conversion) -> None:
    """Keep the search for distinct elements, with the most that there can be."""
    count = prod(c.shape())
    c.keep_unknown([Tensor((count,), c.stated(0).dtype), Tensor((count,), c.stated(1).dtype)])
    c.reading.note_run_time_size(
        c.operator.kind, f"{c.name} gives as many elements as its input has distinct ones; all {count:,} are assumed"
    )


def _sized_by(position: int) -> Convert:
    """Keep an operator whose result is as large as the file says where this input is constant."""

    def convert(c: Conversion) -> None:
        c.value(position)
        c.keep_unknown()

    return convert


def _broadcast_shapes(c: Conversion) -> None:
    both = np.broadcast_shapes(c.ints(0), c.ints(1))
    c.assembly.add_value(c.outputs[0], np.asarray(both, dtype=c.stated().dtype))


MOVEMENT: Mapping[str, Convert] = {
    "BATCH_TO_SPACE_ND": _sized_by(1),
    "BROADCAST_ARGS": _broadcast_shapes,
    "BROADCAST_TO": lambda c: c.result("Expand", [c.input(0), c.constant(c.ints(1))]),
    "CAST": _cast,
    "CONCATENATION": _concatenation,
    "DENSIFY": lambda c: c.assembly.alias(c.outputs[0], c.input(0)),
    "DEPTH_TO_SPACE": _by_blocks("DepthToSpace", "DepthToSpaceOptions"),
    "EMBEDDING_LOOKUP": lambda c: c.result("Gather", [c.input(1), c.input(0)], {"axis": 0}),
    "EXPAND_DIMS": lambda c: c.result("Unsqueeze", [c.input(0), c.constant(c.ints(1)[:1])]),
    "FILL": lambda c: c.assembly.add_static(c.outputs[0], Tensor(c.ints(0), c.assembly.tensor(c.input(1)).dtype)),
    "GATHER": _gather,
    "GATHER_ND": _gather_nd,
    "MIRROR_PAD": _pad,
    "NON_MAX_SUPPRESSION_V4": _sized_by(2),
    "NON_MAX_SUPPRESSION_V5": _sized_by(2),
    "ONE_HOT": _one_hot,
    "PACK": _pack,
    "PAD": _pad,
    "PADV2": _pad,
    "RANDOM_STANDARD_NORMAL": _sized_by(0),
    "RANDOM_UNIFORM": _sized_by(0),
    "RANGE": lambda c: c.result("Range", [c.input(position) for position in range(3)]),
    "RANK": lambda c: c.assembly.add_value(c.outputs[0], np.asarray(len(c.shape()), dtype=np.int32)),
    "RESHAPE": _reshape,
    "RESIZE_BILINEAR": _resize("linear", "ResizeBilinearOptions"),
    "RESIZE_NEAREST_NEIGHBOR": _resize("nearest", "ResizeNearestNeighborOptions"),
    "REVERSE_V2": _reverse,
    "SCATTER_ND": _sized_by(2),
    "SEGMENT_SUM": _sized_by(1),
    "SHAPE": lambda c: c.assembly.add_value(c.outputs[0], np.asarray(c.shape(), dtype=c.stated().dtype)),
    "SLICE": _slice,
    "SPACE_TO_BATCH_ND": _sized_by(1),
    "SPACE_TO_DEPTH": _by_blocks("SpaceToDepth", "SpaceToDepthOptions"),
    "SPARSE_TO_DENSE": _sized_by(1),
    "SPLIT": _split,
    "SPLIT_V": _split_by_sizes,
    "SQUEEZE": _squeeze,
    "STRIDED_SLICE": _strided_slice,
    "TILE": lambda c: c.result("Tile", [c.input(0), c.constant(c.ints(1))]),
    "TOPK_V2": _top_k,
    "TRANSPOSE": lambda c: c.result("Transpose", [c.input(0)], {"perm": c.ints(1)}),
    "UNPACK": _unpack,
    "UNIQUE": _unique,
    **{f"UNSORTED_SEGMENT_{each}": _sized_by(2) for each in ("MAX", "MIN", "PROD", "SUM")},
    "WHERE": _where,
    "ZEROS_LIKE": lambda c: c.assembly.add_static(c.outputs[0], c.assembly.tensor(c.input(0))),
}
"""Builtin operators by their name in the schema."""
