"""Families of inverted residuals (Sandler et al., "MobileNetV2", 2018, §3.3): one builder, and a table for each family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from random import Random
from typing import Any

from latcast.graph.builder import GraphBuilder
from latcast.spaces.blocks import SqueezeExcite, inverted_residual
from latcast.spaces.catalogue import PublishedModel
from latcast.spaces.families.variants import (
    VariantFamily,
    check_lengths,
    draw_blocks,
    draw_depths,
    draw_from,
    draw_kernels,
    draw_resolution,
    draw_widths,
    of_blocks,
    published,
    round_channels,
    scaled_parameters,
    scaled_widths,
)

STRIDES = (1, 2, 2, 2, 1, 2, 1)
"""Strides of the seven stages that MobileNetV2, MnasNet, ProxylessNAS and EfficientNet have in common."""


@dataclass(frozen=True)
class InvertedResiduals:
    """What all members of a family of inverted residuals have in common.

    Attributes:
        activation: Of stem, blocks and head, where the parameters name no other.
        squeeze_of: "input" where the squeezed channels are a share of a block's input channels, cut off to whole ones;
            "expanded" where they are a quarter of the expanded ones, rounded.
        squeeze_activation: Inside the squeeze-and-excitation; the block's own where None.
        gate: At its end.
        pooled_by_mean: Whether the last map is pooled by ReduceMean, as the mean over two axes is exported.
    """

    activation: str
    squeeze_of: str = "input"
    squeeze_activation: str | None = "relu"
    gate: str = "sigmoid"
    pooled_by_mean: bool = False

    def network(
        self,
        b: GraphBuilder,
        x: str,
        *,
        widths: Sequence[int],
        kernels: Sequence[Any],
        stem: int,
        head: int,
        classes: int,
        depths: Sequence[int] | None = None,
        expansions: Sequence[Any] | None = None,
        expanded: Sequence[Sequence[int]] | None = None,
        strides: Sequence[int] = STRIDES,
        squeeze: float | Sequence[int] = 0.0,
        squeezes: Sequence[float] | None = None,
        activation: str | None = None,
        activations: Sequence[str] | None = None,
        hidden: int | None = None,
        expand: bool | None = None,
    ) -> str:
        """A 3x3 stem of stride 2, stages of inverted residuals, a 1x1 convolution, average pooling, one or two linear layers.

        Args:
            widths: Output channels of each stage.
            kernels: Kernel size of the depthwise convolutions of each stage, or of each block of each stage.
            stem: Channels of the first convolution.
            head: Channels of the last 1x1 convolution.
            depths: Blocks in each stage, where the other lists do not say.
            expansions: Expansion of the blocks of each stage, or of each block of each stage, relative to its input channels.
            expanded: In its place, expanded channels of each block of each stage.
            strides: Stride of each stage's first block.
            squeeze: Squeeze-and-excitation of all stages, or of each stage: a share of the input channels, or 1; 0 for none.
            squeezes: The same for each stage.
            activation: Of the whole network.
            activations: Of the blocks of each stage.
            hidden: Width of a hidden linear layer.
            expand: Whether a block begins with its 1x1 convolution; where None, only where that changes the channels.

        Raises:
            ModelError: The lists differ in length, or an activation is unknown.
        """
        count = len(widths)
        activation = activation or self.activation
        per_stage: dict[str, Sequence[Any]] = {
            "strides": strides,
            "widths": widths,
            "kernels": kernels,
            "expansions" if expanded is None else "expanded": (expansions if expanded is None else expanded) or (),
            "squeezes": squeezes or (squeeze if isinstance(squeeze, Sequence) else [squeeze] * count),
            "activations": activations or [activation] * count,
        }
        check_lengths(b.name, **per_stage, **({} if depths is None else {"depths": depths}))
        x = b.conv_bn(x, stem, 3, stride=2, activation=activation)
        for stage, (stride, width, sizes, widening, share, kind) in enumerate(zip(*per_stage.values(), strict=True)):
            depth = depths[stage] if depths is not None else len(widening)
            sizes, widening = (each if isinstance(each, Sequence) else [each] * depth for each in (sizes, widening))
            check_lengths(f"a stage of {b.name}", kernels=sizes, expansions=widening)
            for block, (kernel, wide) in enumerate(zip(sizes, widening, strict=True)):
                inner = round(b.channels(x) * wide) if expanded is None else wide
                x = inverted_residual(
                    b,
                    x,
                    width,
                    expanded=inner,
                    kernel=kernel,
                    stride=stride if block == 0 else 1,
                    activation=kind,
                    squeeze_excite=self._squeeze_excite(b.channels(x), inner, share, kind),
                    expand=expand,
                )
        x = b.conv_bn(x, head, activation=activation)
        x = b.reduce_mean(x, (2, 3), keepdims=False) if self.pooled_by_mean else b.flatten(b.global_average_pool(x))
        if hidden is not None:
            x = b.activation(b.linear(x, hidden), activation)
        return b.linear(x, classes)

    def _squeeze_excite(self, channels: int, expanded: int, share: float, activation: str) -> SqueezeExcite | None:
        if not share:
            return None
        squeezed = max(1, int(channels * share)) if self.squeeze_of == "input" else round_channels(expanded / 4)
        return SqueezeExcite(squeezed, self.squeeze_activation or activation, self.gate)


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
    InvertedResiduals("relu6").network,
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
        "Tan et al. 2019, Table 1: MnasNet-A1, MACs of convolutions and the linear layer",
        {"mnasnet_a1": (_MNASNET_A1, 3.9, 312)},
    ),
    _MNASNET,
    InvertedResiduals("relu", pooled_by_mean=True).network,
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
"""What was found for each kind of device."""


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


_LOG = (
    "training log of the authors' released model (mit-han-lab/proxylessnas, logs/imagenet_{}_log.txt), MACs of "
    "convolutions and the linear layer"
)

PROXYLESSNAS = VariantFamily(
    "proxylessnas",
    {
        f"proxylessnas_{device}": PublishedModel(_PROXYLESS[device], parameters, macs, _LOG.format(device))
        for device, parameters, macs in (("mobile", 4.08, 320.4), ("cpu", 4.36, 439.2), ("gpu", 7.12, 465.3))
    },
    _PROXYLESS["mobile"],
    InvertedResiduals("relu6").network,
    _draw_proxylessnas,
)


# EfficientNet (Tan and Le, "EfficientNet: rethinking model scaling for convolutional neural networks", 2019, Table 1).
# EfficientNet-Lite is the same without squeeze-and-excitation and with ReLU6, for accelerators that lack both; its larger
# sizes keep stem, head, and the depth of the first and the last stage.

_EFFICIENTNET: Mapping[str, Any] = {
    "widths": [16, 24, 40, 80, 112, 192, 320], "depths": [1, 2, 2, 3, 3, 4, 1], "kernels": [3, 3, 5, 3, 5, 5, 3],
    "expansions": [1, 6, 6, 6, 6, 6, 6], "squeeze": 0.25, "activation": "silu", "stem": 32, "head": 1280,
}  # fmt: skip
_EFFICIENTNET_SCALES = {
    "b0": (1.0, 1.0, 224),
    "b1": (1.0, 1.1, 240),
    "b2": (1.1, 1.2, 260),
    "b3": (1.2, 1.4, 300),
    "b4": (1.4, 1.8, 380),
}
"""Multipliers of width and depth, and the resolution, of each size."""
_LITE_SCALES = {"1": (1.0, 1.1, 240), "2": (1.1, 1.2, 260), "3": (1.2, 1.4, 280), "4": (1.4, 1.8, 300)}
"""The same of EfficientNet-Lite."""


def _scaled_depths(multiplier: float) -> list[int]:
    return [ceil(depth * multiplier) for depth in _EFFICIENTNET["depths"]]


def _draw_efficientnet(rng: Random) -> dict[str, Any]:
    width_multiplier, depth_multiplier, _ = _EFFICIENTNET_SCALES[rng.choice(("b0", "b1", "b2", "b3"))]
    lite = rng.random() < 0.25
    return {
        "widths": draw_widths(rng, scaled_widths(_EFFICIENTNET["widths"], width_multiplier)),
        "depths": draw_depths(rng, _scaled_depths(depth_multiplier)),
        "kernels": draw_kernels(rng, _EFFICIENTNET["kernels"]),
        "expansions": [1, *(rng.choice((3, 4, 6)) for _ in _EFFICIENTNET["expansions"][1:])],
        "squeeze": 0.0 if lite else _EFFICIENTNET["squeeze"],
        "activation": "relu6" if lite else "silu",
        "stem": draw_widths(rng, _EFFICIENTNET["stem"]),
        "head": draw_widths(rng, _EFFICIENTNET["head"]),
        "resolution": draw_resolution(rng),
    }


def _published_efficientnet(size: str, million_parameters: float, million_macs: float, paper: str) -> PublishedModel:
    width_multiplier, depth_multiplier, resolution = _EFFICIENTNET_SCALES[size]
    scaled = scaled_parameters(_EFFICIENTNET, width_multiplier, "widths", "stem", "head")
    parameters = {**scaled, "depths": _scaled_depths(depth_multiplier), "resolution": resolution}
    source = f"at {resolution}x{resolution}, MACs of convolutions and the linear layer: {paper}"
    return PublishedModel(parameters, million_parameters, million_macs, source)


def _published_lite(size: str, million_parameters: float, counted: str) -> PublishedModel:
    width_multiplier, depth_multiplier, resolution = _LITE_SCALES[size]
    first, *inner, last = _EFFICIENTNET["depths"]
    parameters = {
        **scaled_parameters(_EFFICIENTNET, width_multiplier, "widths"),
        "depths": [first, *(ceil(depth * depth_multiplier) for depth in inner), last],
        "resolution": resolution,
        **_LITE,
    }
    return PublishedModel(parameters, million_parameters, None, _LITE_SOURCE.format(size, counted), drawn=False)


_LITE: Mapping[str, Any] = {"squeeze": 0.0, "activation": "relu6"}
_LITE_SOURCE = (
    "parameters of timm's efficientnet_lite{}. The MACs on the authors' page ({} M) exceed what convolutions and the linear "
    "layer of the published network take, and the page does not say what else they count"
)
_TAN = "torchvision models table (Tan and Le 2019, Table 2: {})"

EFFICIENTNET = VariantFamily(
    "efficientnet",
    {
        "efficientnet_b0": _published_efficientnet("b0", 5.289, 386, _TAN.format("5.3 M, 0.39 B")),
        "efficientnet_b1": _published_efficientnet("b1", 7.794, 687, _TAN.format("7.8 M, 0.70 B")),
        "efficientnet_b2": _published_efficientnet(
            "b2", 9.110, 1000, "Tan and Le 2019, Table 2 (9.2 M); parameters of torchvision, whose weights are for 288x288"
        ),
        "efficientnet_b3": _published_efficientnet("b3", 12.233, 1827, _TAN.format("12 M, 1.8 B")),
        "efficientnet_b4": _published_efficientnet("b4", 19.342, 4394, _TAN.format("19 M, 4.2 B")),
        "efficientnet_lite0": PublishedModel(_LITE, 4.652, None, _LITE_SOURCE.format(0, 407)),
        "efficientnet_lite1": _published_lite("1", 5.417, "631"),
        "efficientnet_lite2": _published_lite("2", 6.092, "899"),
        "efficientnet_lite3": _published_lite("3", 8.197, "1440"),
        "efficientnet_lite4": _published_lite("4", 13.007, "2640"),
    },
    _EFFICIENTNET,
    InvertedResiduals("silu", squeeze_activation=None).network,
    _draw_efficientnet,
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
    """Without squeeze-and-excitation, hard swish and kernels of 5."""
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
    InvertedResiduals("hard_swish", squeeze_of="expanded", gate="hard_sigmoid").network,
    draw_from(
        "expanded widths kernels strides squeeze activations stem head hidden resolution",
        _V3_LARGE,
        _V3_SMALL,
        expanded=_draw_expanded,
    ),
)
