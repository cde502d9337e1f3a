"""The part of TFLite's schema that the writer chooses from: element types, builtin operators and their versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum


class TensorType(IntEnum):
    """Element types."""

    FLOAT32 = 0
    FLOAT16 = 1
    INT32 = 2
    UINT8 = 3
    INT64 = 4
    BOOL = 6
    INT8 = 9


class Padding(IntEnum):
    """Padding of windows at borders."""

    SAME = 0
    VALID = 1


class Activation(IntEnum):
    """Activations that an operator can carry itself."""

    NONE = 0
    RELU = 1
    RELU_N1_TO_1 = 2
    RELU6 = 3


@dataclass(frozen=True, slots=True)
class Builtin:
    """A builtin operator: the schema's table of its options, and the version that files carry in fp32 and in int8."""

    options: str = ""
    version: int = 1
    int8_version: int = 2


BUILTINS: Mapping[str, Builtin] = {
    "ADD": Builtin("AddOptions"),
    "AVERAGE_POOL_2D": Builtin("Pool2DOptions"),
    "CONCATENATION": Builtin("ConcatenationOptions"),
    "CONV_2D": Builtin("Conv2DOptions", 1, 3),
    "DEPTHWISE_CONV_2D": Builtin("DepthwiseConv2DOptions", 1, 3),
    "DEPTH_TO_SPACE": Builtin("DepthToSpaceOptions"),
    "DEQUANTIZE": Builtin("DequantizeOptions"),
    "FLOOR": Builtin("", 1, 1),
    "FULLY_CONNECTED": Builtin("FullyConnectedOptions", 1, 4),
    "LOCAL_RESPONSE_NORMALIZATION": Builtin("LocalResponseNormalizationOptions", 1, 1),
    "LOGISTIC": Builtin(),
    "MAX_POOL_2D": Builtin("Pool2DOptions"),
    "MUL": Builtin("MulOptions"),
    "RELU": Builtin(),
    "RELU_N1_TO_1": Builtin("", 1, 1),
    "RELU6": Builtin(),
    "RESHAPE": Builtin("ReshapeOptions", 1, 1),
    "RESIZE_BILINEAR": Builtin("ResizeBilinearOptions", 3, 3),
    "SOFTMAX": Builtin("SoftmaxOptions"),
    "SPACE_TO_DEPTH": Builtin("SpaceToDepthOptions"),
    "TANH": Builtin(),
    "PAD": Builtin("PadOptions"),
    "GATHER": Builtin("GatherOptions"),
    "TRANSPOSE": Builtin("TransposeOptions"),
    "MEAN": Builtin("ReducerOptions"),
    "SUB": Builtin("SubOptions"),
    "DIV": Builtin("DivOptions"),
    "STRIDED_SLICE": Builtin("StridedSliceOptions"),
    "EXP": Builtin("ExpOptions"),
    "SPLIT": Builtin("SplitOptions"),
    "LOG_SOFTMAX": Builtin("LogSoftmaxOptions"),
    "CAST": Builtin("CastOptions", 1, 1),
    "PRELU": Builtin("", 1, 1),
    "MAXIMUM": Builtin("MaximumMinimumOptions"),
    "ARG_MAX": Builtin("ArgMaxOptions"),
    "MINIMUM": Builtin("MaximumMinimumOptions"),
    "NEG": Builtin("NegOptions"),
    "PADV2": Builtin("PadV2Options"),
    "SIN": Builtin("", 1, 1),
    "TRANSPOSE_CONV": Builtin("TransposeConvOptions", 3, 3),
    "TILE": Builtin("TileOptions"),
    "LOG": Builtin(),
    "SUM": Builtin("ReducerOptions"),
    "SQRT": Builtin(),
    "RSQRT": Builtin(),
    "POW": Builtin("PowOptions"),
    "REDUCE_PROD": Builtin("ReducerOptions"),
    "REDUCE_MAX": Builtin("ReducerOptions"),
    "REDUCE_MIN": Builtin("ReducerOptions"),
    "RESIZE_NEAREST_NEIGHBOR": Builtin("ResizeNearestNeighborOptions", 3, 3),
    "LEAKY_RELU": Builtin("LeakyReluOptions"),
    "SQUARED_DIFFERENCE": Builtin("SquaredDifferenceOptions"),
    "MIRROR_PAD": Builtin("MirrorPadOptions"),
    "ABS": Builtin("AbsOptions"),
    "SPLIT_V": Builtin("SplitVOptions"),
    "CEIL": Builtin("", 1, 1),
    "COS": Builtin("CosOptions", 1, 1),
    "ELU": Builtin("", 1, 1),
    "QUANTIZE": Builtin("QuantizeOptions"),
    "ROUND": Builtin("", 1, 1),
    "HARD_SWISH": Builtin("HardSwishOptions", 1, 1),
    "BATCH_MATMUL": Builtin("BatchMatMulOptions"),
    "BROADCAST_TO": Builtin("BroadcastToOptions", 2, 3),
    "GELU": Builtin("GeluOptions"),
    "RELU_0_TO_1": Builtin("", 1, 1),
    "SIGN": Builtin("", 1, 1),
}  # fmt: skip
"""Builtin operators by their name in the schema."""
