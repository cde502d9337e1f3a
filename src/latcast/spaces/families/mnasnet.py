"""MnasNet (Tan et al., "MnasNet: platform-aware neural architecture search for mobile", 2019): B1 at four widths, and A1."""

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
HEAD = 1280

WIDTHS = (16, 24, 40, 80, 96, 192, 320)
DEPTHS = (1, 3, 3, 3, 2, 4, 1)
KERNELS = (3, 3, 5, 5, 3, 5, 3)
EXPANSIONS = (1, 3, 3, 6, 6, 6, 6)
SQUEEZES = (0, 0, 0, 0, 0, 0, 0)

A1: dict[str, Any] = {
    "widths": [16, 24, 40, 80, 112, 160, 320],
    "depths": [1, 2, 3, 4, 2, 3, 1],
    "kernels": [3, 3, 5, 3, 3, 5, 3],
    "expansions": [1, 6, 3, 6, 6, 6, 6],
    "squeezes": [0, 0, 0.25, 0, 0.25, 0.25, 0],
}
"""Tan et al. 2019, Fig. 7."""


def build(
    widths: Sequence[int] = WIDTHS,
    depths: Sequence[int] = DEPTHS,
    kernels: Sequence[int] = KERNELS,
    expansions: Sequence[float] = EXPANSIONS,
    squeezes: Sequence[float] = SQUEEZES,
    *,
    stem: int = STEM,
    head: int = HEAD,
    resolution: Size = 224,
    classes: int = 1000,
    batch: int = 1,
) -> Graph:
    """MnasNet, B1 by default.

    Args:
        widths: Output channels of the seven stages; the first is the separable convolution after the stem.
        depths: Blocks in each stage.
        kernels: Kernel size of the depthwise convolutions of each stage.
        expansions: Expansion of the blocks of each stage.
        squeezes: Squeezed channels relative to a block's input channels, 0 for no squeeze-and-excitation.
        stem: Channels of the first convolution.
        head: Channels of the last 1x1 convolution.
        resolution: Height and width of the image, one number or two.
        classes: Outputs.
        batch: Images at a time.

    Raises:
        ModelError: The lists are not seven long.
    """
    b = GraphBuilder("mnasnet")
    x = b.conv_bn(b.input((batch, 3, *pair(resolution))), stem, 3, stride=2)
    stages = uniform_stages("mnasnet", widths, depths, kernels, expansions, squeezes)
    x = inverted_residual_stages(b, x, stages, "relu")
    x = b.conv_bn(x, head)
    return b.finish(b.linear(b.reduce_mean(x, (2, 3), keepdims=False), classes))


def draw(rng: Random) -> dict[str, Any]:
    widths, depths, kernels, expansions, squeezes = rng.choice(
        ((WIDTHS, DEPTHS, KERNELS, EXPANSIONS, SQUEEZES), tuple(A1.values()))
    )
    return {
        "widths": draw_widths(rng, widths),
        "depths": draw_depths(rng, depths),
        "kernels": draw_kernels(rng, kernels),
        "expansions": [
            1,
            *(rng.choice((3, 6)) if rng.random() < 0.5 else expansion for expansion in expansions[1:]),
        ],
        "squeezes": list(squeezes),
        "stem": draw_widths(rng, [STEM])[0],
        "head": draw_widths(rng, [HEAD])[0],
        "resolution": draw_resolution(rng),
    }


def _published(multiplier: float, million_parameters: float, million_macs: float) -> PublishedModel:
    return PublishedModel(
        {"stem": scaled_widths([STEM], multiplier)[0], "widths": scaled_widths(WIDTHS, multiplier)},
        million_parameters,
        million_macs,
        "torchvision models table, MACs of convolutions and the linear layer",
    )


SPACE = VariantFamily(
    "mnasnet",
    {
        "mnasnet0_5": _published(0.5, 2.219, 104),
        "mnasnet0_75": _published(0.75, 3.170, 215),
        "mnasnet1_0": _published(1.0, 4.383, 314),
        "mnasnet1_3": _published(1.3, 6.282, 526),
        "mnasnet_a1": PublishedModel(
            A1, 3.9, 312, "Tan et al. 2019, Table 1: MnasNet-A1, MACs of convolutions and the linear layer"
        ),
    },
    build,
    draw,
)
