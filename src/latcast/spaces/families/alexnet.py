"""AlexNet in one tower (Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from latcast.graph.builder import GraphBuilder, Size, pair
from latcast.graph.ir import Graph
from latcast.spaces.catalogue import PublishedModel
from latcast.spaces.families.stages import check_lengths
from latcast.spaces.families.variants import VariantFamily, draw_kernels, draw_resolution, draw_widths

WIDTHS = (64, 192, 384, 256, 256)
KERNELS = (11, 5, 3, 3, 3)
HIDDEN = (4096, 4096)
POOLED_AFTER = (0, 1, 4)
"""Convolutions that a 3x3 max pooling of stride 2 follows."""


def build(
    widths: Sequence[int] = WIDTHS,
    kernels: Sequence[int] = KERNELS,
    hidden: Sequence[int] = HIDDEN,
    *,
    resolution: Size = 224,
    classes: int = 1000,
    batch: int = 1,
) -> Graph:
    """AlexNet, as published by default.

    Args:
        widths: Output channels of the five convolutions.
        kernels: Their kernel sizes; the first has stride 4.
        hidden: Widths of the hidden fully connected layers. The first reads the last map as it is, whatever its
            size (6x6 at 224).
        resolution: Height and width of the image, one number or two.
        classes: Outputs.
        batch: Images at a time.

    Raises:
        ModelError: Not five widths and kernels.
    """
    check_lengths("alexnet", convolutions=WIDTHS, widths=widths, kernels=kernels)
    b = GraphBuilder("alexnet")
    x = b.input((batch, 3, *pair(resolution)))
    for index, (width, kernel) in enumerate(zip(widths, kernels, strict=True)):
        first = index == 0
        # The first convolution is padded by 2 at its published size of 11: a border of 3 is lost on each side.
        padding = max(kernel // 2 - 3, 0) if first else kernel // 2
        x = b.relu(b.conv(x, width, kernel, stride=4 if first else 1, padding=padding, bias=True))
        if index in POOLED_AFTER:
            x = b.max_pool(x, 3, 2)
    x = b.flatten(x)
    for width in hidden:
        x = b.relu(b.linear(x, width))
    return b.finish(b.linear(x, classes))


def draw(rng: Random) -> dict[str, Any]:
    return {
        "widths": draw_widths(rng, WIDTHS),
        "kernels": draw_kernels(rng, KERNELS[:1], (5, 7, 9, 11)) + draw_kernels(rng, KERNELS[1:]),
        "hidden": draw_widths(rng, HIDDEN),
        "resolution": draw_resolution(rng),
    }


SPACE = VariantFamily(
    "alexnet",
    {"alexnet": PublishedModel({}, 61.101, 714.0, "torchvision models table")},
    build,
    draw,
)
