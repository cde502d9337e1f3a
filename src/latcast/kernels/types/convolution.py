"""Convolutions: dense, depthwise, grouped, transposed; those that a backend runs by a special algorithm; two as one kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from latcast.graph.ir import AttributeValue, Graph, Node
from latcast.graph.operators.linear import spatial_pads
from latcast.graph.operators.table import view_of
from latcast.kernels.types.kernel_type import (
    LINE_ELEMENTS,
    Columns,
    KernelType,
    NotThisType,
    Quantities,
    add_kernel_type,
    add_kernel_variant,
    filled_lanes,
    missed,
    one_class,
)

if TYPE_CHECKING:
    from latcast.graph.builder import GraphBuilder

FIELDS = (
    "batch", "in_channels", "in_h", "in_w", "out_channels", "out_h", "out_w", "kernel_h", "kernel_w", "stride_h",
    "stride_w", "dilation_h", "dilation_w", "groups", "padded",
)  # fmt: skip


def extract(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return the fields of a Conv or ConvTranspose, 1-D ones with height 1; a 3-D Conv is a ``conv_3d``."""
    node, tensors = nodes[0], graph.tensors
    x, w, y = tensors[node.inputs[0]].shape, tensors[node.inputs[1]].shape, tensors[node.outputs[0]].shape
    rank = len(x) - 2
    if not 1 <= rank <= 2:
        raise NotThisType("conv_3d" if rank == 3 and node.op_type != "ConvTranspose" else "other")
    strides, dilations = (node.integers(name, (1,) * rank) for name in ("strides", "dilations"))
    pads = node.integers("pads")
    if "auto_pad" in node.attributes and node.op_type == "Conv":
        pads = spatial_pads(view_of(graph, node), x[2:], w[2:], strides, dilations)
    groups, padded = node.integer("group", 1), int(any(pads))
    if rank == 1:
        return (*x[:2], 1, x[2], y[1], 1, y[2], 1, w[2], 1, strides[0], 1, dilations[0], groups, padded)
    return (*x, *y[1:], *w[2:], *strides, *dilations, groups, padded)


def quantities(c: Columns) -> Quantities:
    """Return FLOPs = 2 MACs; a MAC for every output and every filter element of its group (papers: 2 N Ho Wo Co Kh Kw Ci/g)."""
    taps = c["kernel_h"] * c["kernel_w"] * c["in_channels"] / c["groups"]
    outputs = c["batch"] * c["out_channels"] * c["out_h"] * c["out_w"]
    return Quantities(
        2 * outputs * taps, c["batch"] * c["in_channels"] * c["in_h"] * c["in_w"], outputs, taps * c["out_channels"]
    )


def transposed_quantities(c: Columns) -> Quantities:
    inputs = c["batch"] * c["in_channels"] * c["in_h"] * c["in_w"]
    taps = c["kernel_h"] * c["kernel_w"] * c["out_channels"] / c["groups"]
    outputs = c["batch"] * c["out_channels"] * c["out_h"] * c["out_w"]
    return Quantities(2 * inputs * taps, inputs, outputs, taps * c["in_channels"])


def features(c: Columns) -> Mapping[str, np.ndarray]:
    """Return the work of blocked implementations: channels rounded up to the vector, tiles, transforms (Winograd)."""
    group_in = c["in_channels"] / c["groups"]
    group_out = c["out_channels"] / c["groups"]
    pixels = c["batch"] * c["out_h"] * c["out_w"]
    taps = c["kernel_h"] * c["kernel_w"]
    blocked = {
        f"macs_blocked_{lanes}": pixels * taps * group_in * np.ceil(group_out / lanes) * lanes * c["groups"]
        for lanes in (4, 8, 16)
    }
    tiles = c["batch"] * np.ceil(c["out_h"] / 4) * np.ceil(c["out_w"] / 4)
    return {
        **blocked,
        "reduction": taps * group_in,
        "group_in_channels": group_in,
        "group_out_channels": group_out,
        "group_in_channels_mod_16": group_in % 16,
        "group_out_channels_mod_16": group_out % 16,
        "in_channels_mod_16": c["in_channels"] % 16,
        "out_channels_mod_16": c["out_channels"] % 16,
        "channels_mod_4": (c["in_channels"] % 4) + (c["out_channels"] % 4),
        **filled_lanes(group_out),
        "output_pixels": pixels,
        "out_w_mod_8": c["out_w"] % 8,
        "im2col_elements": pixels * taps * c["in_channels"],
        "winograd_macs": 36 * tiles * group_in * c["out_channels"],
        "winograd_transforms": 36 * tiles * (c["in_channels"] + c["out_channels"]),
        "border_share": 1 - (c["out_h"] * c["stride_h"] * c["out_w"] * c["stride_w"])
        / ((c["out_h"] * c["stride_h"] + c["kernel_h"]) * (c["out_w"] * c["stride_w"] + c["kernel_w"])),
    }  # fmt: skip


VOLUME_FIELDS = (
    "batch", "in_channels", "in_d", "in_h", "in_w", "out_channels", "out_d", "out_h", "out_w", "kernel_d", "kernel_h",
    "kernel_w", "stride_d", "stride_h", "stride_w", "groups",
)  # fmt: skip


def extract_volume(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return the fields of a three-dimensional Conv."""
    node = nodes[0]
    x, w, y = (graph.shape(name) for name in (*node.inputs[:2], node.outputs[0]))
    strides = node.integers("strides", (1, 1, 1))
    return (*x, *y[1:], *w[2:], *strides, node.integer("group", 1))


def volume_quantities(c: Columns) -> Quantities:
    """Return the same as :func:`quantities`, with a third axis."""
    taps = c["kernel_d"] * c["kernel_h"] * c["kernel_w"] * c["in_channels"] / c["groups"]
    outputs = c["batch"] * c["out_channels"] * c["out_d"] * c["out_h"] * c["out_w"]
    inputs = c["batch"] * c["in_channels"] * c["in_d"] * c["in_h"] * c["in_w"]
    return Quantities(2 * outputs * taps, inputs, outputs, taps * c["out_channels"])


def volume_features(c: Columns) -> Mapping[str, np.ndarray]:
    taps = c["kernel_d"] * c["kernel_h"] * c["kernel_w"] * c["in_channels"] / c["groups"]
    return {"reduction": taps, "output_voxels": c["batch"] * c["out_d"] * c["out_h"] * c["out_w"]}


def _unaligned(c: Columns) -> np.ndarray:
    """Return the suffix of kernels whose channels are not a multiple of 4, for which a slow path runs."""
    odd = (c["in_channels"] % 4 != 0) | (c["out_channels"] % 4 != 0)
    return np.where(odd, " unaligned", "")


def dense_class(c: Columns) -> np.ndarray:
    """Return classes by algorithm: 1x1 as a product, 3x3 at stride 1 perhaps as Winograd, the first layer by its few channels."""
    k = np.maximum(c["kernel_h"], c["kernel_w"])
    strided = np.maximum(c["stride_h"], c["stride_w"]) > 1
    names = np.select(
        [k == 1, k == 3],
        [np.where(strided, "conv 1x1 strided", "conv 1x1"), np.where(strided, "conv 3x3 strided", "conv 3x3")],
        "conv kxk",
    )
    pixels = c["in_h"] * c["in_w"]
    names = np.where(pixels == 1, "conv on a vector", names)
    # Narrow networks have 1x1 convolutions of four or six channels inside; an image has three at most.
    first = np.where(k > 1, c["in_channels"] < 8, (c["in_channels"] <= 3) & (pixels > 1))
    return np.where(first, "conv first", np.char.add(names, _unaligned(c))).astype(object)


def depthwise_class(c: Columns) -> np.ndarray:
    """Return classes by filter and stride; several outputs a channel are a separate class, as generic loops run them."""
    k = np.maximum(c["kernel_h"], c["kernel_w"])
    strided = np.maximum(c["stride_h"], c["stride_w"]) > 1
    names = np.where(k <= 3, "depthwise 3x3", np.where(k <= 5, "depthwise kxk", "depthwise wide"))
    names = np.char.add(names, np.where(strided, " strided", ""))
    names = np.char.add(names, _unaligned(c))
    return np.where(c["out_channels"] > c["in_channels"], "depthwise multiplied", names).astype(object)


def grouped_class(c: Columns) -> np.ndarray:
    """Return classes with groups of a single channel separate: a loop over channels inside them costs only its start."""
    return np.where(c["in_channels"] == c["groups"], "conv grouped single", "conv grouped").astype(object)


def padding(size: int, out: int, window: int, stride: int, *, at_least: int = 0) -> tuple[int, int]:
    """Return the pixels before and after an axis of ``size`` with which a window gives ``out`` positions.

    The least symmetric amount (from ``at_least`` on, where the positions stay the same), as PyTorch pads; where none does,
    the odd pixel is at the end.
    """
    total = max((out - 1) * stride + window - size, 0)
    each = max(-(-total // 2), at_least)
    if each < window and (size + 2 * each - window) // stride + 1 == out:
        return each, each
    return total // 2, total - total // 2


def _write(
    builder: GraphBuilder,
    op_type: str,
    c: Mapping[str, int],
    pads: Sequence[tuple[int, int]],
    axes: str = "hw",
    **others: AttributeValue,
) -> str:
    """Add a convolution on its own, with pixels before and after each axis."""
    channels = (c["out_channels"], c["in_channels"]) if op_type == "Conv" else (c["in_channels"], c["out_channels"])
    kernel = tuple(c[f"kernel_{axis}"] for axis in axes)
    x = builder.input((c["batch"], c["in_channels"], *(c[f"in_{axis}"] for axis in axes)))
    weight = builder.weight((channels[0], channels[1] // c["groups"], *kernel), stem="conv_weight")
    attributes: dict[str, AttributeValue] = {
        "kernel_shape": kernel,
        "strides": tuple(c[f"stride_{axis}"] for axis in axes),
        "pads": (*(begin for begin, _ in pads), *(end for _, end in pads)),
        "group": c["groups"],
    }
    inputs = [x, weight, builder.weight((c["out_channels"],), stem="conv_bias")]
    return builder.op(op_type, inputs, attributes | others)[0]


def build_volume(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    """Add a three-dimensional convolution, padded as its sizes imply."""
    pads = [padding(c[f"in_{axis}"], c[f"out_{axis}"], c[f"kernel_{axis}"], c[f"stride_{axis}"]) for axis in "dhw"]
    return _write(builder, "Conv", c, pads, "dhw")


def _windows(c: Mapping[str, int]) -> dict[str, int]:
    return {axis: (c[f"kernel_{axis}"] - 1) * c[f"dilation_{axis}"] + 1 for axis in "hw"}


def build(builder: GraphBuilder, configuration: Mapping[str, int]) -> str:
    """Add a convolution on its own, padded as its sizes imply."""
    c = configuration
    pads = [(0, 0), (0, 0)]
    if c["padded"]:
        pads = [
            padding(c[f"in_{axis}"], c[f"out_{axis}"], window, c[f"stride_{axis}"], at_least=1)
            for axis, window in _windows(c).items()
        ]
    return _write(builder, "Conv", c, pads, dilations=(c["dilation_h"], c["dilation_w"]))


def build_transposed(builder: GraphBuilder, configuration: Mapping[str, int]) -> str:
    """Add a transposed convolution on its own, with as little padding as its sizes allow."""
    c = configuration
    pads, extra = [], []
    for axis, window in _windows(c).items():
        surplus = (c[f"in_{axis}"] - 1) * c[f"stride_{axis}"] + window - c[f"out_{axis}"]
        # Symmetric padding with one output pixel added back, as PyTorch writes the odd case.
        each = max(-(-surplus // 2), c["padded"])
        pads.append((each, each))
        extra.append(2 * each - surplus)
    dilations = (c["dilation_h"], c["dilation_w"])
    return _write(builder, "ConvTranspose", c, pads, dilations=dilations, output_padding=tuple(extra))


CONV = add_kernel_type(KernelType("conv", FIELDS, ("conv",), extract, quantities, dense_class, features, build))
DEPTHWISE_CONV = add_kernel_type(
    KernelType("depthwise_conv", FIELDS, ("depthwise_conv",), extract, quantities, depthwise_class, features, build)
)
GROUPED_CONV = add_kernel_type(
    KernelType("grouped_conv", FIELDS, ("grouped_conv", "conv_in_groups"), extract, quantities, grouped_class, features, build)
)
CONV_3D = add_kernel_type(
    KernelType(
        "conv_3d", VOLUME_FIELDS, (), extract_volume, volume_quantities, one_class("conv 3d"), volume_features,
        build_volume,
    )
)  # fmt: skip
CONV_TRANSPOSE = add_kernel_type(
    KernelType(
        "conv_transpose",
        FIELDS,
        ("conv_transpose",),
        extract,
        transposed_quantities,
        one_class("conv transposed"),
        features,
        build_transposed,
    )
)

WINOGRAD_TILE = 4
"""Outputs of a tile along each axis, F(4x4, 3x3)."""

WINOGRAD_POINTS = 36
"""Multiplications for a tile of 16 outputs, which take 144 otherwise."""


def winograd_tiles(c: Columns, tile: int = WINOGRAD_TILE) -> np.ndarray:
    return c["batch"] * np.ceil(c["out_h"] / tile) * np.ceil(c["out_w"] / tile)


def winograd_quantities(tile: int) -> Callable[[Columns], Quantities]:
    """Return the work of transformed tiles, a matrix product a point, and the way back (Lavin and Gray §4).

    Between them the transformed tiles are written and read; the transforms' own additions are few beside that. The filters
    are stored transformed: for 9 values 36 where a tile is of 4x4 outputs, 64 where it is of 6x6.
    """
    points = (tile + 2) ** 2

    def of_tiles(c: Columns) -> Quantities:
        plain, tiles = quantities(c), winograd_tiles(c, tile)
        channels = c["in_channels"] + c["out_channels"]
        pairs = c["in_channels"] * c["out_channels"] / c["groups"]
        return Quantities(
            2 * points * tiles * pairs,
            plain.input_elements + 2 * points * tiles * channels,
            plain.output_elements,
            points * pairs,
        )

    return of_tiles


NARROW = LINE_ELEMENTS
"""Channels that a vector of AVX-512 holds in fp32, as many as a line of a cache."""

SECOND_CACHE = (2048, 8)
"""Sets and ways of the second cache: 1 MiB."""

FAR_CHANNELS = 512
"""Channels from which on pixels lie 2 KiB or further apart, too far for the processor's prefetching."""

FETCHED = 64
"""Elements that are read in order in the time of one line that was not prefetched."""


def narrow_quantities(c: Columns) -> Quantities:
    """Return the work of groups narrower than a vector, one after the other on maps whose channels lie last.

    Beside the work of :func:`direct_quantities`: a group goes over the whole map, and its pixels are as far apart as the map has
    channels. Where they are far apart and do not all fit into the sets of the second cache that they fall into, a line is
    fetched for each.
    """
    direct = direct_quantities(c)
    pixels = c["in_h"] * c["in_w"] + c["out_h"] * c["out_w"]
    lost = np.where(c["in_channels"] >= FAR_CHANNELS, missed(pixels, c["in_channels"], SECOND_CACHE), 0.0)
    return replace(direct, input_elements=direct.input_elements + FETCHED * lost * c["batch"] * c["groups"] * pixels)


def direct_quantities(c: Columns) -> Quantities:
    """Return the work of groups of integers narrower than a vector: whole vectors, whatever share of their lanes a group has."""
    plain = quantities(c)
    group_out = c["out_channels"] / c["groups"]
    vectors = np.ceil(group_out / NARROW) * NARROW / group_out
    return replace(plain, flops=plain.flops * vectors, output_elements=plain.output_elements * vectors)


def narrow_class(c: Columns) -> np.ndarray:
    """Return classes with groups of whole quarters of a vector separate from others."""
    odd = (c["in_channels"] / c["groups"] % 4 != 0) | (c["out_channels"] / c["groups"] % 4 != 0)
    return np.where(odd, "conv grouped narrow unaligned", "conv grouped narrow").astype(object)


def split_quantities(c: Columns) -> Quantities:
    """Return the work of one convolution a group, between a split and a concatenation that copy everything."""
    plain = quantities(c)
    copied = 2 * (plain.input_elements + plain.output_elements)
    return Quantities(plain.flops, plain.input_elements + copied, plain.output_elements, plain.weight_elements)


def depthwise_5x5_class(c: Columns) -> np.ndarray:
    return np.array([name.replace("kxk", "5x5") for name in depthwise_class(c)], dtype=object)


def extract_depthwise_pointwise(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Return the fields of the depthwise convolution, and the output channels of the 1x1 convolution."""
    first, second = (node for node in nodes if node.op_type == "Conv")
    return (*extract(graph, (first,)), graph.shape(second.outputs[0])[1])


def depthwise_pointwise_quantities(c: Columns) -> Quantities:
    """Return the work of both convolutions; the map between them is never written."""
    depthwise = quantities(c)
    pixels = c["batch"] * c["out_h"] * c["out_w"]
    pairs = c["out_channels"] * c["pointwise_channels"]
    return Quantities(
        depthwise.flops + 2 * pixels * pairs,
        depthwise.input_elements,
        pixels * c["pointwise_channels"],
        depthwise.weight_elements + pairs,
    )


def build_depthwise_pointwise(builder: GraphBuilder, c: Mapping[str, int]) -> str:
    return builder.conv(build(builder, c), c["pointwise_channels"])


for _variant, _tile in (("winograd", WINOGRAD_TILE), ("winograd6", 6)):
    for _type, _title in ((CONV, "conv"), (GROUPED_CONV, "conv grouped")):
        add_kernel_variant(
            _type, _variant, quantities=winograd_quantities(_tile), throughput_class=one_class(f"{_title} {_variant}")
        )
# The class of a 1x1 or a 3x3 convolution says already which of these kernels it is.
CONV_POINTWISE = add_kernel_variant(CONV, "pointwise", throughput_class=dense_class)
DEPTHWISE_CONV_3X3 = add_kernel_variant(DEPTHWISE_CONV, "3x3", throughput_class=depthwise_class)
DEPTHWISE_CONV_5X5 = add_kernel_variant(DEPTHWISE_CONV, "5x5", throughput_class=depthwise_5x5_class)
GROUPED_CONV_NARROW = add_kernel_variant(GROUPED_CONV, "narrow", quantities=narrow_quantities, throughput_class=narrow_class)
GROUPED_CONV_DIRECT = add_kernel_variant(GROUPED_CONV, "direct", quantities=direct_quantities, throughput_class=narrow_class)
GROUPED_CONV_SPLIT = add_kernel_variant(GROUPED_CONV, "split", quantities=split_quantities)
DEPTHWISE_POINTWISE = add_kernel_type(
    KernelType(
        "depthwise_pointwise", (*FIELDS, "pointwise_channels"), ("depthwise_pointwise",), extract_depthwise_pointwise,
        depthwise_pointwise_quantities, one_class("depthwise pointwise"), features, build_depthwise_pointwise,
    )
)  # fmt: skip
