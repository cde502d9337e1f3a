"""Families of inverted residuals (Sandler et al., "MobileNetV2", 2018, §3.3): MobileNetV2, MnasNet, ProxylessNAS, MobileNetV3."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

from latcast.graph.builder import GraphBuilder
from latcast.spaces.blocks import SqueezeExcite, inverted_residual
from latcast.spaces.catalogue import PublishedModel
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
    published,
    round_channels,
    scaled_parameters,
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


# MobileNetV2 (Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", 2018, Table 2)

_MOBILENET_V2: Mapping[str, Any] = {
    "widths": [16, 24, 32, 64, 96, 160, 320], "depths": [1, 2, 3, 4, 3, 3, 1], "kernels": [3] * 7,
    "expansions": [1, 6, 6, 6, 6, 6, 6], "stem": 32, "head": 1280,
}  # fmt: skip


def _published_v2(multiplier: float, million_parameters: float, million_macs: float, source: str) -> PublishedModel:
    # The head is never narrower than published (Sandler et al. §4).
    head = scaled_parameters(_MOBILENET_V2, max(1.0, multiplier), "head")
    parameters = {**scaled_parameters(_MOBILENET_V2, multiplier, "stem", "widths"), **head}
    return PublishedModel(parameters, million_parameters, million_macs, source)


_SLIM = (
    "MACs of convolutions and the linear layer: model table of TensorFlow-Slim's mobilenet_v2; parameters: timm's tables "
    "(TensorFlow-Slim's {} M leaves out batch normalisation)"
)

MOBILENET_V2 = VariantFamily(
    "mobilenet_v2",
    {
        "mobilenet_v2": _published_v2(
            1.0, 3.505, 300, "Sandler et al. 2018, Table 4: 300 M MACs; parameters of torchvision's mobilenet_v2"
        ),
        "mobilenet_v2_0_35": replace(_published_v2(0.35, 1.68, 59, _SLIM.format(1.66)), drawn=False),
        "mobilenet_v2_0_5": _published_v2(0.5, 1.97, 97, _SLIM.format(1.95)),
        "mobilenet_v2_0_75": _published_v2(0.75, 2.64, 209, _SLIM.format(2.61)),
        "mobilenet_v2_1_4": _published_v2(1.4, 6.11, 582, _SLIM.format(6.06)),
    },
    _MOBILENET_V2,
    seven_stages,
    draw_from(
        "widths depths kernels expansions stem head resolution",
        _MOBILENET_V2,
        expansions=lambda rng, ratios: [1, *(rng.choice((3, 4, 6, 8)) for _ in ratios[1:])],
    ),
)


# MnasNet (Tan et al., "MnasNet: platform-aware neural architecture search for mobile", 2019): B1 at four widths, and A1 (Fig. 7)

_MNASNET: Mapping[str, Any] = {
    "widths": [16, 24, 40, 80, 96, 192, 320], "depths": [1, 3, 3, 3, 2, 4, 1], "kernels": [3, 3, 5, 5, 3, 5, 3],
    "expansions": [1, 3, 3, 6, 6, 6, 6], "squeezes": [0] * 7, "stem": 32, "head": 1280,
}  # fmt: skip
_MNASNET_A1: Mapping[str, Any] = {
    "widths": [16, 24, 40, 80, 112, 160, 320], "depths": [1, 2, 3, 4, 2, 3, 1], "kernels": [3, 3, 5, 3, 3, 5, 3],
    "expansions": [1, 6, 3, 6, 6, 6, 6], "squeezes": [0, 0, 0.25, 0, 0.25, 0.25, 0],
}  # fmt: skip


MNASNET = VariantFamily(
    "mnasnet",
    published(
        "torchvision models table, MACs of convolutions and the linear layer",
        {
            "mnasnet0_5": (scaled_parameters(_MNASNET, 0.5, "stem", "widths"), 2.219, 104),
            "mnasnet0_75": (scaled_parameters(_MNASNET, 0.75, "stem", "widths"), 3.170, 215),
            "mnasnet1_0": (scaled_parameters(_MNASNET, 1.0, "stem", "widths"), 4.383, 314),
            "mnasnet1_3": (scaled_parameters(_MNASNET, 1.3, "stem", "widths"), 6.282, 526),
        },
    )
    | published(
        "Tan et al. 2019, Table 1: MnasNet-A1, MACs of convolutions and the linear layer", {"mnasnet_a1": (_MNASNET_A1, 3.9, 312)}
    ),
    _MNASNET,
    partial(seven_stages, activation="relu", pooled_by_mean=True),
    draw_from(
        "widths depths kernels expansions squeezes stem head resolution",
        _MNASNET,
        {**_MNASNET, **_MNASNET_A1},
        expansions=lambda rng, ratios: [1, *(rng.choice((3, 6)) if rng.random() < 0.5 else ratio for ratio in ratios[1:])],
    ),
)


# ProxylessNAS (Cai et al., "ProxylessNAS: direct neural architecture search on target task and hardware", 2019)

_PROXYLESS: Mapping[str, Mapping[str, Any]] = {
    "mobile": {
        "widths": [16, 32, 40, 80, 96, 192, 320],
        "kernels": [[3], [5, 3], [7, 3, 5, 5], [7, 5, 5, 5], [5, 5, 5, 5], [7, 7, 7, 7], [7]],
        "expansions": [[1], [3, 3], [3, 3, 3, 3], [6, 3, 3, 3], [6, 3, 3, 3], [6, 6, 3, 3], [6]],
        "stem": 32,
        "head": 1280,
    },
    "cpu": {
        "widths": [24, 32, 48, 88, 104, 216, 360],
        "kernels": [[3], [3, 3, 3, 3], [3, 3, 3, 5], [3, 3], [5, 3, 3, 3], [5, 5, 5, 3], [5]],
        "expansions": [[1], [6, 3, 3, 3], [6, 3, 3, 3], [6, 3], [6, 3, 3, 3], [6, 3, 3, 3], [6]],
        "stem": 40,
        "head": 1432,
    },
    "gpu": {
        "widths": [24, 32, 56, 112, 128, 256, 432],
        "kernels": [[3], [5], [7, 3], [7, 5], [5, 3, 5], [7, 7, 7, 5], [7]],
        "expansions": [[1], [3], [3, 3], [6, 3], [6, 3, 3], [6, 6, 6, 6], [6]],
        "stem": 40,
        "head": 1728,
    },
}
"""The network found for each kind of device."""


def _draw_proxylessnas(rng: Random) -> dict[str, Any]:
    base = rng.choice(tuple(_PROXYLESS.values()))
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


PROXYLESSNAS = VariantFamily(
    "proxylessnas",
    published(
        "training log of the authors' released model (mit-han-lab/proxylessnas, logs/imagenet_{}_log.txt), MACs of "
        "convolutions and the linear layer",
        {
            f"proxylessnas_{device}": (_PROXYLESS[device], parameters, macs, device)
            for device, parameters, macs in (("mobile", 4.08, 320.4), ("cpu", 4.36, 439.2), ("gpu", 7.12, 465.3))
        },
    ),
    _PROXYLESS["mobile"],
    seven_stages,
    _draw_proxylessnas,
)


# MobileNetV3 (Howard et al., "Searching for MobileNetV3", 2019, Tables 1 and 2), as torchvision writes it

_V3_LARGE: Mapping[str, Any] = {
    "widths": [16, 24, 40, 80, 112, 160],
    "expanded": [[16], [64, 72], [72, 120, 120], [240, 200, 184, 184], [480, 672], [672, 960, 960]],
    "kernels": [3, 3, 5, 3, 3, 5],
    "strides": [1, 2, 2, 2, 1, 2],
    "squeeze": [0, 0, 1, 0, 1, 1],
    "activations": ["relu", "relu", "relu", "hard_swish", "hard_swish", "hard_swish"],
    "stem": 16,
    "head": 960,
    "hidden": 1280,
}
_V3_SMALL: Mapping[str, Any] = {
    "widths": [16, 24, 40, 48, 96],
    "expanded": [[16], [72, 88], [96, 240, 240], [120, 144], [288, 576, 576]],
    "kernels": [3, 3, 5, 5, 5],
    "strides": [2, 2, 2, 1, 2],
    "squeeze": [1, 0, 1, 1, 1],
    "activations": ["relu", "relu", "hard_swish", "hard_swish", "hard_swish"],
    "stem": 16,
    "head": 576,
    "hidden": 1024,
}


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


def _published_v3(parameters: Mapping[str, Any], million_parameters: float, million_macs: float, paper: str) -> PublishedModel:
    given = {name: value for name, value in parameters.items() if name != "stem"}
    source = f"torchvision models table, MACs of convolutions and linear layers ({paper})"
    return PublishedModel(given, million_parameters, million_macs, source)


def _scaled_v3(base: Mapping[str, Any], multiplier: float) -> dict[str, Any]:
    """TensorFlow-Slim's: a block expands its scaled input by the published ratio; the hidden layer stays as wide."""
    scaled = scaled_parameters(base, multiplier, "stem", "widths", "head")
    published, read = [base["stem"]], [scaled["stem"]]
    expanded: list[list[int]] = []
    for width, narrow, stage in zip(base["widths"], scaled["widths"], base["expanded"], strict=True):
        published, read = ([each[-1], *[now] * len(stage)] for each, now in ((published, width), (read, narrow)))
        expanded.append([round_channels(read[block] * inner / published[block]) for block, inner in enumerate(stage)])
    return {**base, **scaled, "expanded": expanded}


def _minimalistic(base: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters without squeeze-and-excitation, hard swish and kernels of 5."""
    count = len(base["widths"])
    simple = {"kernels": [3] * count, "squeeze": [0] * count, "activations": ["relu"] * count, "activation": "relu"}
    return {name: value for name, value in base.items() if name != "stem"} | simple


_SLIM_V3 = "MACs of convolutions and linear layers: model table of TensorFlow-Slim's mobilenet_v3; parameters of timm's {}"
_SLIM_V3_SMALL = (
    "parameters of timm's {}. The MACs in TensorFlow-Slim's table ({} M) are of an earlier small model, as at full width"
)

MOBILENET_V3 = VariantFamily(
    "mobilenet_v3",
    {
        "mobilenet_v3_large": _published_v3(_V3_LARGE, 5.483, 217, "Howard et al. 2019, Table 3: 5.4 M, 219 M"),
        "mobilenet_v3_small": _published_v3(
            _V3_SMALL,
            2.543,
            57,
            "Howard et al. 2019, arXiv v5, Table 3: 2.5 M, 56 M; the table of TensorFlow-Slim has 2.9 M, 66 M",
        ),
        "mobilenet_v3_large_0_75": PublishedModel(
            _scaled_v3(_V3_LARGE, 0.75), 3.99, 155, _SLIM_V3.format("tf_mobilenetv3_large_075"), drawn=False
        ),
        "mobilenet_v3_small_0_75": PublishedModel(
            _scaled_v3(_V3_SMALL, 0.75), 2.04, None, _SLIM_V3_SMALL.format("tf_mobilenetv3_small_075", 44), drawn=False
        ),
        "mobilenet_v3_large_minimalistic": PublishedModel(
            _minimalistic(_V3_LARGE), 3.92, 209, _SLIM_V3.format("tf_mobilenetv3_large_minimal_100"), drawn=False
        ),
        "mobilenet_v3_small_minimalistic": PublishedModel(
            _minimalistic(_V3_SMALL), 2.04, None, _SLIM_V3_SMALL.format("tf_mobilenetv3_small_minimal_100", 65), drawn=False
        ),
    },
    {**_V3_LARGE, "activation": None, "expand": None},
    mobilenet_v3,
    draw_from(
        "expanded widths kernels strides squeeze activations stem head hidden resolution",
        _V3_LARGE,
        _V3_SMALL,
        expanded=_draw_expanded,
    ),
    per_stage="strides widths kernels expanded squeeze activations",
)
