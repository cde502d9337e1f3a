"""MobileNetV3 (Howard et al., "Searching for MobileNetV3", 2019, Tables 1 and 2), as torchvision writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from latcast.graph.builder import GraphBuilder, Size, pair
from latcast.graph.ir import Graph
from latcast.spaces.catalogue import PublishedModel
from latcast.spaces.families.inverted_residual import SqueezeExcite, inverted_residual
from latcast.spaces.families.stages import check_lengths, draw_blocks
from latcast.spaces.families.variants import (
    VariantFamily,
    draw_kernels,
    draw_resolution,
    draw_widths,
    round_channels,
)

STEM = 16

LARGE: Mapping[str, Any] = {
    "widths": [16, 24, 40, 80, 112, 160],
    "expanded": [[16], [64, 72], [72, 120, 120], [240, 200, 184, 184], [480, 672], [672, 960, 960]],
    "kernels": [3, 3, 5, 3, 3, 5],
    "strides": [1, 2, 2, 2, 1, 2],
    "squeeze": [0, 0, 1, 0, 1, 1],
    "activations": ["relu", "relu", "relu", "hard_swish", "hard_swish", "hard_swish"],
    "head": 960,
    "hidden": 1280,
}
SMALL: Mapping[str, Any] = {
    "widths": [16, 24, 40, 48, 96],
    "expanded": [[16], [72, 88], [96, 240, 240], [120, 144], [288, 576, 576]],
    "kernels": [3, 3, 5, 5, 5],
    "strides": [2, 2, 2, 1, 2],
    "squeeze": [1, 0, 1, 1, 1],
    "activations": ["relu", "relu", "hard_swish", "hard_swish", "hard_swish"],
    "head": 576,
    "hidden": 1024,
}


def build(
    widths: Sequence[int] = tuple(LARGE["widths"]),
    expanded: Sequence[Sequence[int]] = tuple(LARGE["expanded"]),
    kernels: Sequence[int] = tuple(LARGE["kernels"]),
    strides: Sequence[int] = tuple(LARGE["strides"]),
    squeeze: Sequence[int] = tuple(LARGE["squeeze"]),
    activations: Sequence[str] = tuple(LARGE["activations"]),
    *,
    stem: int = STEM,
    head: int = int(LARGE["head"]),
    hidden: int = int(LARGE["hidden"]),
    resolution: Size = 224,
    classes: int = 1000,
    batch: int = 1,
) -> Graph:
    """MobileNetV3, large by default.

    Args:
        widths: Output channels of each stage.
        expanded: Expanded channels of each block of each stage; their number is the stage's depth.
        kernels: Kernel size of the depthwise convolutions of each stage.
        strides: Stride of each stage's first block.
        squeeze: 1 for stages with squeeze-and-excitation (to a quarter of the expanded channels), 0 for others.
        activations: "relu" or "hard_swish" for each stage.
        stem: Channels of the first convolution.
        head: Channels of the last convolution before the pooling.
        hidden: Width of the hidden linear layer after it.
        resolution: Height and width of the image, one number or two.
        classes: Outputs.
        batch: Images at a time.

    Raises:
        ModelError: The lists differ in length, or an activation is unknown.
    """
    check_lengths(
        "mobilenet_v3",
        widths=widths,
        expanded=expanded,
        kernels=kernels,
        strides=strides,
        squeeze=squeeze,
        activations=activations,
    )
    b = GraphBuilder("mobilenet_v3")
    x = b.conv_bn(b.input((batch, 3, *pair(resolution))), stem, 3, stride=2, activation="hard_swish")
    rows = zip(widths, expanded, kernels, strides, squeeze, activations, strict=True)
    for width, blocks, kernel, stride, squeezed, activation in rows:
        for block, channels in enumerate(blocks):
            gate = SqueezeExcite(round_channels(channels / 4), gate="hard_sigmoid") if squeezed else None
            x = inverted_residual(
                b,
                x,
                width,
                expanded=channels,
                kernel=kernel,
                stride=stride if block == 0 else 1,
                activation=activation,
                squeeze_excite=gate,
            )
    x = b.conv_bn(x, head, activation="hard_swish")
    x = b.hard_swish(b.linear(b.flatten(b.global_average_pool(x)), hidden))
    return b.finish(b.linear(x, classes))


def draw(rng: Random) -> dict[str, Any]:
    base = rng.choice((LARGE, SMALL))
    expanded = []
    for stage in base["expanded"]:
        expanded.append(draw_widths(rng, [stage[block] for block in draw_blocks(rng, len(stage))]))
    return {
        "widths": draw_widths(rng, base["widths"]),
        "expanded": expanded,
        "kernels": draw_kernels(rng, base["kernels"]),
        "strides": list(base["strides"]),
        "squeeze": list(base["squeeze"]),
        "activations": list(base["activations"]),
        "stem": draw_widths(rng, [STEM])[0],
        "head": draw_widths(rng, [base["head"]])[0],
        "hidden": draw_widths(rng, [base["hidden"]])[0],
        "resolution": draw_resolution(rng),
    }


SPACE = VariantFamily(
    "mobilenet_v3",
    {
        "mobilenet_v3_large": PublishedModel(
            LARGE,
            5.483,
            217,
            "torchvision models table, MACs of convolutions and linear layers (Howard et al. 2019, Table 3: 5.4 M, 219 M)",
        ),
        "mobilenet_v3_small": PublishedModel(
            SMALL,
            2.543,
            57,
            "torchvision models table, MACs of convolutions and linear layers (Howard et al. 2019, arXiv v5, Table 3: "
            "2.5 M, 56 M; TensorFlow-Slim's own small model has 2.9 M, 66 M)",
        ),
    },
    build,
    draw,
)
