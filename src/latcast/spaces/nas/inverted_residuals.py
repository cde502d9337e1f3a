"""Segments of the spaces that are made of inverted residuals: stem, blocks in stages, head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Shape
from latcast.spaces.blocks import SqueezeExcite, inverted_residual
from latcast.spaces.nas.supernet import Row

STEM, BLOCK, HEAD = 1, 2, 3

FIELDS = ("kind", "size", "in_channels", "width", "expanded", "kernel", "stride", "squeezed", "activation")
"""Of a segment: height and width of the map it reads; ``expanded`` are the hidden channels of a head, 0 for none;
``activation`` counts in :data:`ACTIVATIONS`."""

ACTIVATIONS = ("relu", "relu6", "hard_swish", "silu")


def rounded_channels(channels: np.ndarray, multiple: int = 8, least_share: float = 0.9) -> np.ndarray:
    """The nearest multiple, at least one, and never below ``least_share`` of ``channels`` (MobileNet's rule); int64."""
    rounded = np.maximum(multiple, (channels + multiple / 2) // multiple * multiple)
    return np.where(rounded < least_share * channels, rounded + multiple, rounded).astype(np.int64)


@dataclass(frozen=True)
class StageChoices:
    """One stage of many networks.

    Attributes:
        width: Output channels, (networks,) or one for all.
        depth: Blocks, (networks,) or one for all; as many as ``kernels`` has columns at most.
        stride: Of the first block.
        kernels: (networks, most blocks).
        expansions: (networks, most blocks), relative to a block's input channels.
        activation: One of :data:`ACTIVATIONS`.
        squeeze: Squeezed channels relative to ``squeeze_of``; 0 for no squeeze-and-excitation.
        squeeze_of: "expanded" or "input": channels of the expansion, or of the block's input.
        squeeze_rounding: Least share that rounding to a multiple of 8 may leave; 0 cuts off to whole channels.
    """

    width: np.ndarray | int
    depth: np.ndarray | int
    stride: int
    kernels: np.ndarray
    expansions: np.ndarray
    activation: str
    squeeze: float = 0.0
    squeeze_of: str = "expanded"
    squeeze_rounding: float = 0.9


def chain(
    resolution: np.ndarray,
    stem: np.ndarray | int,
    stages: Sequence[StageChoices],
    head: np.ndarray | int,
    hidden: np.ndarray | int = 0,
    activation: str = "relu6",
) -> np.ndarray:
    """Segments of many networks, (networks, 2 + most blocks of all stages, fields).

    Args:
        resolution: (networks,).
        stem: Channels of the first convolution, which halves the resolution.
        stages: Their blocks.
        head: Channels of the last 1x1 convolution before the pooling.
        hidden: Channels of the 1x1 convolution after it; 0 for none.
        activation: Of stem and head.
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
    """Which blocks do not exist, (networks, stages * most), for depths (networks, stages)."""
    return (np.arange(most) >= depths[:, :, None]).reshape(len(depths), depths.shape[1] * most)


def entry_shape(row: Row) -> Shape:
    """Shape of the map that a segment reads."""
    return (1, row[2], row[1], row[1])


@dataclass(frozen=True)
class InvertedResidualSegments:
    """Builds segments of :data:`FIELDS`.

    Attributes:
        squeeze_activation: Inside the squeeze-and-excitation; the block's own where None.
        gate: At its end.
        classes: Outputs.
    """

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
