"""MobileNetV2 (Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", 2018, Table 2)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from latcast.graph.builder import GraphBuilder, Size, pair
from latcast.graph.ir import Graph
from latcast.spaces.catalogue import PublishedModel
from latcast.spaces.families.inverted_residual import inverted_residual_stages, uniform_stages
from latcast.spaces.families.variants import (
    VariantFamily,
    draw_depths,
    draw_kernels,
    draw_resolution,
    draw_widths,
    scaled_widths,
)

STEM = 32
WIDTHS = (16, 24, 32, 64, 96, 160, 320)
DEPTHS = (1, 2, 3, 4, 3, 3, 1)
KERNELS = (3, 3, 3, 3, 3, 3, 3)
EXPANSIONS = (1, 6, 6, 6, 6, 6, 6)
HEAD = 1280


def build(
    widths: Sequence[int] = WIDTHS,
    depths: Sequence[int] = DEPTHS,
    kernels: Sequence[int] = KERNELS,
    expansions: Sequence[float] = EXPANSIONS,
    *,
    stem: int = STEM,
    head: int = HEAD,
    resolution: Size = 224,
    classes: int = 1000,
    batch: int = 1,
) -> Graph:
    """MobileNetV2.

    Args:
        widths: Output channels of the seven stages.
        depths: Blocks in each stage.
        kernels: Kernel size of the depthwise convolutions of each stage.
        expansions: Expansion of the blocks of each stage.
        stem: Channels of the first convolution.
        head: Channels of the last 1x1 convolution.
        resolution: Height and width of the image, one number or two.
        classes: Outputs.
        batch: Images at a time.

    Raises:
        ModelError: The lists are not seven long.
    """
    b = GraphBuilder("mobilenet_v2")
    x = b.conv_bn(b.input((batch, 3, *pair(resolution))), stem, 3, stride=2, activation="relu6")
    stages = uniform_stages("mobilenet_v2", widths, depths, kernels, expansions)
    x = inverted_residual_stages(b, x, stages, "relu6")
    x = b.conv_bn(x, head, activation="relu6")
    return b.finish(b.linear(b.flatten(b.global_average_pool(x)), classes))


def draw(rng: Random) -> dict[str, Any]:
    return {
        "widths": draw_widths(rng, WIDTHS),
        "depths": draw_depths(rng, DEPTHS),
        "kernels": draw_kernels(rng, KERNELS),
        "expansions": [1, *(rng.choice((3, 4, 6, 8)) for _ in EXPANSIONS[1:])],
        "stem": draw_widths(rng, [STEM])[0],
        "head": draw_widths(rng, [HEAD])[0],
        "resolution": draw_resolution(rng),
    }


def _published(multiplier: float, million_parameters: float, million_macs: float, source: str) -> PublishedModel:
    return PublishedModel(
        {
            "stem": scaled_widths([STEM], multiplier)[0],
            "widths": scaled_widths(WIDTHS, multiplier),
            # The head is never narrower than published (Sandler et al. §4).
            "head": scaled_widths([HEAD], max(1.0, multiplier))[0],
        },
        million_parameters,
        million_macs,
        source,
    )


_SLIM = (
    "MACs of convolutions and the linear layer: model table of TensorFlow-Slim's mobilenet_v2; parameters: timm's tables "
    "(TensorFlow-Slim's {} M leaves out batch normalisation)"
)

SPACE = VariantFamily(
    "mobilenet_v2",
    {
        "mobilenet_v2": _published(
            1.0,
            3.505,
            300,
            "Sandler et al. 2018, Table 4: 300 M MACs; parameters of torchvision's mobilenet_v2",
        ),
        "mobilenet_v2_0_5": _published(0.5, 1.97, 97, _SLIM.format(1.95)),
        "mobilenet_v2_0_75": _published(0.75, 2.64, 209, _SLIM.format(2.61)),
        "mobilenet_v2_1_4": _published(1.4, 6.11, 582, _SLIM.format(6.06)),
    },
    build,
    draw,
)
