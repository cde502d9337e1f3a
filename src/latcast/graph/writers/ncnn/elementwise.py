"""Operators on single elements, one or two operands, and normalisations."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from latcast.graph.ir import Node, Shape
from latcast.graph.ncnn_codes import BINARY_OPS, OWN_LAYERS, UNARY_OPS
from latcast.graph.operators.elementwise import clip_bounds
from latcast.graph.writers.ncnn.layers import ParamValue, plain
from latcast.graph.writers.ncnn.lowering import Blob, Lowering, failure, fitting_axes, lowers, rows


def _write_unary(
    ctx: Lowering, node: Node, kind: str, params: Mapping[int, ParamValue] | None = None, *, x: str | None = None
) -> None:
    """Write a layer on each element of the first input or ``x``, in the shape that it has."""
    blob = ctx.blob(node.inputs[0] if x is None else x)
    ctx.emit(kind, [blob], {node.outputs[0]: blob.shape}, [node], params)


@lowers(*UNARY_OPS)
def lower_unary(ctx: Lowering, node: Node) -> None:
    _write_unary(ctx, node, "UnaryOp", {0: UNARY_OPS[node.op_type]})


@lowers(*OWN_LAYERS)
def lower_own_layer(ctx: Lowering, node: Node) -> None:
    kind, defaults = OWN_LAYERS[node.op_type]
    _write_unary(ctx, node, kind, {index: node.real(*each) for index, each in enumerate(defaults.items())})


@lowers("Clip")
def lower_clip(ctx: Lowering, node: Node) -> None:
    low, high = clip_bounds(node, ctx.values)
    if low == 0.0 and high is None:
        _write_unary(ctx, node, "ReLU")
        return
    params: dict[int, ParamValue] = {}
    if low is not None:
        params[0] = low
    if high is not None:
        params[1] = high
    _write_unary(ctx, node, "Clip", params)


@lowers("HardSwish")
def lower_hard_swish(ctx: Lowering, node: Node) -> None:
    """HardSwish; one that took the place of an idiom has the idiom's numbers."""
    _write_unary(ctx, node, "HardSwish", {0: node.real("alpha", 1 / 6), 1: node.real("beta", 0.5)})


@lowers("Swish")
def lower_swish(ctx: Lowering, node: Node) -> None:
    if node.real("alpha", 1.0) != 1.0:
        raise failure(node, "only x * sigmoid(x), with alpha 1, is a layer")
    _write_unary(ctx, node, "Swish")


@lowers("Gelu")
def lower_gelu(ctx: Lowering, node: Node) -> None:
    _write_unary(ctx, node, "GELU", {0: 1} if node.attributes.get("approximate", "none") == "tanh" else {})


@lowers("PRelu")
def lower_prelu(ctx: Lowering, node: Node) -> None:
    slopes = ctx.weight(node, 1)
    shape = ctx.shape(node.inputs[0])
    if slopes is None or slopes.size not in (1, shape[1] if len(shape) > 1 else shape[0]):
        raise failure(node, "its slopes must be one number, or one a channel")
    bottom = ctx.canonical(node.inputs[0])
    ctx.emit("PReLU", [bottom], {node.outputs[0]: bottom.shape}, [node], {0: slopes.size}, [plain(slopes)])


# Two operands


def _same_operation(node: Node) -> str:
    return "Add" if node.op_type == "Sum" else node.op_type


def _aligned(shape: Shape, rank: int, axes: tuple[int, ...]) -> Shape:
    """Return a shape as it broadcasts to a rank, without the axes that the result does not keep."""
    full = (*(1,) * (rank - len(shape)), *shape)
    return tuple(full[axis] for axis in axes)


def _operand(ctx: Lowering, name: str, shape: Shape, other: Shape) -> Blob:
    """Return an operand in its aligned shape, or as a vector of one number a channel.

    ncnn applies a vector with as many elements as the other operand has channels to the channels, which is what
    squeeze-and-excitation needs after global pooling. Whatever else has too few axes is reshaped.
    """
    if ctx.known(name) is None and len(shape) >= 3 and shape == (other[0], *(1,) * (len(other) - 1)):
        blob = ctx.blob(name)
        if blob.shape == other[:1]:
            return blob
    return ctx.shaped(name, shape)


@lowers(*BINARY_OPS, "Sum")
def lower_binary(ctx: Lowering, node: Node) -> None:
    """BinaryOp, with a number or with a second blob; more than two operands take a chain of layers."""
    names = [name for name in node.inputs if name]
    if len(names) == 1:
        ctx.alias(node)
    elif len(names) == 2:
        _write_pair(ctx, node, names[0], names[1])
    elif any(ctx.shape(name) != ctx.shape(node.outputs[0]) for name in names):
        raise failure(node, "more than two operands must have one shape")
    else:
        blobs = [ctx.canonical(name) for name in names]
        op_type: dict[int, ParamValue] = {0: BINARY_OPS[_same_operation(node)][0]}
        total = blobs[0]
        for blob in blobs[1:-1]:
            total = ctx.emit_inner("BinaryOp", [total, blob], blob.shape, op_type)
        ctx.emit("BinaryOp", [total, blobs[-1]], {node.outputs[0]: total.shape}, [node], op_type)


def _write_pair(ctx: Lowering, node: Node, first: str, second: str) -> None:
    forward, exchanged = BINARY_OPS[_same_operation(node)]
    output = ctx.shape(node.outputs[0])
    for x, other, op_type in ((first, second, forward), (second, first, exchanged)):
        value = ctx.known(other)
        if value is not None and value.size == 1 and prod(ctx.shape(x)) == prod(output):
            scalar = float(np.asarray(value).reshape(-1)[0])
            square = node.op_type == "Pow" and other == second and scalar == 2.0
            params: dict[int, ParamValue] = {0: 4} if square else {0: op_type, 1: 1, 2: scalar}
            _write_unary(ctx, node, "UnaryOp" if square else "BinaryOp", params, x=x)
            return
    blobs = [ctx.blob(name) if ctx.known(name) is None else None for name in (first, second)]
    left, right = blobs
    if left is not None and right is not None and ctx.shape(first) == ctx.shape(second) and left.shape == right.shape:
        ctx.emit("BinaryOp", [left, right], {node.outputs[0]: left.shape}, [node], {0: forward})
        return
    axes = fitting_axes(node, output)
    shapes = [_aligned(ctx.shape(name), len(output), axes) for name in (first, second)]
    bottoms = [_operand(ctx, first, *shapes), _operand(ctx, second, *reversed(shapes))]
    ctx.emit("BinaryOp", bottoms, {node.outputs[0]: [output[axis] for axis in axes]}, [node], {0: forward})


# Normalisation


@lowers("BatchNormalization")
def lower_batch_norm(ctx: Lowering, node: Node) -> None:
    """Add an activation layer, where no convolution comes before it."""
    shape = ctx.shape(node.inputs[0])
    parts = [ctx.weight(node, index) for index in (1, 3, 4, 2)]
    data = [plain(part) for part in parts if part is not None]
    if len(data) != 4:
        raise failure(node, "a scale, bias, mean or variance is missing")
    blob = ctx.blob(node.inputs[0])
    if blob.shape[0] != shape[1]:
        blob = ctx.canonical(node.inputs[0])
    params: dict[int, ParamValue] = {0: shape[1], 1: node.real("epsilon", 1e-5)}
    ctx.emit("BatchNorm", [blob], {node.outputs[0]: blob.shape}, [node], params, data)


@lowers("LayerNormalization", "RMSNormalization")
def lower_layer_norm(ctx: Lowering, node: Node) -> None:
    """LayerNorm and RMSNorm, over the last axis or several."""
    shape = ctx.shape(node.inputs[0])
    first = node.integer("axis", -1) % len(shape)
    size = prod(shape[first:])
    has_bias = node.op_type == "LayerNormalization"
    scale, bias = ctx.weight(node, 1), ctx.weight(node, 2) if has_bias else None
    if any(part is not None and part.size != size for part in (scale, bias)):
        raise failure(node, f"its scale or bias does not have the {size} elements that it normalises over")
    blob = ctx.blob(node.inputs[0])
    if len(blob.shape) > 3 or blob.shape[-1] != size:
        blob = ctx.shaped(node.inputs[0], (rows((*shape[:first], size)), size))
    data = []
    if scale is not None:
        data = [plain(scale)]
        if has_bias:
            data.append(plain(np.zeros(size) if bias is None else bias))
    params: dict[int, ParamValue] = {0: size, 1: node.real("epsilon", 1e-5), 2: int(scale is not None)}
    kind = "LayerNorm" if has_bias else "RMSNorm"
    ctx.emit(kind, [blob], {node.outputs[0]: blob.shape}, [node], params, data)


@lowers("InstanceNormalization", "GroupNormalization")
def lower_group_norm(ctx: Lowering, node: Node) -> None:
    shape = ctx.shape(node.inputs[0])
    scale, bias = ctx.weight(node, 1), ctx.weight(node, 2)
    if scale is None or bias is None or len(shape) not in (3, 4) or scale.size != shape[1]:
        raise failure(node, "it needs a (1, C, H, W) or (1, C, L) input, and a scale and a bias for each channel")
    epsilon = node.real("epsilon", 1e-5)
    params: dict[int, ParamValue] = {0: shape[1], 1: epsilon, 2: 1}
    if node.op_type == "GroupNormalization":
        params = {0: node.integer("num_groups", 1), 1: shape[1], 2: epsilon, 3: 1}
    kind = "InstanceNorm" if node.op_type == "InstanceNormalization" else "GroupNorm"
    image = shape[1:] if len(shape) == 4 else (shape[1], 1, shape[2])
    ctx.emit(kind, [ctx.shaped(node.inputs[0], image)], {node.outputs[0]: image}, [node], params, [plain(scale), plain(bias)])


@lowers("LRN")
def lower_lrn(ctx: Lowering, node: Node) -> None:
    """Across channels."""
    shape = ctx.shape(node.inputs[0])
    params: dict[int, ParamValue] = {
        0: 0,
        1: node.integer("size", 5),
        2: node.real("alpha", 1e-4),
        3: node.real("beta", 0.75),
        4: node.real("bias", 1.0),
    }
    bottom = ctx.shaped(node.inputs[0], shape[1:])
    ctx.emit("LRN", [bottom], {node.outputs[0]: shape[1:]}, [node], params)


@lowers("Softmax", "LogSoftmax")
def lower_softmax(ctx: Lowering, node: Node) -> None:
    """Softmax; the logarithm is a separate layer."""
    shape = ctx.shape(node.inputs[0])
    axis = node.integer("axis", -1) % len(shape)
    axes = fitting_axes(node, shape, keep=(axis,))
    bottom = ctx.shaped(node.inputs[0], [shape[kept] for kept in axes])
    params: dict[int, ParamValue] = {0: axes.index(axis), 1: 1}
    if node.op_type == "LogSoftmax":
        inner = ctx.emit_inner("Softmax", [bottom], bottom.shape, params)
        ctx.emit("UnaryOp", [inner], {node.outputs[0]: bottom.shape}, [node], {0: UNARY_OPS["Log"]})
    else:
        ctx.emit("Softmax", [bottom], {node.outputs[0]: bottom.shape}, [node], params)
