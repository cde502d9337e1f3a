"""Families of residual networks.

ResNet (He et al., "Deep residual learning for image recognition", 2016, Table 1), ResNeXt (Xie et al., "Aggregated residual
transformations for deep neural networks", 2017).
"""

from __future__ import annotations

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
    parameters_of,
    pooled_classifier,
    published_and_defaults,
)


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


RESNET = VariantFamily(
    "resnet",
    *published_and_defaults("resnet"),
    residual_network,
    draw_from(
        "block depths widths inner kernels stem resolution",
        *parameters_of("resnet", *(f"resnet{layers}" for layers in (18, 34, 50, 101))),
        stem=draw_stem,
    ),
    per_stage="depths widths inner kernels",
)


def _draw_resnext(rng: Random) -> dict[str, Any]:
    groups = rng.choice((8, 16, 32, 64))
    bases = parameters_of("resnext", "resnext50_32x4d", "resnext101_32x8d")
    return {
        "depths": draw_depths(rng, rng.choice(bases)["depths"]),
        "inner": draw_widths(rng, rng.choice(bases)["inner"], multiple=groups),
        "groups": groups,
        "widths": draw_widths(rng, bases[0]["widths"]),
        "kernels": draw_kernels(rng, [3] * 4),
        "resolution": draw_resolution(rng),
    }


RESNEXT = VariantFamily(
    "resnext",
    *published_and_defaults("resnext"),
    residual_network,
    _draw_resnext,
    per_stage="depths widths inner kernels",
)
