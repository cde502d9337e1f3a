"""Random mobile networks like those of Ganesan et al. ("A case for generalizable DNN cost models for mobile
devices", 2020, §II-A).

The paper's generator is not published; the networks are, as lists of layers. They are chains of inverted residuals in
the manner of MobileNetV3 and ProxylessNAS: a 3x3 stem, a separable convolution, stages of inverted residuals with
kernels of 3, 5 or 7, pooling, two 1x1 convolutions. Their shares and ranges are followed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from latcast.graph.builder import GraphBuilder, Size, pair
from latcast.graph.ir import Graph
from latcast.graph.operators import graph_macs
from latcast.spaces.blocks import inverted_residual, separable
from latcast.spaces.families.variants import DrawnSpace, round_channels

NAME = "random_mobile"
MAC_RANGE = (35e6, 820e6)
"""Multiply-accumulates of the published 118 networks."""
KERNELS = (3, 5, 7)
STAGE_WIDTHS = (20, 28, 40, 88, 100, 184)
"""Middle of each stage's widths."""
STAGE_STRIDES = (2, 2, 2, 2, 1, 2)


def build(
    blocks: Sequence[Sequence[Any]],
    stem: int = 32,
    last: int = 576,
    hidden: int = 1024,
    *,
    resolution: Size = 224,
    classes: int = 1000,
    batch: int = 1,
) -> Graph:
    """Build a member of the space.

    Args:
        blocks: One (width, kernel, expansion, stride, skip) for each inverted residual.
        stem: Channels of the stem and of the separable convolution behind it.
        last, hidden: Channels of the 1x1 convolutions before and behind the pooling.
    """
    b = GraphBuilder(NAME)
    x = b.conv_bn(b.input((batch, 3, *pair(resolution))), stem, 3, stride=2)
    x = separable(b, x, stem, linear=True)
    for width, kernel, expansion, stride, skip in blocks:
        expanded = int(b.channels(x) * expansion)
        x = inverted_residual(
            b, x, width, expanded=expanded, kernel=kernel, stride=stride, activation="relu", expand=True, skip=bool(skip)
        )
    x = b.global_average_pool(b.conv_bn(x, last))
    x = b.relu(b.conv(x, hidden, bias=True))
    return b.finish(b.flatten(b.conv(x, classes, bias=True)))


def draw(rng: Random) -> dict[str, Any]:
    scale = rng.choice((0.75, 1.0, 1.0, 1.25))
    expansions = rng.choice(((3, 6), (2.25, 4.5), (1.5, 3, 4.5, 6)))
    blocks: list[list[Any]] = []
    for index, (middle, stage_stride) in enumerate(zip(STAGE_WIDTHS, STAGE_STRIDES, strict=True)):
        width = round_channels(middle * scale * rng.uniform(0.7, 1.3), 4)
        for position in range(rng.randint(1, 5)):
            # Half of the published blocks in a stage take another width, and so have no addition.
            if position and rng.random() < 0.5:
                width = round_channels(middle * scale * rng.uniform(0.7, 1.3), 4)
            # The first stage may keep the stem's resolution.
            stride = stage_stride if position == 0 and not (index == 0 and rng.random() < 0.5) else 1
            blocks.append([width, rng.choice(KERNELS), rng.choice(expansions), stride, rng.random() < 0.75])
    return {
        "blocks": blocks,
        "stem": rng.choice((16, 24, 32)),
        "last": round_channels(rng.uniform(500, 1100)),
        "hidden": round_channels(rng.uniform(1000, 1400)),
    }


SPACE = DrawnSpace(NAME, build, draw, lambda graph: MAC_RANGE[0] <= graph_macs(graph) <= MAC_RANGE[1])
