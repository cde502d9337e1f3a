"""Convolutional families without inverted residuals.

Chains of convolutions and concatenating blocks (AlexNet, VGG, SqueezeNet, GoogLeNet, DenseNet), residual networks (ResNet,
ResNeXt), and those for phones (MobileNetV1, ShuffleNetV2).
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder
from latcast.spaces.blocks import bottleneck, dense_block, fire, inception, normalised_conv, separable, shortcut, shuffle_unit
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
    parameters_of,
    pooled_classifier,
    published_and_defaults,
)


def _classified_by_hidden_layers(b: GraphBuilder, x: str, hidden: Sequence[int], classes: int) -> str:
    """Add fully connected layers; the first reads the map as it is, whatever its size."""
    x = b.flatten(x)
    for width in hidden:
        x = b.relu(b.linear(x, width))
    return b.linear(x, classes)


# AlexNet in one tower (Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014)

POOLED_AFTER = (0, 1, 4)
"""Convolutions of AlexNet that a 3x3 max pooling of stride 2 follows."""


def alexnet(
    b: GraphBuilder, x: str, *, widths: Sequence[int], kernels: Sequence[int], hidden: Sequence[int], classes: int
) -> str:
    """Add AlexNet: five convolutions, of which the first has stride 4, and linear layers of ``hidden`` widths before the last.

    Raises:
        ModelError: Not five widths and kernels.
    """
    check_lengths("alexnet", convolutions=range(5), widths=widths, kernels=kernels)
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
    *published_and_defaults("alexnet"),
    alexnet,
    draw_from(
        "widths kernels hidden resolution",
        *parameters_of("alexnet", "alexnet"),
        kernels=lambda rng, sizes: draw_kernels(rng, sizes[:1], (5, 7, 9, 11)) + draw_kernels(rng, sizes[1:]),
    ),
)


# VGG (Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", 2015, Table 1)


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
    *published_and_defaults("vgg"),
    vgg,
    draw_from(
        "depths widths kernels hidden batch_norm resolution",
        *parameters_of("vgg", "vgg11", "vgg13", "vgg16", "vgg19"),
        batch_norm=lambda rng, published: rng.random() < 0.5,
    ),
    per_stage="depths widths kernels",
)


# SqueezeNet (Iandola et al., "SqueezeNet", 2016, Table 1) and its version 1.1


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
    *published_and_defaults("squeezenet"),
    squeezenet,
    draw_from(
        "squeezed pointwise spatial kernels pooled_before stem resolution",
        *parameters_of("squeezenet", "squeezenet1_0", "squeezenet1_1"),
        kernels=lambda rng, sizes: draw_kernels(rng, sizes, keep=0.7),
        stem=lambda rng, stem: [draw_stem(rng, stem[0]), *draw_kernels(rng, stem[1:], KERNEL_SIZES[1:])],
    ),
    per_stage="squeezed pointwise spatial kernels",
)


# GoogLeNet (Szegedy et al., "Going deeper with convolutions", 2015, Table 1), as torchvision has it: with batch normalisation,
# with 3x3 convolutions where the paper has 5x5 ones, and without auxiliary classifiers


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
    [base] = parameters_of("googlenet", "googlenet")
    published, depths = base["blocks"], base["stages"]
    stages = draw_depths(rng, depths)
    bases = [
        published[sum(depths[:stage]) + min(index, depths[stage] - 1)]
        for stage, wanted in enumerate(stages)
        for index in range(wanted)
    ]
    return {
        "blocks": draw_widths(rng, bases),
        "stages": stages,
        "kernels": draw_kernels(rng, base["kernels"], KERNEL_SIZES[1:]),
        "stem": draw_widths(rng, base["stem"]),
        "resolution": draw_resolution(rng),
    }


GOOGLENET = VariantFamily("googlenet", *published_and_defaults("googlenet"), googlenet, _draw_googlenet)


# DenseNet-BC (Huang et al., "Densely connected convolutional networks", 2017, Table 1)


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
    *published_and_defaults("densenet"),
    densenet,
    draw_from(
        "depths growths kernels stem resolution",
        *parameters_of("densenet", "densenet121", "densenet169"),
        stem=draw_stem,
    ),
    per_stage="depths growths kernels",
)


# ResNet (He et al., "Deep residual learning for image recognition", 2016, Table 1), ResNeXt (Xie et al., "Aggregated residual
# transformations for deep neural networks", 2017)


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
