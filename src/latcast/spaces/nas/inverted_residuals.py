"""Search spaces of inverted residuals: BigNAS, FBNetV3, and the MobileNetV3 and ProxylessNAS of Once-for-all.

Their segments are a stem, blocks in stages, and a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from latcast.graph.builder import GraphBuilder
from latcast.spaces.blocks import SqueezeExcite, inverted_residual
from latcast.spaces.nas.supernet import Columns, Dimension, Row, Supernet, map_shape

STEM, BLOCK, HEAD = 1, 2, 3

FIELDS = ("kind", "size", "in_channels", "width", "expanded", "kernel", "stride", "squeezed", "activation")
"""Fields of a segment: ``size`` is height and width of the map it reads; ``expanded`` are the hidden channels of a head, 0 for
none; ``activation`` counts in :data:`ACTIVATIONS`."""

ACTIVATIONS = ("relu", "relu6", "hard_swish", "silu")


def rounded_channels(channels: np.ndarray, multiple: int = 8, least_share: float = 0.9) -> np.ndarray:
    """Return the nearest multiple, at least one, and never below ``least_share`` of ``channels`` (MobileNet's rule); int64."""
    rounded = np.maximum(multiple, (channels + multiple / 2) // multiple * multiple)
    return np.where(rounded < least_share * channels, rounded + multiple, rounded).astype(np.int64)


Numbers: TypeAlias = "np.ndarray | int"
"""(networks,), or one for all."""


@dataclass(frozen=True)
class StageChoices:
    """A stage of many networks.

    Attributes:
        width: Output channels.
        depth: Blocks; as many as ``kernels`` has columns at most.
        stride: Of the first block.
        kernels: (networks, most blocks).
        expansions: (networks, most blocks), relative to a block's input channels.
        activation: One of :data:`ACTIVATIONS`.
        squeeze: Squeezed channels relative to ``squeeze_of``; 0 for no squeeze-and-excitation.
        squeeze_of: "expanded" or "input": channels of the expansion, or of the block's input.
        squeeze_rounding: Least share that rounding to a multiple of 8 may leave; 0 cuts off to whole channels.
    """

    width: Numbers
    depth: Numbers
    stride: int
    kernels: np.ndarray
    expansions: np.ndarray
    activation: str
    squeeze: float = 0.0
    squeeze_of: str = "expanded"
    squeeze_rounding: float = 0.9


def chain(
    resolution: np.ndarray, stem: Numbers, stages: Sequence[StageChoices], head: Numbers, hidden: Numbers, activation: str
) -> np.ndarray:
    """Return segments of many networks, (networks, 2 + most blocks of all stages, fields).

    ``stem``, ``head`` and ``hidden`` are the channels of the first convolution, which halves the resolution, of the last one
    before the pooling, and of the one behind it, 0 for none; ``activation`` is that of stem and head.
    """
    count = len(resolution)
    places = 2 + sum(stage.kernels.shape[1] for stage in stages)
    rows = np.zeros((count, places, len(FIELDS)), dtype=np.int64)
    code = ACTIVATIONS.index(activation)
    size, channels = resolution.astype(np.int64), np.full(count, 3)

    def write(place: int, kind: int, values: Sequence[np.ndarray | int], present: np.ndarray | bool = True) -> None:
        for field, value in enumerate((kind, size, channels, *values)):
            rows[:, place, field] = np.where(present, value, 0)

    write(0, STEM, (stem, 0, 3, 2, 0, code))
    size, channels = (size + 1) // 2, np.broadcast_to(stem, count)
    place = 1
    for stage in stages:
        act = ACTIVATIONS.index(stage.activation)
        for block in range(stage.kernels.shape[1]):
            present = np.broadcast_to(block < np.asarray(stage.depth), count)
            stride = stage.stride if block == 0 else 1
            wanted = np.rint(channels * stage.expansions[:, block])
            expanded = np.where(stage.expansions[:, block] == 1, channels, rounded_channels(wanted))
            squeezed = _squeezed(stage, channels, expanded)
            write(place, BLOCK, (stage.width, expanded, stage.kernels[:, block], stride, squeezed, act), present)
            channels = np.where(present, stage.width, channels)
            size = np.where(present, (size + stride - 1) // stride, size)
            place += 1
    write(place, HEAD, (head, hidden, 1, 1, 0, code))
    return rows


def _squeezed(stage: StageChoices, channels: np.ndarray, expanded: np.ndarray) -> np.ndarray | int:
    if not stage.squeeze:
        return 0
    wanted = (expanded if stage.squeeze_of == "expanded" else channels) * stage.squeeze
    if not stage.squeeze_rounding:
        return np.maximum(1, wanted.astype(np.int64))
    return rounded_channels(wanted, least_share=stage.squeeze_rounding)


def beyond_depth(depths: np.ndarray, most: int) -> np.ndarray:
    """Return which blocks do not exist, (networks, stages * most), for depths (networks, stages)."""
    return (np.arange(most) >= depths[:, :, None]).reshape(len(depths), depths.shape[1] * most)


@dataclass(frozen=True)
class InvertedResidualSegments:
    """Builds segments of :data:`FIELDS`; without a ``squeeze_activation``, that of the block is taken."""

    squeeze_activation: str | None = "relu"
    gate: str = "sigmoid"
    classes: int = 1000

    def __call__(self, b: GraphBuilder, x: str, row: Row) -> str:
        kind, _, _, width, expanded, kernel, stride, squeezed, code = row
        activation = ACTIVATIONS[code]
        if kind == STEM:
            return b.conv_bn(x, width, kernel, stride=stride, activation=activation)
        if kind == BLOCK:
            return inverted_residual(
                b,
                x,
                width,
                expanded=expanded,
                kernel=kernel,
                stride=stride,
                activation=activation,
                squeeze_excite=SqueezeExcite(squeezed, self.squeeze_activation or activation, self.gate) if squeezed else None,
            )
        x = b.global_average_pool(b.conv_bn(x, width, activation=activation))
        if expanded:
            x = b.activation(b.conv(x, expanded), activation)
        return b.linear(b.flatten(x), self.classes)


# BigNAS (Yu et al., "BigNAS: scaling up neural architecture search with big single-stage models", 2020, §4): EfficientNet's
# stages, each with a width, a depth and a kernel size; EfficientNet-B0 is a member

_BIGNAS_STRIDES = (1, 2, 2, 2, 1, 2, 1)
_BIGNAS_WIDTHS = ((16, 24), (24, 32), (40, 48), (80, 88), (112, 120, 128), (192, 200, 208, 216), (320, 328, 336, 344, 352))
_BIGNAS_DEPTHS = ((1, 2), (2, 3), (2, 3), (2, 3, 4), (2, 3, 4, 5, 6), (2, 3, 4, 5, 6), (1, 2))
_BIGNAS_KERNELS = ((3,), (3,), (3, 5), (3, 5), (3, 5), (3, 5), (3, 5))
_BIGNAS_EXPANSIONS = (1, 6, 6, 6, 6, 6, 6)

_BIGNAS_DIMENSIONS = (
    Dimension("resolution", (192, 224, 288, 320)),
    Dimension("stem", (32, 40)),
    *(Dimension(f"width{stage + 1}", choices) for stage, choices in enumerate(_BIGNAS_WIDTHS)),
    *(Dimension(f"depth{stage + 1}", choices) for stage, choices in enumerate(_BIGNAS_DEPTHS)),
    *(Dimension(f"kernel{stage + 1}", choices) for stage, choices in enumerate(_BIGNAS_KERNELS)),
    Dimension("head", tuple(range(1280, 1409, 8))),
)


def _bignas_segments(values: Columns) -> np.ndarray:
    """Return the segments of the networks with these values."""
    one = {name: column[:, 0] for name, column in values.items()}
    stages = []
    for number, (depths, stride, expansion) in enumerate(
        zip(_BIGNAS_DEPTHS, _BIGNAS_STRIDES, _BIGNAS_EXPANSIONS, strict=True), 1
    ):
        blocks = np.ones((len(one["stem"]), max(depths)), dtype=np.int64)
        kernels, width, depth = values[f"kernel{number}"] * blocks, one[f"width{number}"], one[f"depth{number}"]
        stages.append(StageChoices(width, depth, stride, kernels, expansion * blocks, "silu", 0.25, "input", 0.0))
    return chain(one["resolution"], one["stem"], stages, one["head"], 0, "silu")


BIGNAS = Supernet("bignas", _BIGNAS_DIMENSIONS, FIELDS, _bignas_segments, InvertedResidualSegments(None, "sigmoid"), map_shape)


# FBNetV3 (Dai et al., "FBNetV3: joint architecture-recipe search using predictor pretraining", 2021, §4): stages of inverted
# residuals with a width, a depth, and kernel and expansion of the first block and of the others. The ranges here hold the
# networks that the authors released; widths are multiples of 8, as in their models

_FBNET_STRIDES = (2, 2, 2, 1, 2)
_FBNET_WIDTHS = ((24, 32), (24, 32, 40, 48), (56, 64, 72, 80), tuple(range(96, 145, 8)), tuple(range(184, 225, 8)))
_FBNET_DEPTHS = ((4, 5, 6, 7), (4, 5, 6, 7), (4, 5, 6, 7, 8), (6, 7, 8, 9, 10), (5, 6, 7, 8, 9))
_FBNET_REST = ((2, 3, 4, 5),) * 4 + ((4, 5, 6, 7),)
_FBNET_SQUEEZE = (0.0, 0.25, 0.0, 0.25, 0.25)
_FBNET_HIDDEN = 1984

_FBNET_DIMENSIONS = (
    Dimension("resolution", tuple(range(224, 273, 8))),
    Dimension("stem", (16, 24)),
    Dimension("width1", (16, 24)),
    Dimension("depth1", (1, 2, 3, 4)),
    Dimension("kernel1", (3, 5)),
    *(
        dimension
        for stage in range(len(_FBNET_STRIDES))
        for dimension in (
            Dimension(f"width{stage + 2}", _FBNET_WIDTHS[stage]),
            Dimension(f"depth{stage + 2}", _FBNET_DEPTHS[stage]),
            Dimension(f"kernels{stage + 2}", (3, 5), 2),
            Dimension(f"expansion{stage + 2}_first", (4, 5, 6, 7)),
            Dimension(f"expansion{stage + 2}_rest", _FBNET_REST[stage]),
        )
    ),
    Dimension("width7", tuple(range(184, 241, 8))),
    Dimension("kernel7", (3, 5)),
)


def _fbnet_segments(values: Columns) -> np.ndarray:
    """Return the segments of the networks with these values."""
    one = {name: column[:, 0] for name, column in values.items()}
    blocks = np.ones((len(one["stem"]), 4), dtype=np.int64)
    stages = [StageChoices(one["width1"], one["depth1"], 1, values["kernel1"] * blocks, blocks, "hard_swish")]
    for number, (depths, stride, squeeze) in enumerate(zip(_FBNET_DEPTHS, _FBNET_STRIDES, _FBNET_SQUEEZE, strict=True), start=2):
        rest = np.ones((len(blocks), max(depths) - 1), dtype=np.int64)
        kernels, first = values[f"kernels{number}"], values[f"expansion{number}_first"]
        kernels = np.concatenate([kernels[:, :1], kernels[:, 1:] * rest], axis=1)
        expansions = np.concatenate([first, values[f"expansion{number}_rest"] * rest], axis=1)
        width, depth = one[f"width{number}"], one[f"depth{number}"]
        stages.append(StageChoices(width, depth, stride, kernels, expansions, "hard_swish", squeeze, "input", 0.95))
    six = np.full((len(blocks), 1), 6)
    stages.append(StageChoices(one["width7"], 1, 1, values["kernel7"], six, "hard_swish", 0.25, "input", 0.95))
    return chain(one["resolution"], one["stem"], stages, 6 * one["width7"], _FBNET_HIDDEN, "hard_swish")


FBNET_V3 = Supernet(
    "fbnet_v3", _FBNET_DIMENSIONS, FIELDS, _fbnet_segments, InvertedResidualSegments(None, "hard_sigmoid"), map_shape
)


# Once-for-all (Cai et al., "Once-for-all: train one network and specialize it", 2020, §4.1): five stages of two to four
# blocks, each block with a kernel size and an expansion of its own, and an elastic resolution

_OFA_STRIDES = (2, 2, 2, 1, 2)
_OFA_BLOCKS = 4


def _once_for_all(
    name: str,
    widths: Sequence[float],
    activations: Sequence[str],
    add_segment: InvertedResidualSegments,
    *,
    ends: str,
    squeeze: Sequence[float] = (0.0,) * 5,
    last: float = 0,
    hidden: float = 0,
) -> Supernet:
    """Return a space of Once-for-all.

    Args:
        name: The space's name.
        widths: Stem, first block, five stages, last convolution, before rounding.
        activations: Of the blocks of each stage; the first block has that of the first stage.
        add_segment: Builds its segments.
        ends: Activation of stem and head.
        squeeze: Squeezed channels of each stage relative to the expanded ones.
        last: Width of a last stage of one block, which is always there; 0 for none.
        hidden: Channels of the 1x1 convolution after the pooling; 0 for none.
    """
    stem, first, *stage_widths, head, last_width, hidden_width = rounded_channels(np.array([*widths, last, hidden])).tolist()
    blocks = len(_OFA_STRIDES) * _OFA_BLOCKS + bool(last)
    dimensions = (
        Dimension("resolution", tuple(range(128, 225, 4))),
        Dimension("depths", (2, 3, 4), len(_OFA_STRIDES)),
        Dimension("kernels", (3, 5, 7), blocks),
        Dimension("expansions", (3, 4, 6), blocks),
    )

    def segments(values: Columns) -> np.ndarray:
        one = np.ones((len(values["resolution"]), 1), dtype=np.int64)
        stages = [StageChoices(first, 1, 1, 3 * one, one, activations[0])]
        for stage, width in enumerate(stage_widths):
            columns = slice(stage * _OFA_BLOCKS, (stage + 1) * _OFA_BLOCKS)
            kernels, expansions = values["kernels"][:, columns], values["expansions"][:, columns]
            depth = values["depths"][:, stage]
            stages.append(
                StageChoices(width, depth, _OFA_STRIDES[stage], kernels, expansions, activations[stage], squeeze[stage])
            )
        if last:
            kernels, expansions = values["kernels"][:, -1:], values["expansions"][:, -1:]
            stages.append(StageChoices(last_width, 1, 1, kernels, expansions, activations[-1]))
        return chain(values["resolution"][:, 0], stem, stages, head, hidden_width if hidden else 0, ends)

    def inactive(values: Columns) -> dict[str, np.ndarray]:
        """Blocks beyond the depth of their stage."""
        beyond = beyond_depth(values["depths"], _OFA_BLOCKS)
        beyond = np.concatenate([beyond, np.zeros((len(beyond), blocks - beyond.shape[1]), dtype=bool)], axis=1)
        return {"kernels": beyond, "expansions": beyond}

    return Supernet(name, dimensions, FIELDS, segments, add_segment, map_shape, inactive)


def _ofa_mobilenet_v3(name: str, multiplier: float) -> Supernet:
    """Return the MobileNetV3 space at one width; 1.0 and 1.2 were published."""
    return _once_for_all(
        name,
        [multiplier * width for width in (16, 16, 24, 40, 80, 112, 160, 960)],
        ("relu", "relu", "hard_swish", "hard_swish", "hard_swish"),
        InvertedResidualSegments("relu", "hard_sigmoid"),
        ends="hard_swish",
        squeeze=(0.0, 0.25, 0.0, 0.25, 0.25),
        hidden=multiplier * 1280,
    )


OFA_MOBILENET_V3 = _ofa_mobilenet_v3("ofa_mobilenet_v3", 1.0)
OFA_MOBILENET_V3_W12 = _ofa_mobilenet_v3("ofa_mobilenet_v3_w12", 1.2)

OFA_PROXYLESSNAS = _once_for_all(
    "ofa_proxylessnas",
    [1.3 * width for width in (32, 16, 24, 40, 80, 96, 192, 1280)],
    ("relu6",) * 5,
    InvertedResidualSegments(),
    ends="relu6",
    last=1.3 * 320,
)
"""The ProxylessNAS space (Cai et al., "ProxylessNAS", 2019, §4) as Once-for-all trained it.

ProxylessNAS searches kernels of 3, 5 and 7 with expansions of 3 and 6, and may skip blocks; Once-for-all adds an expansion of 4
and skips from a stage's end. Width 1.3 of the mobile network, as published."""
