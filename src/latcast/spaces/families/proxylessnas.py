"""ProxylessNAS (Cai et al., "ProxylessNAS: direct neural architecture search on target task and hardware", 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from latcast.graph.builder import GraphBuilder, Size, pair
from latcast.graph.ir import Graph
from latcast.spaces.catalogue import PublishedModel
from latcast.spaces.families.inverted_residual import STRIDES, Stage, inverted_residual_stages
from latcast.spaces.families.stages import check_lengths, draw_blocks, draw_nested
from latcast.spaces.families.variants import KERNEL_SIZES, VariantFamily, draw_resolution, draw_widths

MOBILE: dict[str, Any] = {
    "widths": [16, 32, 40, 80, 96, 192, 320],
    "kernels": [[3], [5, 3], [7, 3, 5, 5], [7, 5, 5, 5], [5, 5, 5, 5], [7, 7, 7, 7], [7]],
    "expansions": [[1], [3, 3], [3, 3, 3, 3], [6, 3, 3, 3], [6, 3, 3, 3], [6, 6, 3, 3], [6]],
    "stem": 32,
    "head": 1280,
}
CPU: dict[str, Any] = {
    "widths": [24, 32, 48, 88, 104, 216, 360],
    "kernels": [[3], [3, 3, 3, 3], [3, 3, 3, 5], [3, 3], [5, 3, 3, 3], [5, 5, 5, 3], [5]],
    "expansions": [[1], [6, 3, 3, 3], [6, 3, 3, 3], [6, 3], [6, 3, 3, 3], [6, 3, 3, 3], [6]],
    "stem": 40,
    "head": 1432,
}
GPU: dict[str, Any] = {
    "widths": [24, 32, 56, 112, 128, 256, 432],
    "kernels": [[3], [5], [7, 3], [7, 5], [5, 3, 5], [7, 7, 7, 5], [7]],
    "expansions": [[1], [3], [3, 3], [6, 3], [6, 3, 3], [6, 6, 6, 6], [6]],
    "stem": 40,
    "head": 1728,
}


def build(
    widths: Sequence[int] = tuple(MOBILE["widths"]),
    kernels: Sequence[Sequence[int]] = tuple(MOBILE["kernels"]),
    expansions: Sequence[Sequence[float]] = tuple(MOBILE["expansions"]),
    *,
    stem: int = int(MOBILE["stem"]),
    head: int = int(MOBILE["head"]),
    resolution: Size = 224,
    classes: int = 1000,
    batch: int = 1,
) -> Graph:
    """ProxylessNAS, the one found for mobile phones by default.

    Args:
        widths: Output channels of the seven stages.
        kernels: Kernel size of each block of each stage; their number is the stage's depth.
        expansions: Expansion of each block of each stage.
        stem: Channels of the first convolution.
        head: Channels of the last 1x1 convolution.
        resolution: Height and width of the image, one number or two.
        classes: Outputs.
        batch: Images at a time.

    Raises:
        ModelError: The lists are not seven long, or a stage's kernels and expansions differ in length.
    """
    check_lengths("proxylessnas", strides=STRIDES, widths=widths, kernels=kernels, expansions=expansions)
    stages = []
    for width, stride, sizes, ratios in zip(widths, STRIDES, kernels, expansions, strict=True):
        check_lengths("a stage of proxylessnas", kernels=sizes, expansions=ratios)
        stages.append(Stage(width, stride, sizes, ratios))
    b = GraphBuilder("proxylessnas")
    x = b.conv_bn(b.input((batch, 3, *pair(resolution))), stem, 3, stride=2, activation="relu6")
    x = inverted_residual_stages(b, x, stages, "relu6")
    x = b.conv_bn(x, head, activation="relu6")
    return b.finish(b.linear(b.flatten(b.global_average_pool(x)), classes))


def draw(rng: Random) -> dict[str, Any]:
    base = rng.choice((MOBILE, CPU, GPU))
    blocks = [draw_blocks(rng, len(stage)) for stage in base["kernels"]]
    kernels = [[stage[block] for block in chosen] for stage, chosen in zip(base["kernels"], blocks, strict=True)]
    ratios = [[stage[block] for block in chosen] for stage, chosen in zip(base["expansions"], blocks, strict=True)]
    return {
        "widths": draw_widths(rng, base["widths"]),
        "kernels": draw_nested(rng, kernels, KERNEL_SIZES, 0.5),
        "expansions": [ratios[0], *draw_nested(rng, ratios[1:], (3, 6), 0.5)],
        "stem": draw_widths(rng, [base["stem"]])[0],
        "head": draw_widths(rng, [base["head"]])[0],
        "resolution": draw_resolution(rng),
    }


_SOURCE = (
    "training log of the authors' released model (mit-han-lab/proxylessnas, logs/imagenet_{}_log.txt), MACs of "
    "convolutions and the linear layer"
)

SPACE = VariantFamily(
    "proxylessnas",
    {
        "proxylessnas_mobile": PublishedModel(MOBILE, 4.08, 320.4, _SOURCE.format("mobile")),
        "proxylessnas_cpu": PublishedModel(CPU, 4.36, 439.2, _SOURCE.format("cpu")),
        "proxylessnas_gpu": PublishedModel(GPU, 7.12, 465.3, _SOURCE.format("gpu")),
    },
    build,
    draw,
)
