"""Elementwise operators, normalisations, and quantisation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import inf

import numpy as np

from latcast.errors import UnsupportedOperatorError
from latcast.graph.ir import DTYPE_BYTES, Node, Tensor
from latcast.graph.operators.linear import broadcast
from latcast.graph.operators.table import OPERATORS, Kind, Operator, OperatorView, define

CAST_TYPES: Mapping[int, str] = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16", 17: "float8_e4m3fn",
    18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4_e2m1fn",
    24: "float8_e8m0fnu", 25: "uint2", 26: "int2",
}  # fmt: skip
"""Element types by their number in ONNX's ``TensorProto.DataType``."""


def dtype_of_code(view: OperatorView, code: int) -> str:
    """Return numpy's name of an element type that ONNX gives by number.

    Raises:
        ModelError: ONNX has no type of this number.
    """
    if code not in CAST_TYPES:
        raise view.fail(f"element type {code} of ONNX is not supported")
    return CAST_TYPES[code]


def infer_same(view: OperatorView) -> list[Tensor]:
    dtype = "bool" if OPERATORS.get(view.node.op_type).boolean else view.dtype()
    return [Tensor(view.shape(), dtype) for _ in view.node.outputs]


def infer_groups(view: OperatorView) -> list[Tensor]:
    groups, shape = view.node.integer("num_groups"), view.shape()
    if len(shape) < 2 or groups < 1 or shape[1] % groups:
        raise view.fail(f"cannot part {list(shape[1:2])} channels into {groups} groups")
    return infer_same(view)


def infer_cast(view: OperatorView) -> list[Tensor]:
    return [Tensor(view.shape(), dtype_of_code(view, view.node.integer("to", 1)))]


def infer_cast_like(view: OperatorView) -> list[Tensor]:
    return [Tensor(view.shape(), view.dtype(1))]


def infer_dropout(view: OperatorView) -> list[Tensor]:
    """Return the output and, as second output, the mask."""
    return [Tensor(view.shape(), view.dtype()), Tensor(view.shape(), "bool")][: len(view.node.outputs)]


def infer_broadcast(view: OperatorView) -> list[Tensor]:
    """Return the operands' common shape; of Where the first operand is the condition."""
    row, selects = OPERATORS.get(view.node.op_type), view.node.op_type == "Where"
    count = len(view.inputs) if row.variadic else 3 if selects else 2
    shapes = [view.shape(index) for index in range(count)]
    return [Tensor(broadcast(view, *shapes), "bool" if row.boolean else view.dtype(int(selects)))]


def infer_alike(view: OperatorView) -> list[Tensor]:
    """Return the shape that both operands must have.

    Raises:
        ModelError: They differ.
    """
    if view.shape(0) != view.shape(1):
        raise view.fail("both operands must have the same shape")
    return infer_same(view)


def infer_batch_norm(view: OperatorView) -> list[Tensor]:
    """Return the output and, beyond it, running statistics of one value a channel."""
    x = view.shape()
    statistics = Tensor(x[1:2] or (1,), view.dtype(3))
    return [Tensor(x, view.dtype()), *(statistics for _ in view.node.outputs[1:])]


def infer_layer_norm(view: OperatorView) -> list[Tensor]:
    """Return the output and, beyond it, mean and deviation of one value for every normalised slice."""
    x = view.shape()
    axis = view.node.integer("axis", -1) % len(x)
    statistics = Tensor((*x[:axis], *(1 for _ in x[axis:])), "float32")
    return [Tensor(x, view.dtype()), *(statistics for _ in view.node.outputs[1:])]


def infer_quantize(view: OperatorView) -> list[Tensor]:
    """Return a tensor of the zero point's type; without one of ``output_dtype``, by default uint8."""
    if view.has_input(2):
        return [Tensor(view.shape(), view.dtype(2))]
    code = view.node.integer("output_dtype")
    return [Tensor(view.shape(), dtype_of_code(view, code) if code else "uint8")]


def infer_dequantize(view: OperatorView) -> list[Tensor]:
    """Return a tensor of the scale's type."""
    return [Tensor(view.shape(), view.dtype(1))]


def infer_dynamic_quantize(view: OperatorView) -> list[Tensor]:
    return [Tensor(view.shape(), "uint8"), Tensor((), "float32"), Tensor((), "uint8")]


def is_quantized(dtype: str) -> bool:
    """Return whether quantised arithmetic stores values in an element type (integers of 8 bits or fewer)."""
    return dtype not in ("bool", "") and dtype.lstrip("u").startswith("int") and DTYPE_BYTES[dtype] <= 1


def clip_bounds(node: Node, values: Mapping[str, np.ndarray]) -> tuple[float | None, float | None]:
    """Return the lower and upper bound of a Clip, inputs or, in old files, attributes; None where it is unbounded.

    Raises:
        UnsupportedOperatorError: A bound is computed at run time.
    """
    bounds: list[float | None] = []
    for index, attribute in ((1, "min"), (2, "max")):
        given = node.attributes.get(attribute)
        name = node.inputs[index] if index < len(node.inputs) else ""
        if name and name not in values:
            raise UnsupportedOperatorError(
                f"node '{node.name}' ({node.op_type}): its bound '{name}' is computed at run time; make it a constant"
            )
        number = float(values[name].reshape(-1)[0]) if name else None
        if isinstance(given, (int, float)):
            number = float(given)
        # Exporters write a missing bound as the largest float.
        bounds.append(None if number is None or abs(number) >= 3e38 else number)
    return bounds[0], bounds[1]


_unary = partial(Operator, infer=infer_same, kind=Kind.UNARY, keeps_channels=True, dequantises_late=True)
_binary = partial(Operator, infer=infer_broadcast, kind=Kind.BINARY)
_SELU = {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}

define(
    # Activation functions
    _unary("Relu", each=1, activation=True, bounds=(0.0, inf), tflite="RELU", ncnn="ReLU"),
    _unary("LeakyRelu", each=2, activation=True, softens_relu=True, attributes={"alpha": 0.01}, ncnn="ReLU"),
    _unary("ThresholdedRelu", each=1, attributes={"alpha": 1.0}),
    _unary("Clip", each=2, activation=True, constants=frozenset({1, 2})),
    _unary("HardSigmoid", each=4, activation=True, bounds=(0.0, 1.0), attributes={"alpha": 0.2, "beta": 0.5},
           idioms=("hard_sigmoid",), ncnn="HardSigmoid"),
    _unary("HardSwish", each=5, activation=True, softens_relu=True, idioms=("hard_swish",), tflite="HARD_SWISH"),
    _unary("Sigmoid", each=4, activation=True, transcendental=True, bounds=(0.0, 1.0), tflite="LOGISTIC", ncnn="Sigmoid"),
    _unary("Tanh", each=4, activation=True, transcendental=True, bounds=(-1.0, 1.0), tflite="TANH", ncnn="TanH"),
    _unary("Elu", each=4, activation=True, softens_relu=True, transcendental=True, attributes={"alpha": 1.0}, ncnn="ELU"),
    _unary("Selu", each=4, softens_relu=True, transcendental=True, attributes=_SELU, ncnn="SELU"),
    _unary("Celu", each=4, softens_relu=True, transcendental=True, attributes={"alpha": 1.0}, ncnn="CELU"),
    _unary("Softplus", each=4, activation=True, softens_relu=True, transcendental=True, ncnn="Softplus"),
    _unary("Softsign", each=3),
    _unary("Mish", each=8, activation=True, softens_relu=True, transcendental=True, idioms=("mish",), ncnn="Mish"),
    _unary("Swish", each=5, activation=True, softens_relu=True, transcendental=True, attributes={"alpha": 1.0}, word="silu",
           idioms=("silu",)),
    _unary("Gelu", each=8, activation=True, softens_relu=True, transcendental=True, idioms=("gelu",)),
    _unary("Shrink", each=2, attributes={"bias": 0.0, "lambd": 0.5}, ncnn="Shrink"),
    # Functions
    _unary("Neg", each=1, tflite="NEG", ncnn=1),
    _unary("Abs", each=1, bounds=(0.0, inf), tflite="ABS", ncnn=0),
    _unary("Sign", each=1, tflite="SIGN", ncnn=20),
    _unary("Floor", each=1, tflite="FLOOR", ncnn=2),
    _unary("Ceil", each=1, tflite="CEIL", ncnn=3),
    _unary("Round", each=1, tflite="ROUND", ncnn=18),
    _unary("Reciprocal", each=1, ncnn=15),
    _unary("Sqrt", each=1, bounds=(0.0, inf), tflite="SQRT", ncnn=5),
    _unary("Not", each=1, boolean=True, tflite="LOGICAL_NOT"),
    _unary("Erf", each=6, transcendental=True, bounds=(-1.0, 1.0), ncnn="Erf"),
    _unary("Exp", each=4, transcendental=True, bounds=(0.0, inf), tflite="EXP", ncnn=7),
    _unary("Log", each=4, transcendental=True, tflite="LOG", ncnn=8),
    _unary("Sin", each=4, transcendental=True, tflite="SIN", ncnn=9),
    _unary("Cos", each=4, transcendental=True, tflite="COS", ncnn=10),
    _unary("Tan", each=4, transcendental=True, ncnn=11),
    _unary("Sinh", each=4, transcendental=True, ncnn=22),
    _unary("Cosh", each=4, transcendental=True, ncnn=24),
    _unary("Asin", each=4, transcendental=True, ncnn=12),
    _unary("Acos", each=4, transcendental=True, ncnn=13),
    _unary("Atan", each=4, transcendental=True, ncnn=14),
    _unary("Asinh", each=4, transcendental=True, ncnn=23),
    _unary("Acosh", each=4, transcendental=True, ncnn=25),
    _unary("Atanh", each=4, transcendental=True, ncnn=26),
    _unary("BitwiseNot", each=1),
    _unary("IsNaN", each=1, boolean=True),
    _unary("IsInf", each=1, boolean=True),
    # No computation
    _unary("BitCast", infer=infer_cast),
    _unary("Cast", infer=infer_cast),
    _unary("CastLike", infer=infer_cast_like),
    _unary("Identity", passes=True),
    _unary("Dropout", infer=infer_dropout, passes=True, constants=frozenset({1, 2})),
)  # fmt: skip
define(
    _binary("Add", each=1, arithmetic=True, split_by_constant=True, tflite="ADD", ncnn=(0, 0)),
    _binary("Sub", each=1, arithmetic=True, split_by_constant=True, tflite="SUB", ncnn=(1, 7)),
    _binary("Mul", each=1, arithmetic=True, split_by_constant=True, tflite="MUL", ncnn=(2, 2)),
    _binary("Div", each=1, arithmetic=True, split_by_constant=True, tflite="DIV", ncnn=(3, 8)),
    _binary("Pow", each=4, split_by_constant=True, tflite="POW", ncnn=(6, 9)),
    _binary("Min", each=1, variadic=True, split_by_constant=True, tflite="MINIMUM", ncnn=(5, 5)),
    _binary("Max", each=1, variadic=True, split_by_constant=True, tflite="MAXIMUM", ncnn=(4, 4)),
    _binary("Sum", each=1, variadic=True),
    _binary("Mean", each=1, variadic=True),
    _binary("PRelu", each=2, activation=True, softens_relu=True, learned=frozenset({1}), keeps_channels=True, channels=True,
            dequantises_late=True),
    _binary("SwiGLU", infer=infer_alike, each=6, transcendental=True, attributes={"alpha": 1.0}),
    _binary("Mod", each=1),
    _binary("Equal", each=1, boolean=True, tflite="EQUAL"),
    _binary("Greater", each=1, boolean=True, tflite="GREATER"),
    _binary("GreaterOrEqual", each=1, boolean=True, tflite="GREATER_EQUAL"),
    _binary("Less", each=1, boolean=True, tflite="LESS"),
    _binary("LessOrEqual", each=1, boolean=True, tflite="LESS_EQUAL"),
    _binary("And", each=1, boolean=True, tflite="LOGICAL_AND"),
    _binary("Or", each=1, boolean=True, tflite="LOGICAL_OR"),
    _binary("Xor", each=1, boolean=True),
    _binary("Where", each=1),
    _binary("BitShift", each=1),
    _binary("BitwiseAnd", each=1),
    _binary("BitwiseOr", each=1),
    _binary("BitwiseXor", each=1),
)  # fmt: skip

_normalisation = partial(Operator, infer=infer_same, kind=Kind.NORMALISATION)
_along_axis = partial(Operator, infer=infer_same, each=6, along_axis=True)
_PARAMETERS = frozenset({1, 2})

define(
    _normalisation("BatchNormalization", infer=infer_batch_norm, each=2, learned=frozenset({1, 2, 3, 4}), channels=True,
                   keeps_channels=True),
    _normalisation("LayerNormalization", infer=infer_layer_norm, each=7, learned=_PARAMETERS, last_axes=True,
                   idioms=("layer_norm", "plain_layer_norm")),
    _normalisation("InstanceNormalization", each=7, learned=_PARAMETERS, channels=True),
    _normalisation("GroupNormalization", infer=infer_groups, each=7, learned=_PARAMETERS, channels=True),
    _normalisation("RMSNormalization", each=5, learned=frozenset({1}), last_axes=True),
    _normalisation("LpNormalization", each=5, along_axis=True),
    _normalisation("MeanVarianceNormalization", each=5),
    Operator("LRN", infer_same, each=8, channels=True),
    _along_axis("Softmax", bounds=(0.0, 1.0)),
    _along_axis("LogSoftmax"),
    _along_axis("Hardmax"),
    Operator("QuantizeLinear", infer_quantize, each=3, kind=Kind.QUANTISED, constants=frozenset({1, 2})),
    Operator("DequantizeLinear", infer_dequantize, each=2, kind=Kind.QUANTISED, constants=frozenset({1, 2})),
    Operator("DynamicQuantizeLinear", infer_dynamic_quantize, each=5, kind=Kind.QUANTISED),
)  # fmt: skip
