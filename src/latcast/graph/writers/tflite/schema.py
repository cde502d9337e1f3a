"""The part of TFLite's flatbuffer schema that the writer needs: operator codes, option tables, small enumerations.

The numbers are those of the public schema (``schema.fbs``, version 3). Holding them here instead of importing generated
bindings lets a file be written with the ``flatbuffers`` package alone.
"""

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
    """How windows meet borders."""

    SAME = 0
    VALID = 1


class Activation(IntEnum):
    """Activations that an operator can carry itself."""

    NONE = 0
    RELU = 1
    RELU_N1_TO_1 = 2
    RELU6 = 3


@dataclass(frozen=True, slots=True)
class OptionField:
    """One scalar of an option table; ``kind`` is the flatbuffers type ("Int8", "Int32", "Bool", "Float32")."""

    slot: int
    kind: str
    default: float


@dataclass(frozen=True, slots=True)
class OptionTable:
    """The options of one or several operators; ``code`` is its number in the union."""

    code: int
    fields: Mapping[str, OptionField]


def _table(code: int, fields: str = "") -> OptionTable:
    """Reads ``"name:Kind=default ..."``; the position is the slot and ``-`` leaves one out."""
    found: dict[str, OptionField] = {}
    for slot, text in enumerate(fields.split()):
        if text != "-":
            name, _, kind = text.partition(":")
            kind, _, default = kind.partition("=")
            found[name] = OptionField(slot, kind, float(default or 0))
    return OptionTable(code, found)


_WINDOW = "padding:Int8 stride_w:Int32 stride_h:Int32"
_ACTIVATION = "fused_activation_function:Int8"

OPTIONS: Mapping[str, OptionTable] = {
    "Conv2DOptions": _table(1, f"{_WINDOW} {_ACTIVATION} dilation_w_factor:Int32=1 dilation_h_factor:Int32=1"),
    "DepthwiseConv2DOptions": _table(
        2, f"{_WINDOW} depth_multiplier:Int32 {_ACTIVATION} dilation_w_factor:Int32=1 dilation_h_factor:Int32=1"
    ),
    "Pool2DOptions": _table(5, f"{_WINDOW} filter_width:Int32 filter_height:Int32 {_ACTIVATION}"),
    "FullyConnectedOptions": _table(8, f"{_ACTIVATION} weights_format:Int8 keep_num_dims:Bool"),
    "SoftmaxOptions": _table(9, "beta:Float32"),
    "ConcatenationOptions": _table(10, f"axis:Int32 {_ACTIVATION}"),
    "AddOptions": _table(11, f"{_ACTIVATION} pot_scale_int16:Bool=1"),
    "LocalResponseNormalizationOptions": _table(13, "radius:Int32 bias:Float32 alpha:Float32 beta:Float32"),
    "ResizeBilinearOptions": _table(15, "- - align_corners:Bool half_pixel_centers:Bool"),
    "ReshapeOptions": _table(17),
    "SpaceToDepthOptions": _table(19, "block_size:Int32"),
    "MulOptions": _table(21, _ACTIVATION),
    "PadOptions": _table(22),
    "GatherOptions": _table(23, "axis:Int32 batch_dims:Int32"),
    "TransposeOptions": _table(26),
    "ReducerOptions": _table(27, "keep_dims:Bool"),
    "SubOptions": _table(28, f"{_ACTIVATION} pot_scale_int16:Bool=1"),
    "DivOptions": _table(29, _ACTIVATION),
    "StridedSliceOptions": _table(
        32, "begin_mask:Int32 end_mask:Int32 ellipsis_mask:Int32 new_axis_mask:Int32 shrink_axis_mask:Int32"
    ),
    "ExpOptions": _table(33),
    "SplitOptions": _table(35, "num_splits:Int32"),
    "LogSoftmaxOptions": _table(36),
    "CastOptions": _table(37, "in_data_type:Int8 out_data_type:Int8"),
    "DequantizeOptions": _table(38),
    "MaximumMinimumOptions": _table(39),
    "ArgMaxOptions": _table(40, "output_type:Int8"),
    "NegOptions": _table(42),
    "PadV2Options": _table(43),
    "TransposeConvOptions": _table(49, f"{_WINDOW} {_ACTIVATION}"),
    "TileOptions": _table(51),
    "PowOptions": _table(56),
    "ResizeNearestNeighborOptions": _table(74, "align_corners:Bool half_pixel_centers:Bool"),
    "LeakyReluOptions": _table(75, "alpha:Float32"),
    "SquaredDifferenceOptions": _table(76),
    "MirrorPadOptions": _table(77, "mode:Int8"),
    "AbsOptions": _table(78),
    "SplitVOptions": _table(79, "num_splits:Int32"),
    "CosOptions": _table(84),
    "QuantizeOptions": _table(89),
    "HardSwishOptions": _table(91),
    "DepthToSpaceOptions": _table(94, "block_size:Int32"),
    "BatchMatMulOptions": _table(101, "adj_x:Bool adj_y:Bool"),
    "BroadcastToOptions": _table(104),
    "GeluOptions": _table(116, "approximate:Bool"),
}
"""Option tables by name."""


@dataclass(frozen=True, slots=True)
class Builtin:
    """A builtin operator: its code, its option table, and the version that files carry in fp32 and in int8."""

    code: int
    options: str | None = None
    version: int = 1
    int8_version: int = 2


BUILTINS: Mapping[str, Builtin] = {
    "ADD": Builtin(0, "AddOptions"),
    "AVERAGE_POOL_2D": Builtin(1, "Pool2DOptions"),
    "CONCATENATION": Builtin(2, "ConcatenationOptions"),
    "CONV_2D": Builtin(3, "Conv2DOptions", 1, 3),
    "DEPTHWISE_CONV_2D": Builtin(4, "DepthwiseConv2DOptions", 1, 3),
    "DEPTH_TO_SPACE": Builtin(5, "DepthToSpaceOptions"),
    "DEQUANTIZE": Builtin(6, "DequantizeOptions"),
    "FLOOR": Builtin(8, None, 1, 1),
    "FULLY_CONNECTED": Builtin(9, "FullyConnectedOptions", 1, 4),
    "LOCAL_RESPONSE_NORMALIZATION": Builtin(13, "LocalResponseNormalizationOptions", 1, 1),
    "LOGISTIC": Builtin(14),
    "MAX_POOL_2D": Builtin(17, "Pool2DOptions"),
    "MUL": Builtin(18, "MulOptions"),
    "RELU": Builtin(19),
    "RELU_N1_TO_1": Builtin(20, None, 1, 1),
    "RELU6": Builtin(21),
    "RESHAPE": Builtin(22, "ReshapeOptions", 1, 1),
    "RESIZE_BILINEAR": Builtin(23, "ResizeBilinearOptions", 3, 3),
    "SOFTMAX": Builtin(25, "SoftmaxOptions"),
    "SPACE_TO_DEPTH": Builtin(26, "SpaceToDepthOptions"),
    "TANH": Builtin(28),
    "PAD": Builtin(34, "PadOptions"),
    "GATHER": Builtin(36, "GatherOptions"),
    "TRANSPOSE": Builtin(39, "TransposeOptions"),
    "MEAN": Builtin(40, "ReducerOptions"),
    "SUB": Builtin(41, "SubOptions"),
    "DIV": Builtin(42, "DivOptions"),
    "STRIDED_SLICE": Builtin(45, "StridedSliceOptions"),
    "EXP": Builtin(47, "ExpOptions"),
    "SPLIT": Builtin(49, "SplitOptions"),
    "LOG_SOFTMAX": Builtin(50, "LogSoftmaxOptions"),
    "CAST": Builtin(53, "CastOptions", 1, 1),
    "PRELU": Builtin(54, None, 1, 1),
    "MAXIMUM": Builtin(55, "MaximumMinimumOptions"),
    "ARG_MAX": Builtin(56, "ArgMaxOptions"),
    "MINIMUM": Builtin(57, "MaximumMinimumOptions"),
    "NEG": Builtin(59, "NegOptions"),
    "PADV2": Builtin(60, "PadV2Options"),
    "SIN": Builtin(66, None, 1, 1),
    "TRANSPOSE_CONV": Builtin(67, "TransposeConvOptions", 3, 3),
    "TILE": Builtin(69, "TileOptions"),
    "LOG": Builtin(73),
    "SUM": Builtin(74, "ReducerOptions"),
    "SQRT": Builtin(75),
    "RSQRT": Builtin(76),
    "POW": Builtin(78, "PowOptions"),
    "REDUCE_PROD": Builtin(81, "ReducerOptions"),
    "REDUCE_MAX": Builtin(82, "ReducerOptions"),
    "REDUCE_MIN": Builtin(89, "ReducerOptions"),
    "RESIZE_NEAREST_NEIGHBOR": Builtin(97, "ResizeNearestNeighborOptions", 3, 3),
    "LEAKY_RELU": Builtin(98, "LeakyReluOptions"),
    "SQUARED_DIFFERENCE": Builtin(99, "SquaredDifferenceOptions"),
    "MIRROR_PAD": Builtin(100, "MirrorPadOptions"),
    "ABS": Builtin(101, "AbsOptions"),
    "SPLIT_V": Builtin(102, "SplitVOptions"),
    "CEIL": Builtin(104, None, 1, 1),
    "COS": Builtin(108, "CosOptions", 1, 1),
    "ELU": Builtin(111, None, 1, 1),
    "QUANTIZE": Builtin(114, "QuantizeOptions"),
    "ROUND": Builtin(116, None, 1, 1),
    "HARD_SWISH": Builtin(117, "HardSwishOptions", 1, 1),
    "BATCH_MATMUL": Builtin(126, "BatchMatMulOptions"),
    "BROADCAST_TO": Builtin(130, "BroadcastToOptions", 2, 3),
    "GELU": Builtin(150, "GeluOptions"),
    "RELU_0_TO_1": Builtin(152, None, 1, 1),
    "SIGN": Builtin(158, None, 1, 1),
}  # fmt: skip
"""Builtin operators by their name in the schema."""
