"""Kernels that move data: joined and parted maps and sequences, other orders, other sizes."""

from __future__ import annotations

from collections.abc import Mapping

from latcast.spaces.kernel_layouts.elements import read_elements, write_elements
from latcast.spaces.kernel_layouts.layout import (
    MAP,
    MAPS,
    MOST_CHANNELS,
    SEQUENCE,
    TOKENS,
    Axis,
    Layout,
    Span,
    Values,
    each,
    pixels,
    without,
)


def _read_concat(fields: Values) -> dict[str, int]:
    """``width``: the channels of joined maps; of anything else, the contiguous run of one input."""
    inputs, elements, run, channels = (fields[name] for name in ("inputs", "elements", "run", "channels"))
    if elements // inputs == run and elements % channels == 0:
        return {"form": MAP, "inputs": inputs, "width": channels, "pixels": elements // channels, "channels": 0}
    outer = max(elements // (run * inputs), 1)
    return {"form": SEQUENCE, "inputs": inputs, "width": run, "pixels": outer, "channels": channels}


def _write_concat(values: Values) -> dict[str, int]:
    inputs, width, channels = values["inputs"], values["width"], values["channels"]
    if values["form"] == MAP:
        elements = width * values["pixels"]
        return {"inputs": inputs, "elements": elements, "run": elements // inputs, "channels": width}
    return {"inputs": inputs, "elements": values["pixels"] * width * inputs, "run": width, "channels": channels}


def _read_split(fields: Values) -> dict[str, int]:
    """How often the runs of all outputs follow each other, in place of the elements."""
    outer = max(fields["elements"] // (fields["run"] * fields["outputs"]), 1)
    return {**without(fields, "elements"), "outer": outer}


def _write_split(values: Values) -> dict[str, int]:
    return {**without(values, "outer"), "elements": values["outer"] * values["outputs"] * values["run"]}


def _read_transpose(fields: Values) -> dict[str, int]:
    """A matrix whose rows become columns (``MAP``), or runs that change places (``SEQUENCE``).

    ``width`` is the columns, or a run's last axis; ``outer`` how many matrices there are, or how often the last axis is in
    a run.
    """
    elements, last_in, last_out, run = (fields[name] for name in ("elements", "last_in", "last_out", "run"))
    if run > 1:
        return {"form": SEQUENCE, "rows": elements // run, "width": last_in, "outer": run // last_in}
    return {"form": MAP, "rows": last_out, "width": last_in, "outer": elements // (last_in * last_out)}


def _write_transpose(values: Values) -> dict[str, int]:
    rows, width, outer = values["rows"], values["width"], values["outer"]
    last_out, run = (width, width * outer) if values["form"] == SEQUENCE else (rows, 1)
    return {"elements": rows * width * outer, "last_in": width, "last_out": last_out, "run": run}


def _read_shuffle(fields: Values) -> dict[str, int]:
    values = without(read_elements(fields), "channels")
    return {**values, "group_channels": fields["channels"] // fields["groups"]}


def _write_shuffle(values: Values) -> dict[str, int]:
    channels = values["groups"] * values["group_channels"]
    return write_elements({**without(values, "group_channels"), "channels": channels})


_ENLARGED = Axis(
    ("in_h", "in_w", "out_h", "out_w"),
    tuple((size, size, factor * size, factor * size) for size in (7, 8, 14, 16, 28, 32, 56) for factor in (2, 4)),
)


COPIED = 16
"""Elements that a copy's size is a multiple of where it is drawn: copies of single elements are no kernels of networks."""


def _read_copy(fields: Values) -> dict[str, int]:
    """Blocks of elements read, and the elements written as a fraction of those read."""
    return {"blocks": fields["in_elements"] // COPIED, "written": fields["elements"], "of": fields["in_elements"]}


def _write_copy(values: Values) -> dict[str, int]:
    size = values["blocks"] * COPIED
    return {"elements": size * values["written"] // values["of"], "in_elements": size}


LAYOUTS: Mapping[str, Layout] = {
    "concat": Layout(
        (each("inputs", (2, 3, 4)), pixels(MAPS)),
        (Span("width", 6, MOST_CHANNELS),),
        {"form": MAP, "channels": 0},
        _read_concat,
        _write_concat,
    ),
    "split": Layout(
        (each("outputs", (1, 2, 3, 4)), each("outer", (1, 49, 196))), (Span("run", 8, 40_000),), {}, _read_split, _write_split
    ),
    "transpose": Layout(
        (each("form", (MAP, SEQUENCE)), each("rows", (*TOKENS, 784))),
        (Span("width", 8, 1024),),
        {"outer": 1},
        _read_transpose,
        _write_transpose,
    ),
    "channel_shuffle": Layout(
        (pixels(MAPS), each("groups", (2, 3, 4, 8))), (Span("group_channels", 2, 540),), {}, _read_shuffle, _write_shuffle
    ),
    "resize": Layout((_ENLARGED, each("linear", (0, 1))), (Span("channels", 3, 1024),), {}, dict, dict),
    "grid_sample": Layout(
        (each("in_pixels", (196, 784, 3136, 12544)), each("out_pixels", (196, 784, 3136, 12544)), each("mode", (0, 1, 2))),
        (Span("channels", 3, 256),),
        {"axes": 2},
        dict,
        dict,
    ),
    "copy": Layout((Axis(("written", "of"), ((5, 4), (1, 1))),), (Span("blocks", 4, 60_000),), {}, _read_copy, _write_copy),
}
