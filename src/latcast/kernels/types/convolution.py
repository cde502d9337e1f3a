"""Convolutions: dense, depthwise, grouped, transposed; one- and two-dimensional."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from latcast.graph.ir import Graph, Node
from latcast.graph.operators.linear import spatial_pads
from latcast.graph.operators.table import view_of
from latcast.kernels.types.kernel_type import Columns, KernelType, NotThisType, Quantities, add_kernel_type

if TYPE_CHECKING:
    from latcast.graph.builder import GraphBuilder

FIELDS = (
    "batch", "in_channels", "in_h", "in_w", "out_channels", "out_h", "out_w", "kernel_h", "kernel_w", "stride_h",
    "stride_w", "dilation_h", "dilation_w", "groups", "padded",
)  # fmt: skip


def _two(values: Sequence[int]) -> tuple[int, int]:
    """Spatial values as (height, width); one-dimensional maps have height 1."""
    if len(values) == 1:
        return 1, values[0]
    if len(values) == 2:
        return values[0], values[1]
    raise NotThisType


def extract(graph: Graph, nodes: Sequence[Node]) -> Sequence[int]:
    """Fields of a Conv or ConvTranspose; a three-dimensional one is not of this type."""
    node = nodes[0]
    x, w = graph.shape(node.inputs[0]), graph.shape(node.inputs[1])
    y = graph.shape(node.outputs[0])
    if not 3 <= len(x) <= 4:
        raise NotThisType
    rank = len(x) - 2
    strides = cast("tuple[int, ...]", node.attributes.get("strides", (1,) * rank))
    dilations = cast("tuple[int, ...]", node.attributes.get("dilations", (1,) * rank))
    pads = cast("tuple[int, ...] | None", node.attributes.get("pads"))
    if pads is None and "auto_pad" in node.attributes and node.op_type == "Conv":
        pads = spatial_pads(view_of(graph, node), x[2:], w[2:], strides, dilations)
    return (
        x[0], x[1], *_two(x[2:]), y[1], *_two(y[2:]), *_two(w[2:]), *_two(strides), *_two(dilations),
        cast(int, node.attributes.get("group", 1)), int(bool(pads) and any(cast("tuple[int, ...]", pads))),
    )  # fmt: skip


def quantities(c: Columns) -> Quantities:
    """FLOPs = 2 MACs; a MAC for every output and every filter element of its group (papers: 2 N Ho Wo Co Kh Kw Ci/g)."""
    taps = c["kernel_h"] * c["kernel_w"] * c["in_channels"] / c["groups"]
    outputs = c["batch"] * c["out_channels"] * c["out_h"] * c["out_w"]
    return Quantities(
        2 * outputs * taps,
        c["batch"] * c["in_channels"] * c["in_h"] * c["in_w"],
        outputs,
        taps * c["out_channels"],
    )


def transposed_quantities(c: Columns) -> Quantities:
    inputs = c["batch"] * c["in_channels"] * c["in_h"] * c["in_w"]
    taps = c["kernel_h"] * c["kernel_w"] * c["out_channels"] / c["groups"]
    outputs = c["batch"] * c["out_channels"] * c["out_h"] * c["out_w"]
    return Quantities(2 * inputs * taps, inputs, outputs, taps * c["in_channels"])


def features(c: Columns) -> Mapping[str, np.ndarray]:
    """What blocked implementations really compute: channels rounded up to the vector, tiles, transforms (Winograd)."""
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
        "output_pixels": pixels,
        "group_in_channels": group_in,
        "group_out_channels": group_out,
        "in_channels_mod_16": group_in % 16,
        "out_channels_mod_16": group_out % 16,
        "out_w_mod_8": c["out_w"] % 8,
        "im2col_elements": pixels * taps * c["in_channels"],
        "winograd_macs": 36 * tiles * group_in * c["out_channels"],
        "winograd_transforms": 36 * tiles * (c["in_channels"] + c["out_channels"]),
        "border_share": 1 - (c["out_h"] * c["stride_h"] * c["out_w"] * c["stride_w"])
        / ((c["out_h"] * c["stride_h"] + c["kernel_h"]) * (c["out_w"] * c["stride_w"] + c["kernel_w"])),
    }  # fmt: skip


def dense_class(c: Columns) -> np.ndarray:
    """Dense convolutions run by different algorithms: 1x1 as a product, 3x3 at stride 1 perhaps as Winograd, few input
    channels (the first layer) apart."""
    k = np.maximum(c["kernel_h"], c["kernel_w"])
    stride = np.maximum(c["stride_h"], c["stride_w"])
    names = np.where(k == 1, np.where(stride == 1, "conv 1x1", "conv 1x1 strided"),
                     np.where((k == 3) & (stride == 1), "conv 3x3", np.where(k == 3, "conv 3x3 strided", "conv kxk")))  # fmt: skip
    return np.where((c["in_channels"] < 8) & (k > 1), "conv first", names).astype(object)


def depthwise_class(c: Columns) -> np.ndarray:
    k = np.maximum(c["kernel_h"], c["kernel_w"])
    stride = np.maximum(c["stride_h"], c["stride_w"])
    size = np.where(k <= 3, "depthwise 3x3", "depthwise kxk")
    return np.where(stride > 1, np.char.add(size, " strided"), size).astype(object)


def grouped_class(c: Columns) -> np.ndarray:
    return np.full(len(c["batch"]), "conv grouped", dtype=object)


def transposed_class(c: Columns) -> np.ndarray:
    return np.full(len(c["batch"]), "conv transposed", dtype=object)


def build(builder: GraphBuilder, configuration: Mapping[str, int]) -> str:
    """A convolution on its own; total padding is what the sizes imply, the odd pixel at the end."""
    c = configuration
    x = builder.input((c["batch"], c["in_channels"], c["in_h"], c["in_w"]))
    pads = []
    for axis in ("h", "w"):
        reach = (c[f"out_{axis}"] - 1) * c[f"stride_{axis}"] + (c[f"kernel_{axis}"] - 1) * c[f"dilation_{axis}"] + 1
        pads.append(max(reach - c[f"in_{axis}"], 0) if c["padded"] else 0)
    weight = builder.weight(
        (c["out_channels"], c["in_channels"] // c["groups"], c["kernel_h"], c["kernel_w"]), stem="conv_weight"
    )
    bias = builder.weight((c["out_channels"],), stem="conv_bias")
    begins = [p - p // 2 for p in pads]
    return builder.op(
        "Conv",
        [x, weight, bias],
        {
            "kernel_shape": (c["kernel_h"], c["kernel_w"]),
            "strides": (c["stride_h"], c["stride_w"]),
            "dilations": (c["dilation_h"], c["dilation_w"]),
            "pads": (*begins, *(begin if c["padded"] else 0 for begin in begins)),
            "group": c["groups"],
        },
    )[0]


def build_transposed(builder: GraphBuilder, configuration: Mapping[str, int]) -> str:
    c = configuration
    x = builder.input((c["batch"], c["in_channels"], c["in_h"], c["in_w"]))
    return builder.conv_transpose(
        x, c["out_channels"], (c["kernel_h"], c["kernel_w"]), stride=(c["stride_h"], c["stride_w"])
    )


CONV = add_kernel_type(KernelType("conv", FIELDS, ("conv",), extract, quantities, dense_class, features, build))
DEPTHWISE_CONV = add_kernel_type(
    KernelType("depthwise_conv", FIELDS, ("depthwise_conv",), extract, quantities, depthwise_class, features, build)
)
GROUPED_CONV = add_kernel_type(
    KernelType("grouped_conv", FIELDS, ("grouped_conv",), extract, quantities, grouped_class, features, build)
)
CONV_TRANSPOSE = add_kernel_type(
    KernelType(
        "conv_transpose",
        FIELDS,
        ("conv_transpose",),
        extract,
        transposed_quantities,
        transposed_class,
        features,
        build_transposed,
    )
)
