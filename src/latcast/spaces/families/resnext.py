"""ResNeXt (Xie et al., "Aggregated residual transformations for deep neural networks", 2017)."""

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
)

WIDTHS = (256, 512, 1024, 2048)
KERNELS = (3, 3, 3, 3)
DEPTHS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}
INNER = {"32x4d": (128, 256, 512, 1024), "32x8d": (256, 512, 1024, 2048)}
"""Channels inside the blocks: groups times the width of a group, doubled from stage to stage."""


def build(
    depths: Sequence[int] = DEPTHS[50],
    inner: Sequence[int] = INNER["32x4d"],
    groups: int = 32,
    widths: Sequence[int] = WIDTHS,
    kernels: Sequence[int] = KERNELS,
    *,
    stem: int = 64,
    resolution: Size = 224,
    classes: int = 1000,
    batch: int = 1,
) -> Graph:
    """ResNeXt, ResNeXt-50 32x4d by default.

    The arguments are those of :func:`residual_network`; ``groups`` must divide every ``inner``.
    """
    return residual_network(
        "resnext",
        BlockStyle("bottleneck", groups=groups),
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
    groups = rng.choice((8, 16, 32, 64))
    return {
        "depths": draw_depths(rng, DEPTHS[rng.choice((50, 101))]),
        "inner": draw_widths(rng, INNER[rng.choice(("32x4d", "32x8d"))], multiple=groups),
        "groups": groups,
        "widths": draw_widths(rng, WIDTHS),
        "kernels": draw_kernels(rng, KERNELS),
        "resolution": draw_resolution(rng),
    }


def _published(layers: int, groups: str, million_parameters: float, million_macs: float) -> PublishedModel:
    return PublishedModel(
        {"depths": list(DEPTHS[layers]), "inner": list(INNER[groups])},
        million_parameters,
        million_macs,
        "torchvision models table",
    )


SPACE = VariantFamily(
    "resnext",
    {
        "resnext50_32x4d": _published(50, "32x4d", 25.029, 4230),
        "resnext101_32x8d": _published(101, "32x8d", 88.791, 16414),
    },
    build,
    draw,
)
