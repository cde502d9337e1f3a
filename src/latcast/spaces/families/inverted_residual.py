"""The inverted residual (Sandler et al., "MobileNetV2", 2018, §3.3) and the stages that several families make of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from latcast.graph.builder import GraphBuilder
from latcast.spaces.families.stages import check_lengths

STRIDES = (1, 2, 2, 2, 1, 2, 1)
"""Strides of the seven stages that MobileNetV2, MnasNet, ProxylessNAS and EfficientNet have in common."""


@dataclass(frozen=True)
class SqueezeExcite:
    """How a squeeze-and-excitation inside a block is made: activation after the reduction, gate at the end."""

    channels: int
    activation: str = "relu"
    gate: str = "sigmoid"


@dataclass(frozen=True)
class Stage:
    """Blocks of one width; the first has the stride.

    Attributes:
        width: Output channels.
        stride: Stride of the first block.
        kernels: Kernel size of each block's depthwise convolution.
        expansions: Expansion of each block, relative to its input channels.
        squeeze: Squeezed channels relative to the block's input channels; 0 for no squeeze-and-excitation.
    """

    width: int
    stride: int
    kernels: Sequence[int]
    expansions: Sequence[float]
    squeeze: float = 0.0


def uniform_stages(
    space: str,
    widths: Sequence[int],
    depths: Sequence[int],
    kernels: Sequence[int],
    expansions: Sequence[float],
    squeezes: Sequence[float] | None = None,
) -> list[Stage]:
    """Stages whose blocks are alike, with the strides of :data:`STRIDES`.

    Raises:
        ModelError: The lists differ in length.
    """
    squeezes = [0.0] * len(widths) if squeezes is None else squeezes
    check_lengths(
        space,
        strides=STRIDES,
        widths=widths,
        depths=depths,
        kernels=kernels,
        expansions=expansions,
        squeezes=squeezes,
    )
    rows = zip(widths, STRIDES, depths, kernels, expansions, squeezes, strict=True)
    return [
        Stage(width, stride, [kernel] * depth, [expansion] * depth, squeeze)
        for width, stride, depth, kernel, expansion, squeeze in rows
    ]


def inverted_residual(
    b: GraphBuilder,
    x: str,
    width: int,
    *,
    expanded: int,
    kernel: int,
    stride: int,
    activation: str,
    squeeze_excite: SqueezeExcite | None = None,
) -> str:
    """1x1 expansion (none where the width stays), depthwise convolution, 1x1 projection without activation.

    The input is added where the shape stays.
    """
    y = x
    if expanded != b.channels(x):
        y = b.conv_bn(y, expanded, activation=activation)
    y = b.conv_bn(y, expanded, kernel, stride=stride, groups=expanded, activation=activation)
    if squeeze_excite is not None:
        y = b.squeeze_excite(y, squeeze_excite.channels, activation=squeeze_excite.activation, gate=squeeze_excite.gate)
    y = b.conv_bn(y, width, activation=None)
    return b.add(x, y) if b.shape(x) == b.shape(y) and stride == 1 else y


def inverted_residual_stages(
    b: GraphBuilder, x: str, stages: Iterable[Stage], activation: str, *, squeeze_activation: str = "relu"
) -> str:
    """All blocks of all stages, one after the other."""
    for stage in stages:
        for block, (kernel, expansion) in enumerate(zip(stage.kernels, stage.expansions, strict=True)):
            channels = b.channels(x)
            squeezed = max(1, int(channels * stage.squeeze))
            x = inverted_residual(
                b,
                x,
                stage.width,
                expanded=round(channels * expansion),
                kernel=kernel,
                stride=stage.stride if block == 0 else 1,
                activation=activation,
                squeeze_excite=SqueezeExcite(squeezed, squeeze_activation) if stage.squeeze else None,
            )
    return x
