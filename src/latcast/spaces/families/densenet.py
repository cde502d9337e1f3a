"""DenseNet (Huang et al., "Densely connected convolutional networks", 2017, Table 1: DenseNet-BC)."""

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
    round_channels,
)

GROWTHS = (32, 32, 32, 32)
KERNELS = (3, 3, 3, 3)
DEPTHS = {121: (6, 12, 24, 16), 161: (6, 12, 36, 24), 169: (6, 12, 32, 32), 201: (6, 12, 48, 32)}


def normalised_conv(b: GraphBuilder, x: str, width: int, kernel: int) -> str:
    """Batch normalisation, ReLU, convolution."""
    return b.conv(b.relu(b.batch_norm(x)), width, kernel)


def build(
    depths: Sequence[int] = DEPTHS[121],
    growths: Sequence[int] = GROWTHS,
    kernels: Sequence[int] = KERNELS,
    *,
    stem: int = 64,
    bottleneck: int = 4,
    compression: float = 0.5,
    resolution: Size = 224,
    classes: int = 1000,
    batch: int = 1,
) -> Graph:
    """DenseNet-BC, DenseNet-121 by default.

    Args:
        depths: Dense layers in each stage.
        growths: Channels that a layer of each stage adds.
        kernels: Kernel size of each stage.
        stem: Channels of the 7x7 stem.
        bottleneck: A layer's 1x1 convolution has this many times its growth.
        compression: Share of the channels that a transition keeps.
        resolution: Height and width of the image, one number or two.
        classes: Outputs.
        batch: Images at a time.

    Raises:
        ModelError: The lists differ in length.
    """
    check_lengths("densenet", depths=depths, growths=growths, kernels=kernels)
    b = GraphBuilder("densenet")
    x = b.conv_bn(b.input((batch, 3, *pair(resolution))), stem, 7, stride=2)
    x = b.max_pool(x, 3, 2, 1)
    for stage, (depth, growth, kernel) in enumerate(zip(depths, growths, kernels, strict=True)):
        if stage > 0:
            x = normalised_conv(b, x, int(b.channels(x) * compression), 1)
            x = b.average_pool(x, 2)
        features = [x]
        for _ in range(depth):
            y = normalised_conv(b, x, bottleneck * growth, 1)
            features.append(normalised_conv(b, y, growth, kernel))
            # Each layer gathers all earlier ones anew, as PyTorch's implementation does.
            x = b.concat(features)
    x = b.global_average_pool(b.relu(b.batch_norm(x)))
    return b.finish(b.linear(b.flatten(x), classes))


def draw(rng: Random) -> dict[str, Any]:
    return {
        "depths": draw_depths(rng, DEPTHS[rng.choice((121, 169))]),
        "growths": draw_widths(rng, GROWTHS),
        "kernels": draw_kernels(rng, KERNELS),
        "stem": round_channels(64 * rng.uniform(0.25, 1.5)),
        "resolution": draw_resolution(rng),
    }


def _published(
    layers: int, million_parameters: float, million_macs: float, *, growth: int = 32, stem: int = 64
) -> PublishedModel:
    return PublishedModel(
        {"depths": list(DEPTHS[layers]), "growths": [growth] * 4, "stem": stem},
        million_parameters,
        million_macs,
        "torchvision models table",
    )


SPACE = VariantFamily(
    "densenet",
    {
        "densenet121": _published(121, 7.979, 2834),
        "densenet161": _published(161, 28.681, 7728, growth=48, stem=96),
        "densenet169": _published(169, 14.149, 3360),
        "densenet201": _published(201, 20.014, 4291),
    },
    build,
    draw,
)
