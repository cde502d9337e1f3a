"""ncnn's layers that slide a window over one to three axes: convolutions, poolings, and what cuts a map into windows.

Parameters are numbered as in ncnn's ``src/layer``: those of width, height and depth are ten apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from latcast.errors import ModelError
from latcast.graph.importers.ncnn import Attributes, Conversion
from latcast.graph.importers.ncnn_file import NOT_GIVEN
from latcast.graph.ir import Shape
from latcast.graph.operators.linear import halved_pads, same_pads, transposed_surplus

_SAME_UPPER, _SAME_LOWER = -233, -234

_KERNEL, _DILATION, _STRIDE = (1, 11, 21), (2, 12, 22), (3, 13, 23)
_BEGINS, _ENDS = (4, 14, 24), (15, 16, 17)
"""Padding at the left, the top and the front, and at their other sides."""


def _of_axes(c: Conversion, keys: Sequence[int], rank: int, default: int) -> tuple[int, ...]:
    """Return a parameter of each axis, outermost first; that of the width stands for those that are left out."""
    first = c.integer(keys[0], default)
    return tuple(c.integer(key, first) for key in reversed(keys[:rank]))


def _pads(c: Conversion, begins: Sequence[int], ends: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return the padding at the begin of each axis, then at the end, which is the same where it is left out."""
    before = _of_axes(c, begins, rank, 0)
    return (*before, *(c.integer(key, pad) for key, pad in zip(reversed(ends[:rank]), before, strict=True)))


_ACTIVATIONS = {1: "Relu", 4: "Sigmoid", 5: "Mish"}


def positive(**numbers: Sequence[int]) -> None:
    """Raise if a number is not positive, or too large."""
    for name, values in numbers.items():
        if min(values) <= 0 or max(values) >= 2**31:
            raise ModelError(f"its {name} is {list(values)}, expected positive numbers")


def activated(
    c: Conversion, op_type: str, inputs: Sequence[str], attributes: Attributes | None = None, shape: Shape | None = None
) -> None:
    """Add a product, and the activation of parameters 9 (type) and 10 (its numbers)."""
    kind, numbers = c.integer(9), c.numbers(10)
    if kind == 0:
        c.result(op_type, inputs, attributes, shape=shape)
        return
    x = c.op(op_type, inputs, attributes)
    if kind in _ACTIVATIONS:
        c.result(_ACTIVATIONS[kind], [x], shape=shape)
    elif kind == 2:
        c.result("LeakyRelu", [x], {"alpha": float(numbers[0])}, shape=shape)
    elif kind == 3:
        c.result("Clip", [x, c.scalar(numbers[0]), c.scalar(numbers[1])], shape=shape)
    elif kind == 6:
        hard_swish(c, x, *(float(number) for number in numbers), shape=shape)
    else:
        raise ModelError(f"its activation is {kind}, expected one of 0 to 6")


def hard_swish(c: Conversion, x: str, alpha: float = 0.2, beta: float = 0.5, *, shape: Shape | None) -> None:
    """Add x * hard sigmoid; of 1/6 and 0.5 one operator."""
    if abs(alpha - 1 / 6) < 1e-4 and abs(beta - 0.5) < 1e-4:
        c.result("HardSwish", [x], shape=shape)
    else:
        c.result("Mul", [x, c.op("HardSigmoid", [x], {"alpha": alpha, "beta": beta})], shape=shape)


def bias(c: Conversion, given: int, size: int) -> list[str]:
    """Return a stored bias where there is one."""
    return [c.weight(size)] if given else []


def _rank(c: Conversion) -> int:
    """Return over how many axes the window slides, as the layer's name says."""
    return {"1D": 1, "3D": 3}.get(c.layer.kind[-2:], 2)


def _groups(c: Conversion) -> int:
    return max(c.integer(7, 1), 1) if "DepthWise" in c.layer.kind else 1


def _map(c: Conversion, rank: int) -> Shape:
    """Return the input's sizes; one of fewer axes is one channel."""
    shape = c.shape()
    return (*(1,) * (rank + 1 - len(shape)), *shape)


def _weights(c: Conversion, shape: Shape, outputs: int, *, read: bool) -> list[str]:
    """Return the weights of a convolution and its bias where it has one: blobs that it reads, or what the file stores."""
    if not read:
        return [c.weight(*shape), *bias(c, c.integer(5), outputs)]
    return [c.shaped(c.shape(1), 1), *([c.shaped((outputs,), 2)] if c.integer(5) else [])]


def convolution(c: Conversion) -> None:
    """Add Convolution or ConvolutionDepthWise over one to three axes; 1x1 on a vector runs on (1, C, 1, 1)."""
    c.computes_in_int8(8)
    rank, group, shape, read = _rank(c), _groups(c), c.shape(), bool(c.integer(19))
    outputs, kernel = (c.shape(1)[0], c.shape(1)[2:]) if read else (c.integer(0), _of_axes(c, _KERNEL, rank, 0))
    dilations, strides = _of_axes(c, _DILATION, rank, 1), _of_axes(c, _STRIDE, rank, 1)
    positive(kernel=kernel or [0], dilations=dilations, strides=strides, outputs=[outputs], group=[group])
    stored = prod(c.shape(1)) if read else c.integer(6)
    inputs = stored // (outputs * prod(kernel)) * group
    vector = shape == (inputs,) and prod(kernel) == 1
    shape = (*shape, *(1,) * rank) if vector else _map(c, rank)
    if len(shape) != rank + 1 or inputs != shape[0] or stored * group != inputs * outputs * prod(kernel):
        raise ModelError(
            f"its {stored} weights make {outputs} outputs of {inputs} channels with a kernel of {list(kernel)}, "
            f"but it reads {list(shape)}"
        )
    if c.integer(4) in (_SAME_UPPER, _SAME_LOWER):
        extents = [dilation * (size - 1) + 1 for size, dilation in zip(kernel, dilations, strict=True)]
        pads = same_pads(shape[1:], extents, strides, upper=c.integer(4) == _SAME_UPPER)
    else:
        pads = _pads(c, _BEGINS, _ENDS, rank)
    attributes: Attributes = {
        "kernel_shape": kernel, "strides": strides, "pads": pads, "dilations": dilations, "group": group,
    }  # fmt: skip
    names = [c.shaped((1, *shape)), *_weights(c, (outputs, inputs // group, *kernel), outputs, read=read)]
    activated(c, "Conv", names, attributes, (outputs,) if vector else None)


def deconvolution(c: Conversion) -> None:
    """Add Deconvolution or DeconvolutionDepthWise over one to three axes."""
    rank, group, shape, read = _rank(c), _groups(c), _map(c, _rank(c)), bool(c.integer(28))
    outputs, kernel = (c.shape(1)[1] * group, c.shape(1)[2:]) if read else (c.integer(0), _of_axes(c, _KERNEL, rank, 0))
    dilations, strides = _of_axes(c, _DILATION, rank, 1), _of_axes(c, _STRIDE, rank, 1)
    extra = _of_axes(c, (18, 19, 20), rank, 0)
    positive(kernel=kernel or [0], dilations=dilations, strides=strides, outputs=[outputs], group=[group])
    stored = prod(c.shape(1)) if read else c.integer(6)
    if len(shape) != rank + 1 or stored * group != shape[0] * outputs * prod(kernel):
        raise ModelError(f"its {stored} weights do not make {outputs} channels of {list(shape)} with a kernel of {list(kernel)}")
    pads: tuple[int, ...] = (0,) * 2 * rank
    wanted = _of_axes(c, (25, 26, 27) if rank == 3 else (20, 21), rank, 0)
    if c.integer(4) not in (_SAME_UPPER, _SAME_LOWER):
        pads = _pads(c, _BEGINS, _ENDS, rank)
    elif min(wanted) > 0:
        surplus = transposed_surplus(shape[1:], kernel, strides, dilations, wanted)
        totals = [max(total + more, 0) for total, more in zip(surplus, extra, strict=True)]
        pads = halved_pads(totals, upper=c.integer(4) == _SAME_UPPER)
    attributes: Attributes = {
        "kernel_shape": kernel, "strides": strides, "pads": pads, "dilations": dilations, "group": group,
    }  # fmt: skip
    if any(extra):
        attributes["output_padding"] = extra
    names = [c.shaped((1, *shape)), *_weights(c, (shape[0], outputs // group, *kernel), outputs, read=read)]
    activated(c, "ConvTranspose", names, attributes)


def deformable_convolution(c: Conversion) -> None:
    """Add a convolution whose taps a second blob moves, and a third one weighs."""
    kernel, dilations, strides = (_of_axes(c, keys, 2, least) for keys, least in ((_KERNEL, 0), (_DILATION, 1), (_STRIDE, 1)))
    outputs = c.integer(0)
    positive(kernel=kernel, dilations=dilations, strides=strides, outputs=[outputs])
    inputs = c.integer(6) / (outputs * prod(kernel))
    if len(c.shape()) != 3 or inputs != c.shape()[0]:
        raise ModelError(f"its {c.integer(6)} weights read {inputs:g} channels, but it reads {list(c.shape())}")
    biases = bias(c, c.integer(5), outputs) or [""]
    names = [c.plain(0), c.weight(outputs, c.shape()[0], *kernel), c.plain(1), *biases, *([c.plain(2)] if len(c) > 2 else [])]
    attributes: Attributes = {
        "kernel_shape": kernel, "strides": strides, "pads": _pads(c, _BEGINS, _ENDS, 2), "dilations": dilations,
    }  # fmt: skip
    activated(c, "Identity", [c.several("DeformConv", names, attributes)[0]])


_FULL, _VALID, _POOL_SAME_UPPER = 0, 1, 2


def pooling(c: Conversion) -> None:
    """Pool over windows, over the whole map (to a vector), or over as many parts as are stated (adaptive)."""
    average, rank = c.integer(0) == 1, _rank(c)
    shape = _map(c, rank)
    if c.integer(4):
        c.result("GlobalAveragePool" if average else "GlobalMaxPool", [c.shaped((1, *shape))], shape=shape[:1])
        return
    if len(shape) != rank + 1:
        raise ModelError(f"it reads {list(shape)}, expected {rank + 1} axes")
    kind = "AveragePool" if average else "MaxPool"
    if c.integer(7):
        wanted = _of_axes(c, (8, 18, 28), rank, 0)
        goals = tuple(size if goal in (NOT_GIVEN, 0) else goal for goal, size in zip(wanted, shape[1:], strict=True))
        if min(goals) <= 0:
            raise ModelError(f"it makes {list(wanted)} parts of each axis, expected positive numbers")
        if any(goal > size for goal, size in zip(goals, shape[1:], strict=True)):
            c.keep_unknown([(shape[0], *goals)])
            return
        # Windows overlap where the parts do not divide an axis.
        steps = tuple(size // goal for size, goal in zip(shape[1:], goals, strict=True))
        window = tuple(size - (goal - 1) * step for size, goal, step in zip(shape[1:], goals, steps, strict=True))
        c.result(kind, [c.shaped((1, *shape))], {"kernel_shape": window, "strides": steps, "pads": (0,) * 2 * rank})
        return
    kernel, strides, mode = _of_axes(c, _KERNEL, rank, 0), _of_axes(c, _DILATION, rank, 1), c.integer(5)
    positive(kernel=kernel, strides=strides)
    attributes: Attributes = {"kernel_shape": kernel, "strides": strides}
    if mode in (_FULL, _VALID):
        pads = _pads(c, (3, 13, 23), (14, 15, 16), rank)
        attributes["pads"] = pads
        if mode == _FULL:
            attributes |= _full_windows(shape[1:], kernel, strides, pads)
    else:
        attributes["pads"] = same_pads(shape[1:], kernel, strides, upper=mode == _POOL_SAME_UPPER)
    if average:
        attributes["count_include_pad"] = int(bool(c.integer(6)))
    c.result(kind, [c.shaped((1, *shape))], attributes)


def _full_windows(sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], pads: tuple[int, ...]) -> Attributes:
    """Round the output size up; pad instead where the last window begins beyond the input, which ONNX leaves out."""
    rank = len(sizes)
    missing = [-(size + pads[axis] + pads[axis + rank] - kernel[axis]) % strides[axis] for axis, size in enumerate(sizes)]
    if not any(missing):
        return {}
    ends = [
        size + pads[axis] + pads[axis + rank] + missing[axis] - kernel[axis] < size + pads[axis]
        for axis, size in enumerate(sizes)
    ]
    if all(ends):
        return {"ceil_mode": 1}
    return {"pads": (*pads[:rank], *(pad + more for pad, more in zip(pads[rank:], missing, strict=True)))}


def unfold(c: Conversion) -> None:
    """Lay the elements of each window in a column: gather them from the padded map."""
    kernel, dilations, strides = (_of_axes(c, keys, 2, least) for keys, least in ((_KERNEL, 0), (_DILATION, 1), (_STRIDE, 1)))
    positive(kernel=kernel, dilations=dilations, strides=strides)
    channels, *sizes = _map(c, 2)
    pads = _pads(c, _BEGINS, _ENDS, 2)
    x = c.shaped((1, channels, *sizes))
    if any(pads):
        x = c.op("Pad", [x, c.assembly.constant([0, 0, *pads[:2], 0, 0, *pads[2:]], "int64"), c.scalar(c.number(18, 0.0))])
    padded = [size + pads[axis] + pads[axis + 2] for axis, size in enumerate(sizes)]
    windows = [
        (size - dilation * (k - 1) - 1) // stride + 1
        for size, k, dilation, stride in zip(padded, kernel, dilations, strides, strict=True)
    ]
    positive(windows=windows)
    places = c.weight(prod(kernel), prod(windows), dtype="int64")
    x = c.op("Gather", [c.reshape(x, (1, channels, prod(padded))), places], {"axis": 2})
    target = c.assembly.constant([1, channels * prod(kernel), prod(windows)], "int64")
    c.result("Reshape", [x, target])


def fold(c: Conversion) -> None:
    """Add up the elements of columns in the places of the windows that they were taken from."""
    kernel, dilations, strides = (_of_axes(c, keys, 2, least) for keys, least in ((_KERNEL, 0), (_DILATION, 1), (_STRIDE, 1)))
    image = _of_axes(c, (20, 21), 2, 0)
    positive(kernel=kernel, dilations=dilations, strides=strides, image=image)
    attributes: Attributes = {"dilations": dilations, "strides": strides, "pads": _pads(c, _BEGINS, _ENDS, 2)}
    c.result("Col2Im", [c.plain(), c.assembly.constant(image, "int64"), c.assembly.constant(kernel, "int64")], attributes)
