"""Kernels that move data, and ``other``: whatever no type describes, by its elements and FLOPs alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd, isqrt, prod
from typing import TYPE_CHECKING

import numpy as np

from latcast.errors import UnsupportedOperatorError
from latcast.graph.ir import Graph, Node
from latcast.graph.operators import lookup, node_flops
from latcast.graph.operators.movement import RESIZE_FLOPS
from latcast.graph.operators.selection import neighbours
from latcast.kernels.layouts import LAYOUT_CLASSES
from latcast.kernels.types.elementwise import square
from latcast.kernels.types.kernel_type import (
    LINE_ELEMENTS,
    Columns,
    KernelType,
    NotThisType,
    Quantities,
    add_kernel_type,
    add_kernel_variant,
    channel_remainders,
    missed,
    no_features,
    one_class,
)

if TYPE_CHECKING:
    from latcast.graph.builder import GraphBuilder


def move_quantities(c: Columns) -> Quantities:
    return Quantities(0 * c["elements"], c["elements"], c["elements"], 0 * c["elements"])


def extract_concat(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return inputs, elements written, contiguous run of one input (mean), channels out."""
    node = nodes[0]
    shape = graph.shape(node.outputs[0])
    axis = node.integer("axis") % max(len(shape), 1)
    count = sum(1 for name in node.inputs if name)
    return count, prod(shape), prod(shape[axis:]) // max(count, 1), shape[1] if len(shape) > 1 else 1


def build_concat(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    """Add a Concat along the channels where the run holds them all, otherwise along the last axis."""
    count, elements, channels = c["inputs"], c["elements"], max(c["channels"], 1)
    joined = _joined_runs(c["run"], count, elements, channels)
    outer = max(elements // joined, 1)
    shape: tuple[int, ...]
    if channels >= count and joined % channels == 0:
        shape, axis = (outer, channels, *square(joined // channels)), 1
    else:
        shape, axis = (1, channels, max(outer // channels, 1), joined), 3
    sizes = _parts(shape[axis], count)
    return builder.concat([builder.input((*shape[:axis], size, *shape[axis + 1 :])) for size in sizes], axis=axis)


def _joined_runs(run: int, count: int, elements: int, channels: int = 1) -> int:
    """Return the contiguous elements of all inputs together: a mean run was rounded down, the whole divides the elements.

    Of several that do, one that holds whole channels is preferred.
    """
    least = max(run, 1) * count
    whole = [value for value in range(least, least + count) if elements % value == 0]
    return next((value for value in whole if value % channels == 0), whole[0] if whole else least)


def _parts(size: int, count: int) -> list[int]:
    """Split a size into so many nearly equal parts."""
    return [size // count + (index < size % count) for index in range(count)]


def extract_split(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return outputs, elements written, contiguous run of one output (mean)."""
    node = nodes[0]
    shape = graph.shape(node.inputs[0])
    axis = node.integer("axis") % max(len(shape), 1)
    if node.op_type == "Slice":
        out = graph.shape(node.outputs[0])
        changed = [a for a, (before, after) in enumerate(zip(shape, out, strict=True)) if before != after]
        return 1, prod(out), prod(out[changed[-1] :]) if changed else prod(out)
    count = len(node.outputs)
    return count, prod(shape), prod(shape[axis:]) // count


def build_split(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    """Add a Split, or for a single output a Slice of one half."""
    count, run = c["outputs"], max(c["run"], 1)
    if count == 1:
        return builder.slice(builder.input((1, c["elements"] // run, 2, run)), (0,), (1,), (2,))
    joined = _joined_runs(run, count, c["elements"])
    x = builder.input((1, max(c["elements"] // joined, 1), joined))
    return builder.split(x, _parts(joined, count), axis=2)[0]


def extract_transpose(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return elements; size of the last axis before and after; contiguous run that stays together."""
    node = nodes[0]
    shape = graph.shape(node.inputs[0])
    order = node.integers("perm", tuple(reversed(range(len(shape)))))
    run = 1
    for position in range(len(shape) - 1, -1, -1):
        if order[position] != position:
            break
        run *= shape[position]
    return prod(shape), shape[-1] if shape else 1, shape[order[-1]] if shape else 1, run


def build_transpose(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    """Add a Transpose of the last two axes, or of two axes before the run that stays together."""
    run, last_in, last_out = max(c["run"], 1), max(c["last_in"], 1), max(c["last_out"], 1)
    if run > 1:
        shape = (1, *square(max(c["elements"] // run, 1)), run // last_in, last_in)
        return builder.transpose(builder.input(shape), (0, 2, 1, 3, 4))
    outer = max(c["elements"] // (last_in * last_out), 1)
    return builder.transpose(builder.input((outer, last_out, last_in)), (0, 2, 1))


FIRST_CACHE = (64, 12)
"""Sets and ways of a server core's first cache: 48 KiB."""


def reorder_features(c: Columns) -> Mapping[str, np.ndarray]:
    """Return the share of reads and of writes whose line of the first cache is gone when the next ones come."""
    return {
        "reads_missed": missed(c["last_out"], c["last_in"], FIRST_CACHE),
        "writes_missed": missed(c["last_in"], c["last_out"], FIRST_CACHE),
    }


def strided_quantities(c: Columns) -> Quantities:
    """Return the work with lines moved again that leave the cache before their next element is written."""
    again = (LINE_ELEMENTS - 1) * reorder_features(c)["writes_missed"]
    return Quantities(0 * c["elements"], c["elements"], c["elements"] * (1 + again), 0 * c["elements"])


def extract_shuffle(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    shape = graph.shape(nodes[-1].outputs[0])
    groups = graph.shape(nodes[0].outputs[0])[1] if len(nodes) > 1 else 1
    return prod(shape), shape[1], groups


def build_shuffle(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    channels = c["channels"]
    x = builder.input((1, channels, *square(max(c["elements"] // channels, 1))))
    return builder.channel_shuffle(x, c["groups"])


def extract_resize(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return maps (channels of all images), their size before and after, and which neighbours are weighed."""
    node = nodes[0]
    x, y = graph.shape(node.inputs[0]), graph.shape(node.outputs[0])
    if len(x) != 4:
        raise NotThisType
    return x[0] * x[1], x[2], x[3], y[2], y[3], RESIZE_MODES.index(node.text("mode", "nearest"))


RESIZE_MODES = tuple(RESIZE_FLOPS)
"""How an image is resized, by code."""


def resize_quantities(c: Columns) -> Quantities:
    outputs = c["channels"] * c["out_h"] * c["out_w"]
    each = np.array(list(RESIZE_FLOPS.values()))[c["linear"].astype(int)]
    return Quantities(outputs * each, c["channels"] * c["in_h"] * c["in_w"], outputs, 0 * outputs)


def build_resize(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    x = builder.input((1, c["channels"], c["in_h"], c["in_w"]))
    return builder.resize(x, (c["out_h"], c["out_w"]), mode=RESIZE_MODES[c["linear"]])


def resize_class(c: Columns) -> np.ndarray:
    return np.where(c["linear"] == RESIZE_MODES.index("cubic"), "resize cubic", "resize").astype(object)


def extract_grid_sample(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return maps, pixels of each before and after, the mode of interpolation, and axes of a map."""
    node = nodes[0]
    x, y = graph.shape(node.inputs[0]), graph.shape(node.outputs[0])
    mode = node.text("mode", "linear")
    code = next(code for code, name in enumerate(GRID_MODES) if name in mode)
    return x[0] * x[1], prod(x[2:]), prod(y[2:]), code, len(x) - 2


GRID_MODES = ("nearest", "linear", "cubic")
"""How a grid is sampled, by code."""


def grid_sample_quantities(c: Columns) -> Quantities:
    """Count a product for each neighbour and a sum for each but the first; all channels of an image share coordinates."""
    weighed = np.array([neighbours(mode, 1) for mode in GRID_MODES])[c["mode"].astype(int)] ** c["axes"]
    outputs = c["channels"] * c["out_pixels"]
    return Quantities((2 * weighed - 1) * outputs, c["channels"] * c["in_pixels"] + c["axes"] * c["out_pixels"], outputs,
                      0 * outputs)  # fmt: skip


def build_grid_sample(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    ones = (1,) * (c["axes"] - 2)
    x = builder.input((1, c["channels"], *ones, *square(c["in_pixels"])))
    grid = builder.input((1, *ones, *square(c["out_pixels"]), c["axes"]))
    return builder.op("GridSample", [x, grid], {"mode": GRID_MODES[c["mode"]]})[0]


COPY_FORMS = ("plain", "pad", "reflect pad", "expand", "gather", "rearrange")
"""How a copy moves elements, by code; a new one goes to the end, codes are in bundles. Plain ones write each element once and in
order (Cast, Reshape, QuantizeLinear); a reflecting pad is of any mode but a constant; to rearrange is DepthToSpace and back."""

COPY_CLASSES = tuple("copy" if form == "plain" else f"copy {form}" for form in COPY_FORMS)
"""The class of throughput of each form."""

_PLAIN, _PAD, _REFLECT_PAD, _EXPAND, _GATHER, _REARRANGE = range(len(COPY_FORMS))


def extract_copy(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return elements written and read, the form, and the contiguous run that a pad, expansion or gather writes at once.

    An operator that picks reads only what it writes, however large the table is.
    """
    node = nodes[0]
    row = lookup(node.op_type)
    out = sum(graph.tensors[name].elements for name in node.outputs if name)
    read = graph.tensors[node.inputs[0]].elements if node.inputs and not (row and row.picks) else out
    form, run = COPY_FORMS.index((row.copies if row else "") or "plain"), 0
    if node.op_type == "Pad":
        form = _PAD if node.attributes.get("mode", "constant") == "constant" else _REFLECT_PAD
    if form in (_PAD, _REFLECT_PAD, _EXPAND):
        run = _run_kept(graph.shape(node.inputs[0]), graph.shape(node.outputs[0]))
    elif form == _GATHER:
        shape = graph.shape(node.inputs[0])
        run = prod(shape[node.integer("axis") % max(len(shape), 1) + 1 :])
    return out, read, form, run


def _run_kept(before: Sequence[int], after: Sequence[int]) -> int:
    """Return the contiguous elements of a tensor that stay together from the last axis that changes on."""
    before = (*(1,) * (len(after) - len(before)), *before)
    changed = [axis for axis, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    if not changed:
        return prod(after)
    return min(before[changed[-1]], after[changed[-1]]) * prod(after[changed[-1] + 1 :])


def copy_quantities(c: Columns) -> Quantities:
    return Quantities(0 * c["elements"], c["in_elements"], c["elements"], 0 * c["elements"])


def copy_class(c: Columns) -> np.ndarray:
    return np.array(COPY_CLASSES, dtype=object)[c["form"].astype(int)]


def build_copy(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    """Add a Cast, a Pad, an Expand, a Gather or a SpaceToDepth.

    Numbers that no kernel of the form has are built as one that is near; a plain copy that writes more than it reads as a Pad.
    """
    out, size, form, run = c["elements"], c["in_elements"], c["form"], c["run"]
    if form in (_PAD, _REFLECT_PAD) or (form == _PLAIN and out > size):
        return _build_pad(builder, out, size, run or size, reflects=form == _REFLECT_PAD)
    if form == _EXPAND:
        run = run if run and size % run == 0 else size
        times = max(out // size, 1)
        first, spread = (1, size // run), square(times) if run == 1 else (times, run)
        x = builder.input((*first, 1, run))
        return builder.op("Expand", [x, builder.constant((*first, *spread), dtype="int64")])[0]
    if form == _GATHER:
        # One row is left behind, so that it is no copy of the whole.
        run = run if run and out % run == 0 else out
        index = builder.constant(range(out // run), dtype="int64")
        return builder.op("Gather", [builder.input((1, out // run + 1, run)), index], {"axis": 1})[0]
    if form == _REARRANGE and size % 4 == 0:
        height, width = square(size // 4)
        return builder.op("SpaceToDepth", [builder.input((1, 1, 2 * height, 2 * width))], {"blocksize": 2})[0]
    return builder.op("Cast", [builder.input((1, out))], {"to": 10})[0]


def _build_pad(builder: GraphBuilder, out: int, size: int, run: int, *, reflects: bool) -> str:
    """Add a Pad of the last axis (the run), and of the one before it where that alone does not give as many elements."""
    sizes = _padded_map(out, size, run, reflects=reflects)
    if sizes is None:
        return builder.pad(builder.input((1, size)), (0, 0, 0, max(out - size, 0)))
    channels, height, padded_height, padded_run = sizes
    above, left = (padded_height - height) // 2, (padded_run - run) // 2
    pads = (0, 0, above, left, 0, 0, padded_height - height - above, padded_run - run - left)
    x, amounts = builder.input((1, channels, height, run)), builder.constant(pads, dtype="int64")
    return builder.op("Pad", [x, amounts], {"mode": "reflect"} if reflects else {})[0]


def _padded_map(out: int, size: int, run: int, *, reflects: bool) -> tuple[int, int, int, int] | None:
    """Return channels, height, padded height and padded run of a map of ``size`` elements that is padded to ``out``.

    The run is padded by as little as divides the whole; of several heights the nearest to the run is taken, as maps are square.
    What is reflected on either side is less than there is. None where there is no such map.
    """
    if size % run:
        return None
    rows = size // run
    most = min(out // rows, 3 * run - 2 if reflects else out)
    for padded_run in (each for each in _divisors(out) if run < each <= most):
        for channels in sorted(_divisors(gcd(out // padded_run, rows)), key=lambda each: abs(rows // each - run)):
            height, padded_height = rows // channels, out // padded_run // channels
            if not reflects or padded_height <= 3 * height - 2:
                return channels, height, padded_height, padded_run
    return None


def _divisors(number: int) -> list[int]:
    """Return all divisors, the smallest first."""
    small = [each for each in range(1, isqrt(number) + 1) if number % each == 0]
    return small + [number // each for each in reversed(small) if each * each != number]


def extract_other(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return FLOPs (0 where the operator is unknown), elements in, out and of weights, over all operators."""
    made = {output for node in nodes for output in node.outputs}
    reads = {name for node in nodes for name in node.inputs if name and name not in made}
    flops = sum(node_flops(graph, node) or 0 for node in nodes)
    ins = sum(graph.tensors[name].elements for name in reads if graph.is_activation(name))
    weights = sum(graph.tensors[name].elements for name in reads if name in graph.weights)
    outs = sum(graph.tensors[name].elements for name in nodes[-1].outputs if name)
    return flops, ins, outs, weights


def other_quantities(c: Columns) -> Quantities:
    return Quantities(c["flops"], c["in_elements"], c["out_elements"], c["weight_elements"])


def build_other(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    raise UnsupportedOperatorError(
        "a kernel of type 'other' is for operators without a type and cannot be built alone; measure a network that holds it"
    )


def shuffle_features(c: Columns) -> Mapping[str, np.ndarray]:
    return {"pixels": c["elements"] / np.maximum(c["channels"], 1)}


CONCAT = add_kernel_type(
    KernelType(
        "concat", ("inputs", "elements", "run", "channels"), ("concat",), extract_concat, move_quantities,
        one_class("concat"), channel_remainders, build_concat,
    )
)  # fmt: skip
SPLIT = add_kernel_type(
    KernelType(
        "split", ("outputs", "elements", "run"), ("split", "slice"), extract_split, move_quantities, one_class("split"),
        no_features, build_split,
    )
)  # fmt: skip
TRANSPOSE = add_kernel_type(
    KernelType(
        "transpose", ("elements", "last_in", "last_out", "run"), ("transpose", *LAYOUT_CLASSES), extract_transpose,
        move_quantities, one_class("transpose"), no_features, build_transpose,
    )
)  # fmt: skip
for _name in ("to_channels_last", "to_channels_first", "to_blocks", "from_blocks"):
    add_kernel_variant(TRANSPOSE, _name, features=reorder_features)
add_kernel_variant(TRANSPOSE, "to_channels_first_strided", quantities=strided_quantities, features=reorder_features)
CHANNEL_SHUFFLE = add_kernel_type(
    KernelType(
        "channel_shuffle", ("elements", "channels", "groups"), ("channel_shuffle",), extract_shuffle, move_quantities,
        one_class("channel shuffle"), shuffle_features, build_shuffle,
    )
)  # fmt: skip
RESIZE = add_kernel_type(
    KernelType(
        "resize", ("channels", "in_h", "in_w", "out_h", "out_w", "linear"), ("resize", "upsample"), extract_resize,
        resize_quantities, resize_class, channel_remainders, build_resize, kinds={"linear": RESIZE_MODES},
    )
)  # fmt: skip
GRID_SAMPLE = add_kernel_type(
    KernelType(
        "grid_sample", ("channels", "in_pixels", "out_pixels", "mode", "axes"), ("grid_sample",), extract_grid_sample,
        grid_sample_quantities, one_class("grid sample"), no_features, build_grid_sample, kinds={"mode": GRID_MODES},
    )
)  # fmt: skip
COPY = add_kernel_type(
    KernelType(
        "copy", ("elements", "in_elements", "form", "run"),
        ("pad", "reshape", "flatten", "squeeze", "unsqueeze", "expand", "tile", "gather", "depth_to_space", "space_to_depth",
         "quantize_linear", "dequantize_linear", "cast", "cast_like", "identity", "dropout"),
        extract_copy, copy_quantities, copy_class, no_features, build_copy, added=("form", "run"), kinds={"form": COPY_FORMS},
    )
)  # fmt: skip
OTHER = add_kernel_type(
    KernelType(
        "other", ("flops", "in_elements", "out_elements", "weight_elements"), (), extract_other, other_quantities,
        one_class("other"), no_features, build_other,
    )
)  # fmt: skip
