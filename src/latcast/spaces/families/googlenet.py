"""GoogLeNet (Szegedy et al., "Going deeper with convolutions", 2015, Table 1), as torchvision has it.

That is with batch normalisation, with 3x3 convolutions where the paper has 5x5 ones, and without auxiliary classifiers.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from latcast.graph.builder import GraphBuilder, Size, pair
from latcast.graph.ir import Graph
from latcast.spaces.catalogue import PublishedModel
from latcast.spaces.families.stages import check_lengths
from latcast.spaces.families.variants import (
    KERNEL_SIZES,
    VariantFamily,
    draw_depths,
    draw_kernels,
    draw_resolution,
    draw_widths,
)

STEM = (64, 64, 192)
BLOCKS = (
    (64, 96, 128, 16, 32, 32),
    (128, 128, 192, 32, 96, 64),
    (192, 96, 208, 16, 48, 64),
    (160, 112, 224, 24, 64, 64),
    (128, 128, 256, 24, 64, 64),
    (112, 144, 288, 32, 64, 64),
    (256, 160, 320, 32, 128, 128),
    (256, 160, 320, 32, 128, 128),
    (384, 192, 384, 48, 128, 128),
)
"""Widths of the branches: 1x1; reduction and convolution; reduction and convolution; after the pooling."""
STAGES = (2, 5, 2)
KERNELS = ((3, 3), (3, 3), (3, 3))


def inception(b: GraphBuilder, x: str, widths: Sequence[int], kernels: Sequence[int]) -> str:
    """Four branches side by side, concatenated."""
    plain, reduce_a, conv_a, reduce_b, conv_b, pooled = widths
    return b.concat(
        [
            b.conv_bn(x, plain),
            b.conv_bn(b.conv_bn(x, reduce_a), conv_a, kernels[0]),
            b.conv_bn(b.conv_bn(x, reduce_b), conv_b, kernels[1]),
            b.conv_bn(b.max_pool(x, 3, 1, 1, ceil=True), pooled),
        ]
    )


def build(
    blocks: Sequence[Sequence[int]] = BLOCKS,
    stages: Sequence[int] = STAGES,
    kernels: Sequence[Sequence[int]] = KERNELS,
    stem: Sequence[int] = STEM,
    *,
    resolution: Size = 224,
    classes: int = 1000,
    batch: int = 1,
) -> Graph:
    """GoogLeNet, as published by default.

    Args:
        blocks: Six widths for each inception block, as in ``BLOCKS``.
        stages: Inception blocks in each stage; a max pooling stands between stages.
        kernels: Kernel sizes of the two branches with a convolution, for each stage.
        stem: Widths of the three convolutions before the first block.
        resolution: Height and width of the image, one number or two.
        classes: Outputs.
        batch: Images at a time.

    Raises:
        ModelError: The lists differ in length.
    """
    check_lengths("googlenet", stages=stages, kernels=kernels)
    check_lengths("googlenet's blocks", blocks=blocks, wanted=range(sum(stages)))
    b = GraphBuilder("googlenet")
    x = b.conv_bn(b.input((batch, 3, *pair(resolution))), stem[0], 7, stride=2)
    x = b.max_pool(x, 3, 2, ceil=True)
    x = b.conv_bn(b.conv_bn(x, stem[1]), stem[2], 3)
    x = b.max_pool(x, 3, 2, ceil=True)
    waiting = iter(blocks)
    for stage, (depth, sizes) in enumerate(zip(stages, kernels, strict=True)):
        if stage > 0:
            x = b.max_pool(x, 3 if stage == 1 else 2, 2, ceil=True)
        for _ in range(depth):
            x = inception(b, x, next(waiting), sizes)
    return b.finish(b.linear(b.flatten(b.global_average_pool(x)), classes))


def draw(rng: Random) -> dict[str, Any]:
    stages = draw_depths(rng, STAGES)
    firsts = (0, STAGES[0], STAGES[0] + STAGES[1])
    bases = [
        BLOCKS[first + min(index, depth - 1)]
        for first, depth, wanted in zip(firsts, STAGES, stages, strict=True)
        for index in range(wanted)
    ]
    return {
        "blocks": [draw_widths(rng, base) for base in bases],
        "stages": stages,
        "kernels": [draw_kernels(rng, pair, KERNEL_SIZES[1:]) for pair in KERNELS],
        "stem": draw_widths(rng, STEM),
        "resolution": draw_resolution(rng),
    }


SPACE = VariantFamily(
    "googlenet",
    {"googlenet": PublishedModel({}, 6.625, 1498.0, "torchvision models table")},
    build,
    draw,
)
