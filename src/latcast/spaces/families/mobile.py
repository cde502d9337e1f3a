"""Families for phones besides inverted residuals: MobileNetV1 and ShuffleNetV2."""

from __future__ import annotations

from collections.abc import Sequence

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder
from latcast.spaces.blocks import separable, shuffle_unit
from latcast.spaces.families.variants import (
    Stages,
    VariantFamily,
    draw_from,
    parameters_of,
    pooled_classifier,
    published_and_defaults,
)

# MobileNetV1 (Howard et al., "MobileNets", 2017, Table 1), with ReLU6 as in its released models


def mobilenet_v1(
    b: GraphBuilder, x: str, *, widths: Sequence[int], depths: Sequence[int], kernels: Sequence[int], stem: int, classes: int
) -> str:
    """Add MobileNetV1: a 3x3 convolution, then ``depths`` pairs of a depthwise and a 1x1 convolution in each stage."""
    x = b.conv_bn(x, stem, 3, stride=2, activation="relu6")
    for stage, (width, depth, kernel) in enumerate(zip(widths, depths, kernels, strict=True)):
        for block in range(depth):
            stride = 2 if stage > 0 and block == 0 else 1
            x = separable(b, x, width, kernel, stride=stride, activation="relu6")
    return pooled_classifier(b, x, classes)


MOBILENET_V1 = VariantFamily(
    "mobilenet_v1",
    *published_and_defaults("mobilenet_v1"),
    mobilenet_v1,
    draw_from("widths depths kernels stem resolution", *parameters_of("mobilenet_v1", "mobilenet_v1")),
    per_stage="widths depths kernels",
)


# ShuffleNetV2 (Ma et al., "ShuffleNet V2: practical guidelines for efficient CNN architecture design", 2018, Table 5)


def shufflenet_v2(
    b: GraphBuilder, x: str, *, widths: Stages, depths: Stages, kernels: Stages, stem: int, head: int, classes: int
) -> str:
    """Add ShuffleNetV2, of which every stage halves the resolution.

    Raises:
        ModelError: A width is odd.
    """
    x = b.max_pool(b.conv_bn(x, stem, 3, stride=2), 3, 2, 1)
    for width, depth, kernel in zip(widths, depths, kernels, strict=True):
        if width % 2:
            raise ModelError(f"a stage of ShuffleNetV2 has {width} channels, which do not split in halves; give an even number")
        for block in range(depth):
            x = shuffle_unit(b, x, width, kernel, 2 if block == 0 else 1)
    return b.linear(b.reduce_mean(b.conv_bn(x, head), (2, 3), keepdims=False), classes)


_SHUFFLENETS = parameters_of("shufflenet_v2", *(f"shufflenet_v2_x{size}" for size in ("0_5", "1_0", "1_5", "2_0")))

SHUFFLENET_V2 = VariantFamily(
    "shufflenet_v2",
    *published_and_defaults("shufflenet_v2"),
    shufflenet_v2,
    draw_from(
        "widths depths kernels stem head resolution",
        *({**each, "head": _SHUFFLENETS[0]["head"]} for each in _SHUFFLENETS),  # of which only the largest has a wider one
    ),
    per_stage="widths depths kernels",
)
