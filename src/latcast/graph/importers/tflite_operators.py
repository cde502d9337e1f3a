"""TFLite's builtin operators in ONNX's vocabulary.

What each operator means is defined by TensorFlow's ``tfl_ops.td`` and the reference kernels of LiteRT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from latcast.graph.idioms import IN_GROUPS
from latcast.graph.importers.assembly import shortest
from latcast.graph.importers.tflite_control_flow import CONTROL_FLOW
from latcast.graph.importers.tflite_conversion import Attributes, Conversion
from latcast.graph.importers.tflite_movement import MOVEMENT
from latcast.graph.ir import Tensor
from latcast.graph.operators import Kind, operators
from latcast.graph.operators.linear import halved_pads, same_pads, transposed_surplus

Convert = Callable[[Conversion], Any]
"""Adds the operator to the graph; NotImplemented where this form of it has no counterpart."""

_SAME = 0


def _window(c: Conversion, options: Any, kernel: tuple[int, ...]) -> Attributes:
    """Return the kernel, strides and pads; dilations where the operator has them."""
    strides = _sizes(options, "Stride{}", len(kernel))
    dilated = hasattr(options, "DilationHFactor")
    dilations = _sizes(options, "Dilation{}Factor", len(kernel)) if dilated else (1,) * len(kernel)
    extents = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]
    is_same = options.Padding() == _SAME
    pads = same_pads(c.shape()[1:-1], extents, strides, upper=True) if is_same else (0,) * 2 * len(kernel)
    attributes: Attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    return attributes | {"dilations": dilations} if dilated else attributes


def _sizes(options: Any, name: str, rank: int) -> tuple[int, ...]:
    """Return an option that each axis of a window has its own of: of depth, height and width the last ones."""
    return tuple(getattr(options, name.format(axis))() for axis in "DHW"[3 - rank :])


def _bias(c: Conversion, position: int) -> list[str]:
    return [c.input(position)] if c.has(position) else []


def _convolution(table: str, order: tuple[int, ...]) -> Convert:
    """Return what adds a convolution whose filter has ONNX's axes (outputs, inputs of a group, sizes) in this order."""

    def convert(c: Conversion) -> None:
        options, filter_ = c.options(table), c.shape(1)
        groups = c.shape()[-1] // filter_[order[1]]
        attributes = _window(c, options, tuple(filter_[axis] for axis in order[2:])) | {"group": groups}
        if table == "Conv2DOptions" and filter_[order[1]] == 1 < groups:
            attributes[IN_GROUPS] = 1
        inputs = [c.channels_first(), c.weight(1, order), *_bias(c, 2)]
        c.result("Conv", inputs, attributes, activation=options.FusedActivationFunction(), from_channels_first=True)

    return convert


def _transpose_conv_with_bias(c: Conversion) -> None:
    """Add MediaPipe's transposed convolution; its strides are what its output is larger by."""
    kernel, sizes, target = c.shape(1)[1:3], c.shape()[1:-1], c.stated().shape[1:-1]
    strides = tuple(max(1, wanted // size) for size, wanted in zip(sizes, target, strict=True))
    inputs = [c.channels_first(), c.weight(1, (3, 0, 1, 2)), *_bias(c, 2)]
    c.result("ConvTranspose", inputs, _transposed_window(sizes, target, kernel, strides), from_channels_first=True)


def _transposed(table: str, order: tuple[int, ...]) -> Convert:
    """Return what adds a transposed convolution; inputs: output shape (which decides the padding), filter, activation, bias."""

    def convert(c: Conversion) -> None:
        options, kernel = c.options(table), tuple(c.shape(1)[axis] for axis in order[2:])
        strides = _sizes(options, "Stride{}", len(kernel))
        known = c.reading.value(c.operator.inputs[0])
        target = c.stated().shape if known is None else c.ints(0)
        attributes = _transposed_window(c.shape(2)[1:-1], target[1:-1], kernel, strides)
        inputs = [c.channels_first(2), c.weight(1, order), *_bias(c, 3)]
        c.result("ConvTranspose", inputs, attributes, activation=options.FusedActivationFunction(), from_channels_first=True)

    return convert


def _transposed_window(
    sizes: Sequence[int], target: Sequence[int], kernel: tuple[int, ...], strides: tuple[int, ...]
) -> Attributes:
    """Return the window of a transposed convolution, padded so that it gives the sizes that are wanted."""
    surplus = transposed_surplus(sizes, kernel, strides, (1,) * len(kernel), target)
    attributes: Attributes = {"kernel_shape": kernel, "strides": strides}
    if max(surplus) > 0:
        attributes["pads"] = halved_pads([max(total, 0) for total in surplus], upper=True)
    if min(surplus) < 0:
        attributes["output_padding"] = tuple(max(-total, 0) for total in surplus)
    return attributes


def _fully_connected(c: Conversion) -> None:
    """Add a Gemm for rank 2; for a higher rank that is kept, a MatMul and an addition."""
    options = c.options("FullyConnectedOptions")
    in_features = c.shape(1)[1]
    x, activation = c.input(0), options.FusedActivationFunction()
    if options.KeepNumDims() and len(c.shape()) > 2:
        weight = c.weight(1, (1, 0))
        if not c.has(2):
            c.result("MatMul", [x, weight], activation=activation)
            return
        c.result("Add", [c.op("MatMul", [x, weight]), c.input(2)], activation=activation)
        return
    if len(c.shape()) != 2 or c.shape()[1] != in_features:
        x = c.reshape(x, (c.assembly.tensor(x).elements // in_features, in_features))
    c.result("Gemm", [x, c.input(1), *_bias(c, 2)], {"transB": 1}, activation=activation)


def _batch_matmul(c: Conversion) -> None:
    options = c.options("BatchMatMulOptions")
    sides = []
    for position, is_turned in enumerate((options.AdjX(), options.AdjY())):
        name, rank = c.input(position), len(c.shape(position))
        if is_turned:
            name = c.op("Transpose", [name], {"perm": (*range(rank - 2), rank - 1, rank - 2)})
        sides.append(name)
    c.result("MatMul", sides)


def _pool(op_type: str) -> Convert:
    def convert(c: Conversion) -> None:
        options = c.options("Pool2DOptions")
        attributes = _window(c, options, (options.FilterHeight(), options.FilterWidth()))
        if op_type == "LpPool":
            attributes["p"] = 2
        activation = options.FusedActivationFunction()
        c.result(op_type, [c.channels_first()], attributes, activation=activation, from_channels_first=True)

    return convert


def _floor_division(c: Conversion) -> None:
    """Divide; ONNX's quotient of integers is rounded towards 0, so that known ones are divided here."""
    known = [c.reading.value(index) for index in c.operator.inputs]
    if known[0] is not None and known[1] is not None:
        c.assembly.add_value(c.outputs[0], np.floor_divide(known[0], known[1]))
    else:
        c.result("Floor", [c.op("Div", [c.input(0), c.input(1)])])


def _same_inputs(op_type: str, options: str = "") -> Convert:
    """Return the emitter of an operator whose inputs are those of its ONNX counterpart; ``options`` hold an activation."""

    def convert(c: Conversion) -> None:
        activation = c.options(options).FusedActivationFunction() if options else 0
        c.result(op_type, [c.input(position) for position in range(len(c))], activation=activation)

    return convert


def _select(c: Conversion) -> None:
    """Add a choice of elements; a condition of one axis chooses rows."""
    condition, rank = c.input(0), len(c.shape(1))
    if len(c.shape()) == 1 < rank:
        condition = c.reshape(condition, (*c.shape(), *[1] * (rank - 1)))
    c.result("Where", [condition, c.input(1), c.input(2)])


def _unary(op_type: str, **attributes: float) -> Convert:
    return lambda c: c.result(op_type, [c.input(0)], dict(attributes))


def _bounded(low: float, high: float) -> Convert:
    return lambda c: c.result("Clip", [c.input(0), c.constant(low, "float32"), c.constant(high, "float32")])


def _l2_normalization(c: Conversion) -> None:
    activation = c.options("L2NormOptions").FusedActivationFunction()
    c.result("LpNormalization", [c.input(0)], {"axis": -1, "p": 2}, activation=activation)


def _local_response_normalization(c: Conversion) -> None:
    options = c.options("LocalResponseNormalizationOptions")
    size = 2 * options.Radius() + 1
    attributes: Attributes = {
        "size": size,
        "alpha": shortest(options.Alpha() * size),  # ONNX divides by the size
        "beta": shortest(options.Beta()),
        "bias": shortest(options.Bias()),
    }
    c.result("LRN", [c.channels_first()], attributes, from_channels_first=True)


def _reduce(op_type: str) -> Convert:
    def convert(c: Conversion) -> None:
        rank = len(c.shape())
        axes = tuple(sorted(axis % rank for axis in c.ints(1)))
        keep = int(bool(c.options("ReducerOptions").KeepDims()))
        c.result(op_type, [c.input(0)], {"axes": axes, "keepdims": keep})

    return convert


def _arg(op_type: str) -> Convert:
    return lambda c: c.result(op_type, [c.input(0)], {"axis": c.ints(1)[0] % len(c.shape()), "keepdims": 0})


def _reverse_sequence(c: Conversion) -> None:
    options = c.options("ReverseSequenceOptions")
    lengths = c.input(1)
    if c.assembly.tensor(lengths).dtype != "int64":
        lengths = c.op("Cast", [lengths], {"to": 7})
    c.result("ReverseSequence", [c.input(0), lengths], {"time_axis": options.SeqDim(), "batch_axis": options.BatchDim()})


def _cumsum(c: Conversion) -> None:
    options = c.options("CumsumOptions")
    attributes: Attributes = {"exclusive": int(options.Exclusive()), "reverse": int(options.Reverse())}
    known = c.reading.value(c.operator.inputs[1])
    if known is None:
        c.keep_unknown([c.assembly.tensor(c.input(0))])
        return
    c.result("CumSum", [c.input(0), c.constant(int(known.reshape(-1)[0]))], attributes)


def _quantize(c: Conversion) -> None:
    """Quantise reals, or integers of another scale."""
    index = c.operator.outputs[0]
    dtype = c.reading.file.tensors[index].tensor.dtype
    c.result("QuantizeLinear", [c.input(0), *_scale_and_zero(c, index, dtype)])


def _dequantize(c: Conversion) -> None:
    """Dequantise integers; half-precision weights are widened."""
    index = c.operator.inputs[0]
    dtype = c.assembly.tensor(c.input(0)).dtype
    if dtype == "float16":
        c.result("Cast", [c.input(0)], {"to": 1})
        return
    if c.assembly.is_static(c.input(0)):
        c.assembly.add_static(c.outputs[0], Tensor(c.shape(), "float32"))
        return
    c.result("DequantizeLinear", [c.input(0), *_scale_and_zero(c, index, dtype)])


def _scale_and_zero(c: Conversion, index: int, dtype: str) -> list[str]:
    scale, zero = c.reading.quantization(index)
    place = 0 if scale.size == 1 else slice(None)
    return [c.constant(scale[place], "float32"), c.constant(zero[place], dtype)]


CONVERSIONS: Mapping[str, Convert] = {
    **CONTROL_FLOW,
    **MOVEMENT,
    **{row.tflite: _unary(row.op_type) for row in operators(Kind.UNARY) if row.tflite},
    **{row.tflite: _reduce(row.op_type) for row in operators(Kind.REDUCTION) if row.tflite},
    **{
        row.tflite: _same_inputs(row.op_type, f"{row.op_type}Options" if row.arithmetic else "")
        for row in operators(Kind.BINARY)
        if row.tflite
    },
    "ADD_N": _same_inputs("Sum"),
    "ARG_MAX": _arg("ArgMax"),
    "ARG_MIN": _arg("ArgMin"),
    "AVERAGE_POOL_2D": _pool("AveragePool"),
    "BATCH_MATMUL": _batch_matmul,
    "CONV_2D": _convolution("Conv2DOptions", (0, 3, 1, 2)),
    "CONV_3D": _convolution("Conv3DOptions", (4, 3, 0, 1, 2)),
    "CONV_3D_TRANSPOSE": _transposed("Conv3DOptions", (4, 3, 0, 1, 2)),
    "CUMSUM": _cumsum,
    "DEPTHWISE_CONV_2D": _convolution("DepthwiseConv2DOptions", (3, 0, 1, 2)),
    "DEQUANTIZE": _dequantize,
    "ELU": _unary("Elu", alpha=1.0),
    "FLOOR_DIV": _floor_division,
    "FLOOR_MOD": _same_inputs("Mod"),
    "FULLY_CONNECTED": _fully_connected,
    "GELU": lambda c: c.result("Gelu", [c.input(0)], {"approximate": "tanh"} if c.options("GeluOptions").Approximate() else {}),
    "L2_NORMALIZATION": _l2_normalization,
    "L2_POOL_2D": _pool("LpPool"),
    "LEAKY_RELU": lambda c: c.result("LeakyRelu", [c.input(0)], {"alpha": shortest(c.options("LeakyReluOptions").Alpha())}),
    "LOCAL_RESPONSE_NORMALIZATION": _local_response_normalization,
    "LOG_SOFTMAX": _unary("LogSoftmax", axis=-1),
    "MAX_POOL_2D": _pool("MaxPool"),
    "NOT_EQUAL": lambda c: c.result("Not", [c.op("Equal", [c.input(0), c.input(1)])]),
    "PRELU": _same_inputs("PRelu"),
    "QUANTIZE": _quantize,
    "REDUCE_ALL": _reduce("ReduceMin"),
    "REDUCE_ANY": _reduce("ReduceMax"),
    "RELU6": _bounded(0.0, 6.0),
    "RELU_0_TO_1": _bounded(0.0, 1.0),
    "RELU_N1_TO_1": _bounded(-1.0, 1.0),
    "REVERSE_SEQUENCE": _reverse_sequence,
    "RSQRT": lambda c: c.result("Reciprocal", [c.op("Sqrt", [c.input(0)])]),
    "SELECT": _select,
    "SELECT_V2": _same_inputs("Where"),
    "SOFTMAX": _unary("Softmax", axis=-1),
    "SQUARE": lambda c: c.result("Mul", [c.input(0), c.input(0)]),
    "SQUARED_DIFFERENCE": lambda c: c.result("Mul", [c.op("Sub", [c.input(0), c.input(1)])] * 2),
    "TRANSPOSE_CONV": _transposed("TransposeConvOptions", (3, 0, 1, 2)),
}
"""Builtin operators by their name in the schema."""

CUSTOM: Mapping[str, Convert] = {"Convolution2DTransposeBias": _transpose_conv_with_bias}
"""Custom operators by their name; others are estimated."""
