"""Families for phones besides inverted residuals: MobileNetV1 and ShuffleNetV2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder
from latcast.spaces.blocks import separable, shuffle_unit
from latcast.spaces.families.variants import (
    Stages,
    VariantFamily,
    draw_from,
    pooled_classifier,
    published,
    scaled_parameters,
)

# MobileNetV1 (Howard et al., "MobileNets", 2017, Table 1), with ReLU6 as in its released models

_MOBILENET_V1: Mapping[str, Any] = {
    "widths": [64, 128, 256, 512, 1024], "depths": [1, 2, 2, 6, 2], "kernels": [3] * 5, "stem": 32,
}  # fmt: skip


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
    published(
        "MACs of convolutions and the linear layer: Howard et al. 2017, Table 6; parameters, which the paper rounds "
        "to 0.1 M: model table of TensorFlow-Slim's mobilenet_v1",
        {
            "mobilenet_v1": (scaled_parameters(_MOBILENET_V1, 1.0, "stem", "widths"), 4.24, 569),
            "mobilenet_v1_0_75": (scaled_parameters(_MOBILENET_V1, 0.75, "stem", "widths"), 2.59, 325),
            "mobilenet_v1_0_5": (scaled_parameters(_MOBILENET_V1, 0.5, "stem", "widths"), 1.34, 149),
            "mobilenet_v1_0_25": (scaled_parameters(_MOBILENET_V1, 0.25, "stem", "widths"), 0.47, 41),
        },
    ),
    _MOBILENET_V1,
    mobilenet_v1,
    draw_from("widths depths kernels stem resolution", _MOBILENET_V1),
    per_stage="widths depths kernels",
)


# ShuffleNetV2 (Ma et al., "ShuffleNet V2: practical guidelines for efficient CNN architecture design", 2018, Table 5)

_SHUFFLENET_WIDTHS = {"0_5": [48, 96, 192], "1_0": [116, 232, 464], "1_5": [176, 352, 704], "2_0": [244, 488, 976]}
_SHUFFLENET: Mapping[str, Any] = {
    "widths": _SHUFFLENET_WIDTHS["1_0"], "depths": [4, 8, 4], "kernels": [3, 3, 3], "stem": 24, "head": 1024,
}  # fmt: skip


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


SHUFFLENET_V2 = VariantFamily(
    "shufflenet_v2",
    published(
        "torchvision models table; MACs of convolutions and the linear layer ({}Ma et al. 2018, Table 8: {} M; Ma et al. do not "
        "say what else they count)",
        {
            f"shufflenet_v2_x{size}": (
                {"widths": _SHUFFLENET_WIDTHS[size], "head": 2048 if size == "2_0" else 1024},
                parameters,
                macs,
                *counted,
            )
            for size, parameters, macs, *counted in (
                ("0_5", 1.367, 40.48, "by PyTorch's flop counter, the table has 0.04 G; ", "41"),
                ("1_0", 2.279, 145, "", "146"),
                ("1_5", 3.504, 296, "", "299"),
                ("2_0", 7.394, 583, "", "591"),
            )
        },
    ),
    _SHUFFLENET,
    shufflenet_v2,
    draw_from(
        "widths depths kernels stem head resolution",
        *({**_SHUFFLENET, "widths": widths} for widths in _SHUFFLENET_WIDTHS.values()),
    ),
    per_stage="widths depths kernels",
)
