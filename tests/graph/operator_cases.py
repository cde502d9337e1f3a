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
