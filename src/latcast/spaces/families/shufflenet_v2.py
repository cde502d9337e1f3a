"""ShuffleNetV2 (Ma et al., "ShuffleNet V2: practical guidelines for efficient CNN architecture design", 2018, Table 5)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder, Size, pair
from latcast.graph.ir import Graph
from latcast.spaces.catalogue import PublishedModel
from latcast.spaces.families.stages import check_lengths
from latcast.spaces.families.variants import (
    VariantFamily,
    draw_depths,
    draw_kernels,
    draw_resolution,
    draw_widths,
)

STEM = 24
HEAD = 1024
DEPTHS = (4, 8, 4)
KERNELS = (3, 3, 3)
WIDTHS = {"0_5": (48, 96, 192), "1_0": (116, 232, 464), "1_5": (176, 352, 704), "2_0": (244, 488, 976)}


def branch(b: GraphBuilder, x: str, half: int, kernel: int, stride: int) -> str:
    """1x1, depthwise, 1x1: the branch that computes."""
    y = b.conv_bn(x, half)
    y = b.conv_bn(y, half, kernel, stride=stride, groups=half, activation=None)
    return b.conv_bn(y, half)


def unit(b: GraphBuilder, x: str, width: int, kernel: int, stride: int) -> str:
    """At stride 1 half of the channels pass unchanged; at stride 2 both branches compute (Ma et al. Fig. 3 c, d)."""
    if stride == 1:
        passed, x = b.split(x, (width // 2, width // 2))
    else:
        passed = b.conv_bn(x, b.channels(x), kernel, stride=2, groups=b.channels(x), activation=None)
        passed = b.conv_bn(passed, width // 2)
    y = b.concat([passed, branch(b, x, width // 2, kernel, stride)])
    return b.channel_shuffle(y, 2)


def build(
    widths: Sequence[int] = WIDTHS["1_0"],
    depths: Sequence[int] = DEPTHS,
    kernels: Sequence[int] = KERNELS,
    *,
    stem: int = STEM,
    head: int = HEAD,
    resolution: Size = 224,
    classes: int = 1000,
    batch: int = 1,
) -> Graph:
    """ShuffleNetV2.

    Args:
        widths: Output channels of each stage, even numbers; every stage halves the resolution.
        depths: Units in each stage.
        kernels: Kernel size of the depthwise convolutions of each stage.
        stem: Channels of the first convolution.
        head: Channels of the last 1x1 convolution.
        resolution: Height and width of the image, one number or two.
        classes: Outputs.
        batch: Images at a time.

    Raises:
        ModelError: The lists differ in length, or a width is odd.
    """
    check_lengths("shufflenet_v2", widths=widths, depths=depths, kernels=kernels)
    b = GraphBuilder("shufflenet_v2")
    x = b.conv_bn(b.input((batch, 3, *pair(resolution))), stem, 3, stride=2)
    x = b.max_pool(x, 3, 2, 1)
    for width, depth, kernel in zip(widths, depths, kernels, strict=True):
        if width % 2:
            raise ModelError(f"a stage of ShuffleNetV2 has {width} channels, which do not split in halves; give an even number")
        for block in range(depth):
            x = unit(b, x, width, kernel, 2 if block == 0 else 1)
    x = b.conv_bn(x, head)
    return b.finish(b.linear(b.reduce_mean(x, (2, 3), keepdims=False), classes))


def draw(rng: Random) -> dict[str, Any]:
    return {
        "widths": draw_widths(rng, WIDTHS[rng.choice(tuple(WIDTHS))]),
        "depths": draw_depths(rng, DEPTHS),
        "kernels": draw_kernels(rng, KERNELS),
        "stem": draw_widths(rng, [STEM])[0],
        "head": draw_widths(rng, [HEAD])[0],
        "resolution": draw_resolution(rng),
    }


def _published(size: str, million_parameters: float, million_macs: float, told: str) -> PublishedModel:
    return PublishedModel(
        {"widths": list(WIDTHS[size]), "head": 2048 if size == "2_0" else HEAD},
        million_parameters,
        million_macs,
        f"torchvision models table; MACs of convolutions and the linear layer ({told}; Ma et al. do not say what else "
        "they count)",
    )


SPACE = VariantFamily(
    "shufflenet_v2",
    {
        "shufflenet_v2_x0_5": _published(
            "0_5",
            1.367,
            40.48,
            "by PyTorch's flop counter, the table has 0.04 G; Ma et al. 2018, Table 8: 41 M",
        ),
        "shufflenet_v2_x1_0": _published("1_0", 2.279, 145, "Ma et al. 2018, Table 8: 146 M"),
        "shufflenet_v2_x1_5": _published("1_5", 3.504, 296, "Ma et al. 2018, Table 8: 299 M"),
        "shufflenet_v2_x2_0": _published("2_0", 7.394, 583, "Ma et al. 2018, Table 8: 591 M"),
    },
    build,
    draw,
)
