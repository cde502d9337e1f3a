"""Convolutions, matrix products and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

from latcast.errors import counted
from latcast.graph.ir import Tensor
from latcast.graph.operators.table import InferShapes, Kind, Operator, OperatorView, define


def _of_axes(view: OperatorView, name: str, count: int, default: int) -> tuple[int, ...]:
    """Return an attribute with a number for each axis, or for each end of an axis."""
    numbers = view.node.integers(name, (default,) * count)
    if len(numbers) != count:
        raise view.fail(f"'{name}' has {len(numbers)} numbers; expected {count}")
    return numbers


def spatial_pads(
    view: OperatorView,
    sizes: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> tuple[int, ...]:
    """Return the padding at the begin of each axis, then at the end, with ``auto_pad`` worked out."""
    rank = len(sizes)
    mode = view.node.text("auto_pad", "NOTSET")
    if mode in ("NOTSET", ""):
        return _of_axes(view, "pads", 2 * rank, 0)
    if mode == "VALID":
        return (0,) * (2 * rank)
    extents = [(k - 1) * dilation + 1 for k, dilation in zip(kernel, dilations, strict=True)]
    return same_pads(sizes, extents, strides, upper=mode == "SAME_UPPER")


def same_pads(sizes: Sequence[int], extents: Sequence[int], strides: Sequence[int], *, upper: bool) -> tuple[int, ...]:
    """Return pads that let a window give ceil(size / stride) numbers; see :func:`halved_pads`."""
    windows = zip(sizes, extents, strides, strict=True)
    return halved_pads([max(extent + (size - 1) // stride * stride - size, 0) for size, extent, stride in windows], upper=upper)


def halved_pads(totals: Sequence[int], *, upper: bool) -> tuple[int, ...]:
    """Return the padding at the begin of each axis, then at the end, where the odd one is, or is not."""
    small, large = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return (*small, *large) if upper else (*large, *small)


def transposed_surplus(
    sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], wanted: Sequence[int]
) -> list[int]:
    """Return by how much a transposed convolution without padding gives more than the sizes that are wanted."""
    axes = zip(sizes, kernel, strides, dilations, wanted, strict=True)
    return [(size - 1) * stride + (k - 1) * dilation + 1 - goal for size, k, stride, dilation, goal in axes]


def window_output(
    view: OperatorView, sizes: tuple[int, ...], kernel: tuple[int, ...], *, ceil_mode: bool = False
) -> tuple[int, ...]:
    """Return the output sizes of a sliding window (ONNX Conv, MaxPool)."""
    rank = len(sizes)
    strides = _of_axes(view, "strides", rank, 1)
    dilations = _of_axes(view, "dilations", rank, 1)
    pads = spatial_pads(view, sizes, kernel, strides, dilations)
    result = []
    for axis in range(rank):
        room = sizes[axis] + pads[axis] + pads[axis + rank] - dilations[axis] * (kernel[axis] - 1) - 1
        if room < 0:
            raise view.fail(f"a window of {kernel[axis]} is larger than its padded input {sizes[axis]}")
        steps = -(-room // strides[axis]) if ceil_mode else room // strides[axis]
        # A last window that would start in the right padding is dropped (ONNX, PyTorch).
        if ceil_mode and steps * strides[axis] >= sizes[axis] + pads[axis]:
            steps -= 1
        result.append(steps + 1)
    return tuple(result)


def infer_conv(view: OperatorView) -> list[Tensor]:
    x, w = view.shape(0), view.shape(1)
    groups = view.node.integer("group", 1)
    if len(x) != len(w) or len(x) < 3:
        raise view.fail(f"input rank {len(x)} and weight rank {len(w)} do not belong together")
    if x[1] != w[1] * groups or w[0] % groups:
        raise view.fail(f"{x[1]} input channels do not fit a weight of shape {list(w)} in {counted(groups, 'group')}")
    return [Tensor((x[0], w[0], *window_output(view, x[2:], w[2:])), view.dtype())]


def infer_conv_transpose(view: OperatorView) -> list[Tensor]:
    x, w = view.shape(0), view.shape(1)
    rank = len(x) - 2
    groups = view.node.integer("group", 1)
    if x[1] != w[0]:
        raise view.fail(f"{x[1]} input channels do not fit a weight of shape {list(w)}")
    given = view.node.integers("output_shape")
    if given:
        return [Tensor((x[0], w[1] * groups, *given[-rank:]), view.dtype())]
    strides = _of_axes(view, "strides", rank, 1)
    dilations = _of_axes(view, "dilations", rank, 1)
    pads = _of_axes(view, "pads", 2 * rank, 0)
    extra = _of_axes(view, "output_padding", rank, 0)
    mode = view.node.text("auto_pad", "NOTSET")
    sizes = []
    for axis in range(rank):
        full = (x[2 + axis] - 1) * strides[axis] + extra[axis] + (w[2 + axis] - 1) * dilations[axis] + 1
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            # Padding is never negative: a kernel smaller than its stride leaves the map smaller.
            full = min(full, x[2 + axis] * strides[axis])
        elif mode != "VALID":
            full -= pads[axis] + pads[axis + rank]
        sizes.append(full)
    return [Tensor((x[0], w[1] * groups, *sizes), view.dtype())]


def infer_gemm(view: OperatorView) -> list[Tensor]:
    a, b = view.shape(0), view.shape(1)
    if len(a) != 2 or len(b) != 2:
        raise view.fail("expected two matrices")
    rows, inner = (a[1], a[0]) if view.node.integer("transA") else (a[0], a[1])
    inner_b, columns = (b[1], b[0]) if view.node.integer("transB") else (b[0], b[1])
    if inner != inner_b:
        raise view.fail(f"inner dimensions {inner} and {inner_b} differ")
    return [Tensor((rows, columns), view.dtype())]


def broadcast(view: OperatorView, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the common shape by NumPy's broadcasting."""
    if shapes and shapes.count(shapes[0]) == len(shapes):
        return shapes[0]
    rank = max((len(shape) for shape in shapes), default=0)
    result = []
    for axis in range(rank):
        sizes = {shape[axis - rank + len(shape)] for shape in shapes if axis - rank + len(shape) >= 0} - {1}
        if len(sizes) > 1:
            raise view.fail(f"sizes {sorted(sizes)} do not broadcast")
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def infer_matmul(view: OperatorView) -> list[Tensor]:
    a, b = view.shape(0), view.shape(1)
    left = (1, *a) if len(a) == 1 else a
    right = (*b, 1) if len(b) == 1 else b
    if left[-1] != right[-2]:
        raise view.fail(f"inner dimensions {left[-1]} and {right[-2]} differ")
    shape = [*broadcast(view, left[:-2], right[:-2])]
    if len(a) > 1:
        shape.append(left[-2])
    if len(b) > 1:
        shape.append(right[-1])
    return [Tensor(tuple(shape), view.dtype())]


def macs(view: OperatorView) -> int:
    """Count multiply-accumulates of a convolution or a matrix product; grouped convolutions count per group."""
    op_type = view.node.op_type
    if op_type in ("Conv", "ConvInteger"):
        w = view.shape(1)
        return view.outputs[0].elements * prod(w[1:])
    if op_type == "ConvTranspose":
        x, w = view.shape(0), view.shape(1)
        return prod(x) * prod(w[1:])
    if op_type == "Gemm":
        a = view.shape(0)
        return view.outputs[0].elements * (a[0] if view.node.integer("transA") else a[1])
    return view.outputs[0].elements * view.shape(0)[-1]


def flops_linear(view: OperatorView) -> int:
    """Count two per multiply-accumulate, one per output for a bias."""
    bias = view.outputs[0].elements if view.has_input(2) else 0
    return 2 * macs(view) + bias


def flops_integer(view: OperatorView) -> int:
    """Count two per multiply-accumulate: inputs 2 and 3 of integer products are zero points, not a bias."""
    return 2 * macs(view)


def as_int32(infer: InferShapes) -> InferShapes:
    """Return the inference of a product of integers, which accumulates in 32 bits."""

    def infer_int32(view: OperatorView) -> list[Tensor]:
        return [Tensor(tensor.shape, "int32") for tensor in infer(view)]

    return infer_int32


def infer_pool(view: OperatorView) -> list[Tensor]:
    x = view.shape()
    kernel = view.node.integers("kernel_shape")
    if len(kernel) != len(x) - 2:
        raise view.fail(f"kernel_shape {list(kernel)} does not fit an input of rank {len(x)}")
    ceil_mode = bool(view.node.integer("ceil_mode"))
    shape = (x[0], x[1], *window_output(view, x[2:], kernel, ceil_mode=ceil_mode))
    outputs = [Tensor(shape, view.dtype())]
    if len(view.node.outputs) > 1:
        outputs.append(Tensor(shape, "int64"))
    return outputs


def infer_global_pool(view: OperatorView) -> list[Tensor]:
    x = view.shape()
    return [Tensor((x[0], x[1], *(1 for _ in x[2:])), view.dtype())]


def flops_pool(view: OperatorView) -> int:
    """Count one per element of every window."""
    return view.outputs[0].elements * prod(view.node.integers("kernel_shape"))


def flops_global_pool(view: OperatorView) -> int:
    return prod(view.shape())


_product = partial(Operator, flops=flops_linear, macs=macs, kind=Kind.PRODUCT)
_integers = partial(Operator, flops=flops_integer, macs=macs, kind=Kind.QUANTISED)
_pool = partial(Operator, infer=infer_pool, flops=flops_pool, kind=Kind.POOL, keeps_channels=True)
_global_pool = partial(Operator, infer=infer_global_pool, flops=flops_global_pool, kind=Kind.GLOBAL_POOL, keeps_channels=True)
_WEIGHT_AND_BIAS, _EITHER_SIDE = frozenset({1, 2}), frozenset({0, 1})

define(
    _product("Conv", infer_conv, learned=_WEIGHT_AND_BIAS, channels=True),
    _product("ConvTranspose", infer_conv_transpose, learned=_WEIGHT_AND_BIAS, channels=True),
    _product("Gemm", infer_gemm, word="linear", learned=_WEIGHT_AND_BIAS, last_axes=True),
    _product("MatMul", infer_matmul, word="linear", learned=_EITHER_SIDE, last_axes=True),
    Operator("ConvInteger", as_int32(infer_conv), flops_integer, macs, word="conv", kind=Kind.QUANTISED, learned=frozenset({1})),
    Operator(
        "MatMulInteger", as_int32(infer_matmul), flops_integer, macs, word="linear", kind=Kind.QUANTISED, learned=_EITHER_SIDE
    ),
    _pool("MaxPool", combines="max", channels=True, dequantises_late=True),
    _pool("AveragePool", combines="mean", channels=True),
    _pool("LpPool"),
    _global_pool("GlobalAveragePool", combines="mean", channels=True),
    _global_pool("GlobalMaxPool", combines="max", channels=True),
    _global_pool("GlobalLpPool"),
)
