"""MobileNetV1 (Howard et al., "MobileNets", 2017, Table 1), with ReLU6 as in its released models."""

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
    scaled_widths,
)

STEM = 32
WIDTHS = (64, 128, 256, 512, 1024)
DEPTHS = (1, 2, 2, 6, 2)
KERNELS = (3, 3, 3, 3, 3)


def build(
    widths: Sequence[int] = WIDTHS,
    depths: Sequence[int] = DEPTHS,
    kernels: Sequence[int] = KERNELS,
    *,
    stem: int = STEM,
    resolution: Size = 224,
    classes: int = 1000,
    batch: int = 1,
) -> Graph:
    """MobileNetV1: a 3x3 convolution, then pairs of a depthwise and a 1x1 convolution.

    Args:
        widths: Output channels of each stage; all stages but the first halve the resolution.
        depths: Pairs in each stage.
        kernels: Kernel size of the depthwise convolutions of each stage.
        stem: Channels of the first convolution.
        resolution: Height and width of the image, one number or two.
        classes: Outputs.
        batch: Images at a time.

    Raises:
        ModelError: The lists differ in length.
    """
    check_lengths("mobilenet_v1", widths=widths, depths=depths, kernels=kernels)
    b = GraphBuilder("mobilenet_v1")
    x = b.conv_bn(b.input((batch, 3, *pair(resolution))), stem, 3, stride=2, activation="relu6")
    for stage, (width, depth, kernel) in enumerate(zip(widths, depths, kernels, strict=True)):
        for block in range(depth):
            stride = 2 if stage > 0 and block == 0 else 1
            x = b.conv_bn(x, b.channels(x), kernel, stride=stride, groups=b.channels(x), activation="relu6")
            x = b.conv_bn(x, width, activation="relu6")
    return b.finish(b.linear(b.flatten(b.global_average_pool(x)), classes))


def draw(rng: Random) -> dict[str, Any]:
    return {
        "widths": draw_widths(rng, WIDTHS),
        "depths": draw_depths(rng, DEPTHS),
        "kernels": draw_kernels(rng, KERNELS),
        "stem": draw_widths(rng, [STEM])[0],
        "resolution": draw_resolution(rng),
    }


def _published(multiplier: float, million_parameters: float, million_macs: float) -> PublishedModel:
    return PublishedModel(
        {"stem": scaled_widths([STEM], multiplier)[0], "widths": scaled_widths(WIDTHS, multiplier)},
        million_parameters,
        million_macs,
        "MACs of convolutions and the linear layer: Howard et al. 2017, Table 6; parameters, which the paper rounds "
        "to 0.1 M: model table of TensorFlow-Slim's mobilenet_v1",
    )


SPACE = VariantFamily(
    "mobilenet_v1",
    {
        "mobilenet_v1": _published(1.0, 4.24, 569),
        "mobilenet_v1_0_75": _published(0.75, 2.59, 325),
        "mobilenet_v1_0_5": _published(0.5, 1.34, 149),
        "mobilenet_v1_0_25": _published(0.25, 0.47, 41),
    },
    build,
    draw,
)
