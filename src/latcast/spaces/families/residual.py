"""Families of residual networks.

ResNet (He et al., "Deep residual learning for image recognition", 2016, Table 1), ResNeXt (Xie et al., "Aggregated residual
transformations for deep neural networks", 2017).
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder
from latcast.spaces.blocks import bottleneck, shortcut
from latcast.spaces.families.variants import (
    Stages,
    VariantFamily,
    draw_depths,
    draw_from,
    draw_kernels,
    draw_resolution,
    draw_stem,
    draw_widths,
    pooled_classifier,
    published,
)

TORCHVISION = "torchvision models table"


def residual_network(
    b: GraphBuilder,
    x: str,
    *,
    depths: Stages,
    widths: Stages,
    inner: Stages,
    kernels: Stages,
    stem: int,
    classes: int,
    block: str = "bottleneck",
    groups: int = 1,
) -> str:
    """Add a 7x7 stem of stride 2, a max pooling, stages of residual blocks, average pooling, one linear layer.

    Args:
        inner: Channels inside the blocks of each stage.
        block: "basic" (two convolutions of the stage's kernel) or "bottleneck" (1x1, the stage's kernel with the stride, 1x1).
        groups: Groups of a bottleneck's middle convolution; they must divide every ``inner``.

    Raises:
        ModelError: Groups do not divide channels, or no such block.
    """
    if block not in ("basic", "bottleneck"):
        raise ModelError(f"no residual block is called '{block}'; expected 'basic' or 'bottleneck'")
    x = b.max_pool(b.conv_bn(x, stem, 7, stride=2), 3, 2, 1)
    for stage, (depth, width, narrow, kernel) in enumerate(zip(depths, widths, inner, kernels, strict=True)):
        for index in range(depth):
            stride = 2 if stage > 0 and index == 0 else 1
            if block == "basic":
                y = b.conv_bn(b.conv_bn(x, narrow, kernel, stride=stride), width, kernel, activation=None)
            else:
                y = bottleneck(b, x, width, inner=narrow, kernel=kernel, stride=stride, groups=groups)
            x = b.relu(b.add(y, shortcut(b, x, width, stride)))
    return pooled_classifier(b, x, classes)


_RESNET_DEPTHS = {18: [2, 2, 2, 2], 34: [3, 4, 6, 3], 50: [3, 4, 6, 3], 101: [3, 4, 23, 3], 152: [3, 8, 36, 3]}
_INNER, _WIDE = [64, 128, 256, 512], [256, 512, 1024, 2048]
_RESNET: Mapping[str, Any] = {
    "block": "bottleneck", "depths": _RESNET_DEPTHS[50], "widths": _WIDE, "inner": _INNER, "kernels": [3] * 4, "stem": 64,
}  # fmt: skip


def _resnet(layers: int) -> dict[str, Any]:
    basic = {"block": "basic", "depths": _RESNET_DEPTHS[layers], "widths": _INNER}
    return basic if layers < 50 else {"block": "bottleneck", "depths": _RESNET_DEPTHS[layers], "widths": _WIDE}


RESNET = VariantFamily(
    "resnet",
    published(
        TORCHVISION,
        {
            "resnet18": (_resnet(18), 11.690, 1814),
            "resnet34": (_resnet(34), 21.798, 3664),
            "resnet50": (_resnet(50), 25.557, 4089),
            "resnet101": (_resnet(101), 44.549, 7801),
            "resnet152": (_resnet(152), 60.193, 11514),
        },
    ),
    _RESNET,
    residual_network,
    draw_from(
        "block depths widths inner kernels stem resolution",
        *({**_RESNET, **_resnet(layers)} for layers in (18, 34, 50, 101)),
        stem=draw_stem,
    ),
    per_stage="depths widths inner kernels",
)

_GROUPED_INNER = {"32x4d": [128, 256, 512, 1024], "32x8d": [256, 512, 1024, 2048]}
"""Channels inside the blocks: groups times the width of a group, doubled from stage to stage."""


def _draw_resnext(rng: Random) -> dict[str, Any]:
    groups = rng.choice((8, 16, 32, 64))
    return {
        "depths": draw_depths(rng, _RESNET_DEPTHS[rng.choice((50, 101))]),
        "inner": draw_widths(rng, _GROUPED_INNER[rng.choice(("32x4d", "32x8d"))], multiple=groups),
        "groups": groups,
        "widths": draw_widths(rng, _WIDE),
        "kernels": draw_kernels(rng, [3] * 4),
        "resolution": draw_resolution(rng),
    }


RESNEXT = VariantFamily(
    "resnext",
    published(
        TORCHVISION,
        {
            "resnext50_32x4d": ({"depths": _RESNET_DEPTHS[50], "inner": _GROUPED_INNER["32x4d"]}, 25.029, 4230),
            "resnext101_32x8d": ({"depths": _RESNET_DEPTHS[101], "inner": _GROUPED_INNER["32x8d"]}, 88.791, 16414),
        },
    ),
    {
        "depths": _RESNET_DEPTHS[50], "inner": _GROUPED_INNER["32x4d"], "groups": 32, "widths": _WIDE, "kernels": [3] * 4,
        "stem": 64,
    },
    residual_network,
    _draw_resnext,
    per_stage="depths widths inner kernels",
)  # fmt: skip
