"""Families of inverted residuals (Sandler et al., "MobileNetV2", 2018, §3.3): MobileNetV2, MnasNet, ProxylessNAS, MobileNetV3."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from latcast.graph.builder import GraphBuilder
from latcast.spaces.blocks import SqueezeExcite, inverted_residual
from latcast.spaces.families.variants import (
    Stages,
    VariantFamily,
    check_lengths,
    draw_blocks,
    draw_from,
    draw_kernels,
    draw_resolution,
    draw_widths,
    of_blocks,
    parameters_of,
    published_and_defaults,
    round_channels,
)


@dataclass(frozen=True)
class Block:
    """An inverted residual: output channels, channels of its depthwise convolution, that convolution, and what surrounds it."""

    width: int
    expanded: int
    kernel: int
    stride: int
    activation: str
    squeeze_excite: SqueezeExcite | None = None


def chain(
    b: GraphBuilder, x: str, blocks: Iterable[Block], *, stem: int, head: int, activation: str, expand: bool | None = None
) -> str:
    """Add a 3x3 stem of stride 2, the blocks, and a 1x1 convolution of ``head`` channels.

    ``expand`` says whether a block begins with its 1x1 convolution; where None, only where that changes the channels.
    """
    x = b.conv_bn(x, stem, 3, stride=2, activation=activation)
    for each in blocks:
        x = inverted_residual(
            b, x, each.width, expanded=each.expanded, kernel=each.kernel, stride=each.stride, activation=each.activation,
            squeeze_excite=each.squeeze_excite, expand=expand,
        )  # fmt: skip
    return b.conv_bn(x, head, activation=activation)


# MobileNetV2, MnasNet and ProxylessNAS: seven stages whose blocks widen their input by a ratio

STRIDES = (1, 2, 2, 2, 1, 2, 1)
"""Strides of the first block of each stage."""


def seven_stages(
    b: GraphBuilder,
    x: str,
    *,
    widths: Stages,
    kernels: Sequence[Any],
    expansions: Sequence[Any],
    stem: int,
    head: int,
    classes: int,
    depths: Stages | None = None,
    squeezes: Sequence[float] = (0,) * len(STRIDES),
    activation: str = "relu6",
    pooled_by_mean: bool = False,
) -> str:
    """Add a chain of seven stages, average pooling and a linear layer.

    Args:
        kernels, expansions: Of each stage, or of each block of each stage; expansions are relative to a block's input channels.
        depths: Blocks in each stage, where the other lists do not say.
        squeezes: Squeeze-and-excitation of each stage: a share of a block's input channels, cut off to whole ones; 0 for none.
        pooled_by_mean: Whether the last map is pooled by ReduceMean, as the mean over two axes is exported.

    Raises:
        ModelError: The lists differ in length.
    """
    rows = {"strides": STRIDES, "widths": widths, "kernels": kernels, "expansions": expansions, "squeezes": squeezes}
    check_lengths(b.name, **rows, **({} if depths is None else {"depths": depths}))
    blocks: list[Block] = []
    channels = stem
    for stage, (stride, width, sizes, ratios, share) in enumerate(zip(*rows.values(), strict=True)):
        if depths is not None:
            sizes, ratios = [sizes] * depths[stage], [ratios] * depths[stage]
        check_lengths(f"a stage of {b.name}", kernels=sizes, expansions=ratios)
        for index, (kernel, ratio) in enumerate(zip(sizes, ratios, strict=True)):
            gate = SqueezeExcite(max(1, int(channels * share))) if share else None
            blocks.append(Block(width, round(channels * ratio), kernel, stride if index == 0 else 1, activation, gate))
            channels = width
    x = chain(b, x, blocks, stem=stem, head=head, activation=activation)
    x = b.reduce_mean(x, (2, 3), keepdims=False) if pooled_by_mean else b.flatten(b.global_average_pool(x))
    return b.linear(x, classes)


# MobileNetV2 (Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", 2018, Table 2); the head is never
# narrower than published (§4)

MOBILENET_V2 = VariantFamily(
    "mobilenet_v2",
    *published_and_defaults("mobilenet_v2"),
    seven_stages,
    draw_from(
        "widths depths kernels expansions stem head resolution",
        *parameters_of("mobilenet_v2", "mobilenet_v2"),
        expansions=lambda rng, ratios: [1, *(rng.choice((3, 4, 6, 8)) for _ in ratios[1:])],
    ),
)


# MnasNet (Tan et al., "MnasNet: platform-aware neural architecture search for mobile", 2019): B1 at four widths, and A1 (Fig. 7)

MNASNET = VariantFamily(
    "mnasnet",
    *published_and_defaults("mnasnet"),
    partial(seven_stages, activation="relu", pooled_by_mean=True),
    draw_from(
        "widths depths kernels expansions squeezes stem head resolution",
        *parameters_of("mnasnet", "mnasnet1_0", "mnasnet_a1"),
        expansions=lambda rng, ratios: [1, *(rng.choice((3, 6)) if rng.random() < 0.5 else ratio for ratio in ratios[1:])],
    ),
)


# ProxylessNAS (Cai et al., "ProxylessNAS: direct neural architecture search on target task and hardware", 2019)


def _draw_proxylessnas(rng: Random) -> dict[str, Any]:
    base = rng.choice(parameters_of("proxylessnas", *(f"proxylessnas_{device}" for device in ("mobile", "cpu", "gpu"))))
    blocks = [draw_blocks(rng, len(stage)) for stage in base["kernels"]]
    first, *others = of_blocks(base["expansions"], blocks)
    return {
        "widths": draw_widths(rng, base["widths"]),
        "kernels": draw_kernels(rng, of_blocks(base["kernels"], blocks)),
        "expansions": [first, *draw_kernels(rng, others, (3, 6))],
        "stem": draw_widths(rng, base["stem"]),
        "head": draw_widths(rng, base["head"]),
        "resolution": draw_resolution(rng),
    }


PROXYLESSNAS = VariantFamily("proxylessnas", *published_and_defaults("proxylessnas"), seven_stages, _draw_proxylessnas)


# MobileNetV3 (Howard et al., "Searching for MobileNetV3", 2019, Tables 1 and 2), as torchvision writes it; narrower ones as
# TensorFlow-Slim has them: a block expands its scaled input by the published ratio, and the hidden layer stays as wide


def mobilenet_v3(
    b: GraphBuilder,
    x: str,
    *,
    widths: Stages,
    expanded: Sequence[Stages],
    kernels: Stages,
    strides: Stages,
    squeeze: Stages,
    activations: Sequence[str],
    stem: int,
    head: int,
    hidden: int,
    classes: int,
    activation: str | None,
    expand: bool | None,
) -> str:
    """Add MobileNetV3: a chain of stages, average pooling, a hidden and a last linear layer.

    Args:
        expanded: Expanded channels of each block of each stage.
        strides: Of each stage's first block.
        squeeze: 1 for stages with squeeze-and-excitation to a quarter of the expanded channels, 0 for others.
        activation: Of stem, head and hidden layer; hard swish where None.
        expand: See :func:`chain`.
    """
    blocks = [
        Block(
            width, inner, kernel, stride if index == 0 else 1, act,
            SqueezeExcite(round_channels(inner / 4), gate="hard_sigmoid") if gated else None,
        )
        for stride, width, kernel, stage, gated, act in zip(strides, widths, kernels, expanded, squeeze, activations, strict=True)
        for index, inner in enumerate(stage)
    ]  # fmt: skip
    activation = activation or "hard_swish"
    x = chain(b, x, blocks, stem=stem, head=head, activation=activation, expand=expand)
    x = b.activation(b.linear(b.flatten(b.global_average_pool(x)), hidden), activation)
    return b.linear(x, classes)


def _draw_expanded(rng: Random, stages: Sequence[Sequence[int]]) -> list[list[int]]:
    return [draw_widths(rng, [stage[block] for block in draw_blocks(rng, len(stage))]) for stage in stages]


MOBILENET_V3 = VariantFamily(
    "mobilenet_v3",
    *published_and_defaults("mobilenet_v3"),
    mobilenet_v3,
    draw_from(
        "expanded widths kernels strides squeeze activations stem head hidden resolution",
        *parameters_of("mobilenet_v3", "mobilenet_v3_large", "mobilenet_v3_small"),
        expanded=_draw_expanded,
    ),
    per_stage="strides widths kernels expanded squeeze activations",
)
