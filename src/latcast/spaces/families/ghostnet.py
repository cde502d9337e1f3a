"""GhostNet (Han et al., "GhostNet: more features from cheap operations", 2020, Table 1)."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from random import Random
from typing import Any

from latcast.graph.builder import GraphBuilder, Size, pair
from latcast.graph.ir import Graph
from latcast.spaces.catalogue import PublishedModel
from latcast.spaces.families.stages import check_lengths, draw_blocks
from latcast.spaces.families.variants import (
    VariantFamily,
    draw_kernels,
    draw_resolution,
    draw_widths,
    round_channels,
    scaled_widths,
)

STEM = 16
HEAD = 960
HIDDEN = 1280
WIDTHS = (16, 24, 40, 80, 112, 160)
EXPANDED = ((16,), (48, 72), (72, 120), (240, 200, 184, 184), (480, 672), (672, 960, 960, 960, 960))
SQUEEZE = ((0,), (0, 0), (1, 1), (0, 0, 0, 0), (1, 1), (1, 0, 1, 0, 1))
KERNELS = (3, 3, 5, 3, 3, 5)
STRIDES = (1, 2, 2, 2, 1, 2)


def ghost_module(b: GraphBuilder, x: str, width: int, activation: str | None) -> str:
    """Half of the channels by a 1x1 convolution, the other half by a depthwise one of the first (Fig. 2)."""
    half = ceil(width / 2)
    primary = b.conv_bn(x, half, activation=activation)
    return b.concat([primary, b.conv_bn(primary, width - half, 3, groups=half, activation=activation)])


def ghost_bottleneck(b: GraphBuilder, x: str, width: int, *, expanded: int, kernel: int, stride: int, squeeze: bool) -> str:
    """Two ghost modules around a depthwise convolution (at stride 2 only), with a shortcut (Fig. 3)."""
    y = ghost_module(b, x, expanded, "relu")
    if stride > 1:
        y = b.conv_bn(y, expanded, kernel, stride=stride, groups=expanded, activation=None)
    if squeeze:
        y = b.squeeze_excite(y, round_channels(expanded / 4, 4), gate="hard_sigmoid")
    y = ghost_module(b, y, width, None)
    if b.shape(x) != b.shape(y):
        x = b.conv_bn(x, b.channels(x), kernel, stride=stride, groups=b.channels(x), activation=None)
        x = b.conv_bn(x, width, activation=None)
    return b.add(y, x)


def build(
    widths: Sequence[int] = WIDTHS,
    expanded: Sequence[Sequence[int]] = EXPANDED,
    squeeze: Sequence[Sequence[int]] = SQUEEZE,
    kernels: Sequence[int] = KERNELS,
    *,
    stem: int = STEM,
    head: int = HEAD,
    hidden: int = HIDDEN,
    resolution: Size = 224,
    classes: int = 1000,
    batch: int = 1,
) -> Graph:
    """GhostNet.

    Args:
        widths: Output channels of the six stages, even numbers.
        expanded: Expanded channels of each block of each stage, even numbers; their number is the stage's depth.
        squeeze: 1 for blocks with squeeze-and-excitation (to a quarter of the expanded channels), 0 for others.
        kernels: Kernel size of the depthwise convolutions of each stage, other than those of the ghost modules.
        stem: Channels of the first convolution.
        head: Channels of the last convolution before the pooling.
        hidden: Channels of the 1x1 convolution after it.
        resolution: Height and width of the image, one number or two.
        classes: Outputs.
        batch: Images at a time.

    Raises:
        ModelError: The lists differ in length, or a width is odd.
    """
    check_lengths("ghostnet", strides=STRIDES, widths=widths, expanded=expanded, squeeze=squeeze, kernels=kernels)
    b = GraphBuilder("ghostnet")
    x = b.conv_bn(b.input((batch, 3, *pair(resolution))), stem, 3, stride=2)
    rows = zip(widths, expanded, squeeze, kernels, STRIDES, strict=True)
    for width, inner, squeezed, kernel, stage_stride in rows:
        check_lengths("a stage of ghostnet", expanded=inner, squeeze=squeezed)
        for block, (channels, gated) in enumerate(zip(inner, squeezed, strict=True)):
            stride = stage_stride if block == 0 else 1
            x = ghost_bottleneck(b, x, width, expanded=channels, kernel=kernel, stride=stride, squeeze=bool(gated))
    x = b.global_average_pool(b.conv_bn(x, head))
    x = b.relu(b.conv(x, hidden, bias=True))
    return b.finish(b.linear(b.flatten(x), classes))


def draw(rng: Random) -> dict[str, Any]:
    blocks = [draw_blocks(rng, len(stage)) for stage in EXPANDED]
    return {
        "widths": draw_widths(rng, WIDTHS),
        "expanded": [
            draw_widths(rng, [stage[block] for block in chosen]) for stage, chosen in zip(EXPANDED, blocks, strict=True)
        ],
        "squeeze": [[stage[block] for block in chosen] for stage, chosen in zip(SQUEEZE, blocks, strict=True)],
        "kernels": draw_kernels(rng, KERNELS),
        "stem": draw_widths(rng, [STEM])[0],
        "head": draw_widths(rng, [HEAD])[0],
        "hidden": draw_widths(rng, [HIDDEN])[0],
        "resolution": draw_resolution(rng),
    }


def _published(multiplier: float, million_parameters: float, million_macs: float, paper: str) -> PublishedModel:
    return PublishedModel(
        {
            "stem": scaled_widths([STEM], multiplier, 4)[0],
            "widths": scaled_widths(WIDTHS, multiplier, 4),
            "expanded": [scaled_widths(stage, multiplier, 4) for stage in EXPANDED],
            "head": scaled_widths([HEAD], multiplier, 4)[0],
        },
        million_parameters,
        million_macs,
        f"MACs of convolutions and the linear layer: Han et al. 2020, comparison on ImageNet ({paper} parameters); "
        "parameters of timm's model",
    )


SPACE = VariantFamily(
    "ghostnet",
    {
        "ghostnet_x0_5": _published(0.5, 2.587, 42, "2.6 M"),
        "ghostnet_x1_0": _published(1.0, 5.183, 141, "5.2 M"),
        "ghostnet_x1_3": _published(1.3, 7.359, 226, "7.3 M"),
    },
    build,
    draw,
)
