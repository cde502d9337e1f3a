"""ResNet (He et al., "Deep residual learning for image recognition", 2016, Table 1).

The stride of a bottleneck is in its 3x3 convolution, as in torchvision.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from latcast.graph.builder import Size
from latcast.graph.ir import Graph
from latcast.spaces.catalogue import PublishedModel
from latcast.spaces.families.residual import BlockStyle, residual_network
from latcast.spaces.families.variants import (
    VariantFamily,
    draw_depths,
    draw_kernels,
    draw_resolution,
    draw_widths,
    round_channels,
)

INNER = (64, 128, 256, 512)
WIDTHS = {"basic": INNER, "bottleneck": (256, 512, 1024, 2048)}
KERNELS = (3, 3, 3, 3)
DEPTHS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


def build(
    block: str = "bottleneck",
    depths: Sequence[int] = DEPTHS[50],
    widths: Sequence[int] = WIDTHS["bottleneck"],
    inner: Sequence[int] = INNER,
    kernels: Sequence[int] = KERNELS,
    *,
    stem: int = 64,
    resolution: Size = 224,
    classes: int = 1000,
    batch: int = 1,
) -> Graph:
    """ResNet, ResNet-50 by default.

    The arguments are those of :func:`residual_network`; ``block`` is "basic" or "bottleneck".
    """
    return residual_network(
        "resnet",
        BlockStyle(block),
        depths=depths,
        widths=widths,
        inner=inner,
        kernels=kernels,
        stem=stem,
        resolution=resolution,
        classes=classes,
        batch=batch,
    )


def draw(rng: Random) -> dict[str, Any]:
    layers = rng.choice((18, 34, 50, 101))
    block = "basic" if layers < 50 else "bottleneck"
    return {
        "block": block,
        "depths": draw_depths(rng, DEPTHS[layers]),
        "widths": draw_widths(rng, WIDTHS[block]),
        "inner": draw_widths(rng, INNER),
        "kernels": draw_kernels(rng, KERNELS),
        "stem": round_channels(64 * rng.uniform(0.25, 1.5)),
        "resolution": draw_resolution(rng),
    }


def _published(layers: int, million_parameters: float, million_macs: float) -> PublishedModel:
    block = "basic" if layers < 50 else "bottleneck"
    return PublishedModel(
        {"block": block, "depths": list(DEPTHS[layers]), "widths": list(WIDTHS[block])},
        million_parameters,
        million_macs,
        "torchvision models table",
    )


SPACE = VariantFamily(
    "resnet",
    {
        "resnet18": _published(18, 11.690, 1814),
        "resnet34": _published(34, 21.798, 3664),
        "resnet50": _published(50, 25.557, 4089),
        "resnet101": _published(101, 44.549, 7801),
        "resnet152": _published(152, 60.193, 11514),
    },
    build,
    draw,
)
