"""RegNet X and Y (Radosavovic et al., "Designing network design spaces", 2020, §3.3 and Tables 8 and 9)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import log
from random import Random
from typing import Any

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder, Size, pair
from latcast.graph.ir import Graph
from latcast.spaces.catalogue import PublishedModel
from latcast.spaces.families.stages import check_lengths
from latcast.spaces.families.variants import (
    VariantFamily,
    draw_depths,
    draw_kernels,
    draw_resolution,
    draw_widths,
    round_channels,
)

KERNELS = (3, 3, 3, 3)


def quantised_stages(depth: int, initial: int, slope: float, quantum: float, group_width: int) -> tuple[list[int], list[int]]:
    """Depths and widths of the stages from the paper's parameters d, w0, wa and wm (equations 2 to 4).

    A block's width is w0 wm^s with s the nearest integer to the logarithm of the linear width w0 + wa j; it is
    rounded to a multiple of 8 and then to one of the group width.
    """
    exponents = [round(log((initial + slope * block) / initial) / log(quantum)) for block in range(depth)]
    depths = [len(list(blocks)) for _, blocks in groupby(exponents)]
    widths = [round(initial * quantum**exponent / 8) * 8 for exponent, _ in groupby(exponents)]
    return depths, [round_channels(width, min(group_width, width)) for width in widths]


def block(b: GraphBuilder, x: str, width: int, kernel: int, stride: int, group_width: int, squeeze: float) -> str:
    """A residual bottleneck that does not narrow, its middle convolution in groups."""
    before = b.channels(x)
    shortcut = x
    if stride != 1 or before != width:
        shortcut = b.conv_bn(x, width, 1, stride=stride, activation=None)
    y = b.conv_bn(x, width)
    y = b.conv_bn(y, width, kernel, stride=stride, groups=width // min(group_width, width))
    if squeeze:
        y = b.squeeze_excite(y, max(round(squeeze * before), 1))
    y = b.conv_bn(y, width, activation=None)
    return b.relu(b.add(shortcut, y))


def build(
    depths: Sequence[int] = (1, 2, 7, 12),
    widths: Sequence[int] = (32, 64, 160, 400),
    group_width: int = 16,
    squeeze: float = 0.0,
    kernels: Sequence[int] = KERNELS,
    *,
    stem: int = 32,
    resolution: Size = 224,
    classes: int = 1000,
    batch: int = 1,
) -> Graph:
    """RegNet, RegNetX-400MF by default.

    Args:
        depths: Blocks in each stage; every stage halves the resolution.
        widths: Channels of each stage, multiples of the group width (or below it).
        group_width: Channels of a group.
        squeeze: Squeeze-and-excitation's share of the block's input channels (RegNetY); 0 for none (RegNetX).
        kernels: Kernel size of each stage.
        stem: Channels of the 3x3 stem.
        resolution: Height and width of the image, one number or two.
        classes: Outputs.
        batch: Images at a time.

    Raises:
        ModelError: The lists differ in length, or a width is not a multiple of the group width.
    """
    check_lengths("regnet", depths=depths, widths=widths, kernels=kernels)
    for width in widths:
        if width % min(group_width, width):
            raise ModelError(f"a RegNet stage of {width} channels has no groups of {group_width}; use a multiple")
    b = GraphBuilder("regnet")
    x = b.conv_bn(b.input((batch, 3, *pair(resolution))), stem, 3, stride=2)
    for depth, width, kernel in zip(depths, widths, kernels, strict=True):
        for index in range(depth):
            x = block(b, x, width, kernel, 2 if index == 0 else 1, group_width, squeeze)
    return b.finish(b.linear(b.flatten(b.global_average_pool(x)), classes))


def _published(
    stages: tuple[int, int, float, float, int], squeeze: float, million_parameters: float, million_macs: float
) -> PublishedModel:
    depths, widths = quantised_stages(*stages)
    return PublishedModel(
        {"depths": depths, "widths": widths, "group_width": stages[-1], "squeeze": squeeze},
        million_parameters,
        million_macs,
        "torchvision models table; depth, w0, wa, wm and group width from the paper's Tables 8 and 9",
    )


PUBLISHED = {
    "regnet_x_400mf": _published((22, 24, 24.48, 2.54, 16), 0.0, 5.496, 414),
    "regnet_x_800mf": _published((16, 56, 35.73, 2.28, 16), 0.0, 7.260, 800),
    "regnet_x_1_6gf": _published((18, 80, 34.01, 2.25, 24), 0.0, 9.190, 1603),
    "regnet_x_3_2gf": _published((25, 88, 26.31, 2.25, 48), 0.0, 15.297, 3177),
    "regnet_y_400mf": _published((16, 48, 27.89, 2.09, 8), 0.25, 4.344, 402),
    "regnet_y_800mf": _published((14, 56, 38.84, 2.4, 16), 0.25, 6.433, 834),
    "regnet_y_1_6gf": _published((27, 48, 20.71, 2.65, 24), 0.25, 11.202, 1612),
    "regnet_y_3_2gf": _published((21, 80, 42.63, 2.66, 24), 0.25, 19.436, 3176),
}


def draw(rng: Random) -> dict[str, Any]:
    base = PUBLISHED[rng.choice(sorted(PUBLISHED))].parameters
    group_width = rng.choice((8, 16, 24, 32, 48))
    return {
        "depths": draw_depths(rng, base["depths"]),
        "widths": draw_widths(rng, base["widths"], multiple=group_width),
        "group_width": group_width,
        "squeeze": base["squeeze"],
        "kernels": draw_kernels(rng, KERNELS),
        "stem": round_channels(32 * rng.uniform(0.5, 1.8)),
        "resolution": draw_resolution(rng),
    }


SPACE = VariantFamily("regnet", PUBLISHED, build, draw)
