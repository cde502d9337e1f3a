"""Operators that are several plain ones in another order: deformable convolutions, biases by position, padding of tokens.

Sources: ONNX Runtime's ContribOperators.md, ONNX's Operators.md for DeformConv.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from latcast.graph.importers.onnx_steps import MICROSOFT, NoRuleError, Rule, Steps, rename


def _causal_conv(build: Steps) -> None:
    """Add the past, a depthwise convolution along the last axis, and what is the past of the next step."""
    x, weight, bias, past = (build.input(index) for index in range(4))
    if build.node.integer("state_window"):
        raise NoRuleError
    last = build.node.integer("channels_last")
    x, past = (build.channels_first(name) if last and name else name for name in (x, past))
    kernel, dilation, rank = build.shape(weight)[2:], build.node.integer("dilation", 1), len(build.shape(x))
    room = (kernel[-1] - 1) * dilation
    around = [(size - 1) // 2 for size in kernel[:-1]]
    pads = (*around, 0 if past else room, *(size - 1 - pad for size, pad in zip(kernel[:-1], around, strict=True)), 0)
    joined = build("Concat", past, x, axis=rank - 1) if past and room else x
    y = build("Conv", joined, weight, bias, group=build.shape(weight)[0], kernel_shape=kernel, pads=pads,
              dilations=(*(1 for _ in kernel[:-1]), dilation))  # fmt: skip
    if build.output(1) and room:
        size = build.shape(joined)[-1]
        if size < room:
            before = build.integers(*(0,) * (rank - 1), room - size, *(0,) * rank)
            kept = build("Pad", joined, before)
        else:
            kept = build("Slice", joined, *map(build.integers, (size - room, size, rank - 1)))
        build.give(1, build.channels_last(kept) if last else kept)
    y = build.activation(build.node.text("activation", "none"), y)
    build.give(0, build.channels_last(y) if last else y)


def _deformable_conv(build: Steps) -> None:
    """Add a sample of the image for each tap of each output, then a convolution that reads each patch of samples once."""
    x, weight, offsets, bias, mask = (build.input(index) for index in range(5))
    batch, channels, *image = build.shape(x)
    kernel = build.shape(weight)[2:]
    taps, axes, groups = prod(kernel), len(kernel), build.node.integer("offset_group", 1)
    if len(build.shape(offsets)) != axes + 2 or build.shape(offsets)[1] != groups * axes * taps:
        raise NoRuleError
    out = build.shape(offsets)[2:]
    patches = tuple(size * k for size, k in zip(out, kernel, strict=True))
    # From (taps, axes, positions) to the positions of a map in which the taps of each output lie side by side.
    parted = build.reshape(offsets, batch * groups, *kernel, axes, *out)
    order = (0, *(place for axis in range(axes) for place in (2 + axes + axis, 1 + axis)), 1 + axes)
    grid = build.reshape(build("Transpose", parted, perm=order), batch * groups, *patches, axes)
    grid = build("Add", grid, build.weight("places", (1, *patches, axes), build.dtype(offsets)))
    images = build.reshape(x, batch * groups, channels // groups, *image)
    samples = build("GridSample", images, grid, mode="linear")
    if mask:
        weights = build.reshape(mask, batch * groups, *kernel, *out)
        order = (0, *(place for axis in range(axes) for place in (1 + axes + axis, 1 + axis)))
        weights = build.reshape(build("Transpose", weights, perm=order), batch * groups, 1, *patches)
        samples = build("Mul", samples, weights)
    samples = build.reshape(samples, batch, channels, *patches)
    build.end("Conv", samples, weight, bias, group=build.node.integer("group", 1), kernel_shape=kernel, strides=kernel)


def _constant_pads(build: Steps) -> None:
    """Add ConvTransposeWithDynamicPads, whose pads are an input."""
    attributes = dict(build.node.attributes)
    if build.input(2):
        attributes["pads"] = build.numbers(2)
    build.end("ConvTranspose", *build.node.inputs[:2], build.input(3), **attributes)


def _distances(build: Steps) -> None:
    """Add CDist: of two lists of vectors the product of each with each, and the root of what it gives."""
    first, second = build.node.inputs[:2]
    products = build("Abs", build("MatMul", first, build("Transpose", second, perm=(1, 0))))
    build.give(0, build("Sqrt", products) if build.node.text("metric") == "euclidean" else products)


def _position_bias(build: Steps) -> None:
    """Add RelativePositionBias: a table's row for every distance of a query from a key, (1, heads, queries, keys)."""
    table, (queries, *_), (keys, *_) = build.input(0), build.numbers(1), build.numbers(2)
    heads = build.shape(table)[1]
    rows = build("Gather", table, build.weight("distances", (queries * keys,), "int64"), axis=0)
    build.end("Reshape", build("Transpose", rows, perm=(1, 0)), build.integers(1, heads, queries, keys))


def _gated_position_bias(build: Steps) -> None:
    """Add GatedRelativePositionBias: two gates from the queries of each head, which scale its bias."""
    query, bias, positions, weight, added, eco = build.node.inputs[:6]
    if build.input(6) or len(build.shape(query)) != 3:
        raise NoRuleError
    batch, tokens, width = build.shape(query)
    heads = build.node.integer("num_heads", 1)
    parted = build.reshape(build("Add", query, bias), batch, tokens, heads, width // heads)
    gates = build("Add", build("MatMul", build("Transpose", parted, perm=(0, 2, 1, 3)), weight), added)
    half = build.shape(gates)[-1] // 2
    summed = build("ReduceSum", build.reshape(gates, batch, heads, tokens, 2, half), axes=(4,), keepdims=0)
    first, second = build.split(build("Sigmoid", summed), 3, 1, 1)
    build.end("Mul", build("Add", build("Mul", build("Mul", first, second), eco), second), positions)


def _without_padding(build: Steps) -> None:
    """Add RemovePadding, as if no sequence had any: tokens one behind the other, and where they come from."""
    x = build.input(0)
    batch, tokens, width = build.shape(x)
    for index, shape in enumerate(((batch, tokens), (batch + 1,), (1,)), 1):
        build.give(index, build.weight("offsets", shape, "int32"))
    kept = build.weight("kept", (batch * tokens,), "int64")
    build.end("Gather", build.reshape(x, batch * tokens, width), kept, axis=0)


def _with_padding(build: Steps) -> None:
    x, offsets = build.node.inputs[:2]
    batch, tokens = build.shape(offsets)
    index = build.weight("places", (batch * tokens,), "int64")
    build.end("Reshape", build("Gather", x, index, axis=0), build.integers(batch, tokens, build.shape(x)[1]))


def _crop_and_resize(build: Steps) -> None:
    height, width = build.numbers(3)
    build.end("RoiAlign", *build.node.inputs[:3], output_height=height, output_width=width, sampling_ratio=1)


# Operators that ONNX had before it settled on its own, which ONNX Runtime still runs


def _scaled(inner: str) -> Rule:
    """Return a rule to alpha f(beta x), or without a function to alpha x + beta."""

    def rule(build: Steps) -> None:
        x, dtype = build.input(0), build.dtype(build.input(0))
        alpha, beta = (build.number(build.node.real(name, 1.0), dtype) for name in ("alpha", "beta"))
        if inner:
            build.end("Mul", build(inner, build("Mul", x, beta)), alpha)
        else:
            build.end("Add", build("Mul", x, alpha), beta)

    return rule


def _scaled_image(build: Steps) -> None:
    x = build.input(0)
    channels, dtype = build.shape(x)[1], build.dtype(x)
    scaled = build("Mul", x, build.number(build.node.real("scale", 1.0), dtype))
    build.end("Add", scaled, build.weight("bias", (channels, 1, 1), dtype))


def _crop(build: Steps) -> None:
    """Add a slice without the border (left, top, right, bottom), or of a given size from left and top."""
    height, width = build.shape(build.input(0))[2:]
    left, top, right, bottom = (*build.node.integers("border"), 0, 0, 0, 0)[:4]
    ends = (height - bottom, width - right)
    if "scale" in build.node.attributes:
        tall, wide = build.node.integers("scale")
        ends = (top + tall, left + wide)
    build.end("Slice", build.input(0), build.integers(top, left), build.integers(*ends), build.integers(2, 3))


def _spectrum(build: Steps) -> None:
    """Add Rfft: real numbers in, real and imaginary parts on a last axis."""
    x = build.input(0)
    if build.node.integer("signal_ndim", 1) != 1:
        raise NoRuleError
    signal = build("Unsqueeze", x, build.integers(-1))
    axis = build.assembly.constant(len(build.shape(x)) - 1, "int64")
    build.end("DFT", signal, "", axis, onesided=build.node.integer("onesided", 1))


def _signal(build: Steps) -> None:
    """Add Irfft: real and imaginary parts of one half in, real numbers out."""
    x = build.input(0)
    if build.node.integer("signal_ndim", 1) != 1:
        raise NoRuleError
    axis = build.assembly.constant(len(build.shape(x)) - 2, "int64")
    build.end("Squeeze", build("DFT", x, "", axis, onesided=1, inverse=1), build.integers(-1))


_OF_MICROSOFT: Mapping[str, Rule] = {
    "CDist": _distances,
    "CausalConvWithState": _causal_conv,
    "ConvTransposeWithDynamicPads": _constant_pads,
    "CropAndResize": _crop_and_resize,
    "ExpandDims": lambda build: build.end("Unsqueeze", build.input(0), build.integers(*build.numbers(1)[:1])),
    "GatedRelativePositionBias": _gated_position_bias,
    "GatherND": rename("GatherND"),
    "GridSample": rename("GridSample"),
    "Irfft": _signal,
    "LinearAttention": rename("LinearAttention"),
    "MaxpoolWithMask": rename("MaxPool", 1),
    "Pad": rename("Pad"),
    "Range": rename("Range"),
    "RelativePositionBias": _position_bias,
    "RemovePadding": _without_padding,
    "RestorePadding": _with_padding,
    "Rfft": _spectrum,
    "TorchEmbedding": rename("Gather", 2),
    "Trilu": rename("Trilu"),
    "Unique": rename("Unique"),
}

REWRITTEN: Mapping[tuple[str, str], Rule] = {
    ("", "Affine"): _scaled(""),
    ("", "CausalConvWithState"): _causal_conv,
    ("", "Crop"): _crop,
    ("", "DeformConv"): _deformable_conv,
    ("", "ImageScaler"): _scaled_image,
    ("", "ParametricSoftplus"): _scaled("Softplus"),
    ("", "ScaledTanh"): _scaled("Tanh"),
    **{(MICROSOFT, name): rule for name, rule in _OF_MICROSOFT.items()},
}
