"""VGG (Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", 2015, Table 1)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

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
)

WIDTHS = (64, 128, 256, 512, 512)
KERNELS = (3, 3, 3, 3, 3)
HIDDEN = (4096, 4096)
DEPTHS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def build(
    depths: Sequence[int] = DEPTHS[16],
    widths: Sequence[int] = WIDTHS,
    kernels: Sequence[int] = KERNELS,
    hidden: Sequence[int] = HIDDEN,
    *,
    batch_norm: bool = False,
    resolution: Size = 224,
    classes: int = 1000,
    batch: int = 1,
) -> Graph:
    """VGG, VGG16 by default.

    Args:
        depths: Convolutions in each stage; a 2x2 max pooling ends a stage.
        widths: Output channels of each stage.
        kernels: Kernel size of each stage.
        hidden: Widths of the hidden fully connected layers. The first reads the last map as it is, whatever its
            size (7x7 at 224).
        batch_norm: Batch normalisation after each convolution.
        resolution: Height and width of the image, one number or two.
        classes: Outputs.
        batch: Images at a time.

    Raises:
        ModelError: The lists differ in length.
    """
    check_lengths("vgg", depths=depths, widths=widths, kernels=kernels)
    b = GraphBuilder("vgg")
    x = b.input((batch, 3, *pair(resolution)))
    for depth, width, kernel in zip(depths, widths, kernels, strict=True):
        for _ in range(depth):
            x = b.conv(x, width, kernel, bias=True)
            x = b.relu(b.batch_norm(x) if batch_norm else x)
        x = b.max_pool(x, 2)
    x = b.flatten(x)
    for width in hidden:
        x = b.relu(b.linear(x, width))
    return b.finish(b.linear(x, classes))


def draw(rng: Random) -> dict[str, Any]:
    return {
        "depths": draw_depths(rng, DEPTHS[rng.choice(sorted(DEPTHS))]),
        "widths": draw_widths(rng, WIDTHS),
        "kernels": draw_kernels(rng, KERNELS),
        "hidden": draw_widths(rng, HIDDEN),
        "batch_norm": rng.random() < 0.5,
        "resolution": draw_resolution(rng),
    }


def _published(layers: int, million_parameters: float, million_macs: float, *, batch_norm: bool) -> PublishedModel:
    return PublishedModel(
        {"depths": list(DEPTHS[layers]), "batch_norm": batch_norm},
        million_parameters,
        million_macs,
        "torchvision models table",
    )


SPACE = VariantFamily(
    "vgg",
    {
        "vgg11": _published(11, 132.863, 7609, batch_norm=False),
        "vgg13": _published(13, 133.048, 11308, batch_norm=False),
        "vgg16": _published(16, 138.358, 15470, batch_norm=False),
        "vgg19": _published(19, 143.667, 19632, batch_norm=False),
        "vgg11_bn": _published(11, 132.869, 7609, batch_norm=True),
        "vgg13_bn": _published(13, 133.054, 11308, batch_norm=True),
        "vgg16_bn": _published(16, 138.366, 15470, batch_norm=True),
        "vgg19_bn": _published(19, 143.678, 19632, batch_norm=True),
    },
    build,
    draw,
)
