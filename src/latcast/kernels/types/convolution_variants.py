"""Convolutions that a backend runs by a special algorithm, and two of them as one kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from latcast.graph.ir import Graph, Node
from latcast.kernels.types.convolution import (
    CONV,
    DEPTHWISE_CONV,
    FIELDS,
    GROUPED_CONV,
    build,
    dense_class,
    depthwise_class,
    extract,
    features,
    quantities,
)
from latcast.kernels.types.kernel_type import (
    LINE_ELEMENTS,
    Columns,
    KernelType,
    Quantities,
    add_kernel_type,
    add_kernel_variant,
    missed,
    one_class,
)

if TYPE_CHECKING:
    from latcast.graph.builder import GraphBuilder

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

    Whole vectors are computed and written, whatever share of their lanes a group has. A group goes over the whole map, and its
    pixels are as far apart as the map has channels: where they are far apart and do not all fit into the sets of the second
    cache that they fall into, a line is fetched for each.
    """
    plain = quantities(c)
    group_out = c["out_channels"] / c["groups"]
    vectors = np.ceil(group_out / NARROW) * NARROW / group_out
    pixels = c["in_h"] * c["in_w"] + c["out_h"] * c["out_w"]
    lost = np.where(c["in_channels"] >= FAR_CHANNELS, missed(pixels, c["in_channels"], SECOND_CACHE), 0.0)
    return Quantities(
        plain.flops * vectors,
        plain.input_elements + FETCHED * lost * c["batch"] * c["groups"] * pixels,
        plain.output_elements * vectors,
        plain.weight_elements,
    )


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
GROUPED_CONV_SPLIT = add_kernel_variant(GROUPED_CONV, "split", quantities=split_quantities)
DEPTHWISE_POINTWISE = add_kernel_type(
    KernelType(
        "depthwise_pointwise", (*FIELDS, "pointwise_channels"), ("depthwise_pointwise",), extract_depthwise_pointwise,
        depthwise_pointwise_quantities, one_class("depthwise pointwise"), features, build_depthwise_pointwise,
    )
)  # fmt: skip
