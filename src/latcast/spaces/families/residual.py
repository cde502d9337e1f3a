"""Families of residual networks.

ResNet (He et al., "Deep residual learning for image recognition", 2016, Table 1), ResNeXt (Xie et al., "Aggregated residual
transformations for deep neural networks", 2017), SE-ResNet and SE-ResNeXt (Hu et al., "Squeeze-and-excitation networks", 2018,
Tables 1 and 2), RegNet X and Y (Radosavovic et al., "Designing network design spaces", 2020, §3.3 and Tables 8 and 9).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from math import log
from random import Random
from typing import Any

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder
from latcast.spaces.blocks import SqueezeExcite, bottleneck, shortcut
from latcast.spaces.catalogue import PublishedModel
from latcast.spaces.families.variants import (
    VariantFamily,
    check_lengths,
    draw_depths,
    draw_from,
    draw_kernels,
    draw_resolution,
    draw_stem,
    draw_widths,
    pooled_classifier,
    published,
    round_channels,
)

TORCHVISION = "torchvision models table"


def residual_network(
    b: GraphBuilder,
    x: str,
    *,
    depths: Sequence[int],
    widths: Sequence[int],
    inner: Sequence[int],
    kernels: Sequence[int],
    stem: int,
    classes: int,
    block: str = "bottleneck",
    groups: int = 1,
    squeeze: int = 0,
    stride_in: str = "3x3",
) -> str:
    """A 7x7 stem of stride 2, a max pooling, stages of residual blocks, average pooling, one linear layer.

    Args:
        depths: Blocks in each stage; all stages but the first halve the resolution.
        widths: Output channels of each stage.
        inner: Channels inside the blocks of each stage.
        kernels: Kernel size in each stage.
        stem: Channels of the stem.
        block: "basic" (two convolutions of the stage's kernel) or "bottleneck" (1x1, the stage's kernel, 1x1).
        groups: Groups of a bottleneck's middle convolution; they must divide every ``inner``.
        squeeze: Reduction of the squeeze-and-excitation that ends the residual branch; 0 for none.
        stride_in: The convolution of a bottleneck that has the stride: "3x3" (the middle one, as torchvision and
            ResNeXt have it) or "1x1" (the first one, as in the ResNet paper).

    Raises:
        ModelError: The lists differ in length, groups do not divide channels, or no such block.
    """
    check_lengths(b.name, depths=depths, widths=widths, inner=inner, kernels=kernels)
    if block not in ("basic", "bottleneck"):
        raise ModelError(f"no residual block is called '{block}'; expected 'basic' or 'bottleneck'")
    x = b.max_pool(b.conv_bn(x, stem, 7, stride=2), 3, 2, 1)
    for stage, (depth, width, narrow, kernel) in enumerate(zip(depths, widths, inner, kernels, strict=True)):
        for index in range(depth):
            stride = 2 if stage > 0 and index == 0 else 1
            if block == "basic":
                y = b.conv_bn(b.conv_bn(x, narrow, kernel, stride=stride), width, kernel, activation=None)
            else:
                y = bottleneck(
                    b, x, width, inner=narrow, kernel=kernel, stride=stride, groups=groups, stride_first=stride_in == "1x1"
                )
            if squeeze:
                y = b.squeeze_excite(y, max(width // squeeze, 1))
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
)  # fmt: skip


def _draw_se_resnet(rng: Random) -> dict[str, Any]:
    groups = rng.choice((1, 1, 16, 32))
    return {
        "groups": groups,
        "inner": draw_widths(rng, _INNER if groups == 1 else _GROUPED_INNER["32x4d"], multiple=max(groups, 8)),
        "stride_in": rng.choice(("1x1", "3x3")),
        "squeeze": rng.choice((8, 16, 32)),
        "depths": draw_depths(rng, _RESNET_DEPTHS[50]),
        "widths": draw_widths(rng, _WIDE),
        "kernels": draw_kernels(rng, [3] * 4),
        "resolution": draw_resolution(rng),
    }


_HU = "Hu et al. Table 2 ({} GFLOPs); parameters of the weights its authors' code loads ({} M)"

SE_RESNET = VariantFamily(
    "se_resnet",
    {
        "se_resnet50": PublishedModel({"stride_in": "1x1"}, 28.09, 3870.0, _HU.format("3.87", "28.09")),
        "se_resnext50_32x4d": PublishedModel(
            {"groups": 32, "inner": _GROUPED_INNER["32x4d"]}, 27.56, 4250.0, _HU.format("4.25", "27.56")
        ),
    },
    {
        "groups": 1, "inner": _INNER, "stride_in": "3x3", "squeeze": 16, "depths": _RESNET_DEPTHS[50], "widths": _WIDE,
        "kernels": [3] * 4, "stem": 64,
    },
    residual_network,
    _draw_se_resnet,
)  # fmt: skip


def quantised_stages(depth: int, initial: int, slope: float, quantum: float, group_width: int) -> tuple[list[int], list[int]]:
    """Depths and widths of RegNet's stages from the paper's parameters d, w0, wa and wm (equations 2 to 4).

    A block's width is w0 wm^s with s the nearest integer to the logarithm of the linear width w0 + wa j; it is
    rounded to a multiple of 8 and then to one of the group width.
    """
    exponents = [round(log((initial + slope * block) / initial) / log(quantum)) for block in range(depth)]
    depths = [len(list(blocks)) for _, blocks in groupby(exponents)]
    widths = [round(initial * quantum**exponent / 8) * 8 for exponent, _ in groupby(exponents)]
    return depths, [round_channels(width, min(group_width, width)) for width in widths]


def regnet(
    b: GraphBuilder,
    x: str,
    *,
    depths: Sequence[int],
    widths: Sequence[int],
    group_width: int,
    squeeze: float,
    kernels: Sequence[int],
    stem: int,
    classes: int,
) -> str:
    """RegNet: residual bottlenecks that do not narrow, their middle convolution in groups.

    Args:
        depths: Blocks in each stage; every stage halves the resolution.
        widths: Channels of each stage, multiples of the group width (or below it).
        group_width: Channels of a group.
        squeeze: Squeeze-and-excitation's share of the block's input channels (RegNetY); 0 for none (RegNetX).
        kernels: Kernel size of each stage.
        stem: Channels of the 3x3 stem.

    Raises:
        ModelError: The lists differ in length, or a width is not a multiple of the group width.
    """
    check_lengths("regnet", depths=depths, widths=widths, kernels=kernels)
    for width in widths:
        if width % min(group_width, width):
            raise ModelError(f"a RegNet stage of {width} channels has no groups of {group_width}; use a multiple")
    x = b.conv_bn(x, stem, 3, stride=2)
    for depth, width, kernel in zip(depths, widths, kernels, strict=True):
        groups = width // min(group_width, width)
        for index in range(depth):
            stride = 2 if index == 0 else 1
            gate = SqueezeExcite(max(round(squeeze * b.channels(x)), 1)) if squeeze else None
            passed = shortcut(b, x, width, stride)
            y = bottleneck(b, x, width, inner=width, kernel=kernel, stride=stride, groups=groups, squeeze_excite=gate)
            x = b.relu(b.add(passed, y))
    return pooled_classifier(b, x, classes)


_REGNETS: Mapping[str, tuple[tuple[int, int, float, float, int], float, float, float]] = {
    "regnet_x_400mf": ((22, 24, 24.48, 2.54, 16), 0.0, 5.496, 414),
    "regnet_x_800mf": ((16, 56, 35.73, 2.28, 16), 0.0, 7.260, 800),
    "regnet_x_1_6gf": ((18, 80, 34.01, 2.25, 24), 0.0, 9.190, 1603),
    "regnet_x_3_2gf": ((25, 88, 26.31, 2.25, 48), 0.0, 15.297, 3177),
    "regnet_y_400mf": ((16, 48, 27.89, 2.09, 8), 0.25, 4.344, 402),
    "regnet_y_800mf": ((14, 56, 38.84, 2.4, 16), 0.25, 6.433, 834),
    "regnet_y_1_6gf": ((27, 48, 20.71, 2.65, 24), 0.25, 11.202, 1612),
    "regnet_y_3_2gf": ((21, 80, 42.63, 2.66, 24), 0.25, 19.436, 3176),
}
"""Arguments of :func:`quantised_stages`, squeeze, million parameters, million multiply-accumulates."""


def _regnet(stages: tuple[int, int, float, float, int], squeeze: float) -> dict[str, Any]:
    depths, widths = quantised_stages(*stages)
    return {"depths": depths, "widths": widths, "group_width": stages[-1], "squeeze": squeeze}


def _draw_regnet(rng: Random) -> dict[str, Any]:
    stages, squeeze, _, _ = _REGNETS[rng.choice(sorted(_REGNETS))]
    base = _regnet(stages, squeeze)
    group_width = rng.choice((8, 16, 24, 32, 48))
    return {
        "depths": draw_depths(rng, base["depths"]),
        "widths": draw_widths(rng, base["widths"], multiple=group_width),
        "group_width": group_width,
        "squeeze": squeeze,
        "kernels": draw_kernels(rng, [3] * 4),
        "stem": round_channels(32 * rng.uniform(0.5, 1.8)),
        "resolution": draw_resolution(rng),
    }


REGNET = VariantFamily(
    "regnet",
    published(
        "torchvision models table; depth, w0, wa, wm and group width from the paper's Tables 8 and 9",
        {name: (_regnet(*row[:2]), *row[2:]) for name, row in _REGNETS.items()},
    ),
    {**_regnet(*_REGNETS["regnet_x_400mf"][:2]), "kernels": [3] * 4, "stem": 32},
    regnet,
    _draw_regnet,
)  # fmt: skip
