"""ncnn's layers that compute nothing: they copy, cut, join, turn and enlarge blobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise, permutations
from math import prod

import numpy as np

from latcast.errors import ModelError
from latcast.graph.importers.ncnn import Attributes, Conversion
from latcast.graph.importers.ncnn_file import NOT_GIVEN
from latcast.graph.ir import Node

_SIZE_KEYS = (2, 11, 1, 0)
"""Parameters that hold c, d, h and w."""

_NO_BATCH = 233
"""Number of an axis that is none."""

_PAD_MODES = ("constant", "edge", "reflect")


def _copies(c: Conversion) -> None:
    for position in range(len(c.layer.tops)):
        c.is_output(c.input(), c.shape(), position)


def _noop(c: Conversion) -> None:
    """Read the blobs that leave the network."""


def _memory(c: Conversion) -> None:
    shape = tuple(c.integer(key) for key in _SIZE_KEYS if key in c.layer.params)
    c.is_output(c.weight(1, *(shape or (1,))), shape or (1,))


def axis_of(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise ModelError(f"its axis is {axis}, of blobs with {rank}")
    return axis % rank


def _concat(c: Conversion) -> None:
    axis = axis_of(c.integer(0), len(c.shape()))
    if len(c) == 1:
        _copies(c)
    else:
        c.result("Concat", [c.plain(position) for position in range(len(c))], {"axis": axis + 1})


def _slice(c: Conversion) -> None:
    """ncnn's Slice parts a blob; its Split copies."""
    shape, outputs = c.shape(), c.layer.tops
    axis = axis_of(c.integer(1), len(shape))
    left, sizes = shape[axis], []
    if c.integers(2):
        cuts = [0, *(index + left if index < 0 else index for index in c.integers(2)), left]
        sizes = [end - begin for begin, end in pairwise(cuts)]
    else:
        given = c.integers(0) or (NOT_GIVEN,) * len(outputs)
        for index, size in enumerate(given):
            sizes.append(left // (len(given) - index) if size == NOT_GIVEN else size)
            left -= sizes[-1]
    if len(sizes) != len(outputs) or min(sizes) <= 0 or sum(sizes) != shape[axis]:
        raise ModelError(f"it parts {shape[axis]} into {len(outputs)} outputs of sizes {sizes[:8]}, which does not fit")
    if len(outputs) == 1:
        _copies(c)
        return
    inputs = (c.plain(), c.assembly.constant(sizes, "int64"))
    c.assembly.add(Node("Split", c.layer.name, inputs, outputs, {"axis": axis + 1}))
    for position, name in enumerate(outputs):
        c.is_output(name, None, position)


def _crop(c: Conversion) -> None:
    """Slice by starts and ends along named axes, or by offsets and sizes along all; a second blob gives the sizes."""
    shape, rank = c.shape(), len(c.shape())
    begins, ends = [0] * rank, list(shape)
    starts, stops = (c.sizes_by(19), c.sizes_by(20)) if c.sizes_by(19) else (c.integers(9), c.integers(10))
    if starts:
        axes = c.sizes_by(21) or c.integers(11) or range(rank)
        for axis, start, stop in zip(axes, starts, stops, strict=True):
            axis = axis_of(axis, rank)
            size = shape[axis]
            if start != NOT_GIVEN:
                begins[axis] = start + size if start < 0 else min(start, size)
            ends[axis] = size if stop == NOT_GIVEN else stop + size if stop <= 0 else min(stop, size)
    else:
        offsets = _along_axes([c.integer(key) for key in (2, 13, 1, 0)], rank)
        wanted = _along_axes([c.integer(key) for key in (5, 14, 4, 3)], rank)
        behind = _along_axes([c.integer(key) for key in (8, 15, 7, 6)], rank)
        if len(c) > 1:
            # Channels stay where the other blob has other axes.
            given = c.shape(1)
            wanted = list((1, *given)[-2:] if len(given) != rank else given)[-rank:]
            wanted = [*([shape[0], 1][: rank - len(wanted)]), *wanted]
        for axis, size in enumerate(shape):
            begins[axis] = max(offsets[axis], 0)
            ends[axis] = size - max(behind[axis], 0)
            if wanted[axis] > 0:
                ends[axis] = min(begins[axis] + wanted[axis], ends[axis])
    cut = [axis for axis in range(rank) if (begins[axis], ends[axis]) != (0, shape[axis])]
    if not cut:
        c.is_output(c.input(), shape)
        return
    if any(not 0 <= begins[axis] < ends[axis] <= shape[axis] for axis in cut):
        raise ModelError(f"it cuts {begins} to {ends} from {list(shape)}")
    numbers = ([begins[axis] for axis in cut], [ends[axis] for axis in cut], [axis + 1 for axis in cut])
    c.result("Slice", [c.plain(), *(c.assembly.constant(values, "int64") for values in numbers)])


def _along_axes(values: Sequence[int], rank: int) -> list[int]:
    """Return the axes among (c, d, h, w) that a blob of a rank has."""
    return [values[index] for index in {1: (3,), 2: (2, 3), 3: (0, 2, 3), 4: (0, 1, 2, 3)}[rank]]


def _padding(c: Conversion) -> None:
    """Around h and w, and in front of and behind c or d."""
    rank = len(c.shape())
    before = _along_axes([c.integer(7) if rank == 3 else 0, c.integer(7), c.integer(0), c.integer(2)], rank)
    after = _along_axes([c.integer(8) if rank == 3 else 0, c.integer(8), c.integer(1), c.integer(3)], rank)
    if min(*before, *after, 0) < 0:
        raise ModelError(f"it pads {before} before and {after} behind, expected no negative numbers")
    if not any((*before, *after)):
        c.is_output(c.input(), c.shape())
        return
    pads = c.assembly.constant([0, *before, 0, *after], "int64")
    c.result("Pad", [c.plain(), pads, c.scalar(c.number(5, 0.0))], {"mode": _PAD_MODES[c.integer(4)]})


def _reshape(c: Conversion) -> None:
    """Reshape to w, (h, w), (c, h, w) or (c, d, h, w); 0 keeps the size of that axis, -1 takes the rest."""
    if any(c.integer(key, _NO_BATCH) != _NO_BATCH for key in (12, 13)):
        raise ModelError("it moves an axis to the batch or from it (parameters 12, 13); latcast reads networks with a batch of 1")
    if c.integer(3):
        raise ModelError("it turns axes (parameter 3), which ncnn did until 2021; convert the network again with today's pnnx")
    own = dict(zip((0, 1, 2) if len(c.shape()) < 4 else (0, 1, 11, 2), reversed(c.shape()), strict=False))
    keys = [key for key in _SIZE_KEYS if c.integer(key, NOT_GIVEN) != NOT_GIVEN]
    given = c.sizes_by(6)
    if given:
        keys = [key for key in _SIZE_KEYS if key in {1: (0,), 2: (0, 1), 3: (0, 1, 2)}.get(len(given), _SIZE_KEYS)]
    wanted = [size or own.get(key, 1) for key, size in zip(keys, reversed(given) if given else map(c.integer, keys), strict=True)]
    total, known = prod(c.shape()), prod(size for size in wanted if size != -1)
    if not wanted or known <= 0 or wanted.count(-1) > 1 or total % known:
        raise ModelError(f"it cannot see {list(c.shape())} as {wanted}")
    _seen_as(c, [total // known if size == -1 else size for size in wanted])


def _seen_as(c: Conversion, shape: Sequence[int]) -> None:
    if prod(shape) != prod(c.shape()):
        raise ModelError(f"it cannot see {list(c.shape())} as {list(shape)}")
    if len(shape) == 1:
        # Whatever reads a vector takes it in the shape that it needs.
        c.is_output(c.input() if c.assembly.tensor(c.input()).shape[1:2] == tuple(shape) else c.shaped((1, *shape)), shape)
    else:
        c.is_output(c.shaped((1, *shape)), shape)


def _squeeze(c: Conversion) -> None:
    rank = len(c.shape())
    named = {0: 3, 11: 2, 1: 1, 2: 0} if rank == 4 else {0: rank - 1, 1: rank - 2, 2: 0}
    axes = {axis % rank for axis in c.integers(3)} | {axis for key, axis in named.items() if c.integer(key) and axis >= 0}
    _seen_as(c, [size for axis, size in enumerate(c.shape()) if axis not in axes or size != 1] or [1])


def _expand(c: Conversion) -> None:
    rank = len(c.shape()) + len(c.integers(3))
    axes = {axis_of(axis, rank) for axis in c.integers(3)}
    sizes = iter(c.shape())
    _seen_as(c, [1 if axis in axes else next(sizes) for axis in range(rank)])


def _permute(c: Conversion) -> None:
    rank = len(c.shape())
    orders = sorted(permutations(range(rank)))
    order = orders[c.integer(0)] if 0 <= c.integer(0) < len(orders) else None
    if order is None:
        raise ModelError(f"its order is number {c.integer(0)}, of {len(orders)} that {rank} axes have")
    c.result("Transpose", [c.plain()], {"perm": (0, *(axis + 1 for axis in order))})


def _shuffle(c: Conversion) -> None:
    channels, *size = c.shape()
    group = c.integer(0, 1)
    if group <= 0 or channels % group:
        raise ModelError(f"{channels} channels do not part into {group} groups")
    parts = (channels // group, group) if c.integer(1) else (group, channels // group)
    x = c.op("Transpose", [c.shaped((1, *parts, *size))], {"perm": (0, 2, 1, *range(3, 3 + len(size)))})
    c.result("Reshape", [x, c.assembly.constant([1, channels, *size], "int64")])


def _depth_to_space(op_type: str, key: int) -> Callable[[Conversion], None]:
    def convert(c: Conversion) -> None:
        attributes: Attributes = {"blocksize": c.integer(0, 1)}
        if op_type == "DepthToSpace":
            attributes["mode"] = "DCR" if c.integer(key) else "CRD"
        c.result(op_type, [c.plain()], attributes)

    return convert


def _tile(c: Conversion) -> None:
    repeats = list(c.integers(2))
    rank = len(c.shape())
    if not repeats:
        repeats = [1] * rank
        if rank == 1 or 0 <= c.integer(0) < rank:
            repeats[c.integer(0) % rank] = c.integer(1, 1)
    rank = max(rank, len(repeats))
    repeats = [1] * (rank - len(repeats)) + repeats
    if min(repeats) <= 0 or max(repeats) >= 2**31:
        raise ModelError(f"its repeats are {repeats}, expected positive numbers")
    x = c.shaped((1, *(1,) * (rank - len(c.shape())), *c.shape()))
    c.result("Tile", [x, c.assembly.constant([1, *repeats], "int64")])


def _interp(c: Conversion) -> None:
    """Resize (nearest, bilinear or bicubic) to sizes, by factors, or to the size of a second blob.

    A vector is spread over a map; of rows only the width changes.
    """
    shape = c.shape()
    channels, height, width = shape if len(shape) == 3 else (shape[0], 1, shape[1] if len(shape) == 2 else 1)
    given = c.sizes_by(9) or ([*reversed((1, *c.shape(1))[-2:])] if len(c) > 1 else [c.integer(4), c.integer(3)])
    wide, high = given if len(given) > 1 else (given[0], height)
    if not given or (not wide or not high):
        wide, high = (int(np.float32(size) * np.float32(c.number(key, 1.0))) for size, key in ((width, 2), (height, 1)))
    if len(shape) == 2:
        high = 1
    if min(wide, high) <= 0:
        raise ModelError(f"its output would be {[high, wide]}")
    mode = {1: "nearest", 2: "linear", 3: "cubic"}.get(c.integer(0))
    if mode is None:
        raise ModelError(f"its kind is {c.integer(0)}, expected 1 (nearest), 2 (bilinear) or 3 (bicubic)")
    position = "align_corners" if c.integer(6) else "asymmetric" if mode == "nearest" else "half_pixel"
    attributes: Attributes = {"mode": mode, "coordinate_transformation_mode": position, "nearest_mode": "floor"}
    target = c.assembly.constant([1, channels, high, wide], "int64")
    sizes = (channels, wide) if len(shape) == 2 else None
    c.result("Resize", [c.shaped((1, channels, height, width)), "", "", target], attributes, shape=sizes)


def _cumulative_sum(c: Conversion) -> None:
    axis = axis_of(c.integer(0) if len(c.shape()) > 1 else 0, len(c.shape()))
    c.result("CumSum", [c.plain(), c.assembly.constant(axis + 1, "int64")])


def _flip(c: Conversion) -> None:
    """Slice backwards."""
    axes = [axis_of(axis, len(c.shape())) + 1 for axis in c.integers(0)]
    numbers = ([-1] * len(axes), [-(2**31)] * len(axes), axes, [-1] * len(axes))
    c.result("Slice", [c.plain(), *(c.assembly.constant(values, "int64") for values in numbers)])


def _grid_sample(c: Conversion) -> None:
    """Sample a map at the places that a second blob names: (..., coordinates), or with the coordinates in front."""
    grid = c.shape(1)
    places = c.shaped((1, *grid[1:], grid[0]), 1) if c.integer(3) else c.plain(1)
    mode = {1: "linear", 2: "nearest", 3: "cubic"}[c.integer(0, 1)]
    c.result("GridSample", [c.plain(), places], {"mode": mode, "align_corners": c.integer(2)})


MOVEMENT: Mapping[str, Callable[[Conversion], None]] = {
    "Cast": lambda c: c.result("Cast", [c.input()], {"to": 1}, shape=c.shape()),
    "Concat": _concat,
    "Crop": _crop,
    "CumulativeSum": _cumulative_sum,
    "DeepCopy": _copies,
    "Dropout": _copies,
    "ExpandDims": _expand,
    "Flatten": lambda c: _seen_as(c, [prod(c.shape())]),
    "Flip": _flip,
    "GridSample": _grid_sample,
    "Interp": _interp,
    "MemoryData": _memory,
    "Noop": _noop,
    "Packing": _copies,
    "Padding": _padding,
    "Permute": _permute,
    "PixelShuffle": _depth_to_space("DepthToSpace", 1),
    "Reorg": _depth_to_space("SpaceToDepth", 1),
    "Reshape": _reshape,
    "ShuffleChannel": _shuffle,
    "Slice": _slice,
    "Split": _copies,
    "Squeeze": _squeeze,
    "Tile": _tile,
}
"""Layer type to what reads it."""
