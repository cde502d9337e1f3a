"""ncnn's layers in ONNX's vocabulary: single elements, normalisation, reductions, boxes; and the table of all layers.

What each layer's numbered parameters mean is said in ncnn's ``docs/developer-guide/operators.md``, and what they do where they
are left out in its ``src/layer``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from latcast.errors import ModelError
from latcast.graph.importers import ncnn_products as products
from latcast.graph.importers import ncnn_windows as windows
from latcast.graph.importers.ncnn import Attributes, Conversion
from latcast.graph.importers.ncnn_file import NOT_GIVEN
from latcast.graph.importers.ncnn_movement import MOVEMENT, axis_of
from latcast.graph.importers.ncnn_windows import hard_swish, positive
from latcast.graph.ir import Shape
from latcast.graph.ncnn_codes import BINARY_OPS, OWN_LAYERS, REDUCTIONS, UNARY_OPS

Convert = Callable[[Conversion], None]
"""Adds the layer to the graph."""

# Single elements


def _same(op_type: str) -> Convert:
    return lambda c: c.result(op_type, [c.input()], shape=c.shape())


def _with_attributes(op_type: str, defaults: Mapping[str, float]) -> Convert:
    def convert(c: Conversion) -> None:
        attributes: Attributes = {name: c.number(key, default) for key, (name, default) in enumerate(defaults.items())}
        c.result(op_type, [c.input()], attributes, shape=c.shape())

    return convert


def _relu(c: Conversion) -> None:
    slope = c.number(0, 0.0)
    c.result("LeakyRelu" if slope else "Relu", [c.input()], {"alpha": slope} if slope else {}, shape=c.shape())


def _prelu(c: Conversion) -> None:
    count = c.integer(0)
    positive(slopes=[count])
    c.result("PRelu", [c.plain(), c.weight(*_channel_shape(count, c.shape()))])


def _channel_shape(count: int, shape: Shape) -> Shape:
    """Return the shape in which one number a channel broadcasts with a blob."""
    if count not in (1, shape[0]):
        raise ModelError(f"it has {count} numbers for {shape[0]} channels")
    return (count, *(1,) * (len(shape) - 1))


_UNARY: Mapping[int, Sequence[str]] = {
    **{number: (name,) for name, number in UNARY_OPS.items()},
    6: ("Sqrt", "Reciprocal"), 16: ("Tanh",), 17: ("Log", "Mul"), 19: ("Floor",), 21: ("Exp", "Sub"), 27: ("Add", "Log"),
}  # fmt: skip
"""Parameter 0 of UnaryOp to the operators that compute it one after the other, or as much as it; BINARY ones with a number."""

_BINARY: Mapping[int, tuple[Sequence[str], bool]] = {
    **{exchanged: ((name,), True) for name, (_, exchanged) in BINARY_OPS.items()},
    **{forward: ((name,), False) for name, (forward, _) in BINARY_OPS.items()},
    **{
        number: (names, number == exchanged)
        for names, forward, exchanged in (
            (("Div", "Atan"), 10, 11), (("Mod",), 12, 13), (("Sub", "Exp", "Log"), 14, 14), (("Div", "Floor"), 15, 16),
            (("Mod",), 17, 18),
        )
        for number in (forward, exchanged)
    },
}  # fmt: skip
"""Parameter 0 of BinaryOp to the operators that compute it, and whether its operands are exchanged."""


def _chain(c: Conversion, x: str, names: Sequence[str], shape: Shape) -> None:
    """Add operators one after the other; one of two operands takes a number as the second."""
    for name in names:
        inputs = [x, c.scalar(1.0)] if name in BINARY_OPS else [x]
        if name is names[-1]:
            c.result(name, inputs, shape=shape)
        else:
            x = c.op(name, inputs)


def _unary(c: Conversion) -> None:
    kind = c.integer(0)
    if kind == 4:
        c.result("Mul", [c.input(), c.input()], shape=c.shape())
    elif kind in _UNARY:
        _chain(c, c.input(), _UNARY[kind], c.shape())
    else:
        raise ModelError(f"its operation is number {kind}, expected one of 0 to {max(_UNARY)}")


def _binary(c: Conversion) -> None:
    if c.integer(0) not in _BINARY:
        raise ModelError(f"its operation is number {c.integer(0)}, expected one of 0 to {max(_BINARY)}")
    names, exchanged = _BINARY[c.integer(0)]
    if c.integer(1) or len(c) == 1:
        sides, shape = [c.input(), c.scalar(c.number(2, 0.0))], c.shape()
    else:
        first, second = c.shape(0), c.shape(1)
        shapes = [_broadcast(first, second), _broadcast(second, first)]
        sides = [c.shaped((1, *shapes[position]), position) for position in (0, 1)]
        shape = tuple(max(pair) for pair in zip(*shapes, strict=True))
    sides = sides[::-1] if exchanged else sides
    if len(names) == 1:
        c.result(names[0], sides, shape=shape)
    else:
        _chain(c, c.op(names[0], sides), names[1:], shape)


def _power_series(op_type: str) -> Convert:
    """Return what reads Exp, Log or Power: the function of shift + scale * x, to a base or to a power."""

    def convert(c: Conversion) -> None:
        x, base, scale, shift = c.input(), c.number(0, 1.0 if op_type == "Pow" else -1.0), c.number(1, 1.0), c.number(2, 0.0)
        rebased = op_type != "Pow" and base != -1.0
        if scale != 1.0 or (rebased and op_type == "Exp"):
            x = c.op("Mul", [x, c.scalar(scale)])
        if shift:
            x = c.op("Add", [x, c.scalar(shift)])
        if op_type == "Log" and rebased:
            x = c.op("Log", [x])
            c.result("Mul", [x, c.scalar(base)], shape=c.shape())
        elif op_type == "Pow" and base == 1.0:
            c.is_output(x, c.shape())
        else:
            c.result(op_type, [x, c.scalar(base)] if op_type == "Pow" else [x], shape=c.shape())

    return convert


def _threshold(c: Conversion) -> None:
    """Add 1 where an element is larger than a number, else 0."""
    c.result("Cast", [c.op("Greater", [c.input(), c.scalar(c.number(0, 0.0))])], {"to": 1}, shape=c.shape())


def _gated(c: Conversion) -> None:
    """Multiply one half by the sigmoid of the other."""
    shape = c.shape()
    axis = axis_of(c.integer(0) if len(shape) > 1 else 0, len(shape))
    if shape[axis] % 2:
        raise ModelError(f"it halves axis {axis} of {list(shape)}, expected an even number")
    halves = c.several("Split", [c.plain(), c.assembly.constant([shape[axis] // 2] * 2, "int64")], {"axis": axis + 1}, 2)
    c.result("Mul", [halves[0], c.op("Sigmoid", [halves[1]])])


def _broadcast(shape: Shape, other: Shape) -> Shape:
    """Align a blob of fewer axes with the outermost ones; a vector that does not fit them with the innermost."""
    missing = (1,) * (len(other) - len(shape))
    if len(shape) == 1 and shape[0] != other[0]:
        return (*missing, *shape)
    return (*shape, *missing)


def _eltwise(c: Conversion) -> None:
    op_type = {0: "Mul", 1: "Add", 2: "Max"}[c.integer(0)]
    total = c.plain(0)
    for position in range(1, len(c) - 1):
        total = c.op(op_type, [total, c.plain(position)])
    if len(c) == 1:
        c.is_output(total)
    else:
        c.result(op_type, [total, c.plain(len(c) - 1)])


# Normalisation


def _batch_norm(c: Conversion) -> None:
    channels = c.integer(0)
    if channels != c.shape()[0]:
        raise ModelError(f"it normalises {channels} channels, but reads {list(c.shape())}")
    c.result("BatchNormalization", [c.plain(), *(c.weight(channels) for _ in range(4))], {"epsilon": c.number(1, 0.0)})


def _scale(c: Conversion) -> None:
    """Scale by one factor (and add one term) a channel, stored or read."""
    count = c.integer(0)
    if count == NOT_GIVEN:
        factor = c.shaped((1, *_channel_shape(prod(c.shape(1)), c.shape())), 1)
    else:
        factor = c.weight(*_channel_shape(count, c.shape()))
    if c.integer(1):
        term = c.weight(*_channel_shape(c.shape()[0] if count == NOT_GIVEN else count, c.shape()))
        c.result("Add", [c.op("Mul", [c.plain(), factor]), term])
    else:
        c.result("Mul", [c.plain(), factor])


def _layer_norm(c: Conversion) -> None:
    size, shape = c.integer(0), c.shape()
    axis = next((axis for axis in reversed(range(len(shape))) if prod(shape[axis:]) == size), None)
    if axis is None:
        raise ModelError(f"it normalises over {size} elements, but reads {list(shape)}")
    has_bias = c.layer.kind == "LayerNorm"
    weights = [c.weight(*shape[axis:]) for _ in range(1 + has_bias)] if c.integer(2, 1) else []
    if not weights:
        # The operator has a scale, which is then one number.
        weights = [c.scalar(1.0)]
    op_type = "LayerNormalization" if has_bias else "RMSNormalization"
    c.result(op_type, [c.plain(), *weights], {"axis": axis - len(shape), "epsilon": c.number(1, 1e-3)})


def _group_norm(c: Conversion) -> None:
    grouped = c.layer.kind == "GroupNorm"
    channels = c.integer(1) if grouped else c.integer(0)
    attributes: Attributes = {"epsilon": c.number(2 if grouped else 1, 1e-3)}
    if grouped:
        attributes["num_groups"] = c.integer(0, 1)
    size = channels or c.shape()[0]
    op_type = "GroupNormalization" if grouped else "InstanceNormalization"
    c.result(op_type, [c.plain(), c.weight(size), c.weight(size)], attributes)


def _lrn(c: Conversion) -> None:
    """Normalise by neighbouring channels; by neighbours in the same channel, as many are added up."""
    attributes: Attributes = {
        "size": c.integer(1, 5), "alpha": c.number(2, 1.0), "beta": c.number(3, 0.75), "bias": c.number(4, 1.0),
    }  # fmt: skip
    c.result("LRN", [c.plain()], attributes)


def _normalize(c: Conversion) -> None:
    """Normalise to length 1, across the channels or everything, and scale by a factor."""
    x = c.op("LpNormalization", [c.plain()], {"axis": 1, "p": 2})
    c.result("Mul", [x, c.weight(*_channel_shape(max(c.integer(3), 1), c.shape()))])


_REDUCTION_OPS: Mapping[int, str] = {number: name for name, number in REDUCTIONS.items()}


def _reduction(c: Conversion) -> None:
    op_type, rank, keeps = _REDUCTION_OPS.get(c.integer(0)), len(c.shape()), bool(c.integer(4))
    if op_type is None:
        raise ModelError(f"its operation is number {c.integer(0)}, expected one of 0 to {max(_REDUCTION_OPS)}")
    axes = range(rank) if c.integer(1, 1) else sorted({axis % rank for axis in c.integers(3)})
    if not axes:
        raise ModelError("it names no axis")
    shape = [1 if axis in axes else size for axis, size in enumerate(c.shape()) if keeps or axis not in axes]
    attributes: Attributes = {"axes": tuple(axis + 1 for axis in axes), "keepdims": int(keeps)}
    c.result(op_type, [c.plain()], attributes, shape=shape or (1,))


def _statistics(c: Conversion) -> None:
    """Reduce each channel to its mean, and its standard deviation."""
    channels, *rest = c.shape()
    axes: Attributes = {"axes": tuple(range(2, 2 + len(rest))), "keepdims": 1}
    mean = c.op("ReduceMean", [c.plain()], axes)
    if c.integer(0):
        centred = c.op("Sub", [c.plain(), mean])
        deviation = c.op("Sqrt", [c.op("ReduceMean", [c.op("Mul", [centred, centred])], axes)])
        mean = c.op("Concat", [mean, deviation], {"axis": 1})
    c.is_output(mean, (channels * (2 if c.integer(0) else 1),))


def _mean_variance(c: Conversion) -> None:
    first = 1 if c.integer(1) else 2
    c.result("MeanVarianceNormalization", [c.plain()], {"axes": tuple(range(first, 1 + len(c.shape())))})


def _largest(c: Conversion) -> None:
    """Find the largest elements of all: their places, and before those their values."""
    count = c.integer(1, 1)
    positive(count=[count])
    k = c.assembly.constant([count], "int64")
    values, places = c.several("TopK", [c.shaped((1, prod(c.shape()))), k], {"axis": -1}, 2)
    if c.integer(0):
        rows = [c.reshape(values, (1, 1, count)), c.reshape(places, (1, 1, count))]
        c.result("Concat", rows, {"axis": 1})
    else:
        c.is_output(places, (1, count))


# Quantisation, which layers of int8 do themselves in networks that ncnn's tools make


def _quantize(op_type: str) -> Convert:
    return lambda c: c.result(op_type, [c.input(), c.scalar(1.0)], shape=c.shape())


def _requantize(c: Conversion) -> None:
    real = c.op("DequantizeLinear", [c.input(), c.scalar(1.0)])
    c.result("QuantizeLinear", [real, c.scalar(1.0)], shape=c.shape())


# Boxes, and what ONNX has no operator for


def _prior_box(c: Conversion) -> None:
    """Boxes for every place of a map, of every size and ratio, and their variances."""
    sizes, largest, ratios = (len(c.numbers(key)) for key in (0, 1, 2))
    places = prod(c.shape()[1:])
    if len(c) == 1 and c.integer(9) == c.integer(10) == NOT_GIVEN and not largest:
        c.keep_unknown([(4 * (sizes - 1 + ratios) * places,)])
        return
    count = sizes * ratios * (2 if c.integer(7, 1) else 1) + sizes + largest
    c.keep_unknown([(2, 4 * count * places)])


def _detections(key: int) -> Convert:
    """Add the boxes' class, probability and four corners: as many as the file states, or as are kept at most."""
    return lambda c: c.keep_unknown(c.stated_shapes() or [(max(c.integer(key, 100), 1) if key else 100, 6)])


def _proposal(c: Conversion) -> None:
    """Add the corners of boxes, and their scores: as many as are kept at most."""
    count = c.integer(3, 300)
    positive(boxes=[count])
    c.keep_unknown([(count, 1, 4), (count, 1, 1)][: len(c.layer.tops)])


def _of_region(op_type: str, attributes: Callable[[int, int], Attributes]) -> Convert:
    """Return what pools the region that the first of the boxes names."""

    def convert(c: Conversion) -> None:
        size = c.integer(1), c.integer(0)
        positive(size=size)
        boxes = c.shaped((prod(c.shape(1)) // 4, 4), 1)
        if prod(c.shape(1)) > 4:
            boxes = c.op("Slice", [boxes, *(c.assembly.constant([value], "int64") for value in (0, 1, 0))])
        c.result(op_type, [c.plain(), boxes], attributes(*size))

    return convert


def _in_parts(c: Conversion) -> None:
    """Pool each part of a region from a channel of its own."""
    size = c.integer(3), c.integer(1, 7), c.integer(0, 7)
    positive(size=size)
    c.keep_unknown([size])


def _diagonal(c: Conversion) -> None:
    """Write a vector on a diagonal of a matrix, or read one."""
    shape, shift = c.shape(), c.integer(0)
    if len(shape) == 1:
        c.keep_unknown([(shape[0] + abs(shift),) * 2])
        return
    rows, columns = shape
    count = min(rows + min(shift, 0), columns - max(shift, 0), rows, columns)
    if count <= 0:
        raise ModelError(f"its diagonal {shift} lies outside of {list(shape)}")
    c.keep_unknown([(count,)])


CONVERSIONS: Mapping[str, Convert] = {
    **{layer: _with_attributes(name, numbers) for name, (layer, numbers) in OWN_LAYERS.items()},
    **{
        f"{layer}{axes}": convert
        for layer, convert in (
            ("Convolution", windows.convolution), ("ConvolutionDepthWise", windows.convolution),
            ("Deconvolution", windows.deconvolution), ("DeconvolutionDepthWise", windows.deconvolution),
            ("Pooling", windows.pooling),
        )
        for axes in ("", "1D", "3D")
    },
    **MOVEMENT,
    "AbsVal": _same("Abs"),
    "ArgMax": _largest,
    "BNLL": _same("Softplus"),
    "BatchNorm": _batch_norm,
    "Bias": lambda c: c.result("Add", [c.plain(), c.weight(*_channel_shape(c.integer(0), c.shape()))]),
    "BinaryOp": _binary,
    "Clip": lambda c: c.result(
        "Clip", [c.input(), c.scalar(c.number(0, -3.4e38)), c.scalar(c.number(1, 3.4e38))], shape=c.shape()
    ),
    "CopyTo": lambda c: c.keep_unknown([c.shape()]),
    "DeformableConv2D": windows.deformable_convolution,
    "Dequantize": _quantize("DequantizeLinear"),
    "DetectionOutput": _detections(3),
    "Diag": _diagonal,
    "Einsum": products.einsum,
    "Eltwise": _eltwise,
    "Embed": products.embedding,
    "Exp": _power_series("Exp"),
    "Fold": windows.fold,
    "GELU": lambda c: c.result("Gelu", [c.input()], {"approximate": "tanh"} if c.integer(0) else {}, shape=c.shape()),
    "GLU": _gated,
    "GRU": products.recurrent("GRU", 3),
    "Gemm": products.gemm,
    "GroupNorm": _group_norm,
    "HardSwish": lambda c: hard_swish(c, c.input(), c.number(0, 0.2), c.number(1, 0.5), shape=c.shape()),
    "InnerProduct": products.inner_product,
    "InstanceNorm": _group_norm,
    "InverseSpectrogram": products.inverse_spectrogram,
    "LRN": _lrn,
    "LSTM": products.recurrent("LSTM", 4),
    "LayerNorm": _layer_norm,
    "Log": _power_series("Log"),
    "MVN": _mean_variance,
    "MatMul": products.matmul,
    "MultiHeadAttention": products.multi_head_attention,
    "Normalize": _normalize,
    "PReLU": _prelu,
    "PSROIPooling": _in_parts,
    "Power": _power_series("Pow"),
    "PriorBox": _prior_box,
    "Proposal": _proposal,
    "Quantize": _quantize("QuantizeLinear"),
    "RMSNorm": _layer_norm,
    "RNN": products.recurrent("RNN", 1),
    "ROIAlign": _of_region("RoiAlign", lambda height, width: {"output_height": height, "output_width": width}),
    "ROIPooling": _of_region("MaxRoiPool", lambda height, width: {"pooled_shape": (height, width)}),
    "ReLU": _relu,
    "Reduction": _reduction,
    "Requantize": _requantize,
    "RotaryEmbed": products.rotary_embedding,
    "SDPA": products.attention,
    "SPP": lambda c: c.keep_unknown([(2, 1, (4 ** c.integer(1, 1) - 1) // 3)]),
    "Scale": _scale,
    "Softmax": lambda c: c.result("Softmax", [c.plain()], {"axis": axis_of(c.integer(0), len(c.shape())) + 1}),
    "Spectrogram": products.spectrogram,
    "StatisticsPooling": _statistics,
    "Swish": lambda c: c.result("Mul", [c.input(), c.op("Sigmoid", [c.input()])], shape=c.shape()),
    "Threshold": _threshold,
    "UnaryOp": _unary,
    "Unfold": windows.unfold,
    "YoloDetectionOutput": _detections(0),
    "Yolov3DetectionOutput": _detections(0),
}  # fmt: skip
"""Layer type to what reads it."""
