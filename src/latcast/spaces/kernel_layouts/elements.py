"""Kernels that treat the elements of a map or the rows of a matrix alike."""

from __future__ import annotations

from collections.abc import Mapping

from latcast.kernels.types.elementwise import ACTIVATIONS, ARITHMETIC
from latcast.spaces.kernel_layouts.layout import (
    LEAST_CHANNELS,
    MAP,
    MAPS,
    MOST_CHANNELS,
    SEQUENCE,
    SIZES,
    TOKENS,
    Axis,
    Layout,
    Span,
    Values,
    each,
    pixels,
    square,
    without,
)


def read_elements(fields: Values) -> dict[str, int]:
    """Elements are pixels times channels."""
    return {**without(fields, "elements"), "pixels": fields["elements"] // fields["channels"]}


def write_elements(values: Values) -> dict[str, int]:
    return {**without(values, "pixels"), "elements": values["pixels"] * values["channels"]}


SAME, BY_CHANNEL, SCALAR, OTHERWISE = range(4)
"""How the smaller operand of arithmetic lies over the larger one; otherwise its elements stay as they were read."""

_OPERATIONS = Axis(
    ("operation", "broadcast"),
    tuple(
        (ARITHMETIC.index(name), broadcast)
        for name, broadcast in (
            ("add", SAME), ("mul", SAME), ("sub", SAME), ("add", BY_CHANNEL), ("mul", BY_CHANNEL), ("bias_add", BY_CHANNEL),
            ("mul_weight", BY_CHANNEL), ("add_scalar", SCALAR), ("mul_scalar", SCALAR), ("div_scalar", SCALAR),
            ("arithmetic", SAME),
        )
    ),
)  # fmt: skip


def _read_arithmetic(fields: Values) -> dict[str, int]:
    kinds = {1: SCALAR, fields["channels"]: BY_CHANNEL, fields["elements"]: SAME}
    return {**read_elements(fields), "broadcast": kinds.get(fields["small_elements"], OTHERWISE)}


def _write_arithmetic(values: Values) -> dict[str, int]:
    fields = write_elements(without(values, "broadcast"))
    small = {SAME: fields["elements"], BY_CHANNEL: fields["channels"], SCALAR: 1, OTHERWISE: values["small_elements"]}
    return {**fields, "small_elements": small[values["broadcast"]]}


def _read_reduce(fields: Values) -> dict[str, int]:
    if fields["inner"] == 1:
        return {"form": MAP, "reduced": fields["reduced"], "channels": fields["outer"], "rest": 1}
    return {"form": SEQUENCE, "reduced": fields["reduced"], "channels": fields["inner"], "rest": fields["outer"]}


def _write_reduce(values: Values) -> dict[str, int]:
    channels = values["channels"]
    outer, inner = (channels, 1) if values["form"] == MAP else (values["rest"], channels)
    return {"outer": outer, "reduced": values["reduced"], "inner": inner}


_REDUCED = Axis(("form", "reduced"), (*((MAP, size * size) for size in MAPS), *((SEQUENCE, tokens) for tokens in TOKENS)))


def _read_squeeze_excite(fields: Values) -> dict[str, int]:
    return {**without(fields, "squeezed"), "ratio": max(round(fields["channels"] / fields["squeezed"]), 1)}


def _write_squeeze_excite(values: Values) -> dict[str, int]:
    return {**without(values, "ratio"), "squeezed": max(round(values["channels"] / values["ratio"]), 1)}


def _read_dft(fields: Values) -> dict[str, int]:
    """Complex numbers have a width of two."""
    return {**without(fields, "read_each"), "width": max(fields["read_each"] // fields["points"], 1)}


def _write_dft(values: Values) -> dict[str, int]:
    points, width = values["points"], values["width"]
    return {"written_each": 2 * points, **without(values, "width"), "read_each": width * points}


_CHANNELS = Span("channels", LEAST_CHANNELS, MOST_CHANNELS)

LAYOUTS: Mapping[str, Layout] = {
    "activation": Layout(
        (pixels(SIZES), each("function", tuple(range(len(ACTIVATIONS))))), (_CHANNELS,), {}, read_elements, write_elements
    ),
    "arithmetic": Layout((pixels(SIZES), _OPERATIONS), (_CHANNELS,), {"small_elements": 1}, _read_arithmetic, _write_arithmetic),
    "batch_norm": Layout((pixels(SIZES),), (_CHANNELS,), {}, read_elements, write_elements),
    "softmax": Layout((each("rows", (1, 49, 196, 588, 1182, 2364)),), (Span("columns", 8, 1000),), {}, dict, dict),
    "layer_norm": Layout((each("rows", (1, *TOKENS, 784, 3136)),), (Span("columns", 16, 2048),), {}, dict, dict),
    "lrn": Layout((pixels(MAPS), each("size", (3, 5))), (_CHANNELS,), {}, read_elements, write_elements),
    "cum_sum": Layout((each("outer", (1, 8, 64, 512)), each("inner", (1, 16, 64))), (Span("summed", 8, 2048),), {}, dict, dict),
    "top_k": Layout(
        (each("outer", (1, 8, 64, 512)), each("taken", (1, 5, 10, 100))),
        (Span("searched", 100, 8400),),
        {"inner": 1},
        dict,
        dict,
    ),
    "dft": Layout(
        (each("transforms", (1, 8, 64, 256)), each("width", (1, 2))), (Span("points", 16, 1024),), {}, _read_dft, _write_dft
    ),
    "nms": Layout(
        (each("classes", (1, 20, 80)), each("kept", (10, 100, 300))), (Span("boxes", 300, 8400),), {"images": 1}, dict, dict
    ),
    "reduce": Layout((_REDUCED,), (_CHANNELS,), {"rest": 1}, _read_reduce, _write_reduce),
    "squeeze_excite": Layout(
        (square(MAPS, "in_h", "in_w"), each("ratio", (4, 8, 16, 24))),
        (Span("channels", 16, MOST_CHANNELS),),
        {"batch": 1},
        _read_squeeze_excite,
        _write_squeeze_excite,
    ),
}
