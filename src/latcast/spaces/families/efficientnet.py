"""EfficientNet (Tan and Le, "EfficientNet: rethinking model scaling for convolutional neural networks", 2019, Table 1).

EfficientNet-Lite0 is the same without squeeze-and-excitation and with ReLU6, for accelerators that lack both.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
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
HEAD = 1280
WIDTHS = (16, 24, 40, 80, 112, 192, 320)
DEPTHS = (1, 2, 2, 3, 3, 4, 1)
KERNELS = (3, 3, 5, 3, 5, 5, 3)
EXPANSIONS = (1, 6, 6, 6, 6, 6, 6)
SQUEEZE = 0.25

SCALES = {
    "b0": (1.0, 1.0, 224),
    "b1": (1.0, 1.1, 240),
    "b2": (1.1, 1.2, 260),
    "b3": (1.2, 1.4, 300),
    "b4": (1.4, 1.8, 380),
}
"""Multipliers of width and depth, and the resolution, of each size."""


def scaled_depths(depths: Sequence[int], multiplier: float) -> list[int]:
    """Every depth times the multiplier, rounded up."""
    return [ceil(depth * multiplier) for depth in depths]


def build(
    widths: Sequence[int] = WIDTHS,
    depths: Sequence[int] = DEPTHS,
    kernels: Sequence[int] = KERNELS,
    expansions: Sequence[float] = EXPANSIONS,
    *,
    squeeze: float = SQUEEZE,
    activation: str = "silu",
    stem: int = STEM,
    head: int = HEAD,
    resolution: Size = 224,
    classes: int = 1000,
    batch: int = 1,
) -> Graph:
    """EfficientNet, B0 by default.

    Args:
        widths: Output channels of the seven stages.
        depths: Blocks in each stage.
        kernels: Kernel size of the depthwise convolutions of each stage.
        expansions: Expansion of the blocks of each stage.
        squeeze: Squeezed channels relative to a block's input channels; 0 for no squeeze-and-excitation.
        activation: "silu", or "relu6" as in EfficientNet-Lite.
        stem: Channels of the first convolution.
        head: Channels of the last 1x1 convolution.
        resolution: Height and width of the image, one number or two.
        classes: Outputs.
        batch: Images at a time.

    Raises:
        ModelError: The lists are not seven long, or the activation is unknown.
    """
    b = GraphBuilder("efficientnet")
    x = b.conv_bn(b.input((batch, 3, *pair(resolution))), stem, 3, stride=2, activation=activation)
    stages = uniform_stages("efficientnet", widths, depths, kernels, expansions, [squeeze] * len(widths))
    x = inverted_residual_stages(b, x, stages, activation, squeeze_activation=activation)
    x = b.conv_bn(x, head, activation=activation)
    return b.finish(b.linear(b.flatten(b.global_average_pool(x)), classes))


def draw(rng: Random) -> dict[str, Any]:
    width_multiplier, depth_multiplier, _ = SCALES[rng.choice(("b0", "b1", "b2", "b3"))]
    lite = rng.random() < 0.25
    return {
        "widths": draw_widths(rng, scaled_widths(WIDTHS, width_multiplier)),
        "depths": draw_depths(rng, scaled_depths(DEPTHS, depth_multiplier)),
        "kernels": draw_kernels(rng, KERNELS),
        "expansions": [1, *(rng.choice((3, 4, 6)) for _ in EXPANSIONS[1:])],
        "squeeze": 0.0 if lite else SQUEEZE,
        "activation": "relu6" if lite else "silu",
        "stem": draw_widths(rng, [STEM])[0],
        "head": draw_widths(rng, [HEAD])[0],
        "resolution": draw_resolution(rng),
    }


def _published(size: str, million_parameters: float, million_macs: float, paper: str) -> PublishedModel:
    width_multiplier, depth_multiplier, resolution = SCALES[size]
    return PublishedModel(
        {
            "widths": scaled_widths(WIDTHS, width_multiplier),
            "depths": scaled_depths(DEPTHS, depth_multiplier),
            "stem": scaled_widths([STEM], width_multiplier)[0],
            "head": scaled_widths([HEAD], width_multiplier)[0],
            "resolution": resolution,
        },
        million_parameters,
        million_macs,
        f"at {resolution}x{resolution}, MACs of convolutions and the linear layer: {paper}",
    )


_TORCHVISION = "torchvision models table (Tan and Le 2019, Table 2: {})"

SPACE = VariantFamily(
    "efficientnet",
    {
        "efficientnet_b0": _published("b0", 5.289, 386, _TORCHVISION.format("5.3 M, 0.39 B")),
        "efficientnet_b1": _published("b1", 7.794, 687, _TORCHVISION.format("7.8 M, 0.70 B")),
        "efficientnet_b2": _published(
            "b2",
            9.110,
            1000,
            "Tan and Le 2019, Table 2 (9.2 M); parameters of torchvision, whose weights are for 288x288",
        ),
        "efficientnet_b3": _published("b3", 12.233, 1827, _TORCHVISION.format("12 M, 1.8 B")),
        "efficientnet_b4": _published("b4", 19.342, 4394, _TORCHVISION.format("19 M, 4.2 B")),
        "efficientnet_lite0": PublishedModel(
            {"squeeze": 0.0, "activation": "relu6"},
            4.652,
            None,
            "parameters of timm's efficientnet_lite0. The MACs on the authors' page (407 M) exceed what convolutions and "
            "the linear layer of the published network take (385 M), and the page does not say what else they count",
        ),
    },
    build,
    draw,
)
