"""Windows over maps: convolutions and pooling.

The padding of both sides together is stored in place of the output's size, so that a window keeps its way of padding when its map
changes. Drawn windows keep the map's size where they are odd, and are not padded where they are even.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from latcast.spaces.parametrisations.parametrisation import (
    LEAST_CHANNELS,
    MAPS,
    MOST_CHANNELS,
    SIZES,
    Axis,
    Parametrisation,
    Span,
    Values,
    each,
    square,
    without,
)

_SIZE = square(SIZES, "in_h", "in_w")
_STRIDE = square((1, 2, 4), "stride_h", "stride_w")
_STRIDE_UP_TO_2 = square((1, 2), "stride_h", "stride_w")
_PLAIN = {"batch": 1, "dilation_h": 1, "dilation_w": 1, "padded": 0}


def _kernel(sizes: tuple[int, ...]) -> Axis:
    paddings = [size - 1 if size % 2 else 0 for size in sizes]
    return Axis(
        ("kernel_h", "kernel_w", "pad_h", "pad_w"),
        tuple((size, size, pad, pad) for size, pad in zip(sizes, paddings, strict=True)),
    )


def _window(values: Values, axis: str) -> int:
    return (values[f"kernel_{axis}"] - 1) * values.get(f"dilation_{axis}", 1) + 1


def _fits(values: Values) -> bool:
    """Return whether window and stride are at most the map; others are a smaller kernel with needless work."""
    return values["kernel_h"] <= values["in_h"] and values["stride_h"] <= values["in_h"]


def _read_window(fields: Values, axes: str = "hw") -> dict[str, int]:
    """Replace the output's size by the least padding that gives it."""
    pads = {}
    for axis in axes:
        covered = (fields[f"out_{axis}"] - 1) * fields[f"stride_{axis}"] + _window(fields, axis)
        pads[f"pad_{axis}"] = max(covered - fields[f"in_{axis}"], 0)
    return {**without(fields, *(f"out_{axis}" for axis in axes)), **pads}


def _write_window(values: Values) -> dict[str, int]:
    outs = {}
    for axis in "hw":
        free = values[f"in_{axis}"] + values[f"pad_{axis}"] - _window(values, axis)
        outs[f"out_{axis}"] = free // values[f"stride_{axis}"] + 1
    return {**without(values, "pad_h", "pad_w"), **outs}


def _write_dense(values: Values) -> dict[str, int]:
    """Return fields with ``padded`` as the padding says; padding that changes no size is kept as it was read."""
    padded = max(values["padded"], int(values["pad_h"] + values["pad_w"] > 0))
    return {**_write_window(values), "padded": padded}


def _read_depthwise(fields: Values) -> dict[str, int]:
    values = without(_read_window(fields), "out_channels", "groups")
    return {**values, "multiplier": fields["out_channels"] // fields["in_channels"]}


def _write_depthwise(values: Values) -> dict[str, int]:
    channels = values["in_channels"]
    fields = _write_dense(without(values, "multiplier"))
    return {**fields, "out_channels": channels * values["multiplier"], "groups": channels}


def _read_grouped(fields: Values) -> dict[str, int]:
    groups = fields["groups"]
    values = without(_read_window(fields), "in_channels", "out_channels")
    return {**values, "group_in": fields["in_channels"] // groups, "group_out": fields["out_channels"] // groups}


def _write_grouped(values: Values) -> dict[str, int]:
    groups = values["groups"]
    fields = _write_dense(without(values, "group_in", "group_out"))
    return {**fields, "in_channels": groups * values["group_in"], "out_channels": groups * values["group_out"]}


def _from_full(values: Values, given: str, wanted: str) -> dict[str, int]:
    """Replace the output's size, ``out``, by what is cut off the full output, ``cut``, or the other way round."""
    found = {}
    for axis in "hw":
        full = (values[f"in_{axis}"] - 1) * values[f"stride_{axis}"] + _window(values, axis)
        found[f"{wanted}_{axis}"] = full - values[f"{given}_{axis}"]
    return {**without(values, f"{given}_h", f"{given}_w"), **found}


_DOUBLING = Axis(("kernel_h", "kernel_w", "cut_h", "cut_w", "padded"), ((2, 2, 0, 0, 0), (3, 3, 1, 1, 1), (4, 4, 2, 2, 1)))
"""Transposed windows that double the size at a stride of 2."""


_VOLUME = Axis(("in_d", "in_h", "in_w"), ((16, 56, 56), (8, 56, 56), (16, 28, 28), (8, 28, 28), (4, 28, 28), (8, 14, 14)))


def _write_volume(values: Values) -> dict[str, int]:
    outs = {}
    for axis in "dhw":
        pad = values.get(f"pad_{axis}", values.get("pad", 0) * (values[f"kernel_{axis}"] - 1))
        outs[f"out_{axis}"] = (values[f"in_{axis}"] + pad - values[f"kernel_{axis}"]) // values[f"stride_{axis}"] + 1
    return {**without(values, "pad", "pad_d", "pad_h", "pad_w"), **outs}


def _pool(sizes: tuple[int, ...]) -> Parametrisation:
    return Parametrisation(
        (square(MAPS, "in_h", "in_w"), _kernel(sizes), _STRIDE_UP_TO_2),
        (Span("channels", LEAST_CHANNELS, MOST_CHANNELS),),
        {"batch": 1},
        _read_window,
        _write_window,
        _fits,
    )


PARAMETRISATIONS: Mapping[str, Parametrisation] = {
    "conv": Parametrisation(
        (_SIZE, _kernel((1, 3, 5, 7, 9)), _STRIDE),
        (Span("in_channels", LEAST_CHANNELS, MOST_CHANNELS), Span("out_channels", 16, 2048)),
        {**_PLAIN, "groups": 1},
        _read_window,
        _write_dense,
        _fits,
    ),
    "depthwise_conv": Parametrisation(
        (_SIZE, _kernel((3, 5, 7, 9)), _STRIDE),
        (Span("in_channels", 8, MOST_CHANNELS),),
        {**_PLAIN, "multiplier": 1},
        _read_depthwise,
        _write_depthwise,
        _fits,
    ),
    "grouped_conv": Parametrisation(
        (_SIZE, _kernel((1, 3, 5)), _STRIDE_UP_TO_2, each("groups", (2, 4, 8, 16, 32, 64), cell=False)),
        (Span("group_in", 2, 128), Span("group_out", 2, 128)),
        _PLAIN,
        _read_grouped,
        _write_grouped,
        _fits,
    ),
    "conv_transpose": Parametrisation(
        (square((56, 32, 28, 16, 14, 8, 7, 4), "in_h", "in_w"), _DOUBLING),
        (Span("in_channels", 8, 1024), Span("out_channels", 8, 1024)),
        {**without(_PLAIN, "padded"), "groups": 1, "stride_h": 2, "stride_w": 2},
        partial(_from_full, given="out", wanted="cut"),
        partial(_from_full, given="cut", wanted="out"),
    ),
    "conv_3d": Parametrisation(
        (
            _VOLUME,
            Axis(("kernel_d", "kernel_h", "kernel_w", "pad"), ((1, 1, 1, 0), (1, 3, 3, 0), (3, 3, 3, 1), (3, 1, 1, 1))),
            square((1, 2), "stride_h", "stride_w"),
        ),
        (Span("in_channels", LEAST_CHANNELS, 512), Span("out_channels", 8, 512)),
        {"batch": 1, "stride_d": 1, "groups": 1},
        lambda fields: _read_window(fields, "dhw"),
        _write_volume,
    ),
    "max_pool": _pool((2, 3, 5)),
    "average_pool": _pool((2, 3, 5, 7)),
}
