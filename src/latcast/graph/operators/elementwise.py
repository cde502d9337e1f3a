"""Operators that treat every element alike, normalisations, and quantisation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from latcast.errors import UnsupportedOperatorError
from latcast.graph.ir import DTYPE_BYTES, Node, Tensor
from latcast.graph.operators.linear import broadcast
from latcast.graph.operators.table import CountFlops, InferShapes, OperatorView, define

UNARY_FLOPS: Mapping[str, int] = {
    "Relu": 1, "LeakyRelu": 2, "ThresholdedRelu": 1, "Clip": 2, "Neg": 1, "Abs": 1, "Sign": 1, "Floor": 1, "Ceil": 1,
    "Round": 1, "Reciprocal": 1, "Sqrt": 1, "Not": 1, "HardSigmoid": 4, "HardSwish": 5, "Sigmoid": 4, "Tanh": 4,
    "Elu": 4, "Selu": 4, "Celu": 4, "Softplus": 4, "Softsign": 3, "Mish": 8, "Swish": 5, "Gelu": 8, "Erf": 6, "Exp": 4,
    "Log": 4, "Sin": 4, "Cos": 4, "Tan": 4, "Sinh": 4, "Cosh": 4, "Asin": 4, "Acos": 4, "Atan": 4, "Asinh": 4,
    "Acosh": 4, "Atanh": 4, "Shrink": 2, "BitwiseNot": 1, "IsNaN": 1, "IsInf": 1,
    "Cast": 0, "CastLike": 0, "Identity": 0, "Dropout": 0,
}  # fmt: skip
"""FLOPs per element; a transcendental function counts four, by convention."""

BINARY_FLOPS: Mapping[str, int] = {
    "Add": 1, "Sub": 1, "Mul": 1, "Div": 1, "Pow": 4, "Min": 1, "Max": 1, "Sum": 1, "Mean": 1, "PRelu": 2, "Mod": 1,
    "Equal": 1, "Greater": 1, "GreaterOrEqual": 1, "Less": 1, "LessOrEqual": 1, "And": 1, "Or": 1, "Xor": 1, "Where": 1,
    "BitShift": 1, "BitwiseAnd": 1, "BitwiseOr": 1, "BitwiseXor": 1,
}  # fmt: skip
"""FLOPs per element of the (broadcast) output and per input beyond the first."""

_VARIADIC = frozenset({"Min", "Max", "Sum", "Mean"})

_BOOLEAN = frozenset({"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor", "Not", "IsNaN", "IsInf"})

CAST_TYPES: Mapping[int, str] = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz",
    19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4",
}  # fmt: skip
"""Element types by their number in ONNX's ``TensorProto.DataType``."""


def dtype_of_code(view: OperatorView, code: int) -> str:
    """Numpy's name of an element type that ONNX gives by number.

    Raises:
        ModelError: The type is none of numbers (a string, a complex number).
    """
    if code not in CAST_TYPES:
        raise view.fail(f"element type {code} of ONNX is not supported")
    return CAST_TYPES[code]


def infer_same(view: OperatorView) -> list[Tensor]:
    dtype = "bool" if view.node.op_type in _BOOLEAN else view.dtype()
    return [Tensor(view.shape(), dtype) for _ in view.node.outputs]


def infer_groups(view: OperatorView) -> list[Tensor]:
    groups, shape = view.int_attribute("num_groups", 0), view.shape()
    if len(shape) < 2 or groups < 1 or shape[1] % groups:
        raise view.fail(f"cannot part {list(shape[1:2])} channels into {groups} groups")
    return infer_same(view)


def infer_cast(view: OperatorView) -> list[Tensor]:
    return [Tensor(view.shape(), dtype_of_code(view, view.int_attribute("to", 1)))]


def infer_cast_like(view: OperatorView) -> list[Tensor]:
    return [Tensor(view.shape(), view.dtype(1))]


def infer_dropout(view: OperatorView) -> list[Tensor]:
    """The second output, where there is one, is the mask."""
    return [Tensor(view.shape(), view.dtype()), Tensor(view.shape(), "bool")][: len(view.node.outputs)]


def infer_broadcast(view: OperatorView) -> list[Tensor]:
    op_type = view.node.op_type
    count = len(view.inputs) if op_type in _VARIADIC else 3 if op_type == "Where" else 2
    shapes = [view.shape(index) for index in range(count)]
    dtype = "bool" if op_type in _BOOLEAN else view.dtype(1 if op_type == "Where" else 0)
    return [Tensor(broadcast(view, *shapes), dtype)]


def flops_unary(view: OperatorView) -> int:
    return view.outputs[0].elements * UNARY_FLOPS[view.node.op_type]


def flops_binary(view: OperatorView) -> int:
    return view.outputs[0].elements * BINARY_FLOPS[view.node.op_type] * max(1, len(view.inputs) - 1)


def flops_per_element(count: int) -> CountFlops:
    """A counter that charges ``count`` FLOPs an output element."""

    def flops(view: OperatorView) -> int:
        return view.outputs[0].elements * count

    return flops


def infer_batch_norm(view: OperatorView) -> list[Tensor]:
    """The outputs beyond the first are running statistics, one value a channel."""
    x = view.shape()
    statistics = Tensor(x[1:2] or (1,), view.dtype(3))
    return [Tensor(x, view.dtype()), *(statistics for _ in view.node.outputs[1:])]


def infer_layer_norm(view: OperatorView) -> list[Tensor]:
    """The outputs beyond the first are the mean and the deviation, one value for every normalised slice."""
    x = view.shape()
    axis = view.int_attribute("axis", -1) % len(x)
    statistics = Tensor((*x[:axis], *(1 for _ in x[axis:])), "float32")
    return [Tensor(x, view.dtype()), *(statistics for _ in view.node.outputs[1:])]


def infer_quantize(view: OperatorView) -> list[Tensor]:
    """The zero point has the type of the result; without one it is ``output_dtype``, by default uint8."""
    if view.has_input(2):
        return [Tensor(view.shape(), view.dtype(2))]
    code = view.int_attribute("output_dtype", 0)
    return [Tensor(view.shape(), dtype_of_code(view, code) if code else "uint8")]


def infer_dequantize(view: OperatorView) -> list[Tensor]:
    """The scale has the type of the result."""
    return [Tensor(view.shape(), view.dtype(1))]


def infer_dynamic_quantize(view: OperatorView) -> list[Tensor]:
    return [Tensor(view.shape(), "uint8"), Tensor((), "float32"), Tensor((), "uint8")]


def is_quantized(dtype: str) -> bool:
    """Whether an element type is one that quantised arithmetic stores values in (8 bits or fewer)."""
    return dtype not in ("bool", "") and dtype.lstrip("u").startswith("int") and DTYPE_BYTES[dtype] <= 1


def clip_bounds(node: Node, values: Mapping[str, np.ndarray]) -> tuple[float | None, float | None]:
    """Lower and upper bound of a Clip, given as inputs or, in old files, as attributes; None where it has none.

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


_OWN_INFERENCE: Mapping[str, InferShapes] = {
    "Cast": infer_cast,
    "CastLike": infer_cast_like,
    "Dropout": infer_dropout,
}

for _name in UNARY_FLOPS:
    define(_name, infer=_OWN_INFERENCE.get(_name, infer_same), flops=flops_unary)
define(*BINARY_FLOPS, infer=infer_broadcast, flops=flops_binary)
define("BatchNormalization", infer=infer_batch_norm, flops=flops_per_element(2))
define("LayerNormalization", infer=infer_layer_norm, flops=flops_per_element(7))
define("InstanceNormalization", infer=infer_same, flops=flops_per_element(7))
define("GroupNormalization", infer=infer_groups, flops=flops_per_element(7))
define("RMSNormalization", "LpNormalization", "MeanVarianceNormalization", infer=infer_same, flops=flops_per_element(5))
define("LRN", infer=infer_same, flops=flops_per_element(8))
define("Softmax", "LogSoftmax", "Hardmax", infer=infer_same, flops=flops_per_element(6))
define("QuantizeLinear", infer=infer_quantize, flops=flops_per_element(3))
define("DequantizeLinear", infer=infer_dequantize, flops=flops_per_element(2))
define("DynamicQuantizeLinear", infer=infer_dynamic_quantize, flops=flops_per_element(5))
