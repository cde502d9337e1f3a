"""Random calls of every operator of the table, for checking its shapes against a runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from latcast.graph.ir import AttributeValue, Shape
from latcast.graph.operators import Kind, operators

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Call:
    """One operator with its inputs; None is an input left out."""

    op_type: str
    inputs: Sequence[Array | None]
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    outputs: int = 1
    opset: int = 21
    constant: frozenset[int] = frozenset()
    """Inputs whose values the operator table may look at."""


def real(shape: Shape, dtype: str = "float32") -> Array:
    return np.linspace(-1.0, 1.0, max(prod(shape), 1)).astype(dtype)[: prod(shape)].reshape(shape)


def integers(*numbers: int) -> Array:
    return np.asarray(numbers, dtype=np.int64)


def shapes(low: int = 1, high: int = 4, size: int = 5) -> st.SearchStrategy[Shape]:
    return st.lists(st.integers(1, size), min_size=low, max_size=high).map(tuple)


FLAGS = st.integers(0, 1)
Draw = Callable[[st.SearchStrategy[Any]], Any]
BOOLEAN = {"And", "Or", "Xor", "Not"}
FIRST_OPSETS = {"Swish": 24, "RMSNormalization": 23, "RotaryEmbedding": 23, "Attention": 23}


def unary(op_type: str) -> Callable[[Draw], Call]:
    def build(draw: Draw) -> Call:
        shape = draw(shapes(0))
        dtype = "bool" if op_type in BOOLEAN else "int32" if op_type == "BitwiseNot" else "float32"
        return Call(op_type, [real(shape).astype(dtype)], opset=FIRST_OPSETS.get(op_type, 21))

    return build


def binary(op_type: str) -> Callable[[Draw], Call]:
    def build(draw: Draw) -> Call:
        count = 3 if op_type == "Where" else draw(st.integers(1, 3)) if op_type in ("Sum", "Mean", "Max", "Min") else 2
        found = draw(hnp.mutually_broadcastable_shapes(num_shapes=count, min_side=1, max_dims=4, max_side=4))
        dtype = "bool" if op_type in BOOLEAN else "int32" if op_type.startswith("Bitwise") else "float32"
        attributes: dict[str, AttributeValue] = {}
        if op_type == "BitShift":
            dtype, attributes = "uint8", {"direction": "LEFT"}
        if op_type == "Mod":
            attributes = {"fmod": 1}
        inputs = [real(shape).astype(dtype) for shape in found.input_shapes]
        if op_type == "Where":
            inputs[0] = inputs[0].astype(bool)
        return Call(op_type, inputs, attributes)

    return build


def prelu(draw: Draw) -> Call:
    shape = draw(shapes(1))
    slope = tuple(draw(st.sampled_from((1, size))) for size in shape)[draw(st.integers(0, len(shape) - 1)) :]
    return Call("PRelu", [real(shape), real(slope)])


def swiglu(draw: Draw) -> Call:
    shape = draw(shapes())
    return Call("SwiGLU", [real(shape), real(shape)], opset=28)


def cast(draw: Draw) -> Call:
    return Call("Cast", [real(draw(shapes(0)))], {"to": draw(st.sampled_from((1, 2, 3, 6, 7, 9, 10, 11)))})


def cast_like(draw: Draw) -> Call:
    return Call("CastLike", [real(draw(shapes(0))), np.zeros(1, draw(st.sampled_from(("float16", "int64"))))])


def clip(draw: Draw) -> Call:
    low, high = np.float32(-0.5), np.float32(0.5)
    bounds = draw(st.sampled_from(([], [low], [None, high], [low, high])))
    return Call("Clip", [real(draw(shapes(0))), *(None if b is None else np.asarray(b) for b in bounds)])


def dropout(draw: Draw) -> Call:
    return Call("Dropout", [real(draw(shapes()))], outputs=draw(st.integers(1, 2)))


def reduction(op_type: str) -> Callable[[Draw], Call]:
    def build(draw: Draw) -> Call:
        shape = draw(shapes())
        axes = draw(st.lists(st.integers(0, len(shape) - 1), unique=True, max_size=len(shape)))
        signed = [axis - len(shape) * draw(FLAGS) for axis in axes]
        attributes: dict[str, AttributeValue] = {"keepdims": draw(FLAGS)}
        x = np.abs(real(shape)) + 1
        if draw(st.booleans()):
            if signed:
                attributes["axes"] = tuple(signed)
            opset = 11
        else:
            attributes["noop_with_empty_axes"] = draw(FLAGS)
            opset = 18
        if opset == 18 and draw(st.booleans()):
            return Call(op_type, [x, integers(*signed)], attributes, opset=opset, constant=frozenset({1}))
        return Call(op_type, [x], attributes, opset=opset)

    return build


def arg(op_type: str) -> Callable[[Draw], Call]:
    def build(draw: Draw) -> Call:
        shape = draw(shapes())
        axis = draw(st.integers(-len(shape), len(shape) - 1))
        return Call(op_type, [real(shape)], {"axis": axis, "keepdims": draw(FLAGS)})

    return build


def along_axis(op_type: str) -> Callable[[Draw], Call]:
    def build(draw: Draw) -> Call:
        shape = draw(shapes())
        return Call(op_type, [real(shape)], {"axis": draw(st.integers(-len(shape), len(shape) - 1))})

    return build


def normalization(op_type: str) -> Callable[[Draw], Call]:
    def build(draw: Draw) -> Call:
        shape = (draw(st.integers(1, 3)), 4, *draw(shapes(1, 2)))
        if op_type in ("LayerNormalization", "RMSNormalization"):
            axis = draw(st.integers(1, len(shape) - 1))
            opset = FIRST_OPSETS.get(op_type, 21)
            count = draw(st.sampled_from((1, 3))) if op_type == "LayerNormalization" else 1
            return Call(op_type, [real(shape), real(shape[axis:])], {"axis": axis}, outputs=count, opset=opset)
        if op_type == "LRN":
            return Call(op_type, [real((*shape[:2], 5, 5))], {"size": 3})
        if op_type == "MeanVarianceNormalization":
            return Call(op_type, [real((*shape[:2], 5, 5))])
        attributes: dict[str, AttributeValue] = {"num_groups": 2} if op_type == "GroupNormalization" else {}
        count = 4 if op_type == "BatchNormalization" else 2
        return Call(op_type, [real(shape), *(np.ones(4, np.float32) for _ in range(count))], attributes)

    return build


def window(draw: Draw, rank: int, *, room: int) -> tuple[Shape, dict[str, AttributeValue]]:
    """Sizes of a map and the attributes of a window that fits into it."""
    sizes = tuple(draw(st.integers(room, 12)) for _ in range(rank))
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    attributes: dict[str, AttributeValue] = {"kernel_shape": kernel}
    mode = draw(st.sampled_from(("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")))
    # onnxruntime's pools refuse strides larger than the kernel with automatic pads.
    largest = [size if mode.startswith("SAME") else 3 for size in kernel]
    attributes["strides"] = tuple(draw(st.integers(1, size)) for size in largest)
    if mode == "NOTSET":
        attributes["pads"] = tuple(draw(st.integers(0, (kernel[axis % rank]) // 2)) for axis in range(2 * rank))
    else:
        attributes["auto_pad"] = mode
    return sizes, attributes


def conv(draw: Draw) -> Call:
    rank = draw(st.integers(1, 3))
    sizes, attributes = window(draw, rank, room=6)
    kernel = attributes["kernel_shape"]
    assert isinstance(kernel, tuple)
    if attributes.get("auto_pad", "NOTSET") in ("NOTSET", "VALID"):
        attributes["dilations"] = tuple(draw(st.integers(1, 2)) for _ in range(rank))
    groups = draw(st.sampled_from((1, 2, 4)))
    attributes["group"] = groups
    inputs = [real((draw(st.integers(1, 2)), 4, *sizes)), real((8, 4 // groups, *kernel))]
    return Call("Conv", inputs + ([real((8,))] if draw(st.booleans()) else []), attributes)


def conv_integer(draw: Draw) -> Call:
    sizes, attributes = window(draw, 2, room=4)
    kernel = attributes["kernel_shape"]
    assert isinstance(kernel, tuple)
    inputs = [np.ones((1, 3, *sizes), np.uint8), np.ones((4, 3, *kernel), np.uint8)]
    return Call("ConvInteger", inputs, attributes)


def conv_transpose(draw: Draw) -> Call:
    sizes = (draw(st.integers(2, 6)), draw(st.integers(2, 6)))
    kernel = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    strides = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    attributes: dict[str, AttributeValue] = {"kernel_shape": kernel, "strides": strides, "group": 2}
    kind = draw(st.sampled_from(("pads", "auto", "shape")))
    if kind == "pads":
        attributes["pads"] = tuple(draw(st.integers(0, (kernel[axis % 2] - 1) // 2)) for axis in range(4))
        attributes["dilations"] = (draw(st.integers(1, 2)), 1)
        attributes["output_padding"] = tuple(draw(st.integers(0, stride - 1)) for stride in strides)
    elif kind == "auto":
        attributes["auto_pad"] = draw(st.sampled_from(("SAME_UPPER", "SAME_LOWER", "VALID")))
    else:
        attributes["output_shape"] = tuple(size * stride for size, stride in zip(sizes, strides, strict=True))
    return Call("ConvTranspose", [real((1, 4, *sizes)), real((4, 3, *kernel))], attributes)


def pool(op_type: str) -> Callable[[Draw], Call]:
    def build(draw: Draw) -> Call:
        rank = draw(st.integers(1, 3))
        sizes, attributes = window(draw, rank, room=6)
        if "auto_pad" not in attributes:
            attributes["ceil_mode"] = draw(FLAGS)
            attributes["dilations"] = tuple(draw(st.integers(1, 2)) for _ in range(rank))
        count = draw(st.integers(1, 2)) if op_type == "MaxPool" else 1
        return Call(op_type, [real((1, 3, *sizes))], attributes, outputs=count, opset=22)

    return build


def global_pool(op_type: str) -> Callable[[Draw], Call]:
    def build(draw: Draw) -> Call:
        return Call(op_type, [real((1, 3, *draw(shapes(1, 3))))])

    return build


def gemm(draw: Draw) -> Call:
    rows, inner, columns = (draw(st.integers(1, 6)) for _ in range(3))
    a, b = draw(FLAGS), draw(FLAGS)
    inputs = [real((inner, rows) if a else (rows, inner)), real((columns, inner) if b else (inner, columns))]
    bias = draw(st.sampled_from(((), (1,), (columns,), (rows, columns))))
    return Call("Gemm", inputs + ([real(bias)] if bias else []), {"transA": a, "transB": b})


def matmul(op_type: str) -> Callable[[Draw], Call]:
    def build(draw: Draw) -> Call:
        found = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, min_side=1, max_dims=2, max_side=3))
        rows, inner, columns = (draw(st.integers(1, 5)) for _ in range(3))
        left: Shape = (*found.input_shapes[0], rows, inner)
        right: Shape = (*found.input_shapes[1], inner, columns)
        vector = draw(st.sampled_from(("none", "left", "right")))
        left = (inner,) if vector == "left" else left
        right = (inner,) if vector == "right" else right
        dtype = "float32" if op_type == "MatMul" else "uint8"
        return Call(op_type, [real(left).astype(dtype), real(right).astype(dtype)])

    return build


def concat(draw: Draw) -> Call:
    shape = draw(shapes())
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        part = list(shape)
        part[axis] = draw(st.integers(1, 4))
        parts.append(real(tuple(part)))
    return Call("Concat", parts, {"axis": axis})


def split(draw: Draw) -> Call:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    shape = list(draw(shapes()))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    shape[axis] = sum(sizes)
    form = draw(st.sampled_from(("input", "attribute", "even")))
    x = real(tuple(shape))
    if form == "input":
        constant = frozenset({1})
        return Call("Split", [x, integers(*sizes)], {"axis": axis}, len(sizes), constant=constant)
    if form == "attribute":
        return Call("Split", [x], {"axis": axis, "split": tuple(sizes)}, len(sizes), opset=12)
    count = draw(st.integers(1, min(3, shape[axis])))
    step = -(-shape[axis] // count)
    count = -(-shape[axis] // step)  # onnxruntime rejects parts of size zero
    return Call("Split", [x], {"axis": axis, "num_outputs": count}, count)


def slice_(draw: Draw) -> Call:
    shape = tuple(draw(st.lists(st.integers(2, 6), min_size=1, max_size=4)))
    axes = draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1, max_size=len(shape)))
    starts, ends, steps = [], [], []
    for axis in axes:
        size = shape[axis]
        step = draw(st.sampled_from((-2, -1, 1, 2)))
        first, last = sorted(draw(st.lists(st.integers(0, size - 1), min_size=2, max_size=2)))
        if step > 0:
            starts.append(first - size * draw(FLAGS))
            ends.append(draw(st.sampled_from((last + 1, size + 3, 2**31 - 1, 2**63 - 1))))
        else:
            starts.append(draw(st.sampled_from((last, size + 2, 2**31 - 1))))
            ends.append(draw(st.sampled_from((first - 1 - size, -size - 1, -(2**31), -(2**63) + 1))))
        steps.append(step)
    signed = [axis - len(shape) * draw(FLAGS) for axis in axes]
    inputs = [real(shape), *(integers(*numbers) for numbers in (starts, ends, signed, steps))]
    return Call("Slice", inputs, constant=frozenset({1, 2, 3, 4}))


def pad(draw: Draw) -> Call:
    shape = draw(shapes())
    if draw(st.booleans()):
        axes = draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1))
        pads = [draw(st.integers(0, 3)) for _ in range(2 * len(axes))]
        return Call("Pad", [real(shape), integers(*pads), None, integers(*axes)], constant=frozenset({1, 3}))
    pads = [draw(st.integers(0, 3)) for _ in range(2 * len(shape))]
    return Call("Pad", [real(shape), integers(*pads)], constant=frozenset({1}))


def reshape(draw: Draw) -> Call:
    shape = draw(shapes())
    kind = draw(st.sampled_from(("flat", "keep", "merge", "split")))
    target = {"flat": (-1,), "keep": (0, -1), "merge": (prod(shape[:2]), *shape[2:]), "split": (*shape, 1)}[kind]
    return Call("Reshape", [real(shape), integers(*target)], constant=frozenset({1}))


def flatten(draw: Draw) -> Call:
    shape = draw(shapes())
    return Call("Flatten", [real(shape)], {"axis": draw(st.integers(-len(shape), len(shape)))})


def transpose(draw: Draw) -> Call:
    shape = draw(shapes())
    if draw(st.booleans()):
        return Call("Transpose", [real(shape)])
    return Call("Transpose", [real(shape)], {"perm": tuple(draw(st.permutations(range(len(shape)))))})


def squeeze(draw: Draw) -> Call:
    shape = tuple(draw(st.lists(st.sampled_from((1, 3)), min_size=1, max_size=5)))
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    if not ones or draw(st.booleans()):
        return Call("Squeeze", [real(shape)])
    axes = draw(st.lists(st.sampled_from(ones), unique=True, min_size=1))
    signed = [axis - len(shape) * draw(FLAGS) for axis in axes]
    if draw(st.booleans()):
        return Call("Squeeze", [real(shape)], {"axes": tuple(signed)}, opset=11)
    return Call("Squeeze", [real(shape), integers(*signed)], constant=frozenset({1}))


def unsqueeze(draw: Draw) -> Call:
    shape = draw(shapes(0, 3))
    count = draw(st.integers(1, 2))
    rank = len(shape) + count
    axes = draw(st.lists(st.integers(0, rank - 1), unique=True, min_size=count, max_size=count))
    signed = [axis - rank * draw(FLAGS) for axis in axes]
    return Call("Unsqueeze", [real(shape), integers(*signed)], constant=frozenset({1}))


def expand(draw: Draw) -> Call:
    found = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, min_dims=1, min_side=1, max_dims=4, max_side=4))
    first, second = found.input_shapes
    return Call("Expand", [real(first), integers(*second)], constant=frozenset({1}))


def tile(draw: Draw) -> Call:
    shape = draw(shapes(size=4))
    repeats = [draw(st.integers(1, 2)) for _ in shape]
    return Call("Tile", [real(shape), integers(*repeats)], constant=frozenset({1}))


def gather(draw: Draw) -> Call:
    shape = draw(shapes())
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    return Call("Gather", [real(shape), np.zeros(draw(shapes(0, 2)), np.int64)], {"axis": axis})


def gather_elements(draw: Draw) -> Call:
    shape = draw(shapes())
    axis = draw(st.integers(0, len(shape) - 1))
    picked = tuple(draw(st.integers(1, 4)) if a == axis else size for a, size in enumerate(shape))
    return Call("GatherElements", [real(shape), np.zeros(picked, np.int64)], {"axis": axis})


def gather_nd(draw: Draw) -> Call:
    shape = draw(shapes(2, 4))
    batch = draw(st.integers(0, 1))
    depth = draw(st.integers(1, len(shape) - batch))
    indices = np.zeros((*shape[:batch], *draw(shapes(1, 2)), depth), np.int64)
    return Call("GatherND", [real(shape), indices], {"batch_dims": batch})


def scatter(op_type: str) -> Callable[[Draw], Call]:
    def build(draw: Draw) -> Call:
        shape = draw(shapes())
        if op_type == "ScatterND":
            indices = np.zeros((1, 1), np.int64)
            return Call(op_type, [real(shape), indices, real((1, *shape[1:]))])
        opset = 10 if op_type == "Scatter" else 21
        return Call(op_type, [real(shape), np.zeros((1,) * len(shape), np.int64), real((1,) * len(shape))], opset=opset)

    return build


def trilu(draw: Draw) -> Call:
    return Call("Trilu", [real(draw(shapes(2)))], {"upper": draw(FLAGS)})


def reverse_sequence(draw: Draw) -> Call:
    shape = draw(shapes(2))
    return Call("ReverseSequence", [real(shape), np.ones(shape[1], np.int64)])


def cumsum(draw: Draw) -> Call:
    shape = draw(shapes())
    return Call("CumSum", [real(shape), np.asarray(draw(st.integers(0, len(shape) - 1)), np.int64)])


def top_k(draw: Draw) -> Call:
    shape = draw(shapes())
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    k = draw(st.integers(1, shape[axis]))
    return Call("TopK", [real(shape), integers(k)], {"axis": axis}, outputs=2, constant=frozenset({1}))


def one_hot(draw: Draw) -> Call:
    shape = draw(shapes())
    axis = draw(st.integers(-len(shape) - 1, len(shape)))
    values = np.asarray([0.0, 1.0], np.float32)
    inputs = [np.zeros(shape, np.int64), integers(draw(st.integers(1, 6))), values]
    return Call("OneHot", inputs, {"axis": axis}, constant=frozenset({1}))


def grid_sample(draw: Draw) -> Call:
    x, grid = (1, 2, *draw(shapes(2, 2))), (1, *draw(shapes(2, 2)), 2)
    return Call("GridSample", [real(x), real(grid)])


def non_max_suppression(draw: Draw) -> Call:
    """Boxes side by side, so that as many stay as may."""
    images, classes, boxes = (draw(st.integers(1, 3)) for _ in range(3))
    corners = np.asarray([[0, 2 * index, 1, 2 * index + 1] for index in range(boxes)], np.float32)
    scores = np.ones((images, classes, boxes), np.float32)
    inputs = [np.tile(corners, (images, 1, 1)), scores, integers(draw(st.integers(1, 4))), np.asarray([0.5], np.float32)]
    return Call("NonMaxSuppression", inputs, constant=frozenset({2}))


def dft(draw: Draw) -> Call:
    points, form = draw(st.integers(2, 6)), draw(st.sampled_from(("real", "complex", "onesided", "axis")))
    shape = (2, points, 3, 1) if form == "axis" else (2, points, 2 if form == "complex" else 1)
    axis = np.asarray(1, np.int64)
    return Call("DFT", [real(shape), None, axis], {"onesided": int(form == "onesided")}, opset=20, constant=frozenset({2}))


def linear_attention(draw: Draw) -> Call:
    tokens, shared, heads = draw(st.integers(1, 3)), draw(st.integers(1, 2)), 2
    inputs = [real((1, tokens, shared * heads * 4)), real((1, tokens, heads * 4)), real((1, tokens, heads * 3))]
    attributes: dict[str, AttributeValue] = {
        "q_num_heads": shared * heads, "kv_num_heads": heads, "update_rule": "linear",
    }  # fmt: skip
    return Call("LinearAttention", inputs, attributes, outputs=2, opset=27)


def roi_align(draw: Draw) -> Call:
    count = draw(st.integers(1, 3))
    boxes = np.tile(np.asarray([0, 0, 2, 2], np.float32), (count, 1))
    attributes: dict[str, AttributeValue] = {"output_height": draw(st.integers(1, 3)), "output_width": 2}
    return Call("RoiAlign", [real((1, 2, 6, 6)), boxes, np.zeros(count, np.int64)], attributes)


def range_(draw: Draw) -> Call:
    start, limit = draw(st.integers(-9, 9)), draw(st.integers(-9, 9))
    step = draw(st.sampled_from((1, 2, 3))) * (1 if limit >= start else -1)
    inputs = [np.asarray(number, np.int64) for number in (start, limit, step)]
    return Call("Range", inputs, constant=frozenset({0, 1, 2}))


def depth_to_space(draw: Draw) -> Call:
    block = draw(st.integers(1, 3))
    return Call("DepthToSpace", [real((1, 2 * block**2, 3, 4))], {"blocksize": block})


def space_to_depth(draw: Draw) -> Call:
    block = draw(st.integers(1, 3))
    return Call("SpaceToDepth", [real((1, 2, 3 * block, 2 * block))], {"blocksize": block})


def resize(draw: Draw) -> Call:
    shape = (1, 2, draw(st.integers(1, 40)), draw(st.integers(1, 40)))
    attributes: dict[str, AttributeValue] = {"mode": draw(st.sampled_from(("nearest", "linear")))}
    form = draw(st.sampled_from(("sizes", "scales", "policy")))
    if form == "scales":
        factors = [draw(st.sampled_from((0.7, 1.0, 1.3, 2.0, 1 / 3 + 1))) for _ in range(2)]
        factors = [max(factor, 1.01 / size) for factor, size in zip(factors, shape[2:], strict=True)]
        scales = np.asarray([1.0, 1.0, *factors], np.float32)
        return Call("Resize", [real(shape), None, scales], attributes, constant=frozenset({2}))
    sizes = [draw(st.integers(1, 40)) for _ in range(2)]
    if form == "policy":
        policy = draw(st.sampled_from(("not_larger", "not_smaller")))
        if policy == "not_larger":
            sizes = [max(size, 1 + max(shape[2:])) for size in sizes]  # no axis may shrink to nothing
        attributes |= {"axes": (2, 3), "keep_aspect_ratio_policy": policy}
        inputs = [real(shape), None, None, integers(*sizes)]
        return Call("Resize", inputs, attributes, opset=19, constant=frozenset({3}))
    return Call("Resize", [real(shape), None, None, integers(1, 2, *sizes)], attributes, constant=frozenset({3}))


def upsample(draw: Draw) -> Call:
    scales = np.asarray([1, 1, draw(st.integers(1, 3)), draw(st.integers(1, 3))], np.float32)
    return Call("Upsample", [real((1, 2, 3, 4)), scales], opset=9, constant=frozenset({1}))


def recurrent(op_type: str) -> Callable[[Draw], Call]:
    def build(draw: Draw) -> Call:
        steps, batch, width, hidden, directions = 3, 2, 4, 5, draw(st.integers(1, 2))
        gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op_type]
        inputs = [
            real((steps, batch, width)),
            real((directions, gates * hidden, width)),
            real((directions, gates * hidden, hidden)),
        ]
        attributes: dict[str, AttributeValue] = {"hidden_size": hidden}
        if directions == 2:
            attributes["direction"] = "bidirectional"
        count = draw(st.integers(1, 3 if op_type == "LSTM" else 2))
        return Call(op_type, inputs, attributes, outputs=count)

    return build


def attention(draw: Draw) -> Call:
    batch, heads, queries, keys, size = 2, 4, draw(st.integers(1, 4)), draw(st.integers(1, 4)), 8
    if draw(st.booleans()):
        inputs = [real((batch, heads, queries, size)), *(real((batch, heads, keys, size)) for _ in range(2))]
        return Call("Attention", inputs, opset=23)
    inputs = [real((batch, queries, heads * size)), *(real((batch, keys, heads * size)) for _ in range(2))]
    return Call("Attention", inputs, {"q_num_heads": heads, "kv_num_heads": heads}, opset=23)


def rotary_embedding(draw: Draw) -> Call:
    tokens, size = draw(st.integers(1, 4)), 8
    inputs = [real((1, 2, tokens, size)), *(real((1, tokens, size // 2)) for _ in range(2))]
    return Call("RotaryEmbedding", inputs, opset=23)


EQUATIONS: Mapping[str, Sequence[Shape]] = {
    "ij,jk->ik": ((2, 3), (3, 4)),
    "bij,bjk": ((2, 3, 4), (2, 4, 5)),
    "...ij,...jk->...ik": ((2, 3, 4), (1, 4, 5)),
    "nchw,nkhw->nck": ((1, 2, 3, 4), (1, 5, 3, 4)),
    "ij->ji": ((2, 3),),
    "ij->": ((2, 3),),
    "bhi,bhj,hij->bh": ((2, 3, 4), (2, 3, 5), (3, 4, 5)),
}


def einsum(draw: Draw) -> Call:
    equation = draw(st.sampled_from(sorted(EQUATIONS)))
    return Call("Einsum", [real(shape) for shape in EQUATIONS[equation]], {"equation": equation})


def quantize(draw: Draw) -> Call:
    shape = draw(shapes())
    scale = np.asarray(0.1, np.float32)
    if draw(st.booleans()):
        return Call("QuantizeLinear", [real(shape), scale])
    zero = np.asarray(0, draw(st.sampled_from(("int8", "uint8"))))
    return Call("QuantizeLinear", [real(shape), scale, zero])


def dequantize(draw: Draw) -> Call:
    scale = np.asarray(0.1, np.float32)
    return Call("DequantizeLinear", [np.ones(draw(shapes()), np.int8), scale])


def dynamic_quantize(draw: Draw) -> Call:
    return Call("DynamicQuantizeLinear", [real(draw(shapes()))], outputs=3)


def fixed(call: Call) -> Callable[[Draw], Call]:
    """A call with nothing to draw."""
    return lambda draw: call


def as_first(op_type: str, opset: int = 21, **attributes: AttributeValue) -> Callable[[Draw], Call]:
    return lambda draw: Call(op_type, [real(draw(shapes()))], attributes, opset=opset)


def text(*words: str) -> Array:
    return np.asarray(words, dtype=object)


def compress(draw: Draw) -> Call:
    shape = draw(shapes())
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    flags = np.asarray(draw(st.lists(st.booleans(), min_size=1, max_size=shape[axis])))
    attributes: dict[str, AttributeValue] = {"axis": axis} if draw(st.booleans()) else {}
    return Call("Compress", [real(shape), flags], attributes, constant=frozenset({1}))


def unique(draw: Draw) -> Call:
    shape = draw(shapes(1, 2))
    x = np.arange(prod(shape), dtype=np.float32).reshape(shape)
    return Call("Unique", [x], {"axis": 0} if draw(st.booleans()) else {}, outputs=4)


def non_zero(draw: Draw) -> Call:
    return Call("NonZero", [np.ones(draw(shapes()), np.float32)])


def max_roi_pool(draw: Draw) -> Call:
    regions = np.asarray([[0, 0, 0, 3, 3]] * draw(st.integers(1, 3)), np.float32)
    return Call("MaxRoiPool", [real((1, 3, 8, 8)), regions], {"pooled_shape": (2, 3)})


def max_unpool(draw: Draw) -> Call:
    places = np.arange(4, dtype=np.int64).reshape(1, 1, 2, 2)
    inputs = [real((1, 1, 2, 2)), places]
    if draw(st.booleans()):
        inputs.append(integers(1, 1, 5, 5))
    return Call("MaxUnpool", inputs, {"kernel_shape": (2, 2), "strides": (2, 2)}, constant=frozenset({2}))


def tensor_scatter(draw: Draw) -> Call:
    return Call("TensorScatter", [real((2, 3, 8, 4)), real((2, 3, 2, 4)), integers(0, 4)], opset=24)


def cumulated(draw: Draw) -> Call:
    return Call("CumProd", [real(draw(shapes())), np.asarray(0, np.int64)], opset=26, constant=frozenset({1}))


def stft(draw: Draw) -> Call:
    length, width = draw(st.integers(16, 40)), draw(st.sampled_from((1, 2)))
    onesided = FLAGS if width == 1 else st.just(0)
    attributes: dict[str, AttributeValue] = {"onesided": draw(onesided)}
    step = np.asarray(draw(st.integers(1, 8)), np.int64)
    window = np.ones(16, np.float32)
    inputs: list[Array | None] = [real((2, length, width)), step, window]
    if draw(st.booleans()):
        inputs.append(np.asarray(16, np.int64))
    return Call("STFT", inputs, attributes, opset=17, constant=frozenset({1, 3}))


def window_function(op_type: str) -> Callable[[Draw], Call]:
    def build(draw: Draw) -> Call:
        attributes: dict[str, AttributeValue] = {"output_datatype": draw(st.sampled_from((1, 11)))}
        return Call(op_type, [np.asarray(draw(st.integers(2, 9)), np.int64)], attributes, opset=17, constant=frozenset({0}))

    return build


def mel_weights(draw: Draw) -> Call:
    sizes = [np.asarray(number, np.int64) for number in (draw(st.integers(2, 8)), draw(st.integers(16, 40)), 8192)]
    ends = [np.asarray(0.0, np.float32), np.asarray(4096.0, np.float32)]
    return Call("MelWeightMatrix", [*sizes, *ends], opset=17, constant=frozenset(range(5)))


def affine_grid(draw: Draw) -> Call:
    axes = draw(st.integers(2, 3))
    size = integers(2, 3, *(draw(st.integers(1, 5)) for _ in range(axes)))
    return Call("AffineGrid", [real((2, axes, axes + 1)), size], constant=frozenset({1}))


def center_crop_pad(draw: Draw) -> Call:
    shape = draw(shapes())
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    size = integers(draw(st.integers(1, 7)))
    return Call("CenterCropPad", [real(shape), size], {"axes": (axis,)}, opset=18, constant=frozenset({1}))


def col2im(draw: Draw) -> Call:
    height, width = draw(st.integers(3, 6)), draw(st.integers(3, 6))
    columns = real((2, 3 * 6, (height - 1) * (width - 2)))
    return Call("Col2Im", [columns, integers(height, width), integers(2, 3)], constant=frozenset({1, 2}))


def determinant(draw: Draw) -> Call:
    size = draw(st.integers(1, 4))
    return Call("Det", [real((*draw(shapes(0, 2)), size, size))])


def filled(op_type: str) -> Callable[[Draw], Call]:
    return lambda draw: Call(op_type, [], {"shape": draw(shapes()), "dtype": draw(st.sampled_from((1, 11)))})


def typed(op_type: str) -> Callable[[Draw], Call]:
    def build(draw: Draw) -> Call:
        shape = draw(shapes(2, 2)) if op_type == "EyeLike" else draw(shapes())
        return Call(op_type, [np.full(shape, 0.5, np.float32)], {"dtype": 11} if draw(st.booleans()) else {})

    return build


def string_concat(draw: Draw) -> Call:
    return Call("StringConcat", [text("a", "b", "c"), text(*"abc"[: draw(st.sampled_from((1, 3)))])])


# Classic models: `features` of 3 numbers


def samples(draw: Draw, features: int = 3) -> Array:
    return real((draw(st.integers(1, 4)), features))


def label_encoder(draw: Draw) -> Call:
    x = np.full(draw(shapes()), 1, np.int64)
    values: Mapping[str, AttributeValue] = draw(st.sampled_from((
        {"values_floats": (0.5,)}, {"values_int64s": (7,)}, {"values_strings": ("a",)})))  # fmt: skip
    return Call("LabelEncoder", [x], {"keys_int64s": (1,), **values})


def linear_classifier(draw: Draw) -> Call:
    classes = draw(st.integers(1, 4))
    numbers = (0.1,) * (3 * classes)
    labels: dict[str, AttributeValue] = {"classlabels_ints": tuple(range(max(classes, 2)))}
    if draw(st.booleans()):
        labels = {"classlabels_strings": tuple("abcd"[: max(classes, 2)])}
    return Call(
        "LinearClassifier", [samples(draw)], {"coefficients": numbers, "intercepts": (0.0,) * classes, **labels}, outputs=2
    )


def linear_regressor(draw: Draw) -> Call:
    targets = draw(st.integers(1, 3))
    return Call("LinearRegressor", [samples(draw)], {"coefficients": (0.1,) * (3 * targets), "targets": targets})


def svm(op_type: str) -> Callable[[Draw], Call]:
    def build(draw: Draw) -> Call:
        common: dict[str, AttributeValue] = {"kernel_type": "RBF", "kernel_params": (0.5, 0.0, 3.0)}
        if op_type == "SVMRegressor":
            one: dict[str, AttributeValue] = {"support_vectors": (0.1,) * 6, "coefficients": (1.0, 1.0), "rho": (0.0,)}
            return Call(op_type, [samples(draw)], {**common, **one, "n_supports": 2})
        classes = draw(st.integers(2, 4))
        pairs = classes * (classes - 1) // 2
        several: dict[str, AttributeValue] = {
            "support_vectors": (0.1,) * (3 * classes), "coefficients": (1.0,) * (classes * (classes - 1)),
            "rho": (0.0,) * pairs, "vectors_per_class": (1,) * classes, "classlabels_ints": tuple(range(classes)),
        }  # fmt: skip
        if draw(st.booleans()):
            several |= {"prob_a": (-1.0,) * pairs, "prob_b": (0.0,) * pairs}
        return Call(op_type, [samples(draw)], {**common, **several}, outputs=2)

    return build


TREE: Mapping[str, AttributeValue] = {
    "nodes_treeids": (0, 0, 0, 0, 0), "nodes_nodeids": (0, 1, 2, 3, 4), "nodes_featureids": (0, 0, 1, 0, 0),
    "nodes_values": (0.5, 0.0, 0.5, 0.0, 0.0), "nodes_modes": ("BRANCH_LEQ", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"),
    "nodes_truenodeids": (1, 0, 3, 0, 0), "nodes_falsenodeids": (2, 0, 4, 0, 0), "nodes_missing_value_tracks_true": (0,) * 5,
    "nodes_hitrates": (1.0,) * 5,
}  # fmt: skip
"""A root, a leaf to its left, and a branch with two leaves to its right."""


def leaves(kind: str, ids: tuple[int, ...]) -> Mapping[str, AttributeValue]:
    weights: Mapping[str, AttributeValue] = {f"{kind}_ids": ids, f"{kind}_nodeids": (1, 3, 4)}
    return {**weights, f"{kind}_treeids": (0, 0, 0), f"{kind}_weights": (1.0, 1.0, 1.0)}


def tree_classifier(draw: Draw) -> Call:
    classes = draw(st.integers(2, 3))
    labels: dict[str, AttributeValue] = {"classlabels_int64s": tuple(range(classes))}
    if draw(st.booleans()):
        labels = {"classlabels_strings": tuple("abc"[:classes])}
    ids = (0, 1, classes - 1)
    return Call("TreeEnsembleClassifier", [samples(draw)], {**TREE, **leaves("class", ids), **labels}, outputs=2)


def tree_regressor(draw: Draw) -> Call:
    targets = draw(st.integers(1, 3))
    return Call("TreeEnsembleRegressor", [samples(draw)], {**TREE, **leaves("target", (0,) * 3), "n_targets": targets})


def tree_ensemble(draw: Draw) -> Call:
    """The fifth version keeps thresholds as tensors, which a graph leaves out; a runtime is not asked."""
    attributes: dict[str, AttributeValue] = {
        "n_targets": 2, "tree_roots": (0,), "nodes_featureids": (0,), "nodes_truenodeids": (0,), "nodes_falsenodeids": (1,),
        "nodes_trueleafs": (1,), "nodes_falseleafs": (1,), "leaf_targetids": (0, 1),
    }  # fmt: skip
    return Call("TreeEnsemble", [samples(draw)], attributes)


def feature_vectorizer(draw: Draw) -> Call:
    rows, widths = draw(st.integers(1, 3)), draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    return Call("FeatureVectorizer", [real((rows, width)) for width in widths], {"inputdimensions": tuple(widths)})


def extractor(draw: Draw) -> Call:
    shape = draw(shapes(1, 3))
    index = integers(*draw(st.lists(st.integers(0, shape[-1] - 1), min_size=1, max_size=4)))
    return Call("ArrayFeatureExtractor", [real(shape), index])


CALLS: Mapping[str, Callable[[Draw], Call]] = {
    **{row.op_type: unary(row.op_type) for row in operators(Kind.UNARY)},
    **{row.op_type: binary(row.op_type) for row in operators(Kind.BINARY)},
    **{row.op_type: reduction(row.op_type) for row in operators(Kind.REDUCTION)},
    **{name: arg(name) for name in ("ArgMax", "ArgMin")},
    **{name: along_axis(name) for name in ("Softmax", "LogSoftmax", "Hardmax", "LpNormalization")},
    **{name: normalization(name) for name in (
        "BatchNormalization", "GroupNormalization", "InstanceNormalization", "LRN", "LayerNormalization",
        "MeanVarianceNormalization", "RMSNormalization")},
    **{name: pool(name) for name in ("MaxPool", "AveragePool", "LpPool")},
    **{name: global_pool(name) for name in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")},
    **{name: matmul(name) for name in ("MatMul", "MatMulInteger")},
    **{name: scatter(name) for name in ("Scatter", "ScatterElements", "ScatterND")},
    **{name: recurrent(name) for name in ("LSTM", "GRU", "RNN")},
    **{name: window_function(name) for name in ("BlackmanWindow", "HammingWindow", "HannWindow")},
    **{name: typed(name) for name in ("Bernoulli", "EyeLike", "RandomNormalLike", "RandomUniformLike")},
    **{name: filled(name) for name in ("RandomNormal", "RandomUniform")},
    **{name: svm(name) for name in ("SVMClassifier", "SVMRegressor")},
    "AffineGrid": affine_grid, "ArrayFeatureExtractor": extractor, "Binarizer": as_first("Binarizer", threshold=0.5),
    "BitCast": as_first("BitCast", 26, to=6),
    "CategoryMapper": fixed(Call("CategoryMapper", [integers(1, 2)], {"cats_int64s": (1, 2), "cats_strings": ("a", "b")})),
    "CenterCropPad": center_crop_pad, "Col2Im": col2im, "Compress": compress, "CumProd": cumulated, "Det": determinant,
    "FeatureVectorizer": feature_vectorizer, "Imputer": as_first("Imputer", imputed_value_floats=(1.0,)),
    "LabelEncoder": label_encoder, "LinearClassifier": linear_classifier, "LinearRegressor": linear_regressor,
    "MaxRoiPool": max_roi_pool, "MaxUnpool": max_unpool, "MelWeightMatrix": mel_weights,
    "Multinomial": fixed(Call("Multinomial", [real((2, 3))], {"sample_size": 5})), "NonZero": non_zero,
    "Normalizer": lambda draw: Call("Normalizer", [samples(draw)], {"norm": "L2"}),
    "OneHotEncoder": fixed(Call("OneHotEncoder", [integers(1, 2)], {"cats_int64s": (1, 2, 3)})),
    "RegexFullMatch": fixed(Call("RegexFullMatch", [text("a", "b")], {"pattern": "a"})),
    "STFT": stft, "Scaler": lambda draw: Call("Scaler", [samples(draw)], {"offset": (0.0,) * 3, "scale": (1.0,) * 3}),
    "StringConcat": string_concat,
    "StringNormalizer": fixed(Call("StringNormalizer", [text("a", "b")], {"case_change_action": "LOWER"})),
    "StringSplit": fixed(Call("StringSplit", [text("a b c", "d")], {"delimiter": " ", "maxsplit": 2}, outputs=2)),
    "TensorScatter": tensor_scatter,
    "TfIdfVectorizer": fixed(Call("TfIdfVectorizer", [np.ones((2, 4), np.int32)], {
        "mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "ngram_counts": (0,),
        "ngram_indexes": (0, 2), "pool_int64s": (1, 2)})),
    "TreeEnsemble": tree_ensemble, "TreeEnsembleClassifier": tree_classifier, "TreeEnsembleRegressor": tree_regressor,
    "Unique": unique, "ZipMap": lambda draw: Call("ZipMap", [samples(draw)], {"classlabels_int64s": (0, 1, 2)}),
    "Attention": attention, "Cast": cast, "CastLike": cast_like, "Clip": clip, "Concat": concat, "Conv": conv,
    "ConvInteger": conv_integer, "ConvTranspose": conv_transpose, "CumSum": cumsum, "DFT": dft, "DepthToSpace": depth_to_space,
    "DequantizeLinear": dequantize, "Dropout": dropout, "DynamicQuantizeLinear": dynamic_quantize, "Einsum": einsum,
    "Expand": expand, "Flatten": flatten, "Gather": gather, "GatherElements": gather_elements, "GatherND": gather_nd,
    "Gemm": gemm, "GridSample": grid_sample, "LinearAttention": linear_attention, "NonMaxSuppression": non_max_suppression,
    "OneHot": one_hot, "PRelu": prelu, "Pad": pad, "QuantizeLinear": quantize, "Range": range_, "Reshape": reshape,
    "Resize": resize, "ReverseSequence": reverse_sequence, "RoiAlign": roi_align, "RotaryEmbedding": rotary_embedding,
    "Slice": slice_, "SpaceToDepth": space_to_depth, "Split": split, "Squeeze": squeeze, "SwiGLU": swiglu, "Tile": tile,
    "TopK": top_k, "Transpose": transpose, "Trilu": trilu, "Unsqueeze": unsqueeze, "Upsample": upsample,
}  # fmt: skip


def calls(op_type: str) -> st.SearchStrategy[Call]:
    @st.composite
    def build(draw: Draw) -> Call:
        return CALLS[op_type](draw)

    return build()
