"""ncnn's layers in ONNX's vocabulary: windows, products, normalisation, single elements.

What each layer's numbered parameters mean is said in ncnn's ``docs/developer-guide/operators.md``, and what they do where they
are left out in its ``src/layer``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from latcast.errors import ModelError
from latcast.graph.importers.ncnn import Attributes, Conversion
from latcast.graph.importers.ncnn_file import NOT_GIVEN
from latcast.graph.importers.ncnn_movement import MOVEMENT
from latcast.graph.ir import Shape
from latcast.graph.ncnn_codes import BINARY_OPS, OWN_LAYERS, REDUCTIONS, UNARY_OPS

Convert = Callable[[Conversion], Any]
"""Adds the layer to the graph; NotImplemented where this form of it has no counterpart."""

_SAME_UPPER, _SAME_LOWER = -233, -234


def _pair(c: Conversion, width: int, height: int, default: int) -> tuple[int, int]:
    """Return (height, width); the height is the width unless it is given."""
    first = c.integer(width, default)
    return c.integer(height, first), first


def _pads(c: Conversion, left: int, top: int, right: int, bottom: int) -> tuple[int, int, int, int]:
    """Return (top, left, bottom, right); the default is the left one, for the bottom the top one."""
    first = c.integer(left, 0)
    above = c.integer(top, first)
    return above, first, c.integer(bottom, above), c.integer(right, first)


def _same_pads(sizes: Sequence[int], extents: Sequence[int], strides: Sequence[int], *, upper: bool) -> tuple[int, ...]:
    """Return pads that let a window give ceil(size / stride) numbers; the odd one at the end, or at the beginning."""
    begins, ends = [], []
    for size, extent, stride in zip(sizes, extents, strides, strict=True):
        total = max(extent + (size - 1) // stride * stride - size, 0)
        small, large = total // 2, total - total // 2
        begins.append(small if upper else large)
        ends.append(large if upper else small)
    return (*begins, *ends)


def _positive(**numbers: Sequence[int]) -> None:
    for name, values in numbers.items():
        if min(values) <= 0 or max(values) >= 2**31:
            raise ModelError(f"its {name} is {list(values)}, expected positive numbers")


def _activated(c: Conversion, op_type: str, inputs: Sequence[str], attributes: Attributes | None, shape: Shape | None) -> None:
    """Add a product, and the activation of parameters 9 (type) and 10 (its numbers)."""
    kind, numbers = c.integer(9), c.numbers(10)
    if kind == 0:
        c.result(op_type, inputs, attributes, shape=shape)
        return
    x = c.op(op_type, inputs, attributes)
    if kind == 1:
        c.result("Relu", [x], shape=shape)
    elif kind == 2:
        c.result("LeakyRelu", [x], {"alpha": float(numbers[0])}, shape=shape)
    elif kind == 3:
        c.result("Clip", [x, c.scalar(numbers[0]), c.scalar(numbers[1])], shape=shape)
    elif kind == 4:
        c.result("Sigmoid", [x], shape=shape)
    elif kind == 5:
        c.result("Mish", [x], shape=shape)
    elif kind == 6:
        _hard_swish(c, x, *(float(number) for number in numbers), shape=shape)
    else:
        raise ModelError(f"its activation is {kind}, expected one of 0 to 6")


def _bias(c: Conversion, given: int, size: int) -> list[str]:
    return [c.weight(size)] if given else []


def _convolution(c: Conversion) -> Any:
    """Add Convolution or ConvolutionDepthWise, of one spatial axis too; 1x1 on a vector runs on (1, C, 1, 1)."""
    if c.integer(19):
        return NotImplemented
    rank = 1 if c.layer.kind.endswith("1D") else 2
    kernel, dilations = _pair(c, 1, 11, 0)[2 - rank :], _pair(c, 2, 12, 1)[2 - rank :]
    strides, outputs = _pair(c, 3, 13, 1)[2 - rank :], c.integer(0)
    group = max(c.integer(7, 1), 1) if "DepthWise" in c.layer.kind else 1
    _positive(kernel=kernel, dilations=dilations, strides=strides, outputs=[outputs], group=[group])
    inputs = c.integer(6) // (outputs * prod(kernel)) * group
    shape = c.shape()
    vector = len(shape) == 1 and prod(kernel) == 1
    shape = (*shape, *(1,) * rank) if vector else shape
    if len(shape) != rank + 1 or inputs != shape[0] or c.integer(6) * group != inputs * outputs * prod(kernel):
        raise ModelError(
            f"its {c.integer(6)} weights make {outputs} outputs of {inputs} channels with a kernel of {list(kernel)}, "
            f"but it reads {list(shape)}"
        )
    if c.integer(4) in (_SAME_UPPER, _SAME_LOWER):
        extents = [dilation * (size - 1) + 1 for size, dilation in zip(kernel, dilations, strict=True)]
        pads = _same_pads(shape[1:], extents, strides, upper=c.integer(4) == _SAME_UPPER)
    elif rank == 1:
        pads = (c.integer(4), c.integer(15, c.integer(4)))
    else:
        pads = _pads(c, 4, 14, 15, 16)
    x = c.shaped((1, *shape))
    attributes: Attributes = {
        "kernel_shape": kernel, "strides": strides, "pads": pads, "dilations": dilations, "group": group,
    }  # fmt: skip
    weights = [c.weight(outputs, inputs // group, *kernel), *_bias(c, c.integer(5), outputs)]
    _activated(c, "Conv", [x, *weights], attributes, (outputs,) if vector else None)
    return None


def _deconvolution(c: Conversion) -> Any:
    if c.integer(28):
        return NotImplemented
    kernel, dilations, strides = _pair(c, 1, 11, 0), _pair(c, 2, 12, 1), _pair(c, 3, 13, 1)
    outputs, extra = c.integer(0), (c.integer(19, c.integer(18)), c.integer(18))
    group = max(c.integer(7, 1), 1) if "DepthWise" in c.layer.kind else 1
    _positive(kernel=kernel, dilations=dilations, strides=strides, outputs=[outputs], group=[group])
    shape = c.shape()
    if len(shape) != 3 or c.integer(6) * group != shape[0] * outputs * prod(kernel):
        raise ModelError(
            f"its {c.integer(6)} weights do not make {outputs} channels of {list(shape)} with a kernel of {list(kernel)}"
        )
    pads = (0, 0, 0, 0)
    if c.integer(4) not in (_SAME_UPPER, _SAME_LOWER):
        pads = _pads(c, 4, 14, 15, 16)
    elif c.integer(20) > 0 and c.integer(21) > 0:
        full = [
            (size - 1) * stride + dilation * (k - 1) + 1 + more
            for size, stride, dilation, k, more in zip(shape[1:], strides, dilations, kernel, extra, strict=True)
        ]
        surplus = [max(size - wanted, 0) for size, wanted in zip(full, (c.integer(21), c.integer(20)), strict=True)]
        small, large = [total // 2 for total in surplus], [total - total // 2 for total in surplus]
        first, last = (small, large) if c.integer(4) == _SAME_UPPER else (large, small)
        pads = (first[0], first[1], last[0], last[1])
    attributes: Attributes = {
        "kernel_shape": kernel, "strides": strides, "pads": pads, "dilations": dilations, "group": group,
    }  # fmt: skip
    if any(extra):
        attributes["output_padding"] = extra
    weights = [c.weight(shape[0], outputs // group, *kernel), *_bias(c, c.integer(5), outputs)]
    _activated(c, "ConvTranspose", [c.plain(), *weights], attributes, None)
    return None


_FULL, _VALID, _POOL_SAME_UPPER = 0, 1, 2


def _pooling(c: Conversion) -> Any:
    """Pool over windows, over the whole map (to a vector), or over as many parts as are stated (adaptive)."""
    average, shape = c.integer(0) == 1, c.shape()
    if c.integer(4):
        x = c.shaped((1, *shape)) if len(shape) == 3 else c.shaped((1, shape[0], *shape[1:], *(1,) * (3 - len(shape))))
        c.result("GlobalAveragePool" if average else "GlobalMaxPool", [x], shape=shape[:1])
        return None
    if len(shape) != 3:
        raise ModelError(f"it reads {list(shape)}, expected three axes")
    kind = "AveragePool" if average else "MaxPool"
    if c.integer(7):
        wanted = _pair(c, 8, 18, 0)
        sizes = tuple(size if goal in (NOT_GIVEN, 0) else goal for goal, size in zip(wanted, shape[1:], strict=True))
        if min(sizes) <= 0 or any(size % goal for size, goal in zip(shape[1:], sizes, strict=True)):
            return NotImplemented
        window = tuple(size // goal for size, goal in zip(shape[1:], sizes, strict=True))
        c.result(kind, [c.plain()], {"kernel_shape": window, "strides": window, "pads": (0, 0, 0, 0)})
        return None
    kernel, strides, mode = _pair(c, 1, 11, 0), _pair(c, 2, 12, 1), c.integer(5)
    _positive(kernel=kernel, strides=strides)
    attributes: Attributes = {"kernel_shape": kernel, "strides": strides}
    if mode in (_FULL, _VALID):
        pads = _pads(c, 3, 13, 14, 15)
        attributes["pads"] = pads
        if mode == _FULL:
            attributes |= _full_windows(shape[1:], kernel, strides, pads)
    else:
        attributes["pads"] = _same_pads(shape[1:], kernel, strides, upper=mode == _POOL_SAME_UPPER)
    if average:
        attributes["count_include_pad"] = int(bool(c.integer(6)))
    c.result(kind, [c.plain()], attributes)
    return None


def _full_windows(sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], pads: tuple[int, ...]) -> Attributes:
    """Round the output size up; pad instead where the last window begins beyond the input, which ONNX leaves out."""
    missing = [-(size + pads[axis] + pads[axis + 2] - kernel[axis]) % strides[axis] for axis, size in enumerate(sizes)]
    if not any(missing):
        return {}
    ends = [
        (size + pads[axis] + pads[axis + 2] + missing[axis] - kernel[axis]) < size + pads[axis] for axis, size in enumerate(sizes)
    ]
    return {"ceil_mode": 1} if all(ends) else {"pads": (*pads[:2], pads[2] + missing[0], pads[3] + missing[1])}


def _inner_product(c: Conversion) -> None:
    """Add the Gemm of a vector; several rows that are as long as its weights get a product each."""
    outputs, stored, shape = c.integer(0), c.integer(2), c.shape()
    _positive(outputs=[outputs])
    inputs = stored // outputs
    if len(shape) == 2 and shape[1] == inputs and shape[0] > 1:
        _product(c, c.plain(), inputs, outputs, c.integer(1))
        return
    if prod(shape) != inputs or inputs * outputs != stored:
        raise ModelError(f"its {stored} weights make {outputs} outputs of {inputs} inputs, but it reads {list(shape)}")
    weights = [c.weight(outputs, inputs), *_bias(c, c.integer(1), outputs)]
    _activated(c, "Gemm", [c.shaped((1, inputs)), *weights], {"transB": 1}, None)


def _product(c: Conversion, x: str, inputs: int, outputs: int, bias: int) -> None:
    if bias:
        _activated(c, "Add", [c.op("MatMul", [x, c.weight(inputs, outputs)]), c.weight(outputs)], None, None)
    else:
        _activated(c, "MatMul", [x, c.weight(inputs, outputs)], None, None)


def _gemm(c: Conversion) -> Any:
    """Add a MatMul and the broadcast addition; operands are stored, or are read."""
    if c.integer(14) or c.number(0, 1.0) != 1.0 or c.number(1, 1.0) != 1.0 or len(c) < 1:
        return NotImplemented
    left, right, third = (bool(c.integer(key)) for key in (4, 5, 6))
    rows, columns, inner = (c.integer(key) for key in (7, 8, 9))
    read = 0
    sides = []
    for stored, transposed, shape in ((left, c.integer(2), (rows, inner)), (right, c.integer(3), (inner, columns))):
        if stored:
            sides.append(c.weight(*shape))
            continue
        if len(c.shape(read)) > 3:
            return NotImplemented
        name = c.plain(read) if len(c.shape(read)) > 1 else c.shaped((1, 1, *c.shape(read)), read)
        rank = len(c.assembly.tensor(name).shape)
        read += 1
        sides.append(c.op("Transpose", [name], {"perm": (*range(rank - 2), rank - 1, rank - 2)}) if transposed else name)
    if third:
        shapes = {0: (1,), 1: (rows, 1), 2: (rows, 1), 3: (rows, columns), 4: (columns,)}
        kind = c.integer(10)
        if kind == -1:
            c.result("MatMul", sides)
        else:
            c.result("Add", [c.op("MatMul", sides), c.weight(*shapes[kind])])
    elif len(c) > read:
        c.result("Add", [c.op("MatMul", sides), c.plain(read)])
    else:
        c.result("MatMul", sides)
    return None


def _matmul(c: Conversion) -> None:
    rank = max(len(c.shape(0)), len(c.shape(1)), 2)
    sides = []
    for position in (0, 1):
        shape = c.shape(position)
        if len(shape) == 1:
            shape = (1, *shape) if position == 0 else (*shape, 1)
        name = c.shaped((1, *(1,) * (rank - len(shape)), *shape), position)
        if position and c.integer(0):
            name = c.op("Transpose", [name], {"perm": (*range(rank - 1), rank, rank - 1)})
        sides.append(name)
    c.result("MatMul", sides)


def _attention(c: Conversion) -> None:
    """Add queries, keys and values of one blob or several, scores, softmax, the mixture, and a product after it."""
    width, heads = c.integer(0), c.integer(1)
    _positive(width=[width], heads=[heads])
    if width % heads:
        raise ModelError(f"{width} channels do not part into {heads} heads")
    masked = bool(c.integer(5))
    given = len(c) - masked
    positions = (0, min(1, given - 1), max(given - 1, 0) if given < 3 else 2)
    parts = []
    for index, position in enumerate(positions):
        tokens, size = c.shape(position)
        if index == 0:
            queries, query_size = tokens, size
        x = c.op("Add", [c.op("MatMul", [c.plain(position), c.weight(size, width)]), c.weight(width)])
        x = c.reshape(x, (1, tokens, heads, width // heads))
        parts.append(c.op("Transpose", [x], {"perm": (0, 2, 3, 1) if index == 1 else (0, 2, 1, 3)}))
    scaled = c.op("Mul", [parts[0], c.scalar(c.number(6, (width // heads) ** -0.5))])
    scores = c.op("MatMul", [scaled, parts[1]])
    if masked:
        scores = c.op("Add", [scores, c.plain(len(c) - 1)])
    mixed = c.op("MatMul", [c.op("Softmax", [scores], {"axis": -1}), parts[2]])
    mixed = c.reshape(c.op("Transpose", [mixed], {"perm": (0, 2, 1, 3)}), (1, queries, width))
    c.result("Add", [c.op("MatMul", [mixed, c.weight(width, query_size)]), c.weight(query_size)])


# Single elements


def _same(op_type: str) -> Convert:
    return lambda c: c.result(op_type, [c.input()], shape=c.shape())


def _with_attributes(op_type: str, defaults: Mapping[str, float]) -> Convert:
    def convert(c: Conversion) -> None:
        attributes: Attributes = {name: c.number(key, default) for key, (name, default) in enumerate(defaults.items())}
        c.result(op_type, [c.input()], attributes, shape=c.shape())

    return convert


def _relu(c: Conversion) -> None:
    slope = c.number(0, 0.0)
    c.result("LeakyRelu" if slope else "Relu", [c.input()], {"alpha": slope} if slope else {}, shape=c.shape())


def _clip(c: Conversion) -> None:
    low, high = c.number(0, -3.4e38), c.number(1, 3.4e38)
    c.result("Clip", [c.input(), c.scalar(low), c.scalar(high)], shape=c.shape())


def _hard_swish(c: Conversion, x: str, alpha: float = 0.2, beta: float = 0.5, *, shape: Shape | None) -> None:
    """x * hard sigmoid; of 1/6 and 0.5 one operator."""
    if abs(alpha - 1 / 6) < 1e-4 and abs(beta - 0.5) < 1e-4:
        c.result("HardSwish", [x], shape=shape)
    else:
        c.result("Mul", [x, c.op("HardSigmoid", [x], {"alpha": alpha, "beta": beta})], shape=shape)


def _swish(c: Conversion) -> None:
    """Add x * sigmoid(x), as exporters write it."""
    c.result("Mul", [c.input(), c.op("Sigmoid", [c.input()])], shape=c.shape())


def _gelu(c: Conversion) -> None:
    c.result("Gelu", [c.input()], {"approximate": "tanh"} if c.integer(0) else {}, shape=c.shape())


def _prelu(c: Conversion) -> None:
    count = c.integer(0)
    _positive(slopes=[count])
    c.result("PRelu", [c.plain(), c.weight(*_channel_shape(count, c.shape()))])


def _channel_shape(count: int, shape: Shape) -> Shape:
    """Return the shape in which one number a channel broadcasts with a blob."""
    if count not in (1, shape[0]):
        raise ModelError(f"it has {count} numbers for {shape[0]} channels")
    return (count, *(1,) * (len(shape) - 1))


_SQUARE, _RECIPROCAL_ROOT = 4, 6
_UNARY: Mapping[int, str] = {**{number: name for name, number in UNARY_OPS.items()}, 16: "Tanh"}
_BINARY: Mapping[int, tuple[str, bool]] = {
    **{exchanged: (name, True) for name, (_, exchanged) in BINARY_OPS.items()},
    **{forward: (name, False) for name, (forward, _) in BINARY_OPS.items()},
}
"""Parameter 0 of BinaryOp to the operator, and whether its operands are exchanged."""


def _unary(c: Conversion) -> Any:
    kind = c.integer(0)
    if kind == _SQUARE:
        c.result("Mul", [c.input(), c.input()], shape=c.shape())
    elif kind == _RECIPROCAL_ROOT:
        c.result("Reciprocal", [c.op("Sqrt", [c.input()])], shape=c.shape())
    elif kind in _UNARY:
        c.result(_UNARY[kind], [c.input()], shape=c.shape())
    else:
        return NotImplemented
    return None


def _binary(c: Conversion) -> Any:
    if c.integer(0) not in _BINARY:
        return NotImplemented
    op_type, exchanged = _BINARY[c.integer(0)]
    if c.integer(1) or len(c) == 1:
        sides, shape = [c.input(), c.scalar(c.number(2, 0.0))], c.shape()
    else:
        first, second = c.shape(0), c.shape(1)
        shapes = [_broadcast(first, second), _broadcast(second, first)]
        sides = [c.shaped((1, *shapes[position]), position) for position in (0, 1)]
        shape = tuple(max(pair) for pair in zip(*shapes, strict=True))
    c.result(op_type, sides[::-1] if exchanged else sides, shape=shape)
    return None


def _broadcast(shape: Shape, other: Shape) -> Shape:
    """Align a blob of fewer axes with the outermost ones; a vector that does not fit them with the innermost."""
    missing = (1,) * (len(other) - len(shape))
    if len(shape) == 1 and shape[0] != other[0]:
        return (*missing, *shape)
    return (*shape, *missing)


def _eltwise(c: Conversion) -> None:
    op_type = {0: "Mul", 1: "Add", 2: "Max"}[c.integer(0)]
    total = c.plain(0)
    for position in range(1, len(c) - 1):
        total = c.op(op_type, [total, c.plain(position)])
    if len(c) == 1:
        c.is_output(total)
    else:
        c.result(op_type, [total, c.plain(len(c) - 1)])


# Normalisation


def _batch_norm(c: Conversion) -> None:
    channels = c.integer(0)
    if channels != c.shape()[0]:
        raise ModelError(f"it normalises {channels} channels, but reads {list(c.shape())}")
    c.result("BatchNormalization", [c.plain(), *(c.weight(channels) for _ in range(4))], {"epsilon": c.number(1, 0.0)})


def _scale(c: Conversion) -> Any:
    """Scale by one factor (and add one term) a channel, stored or read."""
    count = c.integer(0)
    if count == NOT_GIVEN:
        factor = c.shaped((1, *_channel_shape(prod(c.shape(1)), c.shape())), 1)
    else:
        factor = c.weight(*_channel_shape(count, c.shape()))
    if c.integer(1):
        term = c.weight(*_channel_shape(c.shape()[0] if count == NOT_GIVEN else count, c.shape()))
        c.result("Add", [c.op("Mul", [c.plain(), factor]), term])
    else:
        c.result("Mul", [c.plain(), factor])


def _bias_layer(c: Conversion) -> None:
    c.result("Add", [c.plain(), c.weight(*_channel_shape(c.integer(0), c.shape()))])


def _layer_norm(c: Conversion) -> None:
    size, shape = c.integer(0), c.shape()
    axis = next((axis for axis in reversed(range(len(shape))) if prod(shape[axis:]) == size), None)
    if axis is None:
        raise ModelError(f"it normalises over {size} elements, but reads {list(shape)}")
    has_bias = c.layer.kind == "LayerNorm"
    weights = [c.weight(*shape[axis:]) for _ in range(1 + has_bias)] if c.integer(2, 1) else []
    if not weights:
        # The operator has a scale, which is then one number.
        weights = [c.scalar(1.0)]
    op_type = "LayerNormalization" if has_bias else "RMSNormalization"
    c.result(op_type, [c.plain(), *weights], {"axis": axis - len(shape), "epsilon": c.number(1, 1e-3)})


def _group_norm(c: Conversion) -> None:
    grouped = c.layer.kind == "GroupNorm"
    channels = c.integer(1) if grouped else c.integer(0)
    attributes: Attributes = {"epsilon": c.number(2 if grouped else 1, 1e-3)}
    if grouped:
        attributes["num_groups"] = c.integer(0, 1)
    size = channels or c.shape()[0]
    op_type = "GroupNormalization" if grouped else "InstanceNormalization"
    c.result(op_type, [c.plain(), c.weight(size), c.weight(size)], attributes)


def _lrn(c: Conversion) -> Any:
    if c.integer(0):
        return NotImplemented
    attributes: Attributes = {
        "size": c.integer(1, 5), "alpha": c.number(2, 1.0), "beta": c.number(3, 0.75), "bias": c.number(4, 1.0),
    }  # fmt: skip
    c.result("LRN", [c.plain()], attributes)
    return None


def _normalize(c: Conversion) -> None:
    """Normalise to length 1, across the channels or everything, and scale by a factor."""
    x = c.op("LpNormalization", [c.plain()], {"axis": 1, "p": 2})
    c.result("Mul", [x, c.weight(*_channel_shape(max(c.integer(3), 1), c.shape()))])


def _softmax(c: Conversion) -> None:
    axis, rank = c.integer(0), len(c.shape())
    if not -rank <= axis < rank:
        raise ModelError(f"its axis is {axis}, but it reads {list(c.shape())}")
    c.result("Softmax", [c.plain()], {"axis": axis % rank + 1})


_REDUCTION_OPS: Mapping[int, str] = {number: name for name, number in REDUCTIONS.items()}


def _reduction(c: Conversion) -> Any:
    op_type, rank, keeps = _REDUCTION_OPS.get(c.integer(0)), len(c.shape()), bool(c.integer(4))
    if op_type is None:
        return NotImplemented
    axes = range(rank) if c.integer(1, 1) else sorted({axis % rank for axis in c.integers(3)})
    if not axes:
        raise ModelError("it names no axis")
    shape = [1 if axis in axes else size for axis, size in enumerate(c.shape()) if keeps or axis not in axes]
    attributes: Attributes = {"axes": tuple(axis + 1 for axis in axes), "keepdims": int(keeps)}
    c.result(op_type, [c.plain()], attributes, shape=shape or (1,))
    return None


# What ONNX has no operator for


def _prior_box(c: Conversion) -> None:
    """Boxes for every place of a map, of every size and ratio, and their variances."""
    sizes, largest, ratios = (len(c.numbers(key)) for key in (0, 1, 2))
    count = sizes * ratios * (2 if c.integer(7, 1) else 1) + sizes + largest
    c.keep_unknown([(2, 4 * count * prod(c.shape()[1:]))])


def _detections(key: int) -> Convert:
    """Add the boxes' class, probability and four corners: as many as the file states, or as are kept at most."""
    return lambda c: c.keep_unknown(c.stated_shapes() or [(max(c.integer(key, 100), 1) if key else 100, 6)])


CONVERSIONS: Mapping[str, Convert] = {
    **dict.fromkeys(("Convolution", "ConvolutionDepthWise", "Convolution1D", "ConvolutionDepthWise1D"), _convolution),
    **dict.fromkeys(("Deconvolution", "DeconvolutionDepthWise"), _deconvolution),
    **{layer: _with_attributes(name, numbers) for name, (layer, numbers) in OWN_LAYERS.items()},
    **MOVEMENT,
    "AbsVal": _same("Abs"),
    "BatchNorm": _batch_norm,
    "Bias": _bias_layer,
    "BinaryOp": _binary,
    "Clip": _clip,
    "DetectionOutput": _detections(3),
    "Eltwise": _eltwise,
    "GELU": _gelu,
    "Gemm": _gemm,
    "GroupNorm": _group_norm,
    "HardSwish": lambda c: _hard_swish(c, c.input(), c.number(0, 0.2), c.number(1, 0.5), shape=c.shape()),
    "InnerProduct": _inner_product,
    "InstanceNorm": _group_norm,
    "LRN": _lrn,
    "LayerNorm": _layer_norm,
    "MatMul": _matmul,
    "MultiHeadAttention": _attention,
    "Normalize": _normalize,
    "PReLU": _prelu,
    "Pooling": _pooling,
    "PriorBox": _prior_box,
    "RMSNorm": _layer_norm,
    "ReLU": _relu,
    "Reduction": _reduction,
    "Scale": _scale,
    "Softmax": _softmax,
    "Swish": _swish,
    "UnaryOp": _unary,
    "YoloDetectionOutput": _detections(0),
    "Yolov3DetectionOutput": _detections(0),
}
"""Layer type to what reads it."""
