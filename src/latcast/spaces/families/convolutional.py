"""Families of chains of convolutions and of concatenating blocks: AlexNet, VGG, SqueezeNet, GoogLeNet, DenseNet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from latcast.graph.builder import GraphBuilder
from latcast.spaces.blocks import dense_block, fire, inception, normalised_conv
from latcast.spaces.families.variants import (
    KERNEL_SIZES,
    Stages,
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
)

TORCHVISION = "torchvision models table"


def _classified_by_hidden_layers(b: GraphBuilder, x: str, hidden: Sequence[int], classes: int) -> str:
    """Add fully connected layers; the first reads the map as it is, whatever its size."""
    x = b.flatten(x)
    for width in hidden:
        x = b.relu(b.linear(x, width))
    return b.linear(x, classes)


# AlexNet in one tower (Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014)

_ALEXNET: Mapping[str, Any] = {"widths": [64, 192, 384, 256, 256], "kernels": [11, 5, 3, 3, 3], "hidden": [4096, 4096]}
POOLED_AFTER = (0, 1, 4)
"""Convolutions of AlexNet that a 3x3 max pooling of stride 2 follows."""


def alexnet(
    b: GraphBuilder, x: str, *, widths: Sequence[int], kernels: Sequence[int], hidden: Sequence[int], classes: int
) -> str:
    """Add AlexNet: five convolutions, of which the first has stride 4, and linear layers of ``hidden`` widths before the last.

    Raises:
        ModelError: Not five widths and kernels.
    """
    check_lengths("alexnet", convolutions=_ALEXNET["widths"], widths=widths, kernels=kernels)
    for index, (width, kernel) in enumerate(zip(widths, kernels, strict=True)):
        first = index == 0
        # The first convolution is padded by 2 at its published size of 11: a border of 3 is lost on each side.
        padding = max(kernel // 2 - 3, 0) if first else kernel // 2
        x = b.relu(b.conv(x, width, kernel, stride=4 if first else 1, padding=padding, bias=True))
        if index in POOLED_AFTER:
            x = b.max_pool(x, 3, 2)
    return _classified_by_hidden_layers(b, x, hidden, classes)


ALEXNET = VariantFamily(
    "alexnet",
    published(TORCHVISION, {"alexnet": ({}, 61.101, 714.0)}),
    _ALEXNET,
    alexnet,
    draw_from(
        "widths kernels hidden resolution",
        _ALEXNET,
        kernels=lambda rng, sizes: draw_kernels(rng, sizes[:1], (5, 7, 9, 11)) + draw_kernels(rng, sizes[1:]),
    ),
)


# VGG (Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", 2015, Table 1)

_VGG: Mapping[str, Any] = {
    "depths": [2, 2, 3, 3, 3], "widths": [64, 128, 256, 512, 512], "kernels": [3] * 5, "hidden": [4096, 4096],
    "batch_norm": False,
}  # fmt: skip
_VGG_DEPTHS = {11: [1, 1, 2, 2, 2], 13: [2, 2, 2, 2, 2], 16: [2, 2, 3, 3, 3], 19: [2, 2, 4, 4, 4]}


def vgg(
    b: GraphBuilder, x: str, *, depths: Stages, widths: Stages, kernels: Stages, hidden: Stages, batch_norm: bool, classes: int
) -> str:
    """Add VGG: stages of ``depths`` convolutions, each ended by a 2x2 max pooling, then linear layers of ``hidden`` widths."""
    for depth, width, kernel in zip(depths, widths, kernels, strict=True):
        for _ in range(depth):
            x = b.conv(x, width, kernel, bias=True)
            x = b.relu(b.batch_norm(x) if batch_norm else x)
        x = b.max_pool(x, 2)
    return _classified_by_hidden_layers(b, x, hidden, classes)


VGG = VariantFamily(
    "vgg",
    published(
        TORCHVISION,
        {
            f"vgg{layers}{suffix}": ({"depths": _VGG_DEPTHS[layers], "batch_norm": bool(suffix)}, parameters, macs)
            for layers, suffix, parameters, macs in (
                (11, "", 132.863, 7609),
                (13, "", 133.048, 11308),
                (16, "", 138.358, 15470),
                (19, "", 143.667, 19632),
                (11, "_bn", 132.869, 7609),
                (13, "_bn", 133.054, 11308),
                (16, "_bn", 138.366, 15470),
                (19, "_bn", 143.678, 19632),
            )
        },
    ),
    _VGG,
    vgg,
    draw_from(
        "depths widths kernels hidden batch_norm resolution",
        *({**_VGG, "depths": depths} for depths in _VGG_DEPTHS.values()),
        batch_norm=lambda rng, published: rng.random() < 0.5,
    ),
    per_stage="depths widths kernels",
)


# SqueezeNet (Iandola et al., "SqueezeNet", 2016, Table 1) and its version 1.1

_SQUEEZENET: Mapping[str, Any] = {
    "squeezed": [16, 16, 32, 32, 48, 48, 64, 64],
    "pointwise": [64, 64, 128, 128, 192, 192, 256, 256],
    "spatial": [64, 64, 128, 128, 192, 192, 256, 256],
    "kernels": [3] * 8,
    "pooled_before": [0, 3, 7],
    "stem": [96, 7],
}
_SQUEEZENET_1_1: Mapping[str, Any] = {"pooled_before": [0, 2, 4], "stem": [64, 3]}


def squeezenet(
    b: GraphBuilder,
    x: str,
    *,
    squeezed: Stages,
    pointwise: Stages,
    spatial: Stages,
    kernels: Stages,
    pooled_before: Stages,
    stem: Stages,
    classes: int,
) -> str:
    """Add SqueezeNet.

    A fire module squeezes to channels of ``squeezed``, and expands to those of ``pointwise`` and, with its kernel, ``spatial``.
    A 3x3 max pooling of stride 2 precedes those (from 0) of ``pooled_before``. ``stem`` is channels and kernel size.
    """

    def layer(y: str, width: int, kernel: int) -> str:
        return b.relu(b.conv(y, width, kernel, bias=True))

    x = b.relu(b.conv(x, stem[0], stem[1], stride=2, padding=0, bias=True))
    for index, sizes in enumerate(zip(squeezed, pointwise, spatial, kernels, strict=True)):
        if index in pooled_before:
            x = b.max_pool(x, 3, 2, ceil=True)
        x = fire(b, x, *sizes, layer)
    return b.flatten(b.global_average_pool(layer(x, classes, 1)))


SQUEEZENET = VariantFamily(
    "squeezenet",
    published(
        TORCHVISION,
        {
            "squeezenet1_0": ({"pooled_before": [0, 3, 7], "stem": [96, 7]}, 1.248, 819),
            "squeezenet1_1": (_SQUEEZENET_1_1, 1.235, 349),
        },
    ),
    _SQUEEZENET,
    squeezenet,
    draw_from(
        "squeezed pointwise spatial kernels pooled_before stem resolution",
        _SQUEEZENET,
        {**_SQUEEZENET, **_SQUEEZENET_1_1},
        kernels=lambda rng, sizes: draw_kernels(rng, sizes, keep=0.7),
        stem=lambda rng, stem: [draw_stem(rng, stem[0]), *draw_kernels(rng, stem[1:], KERNEL_SIZES[1:])],
    ),
    per_stage="squeezed pointwise spatial kernels",
)


# GoogLeNet (Szegedy et al., "Going deeper with convolutions", 2015, Table 1), as torchvision has it: with batch normalisation,
# with 3x3 convolutions where the paper has 5x5 ones, and without auxiliary classifiers

_GOOGLENET: Mapping[str, Any] = {
    "blocks": [
        [64, 96, 128, 16, 32, 32], [128, 128, 192, 32, 96, 64], [192, 96, 208, 16, 48, 64], [160, 112, 224, 24, 64, 64],
        [128, 128, 256, 24, 64, 64], [112, 144, 288, 32, 64, 64], [256, 160, 320, 32, 128, 128], [256, 160, 320, 32, 128, 128],
        [384, 192, 384, 48, 128, 128],
    ],
    "stages": [2, 5, 2],
    "kernels": [[3, 3], [3, 3], [3, 3]],
    "stem": [64, 64, 192],
}  # fmt: skip


def googlenet(
    b: GraphBuilder, x: str, *, blocks: Sequence[Stages], stages: Stages, kernels: Sequence[Stages], stem: Stages, classes: int
) -> str:
    """Add GoogLeNet.

    Args:
        blocks: Six widths for each inception block: 1x1; reduction and convolution; reduction and convolution; after the pooling.
        stages: Inception blocks in each stage; a max pooling stands between stages.
        kernels: Kernel sizes of the two branches with a convolution, for each stage.
        stem: Widths of the three convolutions before the first block.

    Raises:
        ModelError: The lists differ in length.
    """
    check_lengths("googlenet", stages=stages, kernels=kernels)
    check_lengths("googlenet's blocks", blocks=blocks, wanted=range(sum(stages)))
    x = b.max_pool(b.conv_bn(x, stem[0], 7, stride=2), 3, 2, ceil=True)
    x = b.max_pool(b.conv_bn(b.conv_bn(x, stem[1]), stem[2], 3), 3, 2, ceil=True)
    waiting = iter(blocks)
    for stage, (depth, sizes) in enumerate(zip(stages, kernels, strict=True)):
        if stage > 0:
            x = b.max_pool(x, 3 if stage == 1 else 2, 2, ceil=True)
        for _ in range(depth):
            plain, reduce_a, conv_a, reduce_b, conv_b, pooled = next(waiting)
            branches = [[(plain, 1, 1)], [(reduce_a, 1, 1), (conv_a, sizes[0], 1)], [(reduce_b, 1, 1), (conv_b, sizes[1], 1)]]
            x = inception(b, x, branches, pooled, lambda y: b.max_pool(y, 3, 1, 1, ceil=True))
    return pooled_classifier(b, x, classes)


def _draw_googlenet(rng: Random) -> dict[str, Any]:
    published, depths = _GOOGLENET["blocks"], _GOOGLENET["stages"]
    stages = draw_depths(rng, depths)
    bases = [
        published[sum(depths[:stage]) + min(index, depths[stage] - 1)]
        for stage, wanted in enumerate(stages)
        for index in range(wanted)
    ]
    return {
        "blocks": draw_widths(rng, bases),
        "stages": stages,
        "kernels": draw_kernels(rng, _GOOGLENET["kernels"], KERNEL_SIZES[1:]),
        "stem": draw_widths(rng, _GOOGLENET["stem"]),
        "resolution": draw_resolution(rng),
    }


GOOGLENET = VariantFamily(
    "googlenet", published(TORCHVISION, {"googlenet": ({}, 6.625, 1498.0)}), _GOOGLENET, googlenet, _draw_googlenet
)


# DenseNet-BC (Huang et al., "Densely connected convolutional networks", 2017, Table 1)

_DENSENET_DEPTHS = {121: [6, 12, 24, 16], 161: [6, 12, 36, 24], 169: [6, 12, 32, 32], 201: [6, 12, 48, 32]}
_DENSENET: Mapping[str, Any] = {
    "depths": _DENSENET_DEPTHS[121], "growths": [32] * 4, "kernels": [3] * 4, "stem": 64, "bottleneck": 4, "compression": 0.5,
}  # fmt: skip


def densenet(
    b: GraphBuilder,
    x: str,
    *,
    depths: Stages,
    growths: Stages,
    kernels: Stages,
    stem: int,
    bottleneck: int,
    compression: float,
    classes: int,
) -> str:
    """Add DenseNet-BC.

    A layer's 1x1 convolution has ``bottleneck`` times its growth; a transition keeps the share ``compression`` of the channels.
    """
    x = b.max_pool(b.conv_bn(x, stem, 7, stride=2), 3, 2, 1)
    for stage, (depth, growth, kernel) in enumerate(zip(depths, growths, kernels, strict=True)):
        if stage > 0:
            x = b.average_pool(normalised_conv(b, x, int(b.channels(x) * compression)), 2)
        x = dense_block(b, x, depth, growth, inner=bottleneck * growth, kernel=kernel)
    return pooled_classifier(b, b.relu(b.batch_norm(x)), classes)


DENSENET = VariantFamily(
    "densenet",
    published(
        TORCHVISION,
        {
            f"densenet{layers}": (
                {"depths": _DENSENET_DEPTHS[layers], "growths": [growth] * 4, "stem": 2 * growth}, parameters, macs,
            )
            for layers, growth, parameters, macs in (
                (121, 32, 7.979, 2834), (161, 48, 28.681, 7728), (169, 32, 14.149, 3360), (201, 32, 20.014, 4291),
            )
        },
    ),
    _DENSENET,
    densenet,
    draw_from(
        "depths growths kernels stem resolution",
        _DENSENET,
        {**_DENSENET, "depths": _DENSENET_DEPTHS[169]},
        stem=draw_stem,
    ),
    per_stage="depths growths kernels",
)  # fmt: skip
