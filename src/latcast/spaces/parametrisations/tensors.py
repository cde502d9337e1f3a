"""Kernels of whole tensors: matrix products and attention, elements or rows treated alike, data moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from math import gcd

from latcast.kernels.types.elementwise import ACTIVATIONS, ARITHMETIC
from latcast.kernels.types.movement import COPY_FORMS
from latcast.spaces.parametrisations.parametrisation import (
    LEAST_CHANNELS,
    MAP,
    MAPS,
    MOST_CHANNELS,
    SEQUENCE,
    SIZES,
    TOKENS,
    Axis,
    Parametrisation,
    Span,
    Values,
    each,
    pixels,
    square,
    without,
)

# Matrix products and attention, whose fields are independent as they are

_HEADS = (1, 3, 4, 6, 8, 12, 16)

_MATMUL = Parametrisation((each("batch", _HEADS), each("rows", TOKENS)), (Span("inner", 8, 512), Span("columns", 8, 512)))

_PRODUCTS: Mapping[str, Parametrisation] = {
    "linear": Parametrisation((each("rows", (1, *TOKENS)),), (Span("in_features", 8, 4096), Span("out_features", 8, 4096))),
    "matmul": _MATMUL,
    "einsum": _MATMUL,
    "linear_attention": Parametrisation(
        (each("key_heads", _HEADS), each("tokens", (1, *TOKENS)), each("sharing", (1, 4)), each("rule", (0, 1, 2, 3))),
        (Span("key_size", 8, 128), Span("value_size", 8, 128)),
    ),
    "recurrent": Parametrisation(
        (each("steps", (1, 10, 50, 200)), each("directions", (1, 2)), each("cell", (0, 1, 2, 3))),
        (Span("in_features", 8, 512), Span("hidden", 16, 512)),
        {"batch": 1},
    ),
    "attention": Parametrisation(
        (each("batch_heads", _HEADS), square(TOKENS, "queries", "keys")), (Span("head_size", 8, 128),), {"sharing_heads": 0}
    ),
}


# Elements of a map, or rows of a matrix, treated alike


def _read_elements(fields: Values) -> dict[str, int]:
    """Elements are pixels times channels."""
    return {**without(fields, "elements"), "pixels": fields["elements"] // fields["channels"]}


def _write_elements(values: Values) -> dict[str, int]:
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


def _write_arithmetic(values: Values) -> dict[str, int]:
    fields = _write_elements(without(values, "broadcast"))
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


_SOFTMAX_ROWS = Axis(
    ("rows", "inner"),
    (
        *((rows, 0) for rows in (1, 49, 196, 588, 1182, 2364)),
        # Along the tokens of so many heads, and along the channels of a map.
        *((heads * size, size) for heads, size in ((8, 8), (8, 16), (8, 40), (8, 64), (1, 196), (1, 784), (1, 3136))),
    ),
)

_CHANNELS = Span("channels", LEAST_CHANNELS, MOST_CHANNELS)

_ELEMENTS: Mapping[str, Parametrisation] = {
    "activation": Parametrisation(
        (pixels(SIZES), each("function", tuple(range(len(ACTIVATIONS))))), (_CHANNELS,), {}, _read_elements, _write_elements
    ),
    "arithmetic": Parametrisation(
        (pixels(SIZES), _OPERATIONS),
        (_CHANNELS,),
        {"small_elements": 1},
        lambda fields: {
            **_read_elements(fields),
            "broadcast": {1: SCALAR, fields["channels"]: BY_CHANNEL, fields["elements"]: SAME}.get(
                fields["small_elements"], OTHERWISE
            ),
        },
        _write_arithmetic,
    ),
    "batch_norm": Parametrisation((pixels(SIZES),), (_CHANNELS,), {}, _read_elements, _write_elements),
    "softmax": Parametrisation((_SOFTMAX_ROWS,), (Span("columns", 8, 1000),)),
    "layer_norm": Parametrisation((each("rows", (1, *TOKENS, 784, 3136)),), (Span("columns", 16, 2048),)),
    "lrn": Parametrisation((pixels(MAPS), each("size", (3, 5))), (_CHANNELS,), {}, _read_elements, _write_elements),
    "cum_sum": Parametrisation((each("outer", (1, 8, 64, 512)), each("inner", (1, 16, 64))), (Span("summed", 8, 2048),)),
    "top_k": Parametrisation(
        (each("outer", (1, 8, 64, 512)), each("taken", (1, 5, 10, 100))), (Span("searched", 100, 8400),), {"inner": 1}
    ),
    # Complex numbers have a width of two.
    "dft": Parametrisation(
        (each("transforms", (1, 8, 64, 256)), each("width", (1, 2))),
        (Span("points", 16, 1024),),
        {},
        lambda fields: {**without(fields, "read_each"), "width": max(fields["read_each"] // fields["points"], 1)},
        lambda values: {
            "written_each": 2 * values["points"],
            **without(values, "width"),
            "read_each": values["width"] * values["points"],
        },
    ),
    "nms": Parametrisation(
        (each("classes", (1, 20, 80)), each("kept", (10, 100, 300))), (Span("boxes", 300, 8400),), {"images": 1}
    ),
    "reduce": Parametrisation((_REDUCED,), (_CHANNELS,), {"rest": 1}, _read_reduce, _write_reduce),
    "squeeze_excite": Parametrisation(
        (square(MAPS, "in_h", "in_w"), each("ratio", (4, 8, 16, 24))),
        (Span("channels", 16, MOST_CHANNELS),),
        {"batch": 1},
        lambda fields: {**without(fields, "squeezed"), "ratio": max(round(fields["channels"] / fields["squeezed"]), 1)},
        lambda values: {**without(values, "ratio"), "squeezed": max(round(values["channels"] / values["ratio"]), 1)},
    ),
}


# Data moved: joined and parted maps and sequences, other orders, other sizes


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


def _read_transpose(fields: Values) -> dict[str, int]:
    """Return a matrix whose rows become columns (``MAP``), or runs that change places (``SEQUENCE``).

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


def _read_copy(fields: Values) -> dict[str, int]:
    """``width``: the run where all is whole runs (tokens), otherwise the greatest divisor of what is read and written (channels).

    Both are so many of it: ``read`` and ``written``. A run that does not follow the width, the row of a map, is ``beside`` it.
    """
    elements, size, run = (fields[name] for name in ("elements", "in_elements", "run"))
    follows = run > 1 and elements % run == size % run == 0
    width = run if follows else gcd(elements, size)
    return {
        "form": fields["form"], "width": width, "read": size // width, "written": elements // width,
        "follows": int(follows), "beside": 0 if follows else run,
    }  # fmt: skip


def _write_copy(values: Values) -> dict[str, int]:
    width = values["width"]
    return {
        "elements": values["written"] * width, "in_elements": values["read"] * width, "form": values["form"],
        "run": width if values["follows"] else values["beside"],
    }  # fmt: skip


def _copies(form: str) -> Iterator[tuple[int, ...]]:
    """Kernels of a form for each size of a map, or each number of tokens: form, read, written, follows, beside."""
    code = COPY_FORMS.index(form)
    for side in MAPS:
        pixels_read = 1 if form == "expand" else side * side
        padded = side + 2 if "pad" in form else side
        row = {"pad": side, "reflect pad": side, "expand": 1}.get(form, 0)
        if form != "gather":
            yield code, pixels_read, padded * padded, 0, row
    for tokens in TOKENS if form in ("expand", "gather") else ():
        yield code, 1 if form == "expand" else tokens, tokens, 1, 0


def _read_indexed(fields: Values) -> dict[str, int]:
    return {**without(fields, "elements"), "rows": fields["elements"] // fields["run"]}


def _write_indexed(values: Values) -> dict[str, int]:
    return {**without(values, "rows"), "elements": values["rows"] * values["run"]}


_PLACES = Axis(
    ("rows", "places", "scatters"),
    tuple(
        (rows, rows // part, scatters)
        for rows in (64, 1000, 8000)
        for part in (1, 4)
        for scatters in (0, 1)
        if scatters or part == 1
    ),
)


_COPIED = Axis(("form", "read", "written", "follows", "beside"), tuple(chain.from_iterable(map(_copies, COPY_FORMS))))


_MOVEMENT: Mapping[str, Parametrisation] = {
    "concat": Parametrisation(
        (each("inputs", (2, 3, 4)), pixels(MAPS)),
        (Span("width", 6, MOST_CHANNELS),),
        {"form": MAP, "channels": 0},
        _read_concat,
        _write_concat,
    ),
    # ``outer`` is how often the runs of all outputs follow each other.
    "split": Parametrisation(
        (each("outputs", (1, 2, 3, 4)), each("outer", (1, 49, 196))),
        (Span("run", 8, 40_000),),
        {},
        lambda fields: {
            **without(fields, "elements"),
            "outer": max(fields["elements"] // (fields["run"] * fields["outputs"]), 1),
        },
        lambda values: {**without(values, "outer"), "elements": values["outer"] * values["outputs"] * values["run"]},
    ),
    "transpose": Parametrisation(
        (each("form", (MAP, SEQUENCE)), each("rows", (*TOKENS, 784))),
        (Span("width", 8, 1024),),
        {"outer": 1},
        _read_transpose,
        _write_transpose,
    ),
    "channel_shuffle": Parametrisation(
        (pixels(MAPS), each("groups", (2, 3, 4, 8))),
        (Span("group_channels", 2, 540),),
        {},
        lambda fields: {
            **without(_read_elements(fields), "channels"),
            "group_channels": fields["channels"] // fields["groups"],
        },
        lambda values: _write_elements(
            {**without(values, "group_channels"), "channels": values["groups"] * values["group_channels"]}
        ),
    ),
    "resize": Parametrisation(
        (
            Axis(
                ("in_h", "in_w", "out_h", "out_w"),
                tuple((size, size, factor * size, factor * size) for size in (7, 8, 14, 16, 28, 32, 56) for factor in (2, 4)),
            ),
            each("linear", (0, 1, 2)),
        ),
        (Span("channels", 3, 1024),),
    ),
    "indexed": Parametrisation((_PLACES, each("depth", (1, 2, 3))), (Span("run", 1, 256),), {}, _read_indexed, _write_indexed),
    "grid_sample": Parametrisation(
        (each("in_pixels", (196, 784, 3136, 12544)), each("out_pixels", (196, 784, 3136, 12544)), each("mode", (0, 1, 2))),
        (Span("channels", 3, 256),),
        {"axes": 2},
    ),
    "copy": Parametrisation((_COPIED,), (Span("width", LEAST_CHANNELS, MOST_CHANNELS),), {}, _read_copy, _write_copy),
}

PARAMETRISATIONS: Mapping[str, Parametrisation] = {**_PRODUCTS, **_ELEMENTS, **_MOVEMENT}
