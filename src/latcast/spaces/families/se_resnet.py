"""SE-ResNet and SE-ResNeXt (Hu et al., "Squeeze-and-excitation networks", 2018, Tables 1 and 2)."""

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
INNER = (64, 128, 256, 512)
GROUPED_INNER = (128, 256, 512, 1024)
KERNELS = (3, 3, 3, 3)
DEPTHS = (3, 4, 6, 3)


def build(
    groups: int = 1,
    inner: Sequence[int] = INNER,
    stride_in: str = "3x3",
    squeeze: int = 16,
    depths: Sequence[int] = DEPTHS,
    widths: Sequence[int] = WIDTHS,
    kernels: Sequence[int] = KERNELS,
    *,
    stem: int = 64,
    resolution: Size = 224,
    classes: int = 1000,
    batch: int = 1,
) -> Graph:
    """SE-ResNet (one group) or SE-ResNeXt.

    The arguments are those of :func:`residual_network` and :class:`BlockStyle`.
    """
    return residual_network(
        "se_resnet",
        BlockStyle("bottleneck", groups=groups, squeeze=squeeze, stride_in=stride_in),
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
    groups = rng.choice((1, 1, 16, 32))
    return {
        "groups": groups,
        "inner": draw_widths(rng, INNER if groups == 1 else GROUPED_INNER, multiple=max(groups, 8)),
        "stride_in": rng.choice(("1x1", "3x3")),
        "squeeze": rng.choice((8, 16, 32)),
        "depths": draw_depths(rng, DEPTHS),
        "widths": draw_widths(rng, WIDTHS),
        "kernels": draw_kernels(rng, KERNELS),
        "resolution": draw_resolution(rng),
    }


SPACE = VariantFamily(
    "se_resnet",
    {
        "se_resnet50": PublishedModel(
            {"stride_in": "1x1"},
            28.09,
            3870.0,
            "Hu et al. Table 2 (3.87 GFLOPs); parameters of the weights its authors' code loads (28.09 M)",
        ),
        "se_resnext50_32x4d": PublishedModel(
            {"groups": 32, "inner": list(GROUPED_INNER)},
            27.56,
            4250.0,
            "Hu et al. Table 2 (4.25 GFLOPs); parameters of the weights its authors' code loads (27.56 M)",
        ),
    },
    build,
    draw,
)
