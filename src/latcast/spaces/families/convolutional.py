"""Families of chains of convolutions and of concatenating blocks: AlexNet, VGG, SqueezeNet, GoogLeNet, DenseNet."""

from __future__ import annotations

from collections.abc import Sequence
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
