"""Convolutions, matrix products and pooling."""

from __future__ import annotations

import numpy as np

from latcast.graph.ir import Shape
from latcast.graph.operators import Kind, names_of, operators
from latcast.graph.operators.linear import spatial_pads
from latcast.graph.writers.folding import batch_norm_terms
from latcast.graph.writers.tflite.layout import CHANNELS_LAST, Order, logical, physical_shape
from latcast.graph.writers.tflite.schema import Activation, Padding
from latcast.graph.writers.tflite.steps import Step, unsupported
from latcast.graph.writers.tflite.writer import GraphWriter, emits


def same_padding(sizes: Shape, outputs: Shape, kernel: Shape, strides: Shape, begins: Shape) -> bool:
    """Return whether TFLite's SAME pads exactly like explicit padding that begins with ``begins``.

    SAME makes ceil(size / stride) outputs and puts the smaller half of the padding first; what the end gets follows. All
    arguments are (height, width); ``kernel`` counts dilation in.
    """
    for size, output, k, stride, begin in zip(sizes, outputs, kernel, strides, begins, strict=True):
        total = max((output - 1) * stride + k - size, 0)
        if output != -(-size // stride) or begin != total // 2:
            return False
    return True


def pad_spatial(writer: GraphWriter, index: int, begins: Shape, ends: Shape, name: str, *, value: float = 0.0) -> int:
    """Pad height and width of an NHWC tensor; zeros with PAD, anything else with PADV2."""
    n, h, w, c = writer.model.tensors[index].shape
    shape = (n, h + begins[0] + ends[0], w + begins[1] + ends[1], c)
    table = np.array([(0, 0), (begins[0], ends[0]), (begins[1], ends[1]), (0, 0)], dtype=np.int32)
    inputs = [index, writer.constant(table, f"{name}/paddings")]
    if value:
        inputs.append(writer.constant(np.float32(value), f"{name}/value"))
    return writer.add("PADV2" if value else "PAD", inputs, shape, name)


def _folded(writer: GraphWriter, step: Step, weight: np.ndarray, channels: int, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the weight and bias with a following batch normalisation multiplied in; ``axis`` is the output channels' axis."""
    name = step.node.inputs[2] if len(step.node.inputs) > 2 else ""
    bias = writer.weight(step, name) if name else np.zeros(channels, dtype=np.float32)
    if step.batch_norm is None:
        return weight, bias
    scale, shift = (terms.astype(np.float32) for terms in batch_norm_terms(step.batch_norm, writer.values))
    broadcast = [1] * weight.ndim
    broadcast[axis] = channels
    return weight * scale.reshape(broadcast), bias * scale + shift


@emits("Conv")
def conv(writer: GraphWriter, step: Step) -> None:
    """CONV_2D (grouped: fewer input channels in the filter) or DEPTHWISE_CONV_2D; padding SAME, or PAD and VALID.

    A convolution over a sequence is one over an image of height 1, between two views.
    """
    view = writer.view(step)
    x, out = writer.shape(step.inputs[0]), writer.shape(step.output)
    if len(x) not in (3, 4):
        raise unsupported(step.node, f"its input has rank {len(x)}; convolutions of one and two dimensions are written")
    weight = writer.weight(step, step.inputs[1])
    groups = step.node.integer("group", 1)
    ones = (1,) * (4 - len(x))
    strides, dilations = step.node.integers("strides", (1,) * (len(x) - 2)), step.node.integers("dilations", (1,) * (len(x) - 2))
    pads = spatial_pads(view, x[2:], weight.shape[2:], strides, dilations)
    begins, ends = (tuple(0 for _ in ones) + half for half in (pads[: len(x) - 2], pads[len(x) - 2 :]))
    weight, bias = _folded(writer, step, weight, out[1], 0)
    weight, strides, dilations = weight.reshape(*weight.shape[:2], *ones, *weight.shape[2:]), ones + strides, ones + dilations
    kernel = tuple((k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations, strict=True))

    order = CHANNELS_LAST if len(x) == 4 else (0, 2, 1)
    source = writer.operand(step.inputs[0], order)
    if len(x) == 3:
        source = writer.reshaped(source, (x[0], 1, x[2], x[1]), f"{step.output}/image", nodes=())
    padding = Padding.VALID
    if any(pads):
        if same_padding(ones + x[2:], ones + out[2:], kernel, strides, begins):
            padding = Padding.SAME
        else:
            source = pad_spatial(writer, source, begins, ends, f"{step.output}/padded")
    depthwise = groups == x[1] and groups > 1
    stored = weight[:, 0].transpose(1, 2, 0)[None] if depthwise else weight.transpose(0, 2, 3, 1)
    inputs = (source, writer.constant(stored, step.inputs[1]), writer.constant(bias, f"{step.output}/bias"))
    options: dict[str, float] = {
        "padding": padding, "stride_h": strides[0], "stride_w": strides[1], "dilation_h_factor": dilations[0],
        "dilation_w_factor": dilations[1], "fused_activation_function": step.activation,
    }  # fmt: skip
    if depthwise:
        options["depth_multiplier"] = out[1] // x[1]
    builtin = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
    if len(x) == 4:
        writer.finish(builtin, inputs, step, CHANNELS_LAST, **options)
        return
    made = writer.add(builtin, inputs, (x[0], 1, out[2], out[1]), f"{step.output}/image_made", options, nodes=step.names)
    writer.hold(step.output, order, writer.reshaped(made, (x[0], out[2], out[1]), step.output, nodes=()))


@emits("ConvTranspose")
def conv_transpose(writer: GraphWriter, step: Step) -> None:
    """TRANSPOSE_CONV, one for each group between a SPLIT and a CONCATENATION.

    Padding that is neither SAME nor VALID computes the full output and crops it.
    """
    x, out = writer.shape(step.inputs[0]), writer.shape(step.output)
    if len(x) != 4 or set(step.node.integers("dilations", (1, 1))) != {1}:
        raise unsupported(step.node, "only 2-D transposed convolutions without dilation are written")
    groups = step.node.integer("group", 1)
    weight = writer.weight(step, step.inputs[1])
    strides, kernel = step.node.integers("strides", (1, 1)), weight.shape[2:]
    # ONNX has (inputs, outputs a group, height, width); what multiplies an output channel is in one group.
    by_output = weight.reshape(groups, x[1] // groups, out[1] // groups, *kernel).transpose(0, 2, 1, 3, 4)
    by_output, bias = _folded(writer, step, by_output.reshape(out[1], x[1] // groups, *kernel), out[1], 0)
    full = tuple((size - 1) * stride + k for size, stride, k in zip(x[2:], strides, kernel, strict=True))
    begins = step.node.integers("pads", (0, 0, 0, 0))[:2]
    if step.node.text("auto_pad", "NOTSET") not in ("NOTSET", "", "VALID"):
        begins = tuple(max(f - o, 0) // 2 for f, o in zip(full, out[2:], strict=True))

    made, padding = out[2:], Padding.VALID
    if same_padding(out[2:], x[2:], kernel, strides, begins):
        padding = Padding.SAME
    elif any(begins) or any(not 0 <= o - f < s for o, f, s in zip(out[2:], full, strides, strict=True)):
        made = tuple(max(f, o + b) for f, o, b in zip(full, out[2:], begins, strict=True))
    options: dict[str, float] = {
        "padding": padding, "stride_h": strides[0], "stride_w": strides[1], "fused_activation_function": step.activation,
    }  # fmt: skip
    cropped = made != out[2:]
    source = writer.operand(step.inputs[0], CHANNELS_LAST)
    if groups == 1:
        inputs = _transposed_inputs(writer, step, source, by_output, bias, (x[0], *made, out[1]))
        if not cropped:
            writer.finish("TRANSPOSE_CONV", inputs, step, CHANNELS_LAST, **options)
            return
        whole = writer.add("TRANSPOSE_CONV", inputs, (x[0], *made, out[1]), f"{step.output}/full", options, nodes=step.names)
    else:
        parts = writer.split_evenly(source, groups, f"{step.output}/group")
        shape = (x[0], *made, out[1] // groups)
        pieces = [
            writer.add("TRANSPOSE_CONV", _transposed_inputs(writer, step, part, filters, addend, shape), shape,
                       f"{step.output}/full_of_{index}", options)
            for index, (part, filters, addend) in enumerate(
                zip(parts, np.split(by_output, groups), np.split(bias, groups), strict=True)
            )
        ]  # fmt: skip
        if not cropped:
            writer.finish("CONCATENATION", pieces, step, CHANNELS_LAST, axis=3)
            return
        whole = writer.add("CONCATENATION", pieces, (x[0], *made, out[1]), f"{step.output}/full", {"axis": 3})
    begin = (0, *begins, 0)
    end = tuple(b + size for b, size in zip(begin, physical_shape(out, CHANNELS_LAST), strict=True))
    bounds = [writer.indices(part, f"{step.output}/{name}") for name, part in
              (("begin", begin), ("end", end), ("strides", (1, 1, 1, 1)))]  # fmt: skip
    writer.finish("STRIDED_SLICE", (whole, *bounds), step, CHANNELS_LAST)


def _transposed_inputs(
    writer: GraphWriter, step: Step, source: int, filters: np.ndarray, bias: np.ndarray, shape: Shape
) -> tuple[int, int, int, int]:
    """Return the output shape, filters (outputs, height, width, inputs), source and bias of a TRANSPOSE_CONV."""
    return (
        writer.indices(shape, f"{step.output}/shape"),
        writer.constant(filters.transpose(0, 2, 3, 1), step.inputs[1]),
        source,
        writer.constant(bias, f"{step.output}/bias"),
    )


@emits("Gemm")
def gemm(writer: GraphWriter, step: Step) -> None:
    """FULLY_CONNECTED for a constant matrix, BATCH_MATMUL for a computed one."""
    a, b = step.inputs[:2]
    alpha, beta = (step.node.real(name, 1.0) for name in ("alpha", "beta"))
    c = step.inputs[2] if len(step.inputs) > 2 else ""
    columns = writer.shape(step.output)[1]
    transposed_a, transposed_b = step.node.integer("transA"), step.node.integer("transB")
    if b not in writer.values or a in writer.values:
        if c or alpha != 1.0:
            raise unsupported(step.node, "a product of two computed matrices with a bias or a factor")
        inputs = [writer.operand(name, logical(2)) for name in (a, b)]
        writer.finish("BATCH_MATMUL", inputs, step, logical(2), adj_x=transposed_a, adj_y=transposed_b)
        return
    matrix = writer.weight(step, b) if transposed_b else writer.weight(step, b).T
    bias = np.zeros(columns, dtype=np.float32)
    if c:
        addend = beta * writer.weight(step, c)
        if addend.ndim > 1 and addend.shape[0] != 1:
            raise unsupported(step.node, f"its bias of shape {list(addend.shape)} differs from row to row")
        bias = np.broadcast_to(addend.reshape(-1), (columns,))
    # A transposed left matrix is read in swapped order: its columns are the samples.
    order: Order = (1, 0) if transposed_a else (0, 1)
    scaled = matrix if alpha == 1.0 else matrix * np.float32(alpha)
    _fully_connected(writer, step, writer.operand(a, order), scaled, bias, order=(0, 1))


@emits("MatMul")
def matmul(writer: GraphWriter, step: Step) -> None:
    """FULLY_CONNECTED for a constant matrix on the right, BATCH_MATMUL otherwise."""
    a, b = step.inputs[:2]
    rank_a, rank_b = len(writer.shape(a)), len(writer.shape(b))
    if min(rank_a, rank_b) < 2:
        raise unsupported(step.node, "a product with a vector; reshape it to a matrix")
    if b in writer.values and rank_b == 2:
        bias = np.zeros(writer.shape(b)[1], dtype=np.float32)
        if step.bias is not None:
            bias = writer.weight(step, step.bias).reshape(-1)
        rank = len(writer.shape(a))  # its features stay innermost where they are
        held = writer.orders.get(a, logical(rank))
        order = held if held[-1] == rank - 1 else logical(rank)
        _fully_connected(writer, step, writer.operand(a, order), writer.weight(step, b).T, bias, order=order)
        return
    inputs = [
        writer.constant(writer.weight(step, name), name) if name in writer.values
        else writer.operand(name, logical(len(writer.shape(name))))
        for name in (a, b)
    ]  # fmt: skip
    writer.finish("BATCH_MATMUL", inputs, step, logical(len(writer.shape(step.output))))


def _fully_connected(writer: GraphWriter, step: Step, source: int, matrix: np.ndarray, bias: np.ndarray, *, order: Order) -> None:
    """``matrix`` is (outputs, inputs), as TFLite stores it."""
    features = writer.feature_order.get(step.inputs[0])
    if features is not None:
        matrix = matrix[:, features]
    inputs = (source, writer.constant(matrix, step.inputs[1]), writer.constant(bias, f"{step.output}/bias"))
    activation: Activation = step.activation
    keep = len(writer.shape(step.output)) > 2
    writer.finish("FULLY_CONNECTED", inputs, step, order, fused_activation_function=activation, keep_num_dims=keep)


_NEVER_NEGATIVE = names_of(row for row in operators() if row.bounds is not None and row.bounds[0] >= 0)
_KEEPS_SIGN = names_of(row for row in operators() if row.passes or row.kind in (Kind.VIEW, Kind.POOL, Kind.GLOBAL_POOL))


@emits("MaxPool", "AveragePool")
def pool(writer: GraphWriter, step: Step) -> None:
    """MAX_POOL_2D or AVERAGE_POOL_2D, with the borders exactly as ONNX has them."""
    view = writer.view(step)
    x, out = writer.shape(step.inputs[0]), writer.shape(step.output)
    if len(x) != 4 or len(step.outputs) > 1 or set(step.node.integers("dilations", (1, 1))) != {1}:
        raise unsupported(step.node, "only 2-D pooling without dilation and without indices is written")
    kernel = step.node.integers("kernel_shape")
    strides = step.node.integers("strides", (1, 1))
    pads = spatial_pads(view, x[2:], kernel, strides, (1, 1))
    begins, ends = pads[:2], pads[2:]
    # With ceil_mode the last window may reach further than the padding.
    reach = tuple((o - 1) * s + k - size - b
                  for o, s, k, size, b in zip(out[2:], strides, kernel, x[2:], begins, strict=True))  # fmt: skip
    ends = tuple(max(end, beyond) for end, beyond in zip(ends, reach, strict=True))
    fits_same = same_padding(x[2:], out[2:], kernel, strides, begins)
    maximum = step.op_type == "MaxPool"
    counts_pads = not maximum and bool(step.node.integer("count_include_pad"))
    source = writer.operand(step.inputs[0], CHANNELS_LAST)
    options: dict[str, float] = {
        "stride_h": strides[0], "stride_w": strides[1], "filter_height": kernel[0], "filter_width": kernel[1],
    }  # fmt: skip
    builtin = "MAX_POOL_2D" if maximum else "AVERAGE_POOL_2D"
    if not any(begins) and all(beyond <= 0 for beyond in reach):
        writer.finish(builtin, (source,), step, CHANNELS_LAST, padding=Padding.VALID, **options)
        return
    if fits_same and not counts_pads:
        writer.finish(builtin, (source,), step, CHANNELS_LAST, padding=Padding.SAME, **options)
        return
    lowest = 0.0 if not maximum or never_negative(writer, step.inputs[0]) else float(np.finfo(np.float32).min)
    source = pad_spatial(writer, source, begins, ends, f"{step.output}/padded", value=lowest)
    factors = None if maximum else _corrections(x[2:], out[2:], kernel, strides, pads, counts_pads)
    if factors is None:
        writer.finish(builtin, (source,), step, CHANNELS_LAST, padding=Padding.VALID, **options)
        return
    shape = (out[0], *out[2:], out[1])
    averaged = writer.add(builtin, (source,), shape, f"{step.output}/padded_average", {"padding": Padding.VALID, **options})
    factor = writer.constant(factors[None, :, :, None], f"{step.output}/factors")
    writer.finish("MUL", (averaged, factor), step, CHANNELS_LAST)


def never_negative(writer: GraphWriter, name: str) -> bool:
    """Return whether a maximum may pad with zeros: its values come from a ReLU or another operator without negative results."""
    node = writer.graph.producers.get(name)
    while node is not None and node.op_type in _KEEPS_SIGN:
        node = writer.graph.producers.get(node.inputs[0])
    if node is None:
        return False
    if node.op_type == "Clip":
        low = writer.values.get(node.inputs[1]) if len(node.inputs) > 1 else None
        return low is not None and float(low.reshape(-1)[0]) >= 0
    return node.op_type in _NEVER_NEGATIVE


def _corrections(
    sizes: Shape, outputs: Shape, kernel: Shape, strides: Shape, pads: Shape, counts_pads: bool
) -> np.ndarray | None:
    """Return the factors (height, width) that turn an average over whole windows into one over the elements that ONNX counts.

    None where all are 1.
    """
    counted = []
    for axis in (0, 1):
        begins = np.arange(outputs[axis]) * strides[axis] - pads[axis]
        first, last = (-pads[axis], sizes[axis] + pads[axis + 2]) if counts_pads else (0, sizes[axis])
        counted.append(np.minimum(begins + kernel[axis], last) - np.maximum(begins, first))
    factors = kernel[0] * kernel[1] / np.outer(*counted).astype(np.float64)
    return None if np.all(factors == 1) else factors.astype(np.float32)


@emits("GlobalAveragePool", "GlobalMaxPool")
def global_pool(writer: GraphWriter, step: Step) -> None:
    """MEAN or REDUCE_MAX over height and width, which stay with size 1."""
    if len(writer.shape(step.inputs[0])) != 4:
        raise unsupported(step.node, "only 4-D inputs are pooled globally")
    builtin = "MEAN" if step.op_type == "GlobalAveragePool" else "REDUCE_MAX"
    axes = writer.indices((1, 2), f"{step.output}/axes")
    writer.finish(builtin, (writer.operand(step.inputs[0], CHANNELS_LAST), axes), step, CHANNELS_LAST, keep_dims=True)
