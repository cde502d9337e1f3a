"""SqueezeNet (Iandola et al., 2016, Table 1) and its version 1.1."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from latcast.graph.builder import GraphBuilder, Size, pair
from latcast.graph.ir import Graph
from latcast.spaces.catalogue import PublishedModel
from latcast.spaces.families.stages import check_lengths
from latcast.spaces.families.variants import (
    KERNEL_SIZES,
    VariantFamily,
    draw_kernels,
    draw_resolution,
    draw_widths,
    round_channels,
)

SQUEEZED = (16, 16, 32, 32, 48, 48, 64, 64)
EXPANDED = (64, 64, 128, 128, 192, 192, 256, 256)
POOLED_BEFORE = {"1.0": (0, 3, 7), "1.1": (0, 2, 4)}
"""Fire modules that a 3x3 max pooling of stride 2 precedes."""
STEMS = {"1.0": (96, 7), "1.1": (64, 3)}
"""Channels and kernel size of the stem."""


def fire(b: GraphBuilder, x: str, squeezed: int, pointwise: int, spatial: int, kernel: int) -> str:
    """A 1x1 convolution that squeezes, two side by side that expand, concatenated."""
    x = b.relu(b.conv(x, squeezed, 1, bias=True))
    left = b.relu(b.conv(x, pointwise, 1, bias=True))
    right = b.relu(b.conv(x, spatial, kernel, bias=True))
    return b.concat([left, right])


def build(
    squeezed: Sequence[int] = SQUEEZED,
    pointwise: Sequence[int] = EXPANDED,
    spatial: Sequence[int] = EXPANDED,
    kernels: Sequence[int] = (3,) * 8,
    pooled_before: Sequence[int] = POOLED_BEFORE["1.0"],
    stem: Sequence[int] = STEMS["1.0"],
    *,
    resolution: Size = 224,
    classes: int = 1000,
    batch: int = 1,
) -> Graph:
    """SqueezeNet, version 1.0 by default.

    Args:
        squeezed: Channels that each fire module squeezes to.
        pointwise: Channels of its 1x1 expansion.
        spatial: Channels of its expansion with a larger kernel.
        kernels: That kernel's size.
        pooled_before: Fire modules (from 0) that a max pooling precedes.
        stem: Channels and kernel size of the stem.
        resolution: Height and width of the image, one number or two.
        classes: Outputs.
        batch: Images at a time.

    Raises:
        ModelError: The lists differ in length.
    """
    check_lengths("squeezenet", squeezed=squeezed, pointwise=pointwise, spatial=spatial, kernels=kernels)
    b = GraphBuilder("squeezenet")
    x = b.input((batch, 3, *pair(resolution)))
    x = b.relu(b.conv(x, stem[0], stem[1], stride=2, padding=0, bias=True))
    for index, widths in enumerate(zip(squeezed, pointwise, spatial, kernels, strict=True)):
        if index in pooled_before:
            x = b.max_pool(x, 3, 2, ceil=True)
        x = fire(b, x, *widths)
    x = b.relu(b.conv(x, classes, 1, bias=True))
    return b.finish(b.flatten(b.global_average_pool(x)))


def draw(rng: Random) -> dict[str, Any]:
    version = rng.choice(sorted(STEMS))
    width, kernel = STEMS[version]
    return {
        "squeezed": draw_widths(rng, SQUEEZED),
        "pointwise": draw_widths(rng, EXPANDED),
        "spatial": draw_widths(rng, EXPANDED),
        "kernels": draw_kernels(rng, (3,) * 8, keep=0.7),
        "pooled_before": list(POOLED_BEFORE[version]),
        "stem": [round_channels(width * rng.uniform(0.25, 1.5)), *draw_kernels(rng, (kernel,), KERNEL_SIZES[1:])],
        "resolution": draw_resolution(rng),
    }


def _published(version: str, million_parameters: float, million_macs: float) -> PublishedModel:
    return PublishedModel(
        {"pooled_before": list(POOLED_BEFORE[version]), "stem": list(STEMS[version])},
        million_parameters,
        million_macs,
        "torchvision models table",
    )


SPACE = VariantFamily(
    "squeezenet",
    {"squeezenet1_0": _published("1.0", 1.248, 819), "squeezenet1_1": _published("1.1", 1.235, 349)},
    build,
    draw,
)
