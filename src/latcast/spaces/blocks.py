"""Convolutional blocks of published networks, each written once for families, synthetic spaces and search spaces.

A block adds its operators behind a tensor of a builder and returns its result. ``width`` is the number of channels that it
returns; ``stride`` is that of its spatial convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

from latcast.graph.builder import GraphBuilder, Size

Convolution = tuple[int, Size, int]
"""Output channels, kernel size, stride."""


@dataclass(frozen=True)
class SqueezeExcite:
    """A squeeze-and-excitation inside a block (Hu et al. 2018).

    Attributes:
        channels: After the reduction.
        activation: After the reduction.
        gate: After the expansion.
    """

    channels: int
    activation: str = "relu"
    gate: str = "sigmoid"

    def add(self, b: GraphBuilder, x: str) -> str:
        return b.squeeze_excite(x, self.channels, activation=self.activation, gate=self.gate)


def shortcut(b: GraphBuilder, x: str, width: int, stride: int) -> str:
    """Return the input of a residual block in its output's shape: as it is, or projected."""
    if stride == 1 and b.channels(x) == width:
        return x
    return b.conv_bn(x, width, stride=stride, activation=None)


def bottleneck(
    b: GraphBuilder,
    x: str,
    width: int,
    *,
    inner: int,
    kernel: int = 3,
    stride: int = 1,
    groups: int = 1,
    activation: str = "relu",
    squeeze_excite: SqueezeExcite | None = None,
) -> str:
    """Add the branch of a residual bottleneck: 1x1, spatial, 1x1 without activation (He et al. 2016, Fig. 5).

    ``inner`` are the channels of the spatial convolution; ``squeeze_excite`` stands behind it.
    """
    y = b.conv_bn(x, inner, activation=activation)
    y = b.conv_bn(y, inner, kernel, stride=stride, groups=groups, activation=activation)
    if squeeze_excite is not None:
        y = squeeze_excite.add(b, y)
    return b.conv_bn(y, width, activation=None)


def depthwise(b: GraphBuilder, x: str, kernel: int = 3, *, stride: int = 1, activation: str | None = "relu") -> str:
    """Add a depthwise convolution, batch normalisation, activation."""
    channels = b.channels(x)
    return b.conv_bn(x, channels, kernel, stride=stride, groups=channels, activation=activation)


def separable(
    b: GraphBuilder, x: str, width: int, kernel: int = 3, *, stride: int = 1, activation: str = "relu", linear: bool = False
) -> str:
    """Add a depthwise and a 1x1 convolution, the latter without activation where ``linear`` (Howard et al. 2017, Fig. 3)."""
    x = depthwise(b, x, kernel, stride=stride, activation=activation)
    return b.conv_bn(x, width, activation=None if linear else activation)


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
    expand: bool | None = None,
    skip: bool = True,
) -> str:
    """Add a 1x1 expansion, a depthwise convolution, a 1x1 projection without activation (Sandler et al. 2018, §3.3).

    Args:
        expanded: Channels of the depthwise convolution, behind which ``squeeze_excite`` stands.
        expand: Whether there is an expansion; where not given, if ``expanded`` is not the number of input channels.
        skip: Whether the input is added where the shape stays.
    """
    y = x
    if expanded != b.channels(x) if expand is None else expand:
        y = b.conv_bn(y, expanded, activation=activation)
    y = depthwise(b, y, kernel, stride=stride, activation=activation)
    if squeeze_excite is not None:
        y = squeeze_excite.add(b, y)
    y = b.conv_bn(y, width, activation=None)
    return b.add(x, y) if skip and stride == 1 and b.shape(x) == b.shape(y) else y


def fire(
    b: GraphBuilder, x: str, squeezed: int, pointwise: int, spatial: int, kernel: int, layer: Callable[[str, int, int], str]
) -> str:
    """Add a 1x1 convolution that squeezes, two side by side that expand, concatenated (Iandola et al. 2016, Fig. 1).

    ``layer`` adds a convolution and its activation; it takes a tensor, output channels and a kernel size.
    """
    x = layer(x, squeezed, 1)
    return b.concat([layer(x, pointwise, 1), layer(x, spatial, kernel)])


def inception(
    b: GraphBuilder,
    x: str,
    branches: Sequence[Sequence[Convolution]],
    pooled: int,
    pool: Callable[[str], str],
    activation: str = "relu",
) -> str:
    """Add branches of convolutions side by side, concatenated (Szegedy et al. 2015, Fig. 2 b).

    The last branch is what ``pool`` adds, and a 1x1 convolution of ``pooled`` channels.
    """
    ends = []
    for branch in branches:
        y = x
        for width, kernel, stride in branch:
            y = b.conv_bn(y, width, kernel, stride=stride, activation=activation)
        ends.append(y)
    return b.concat([*ends, b.conv_bn(pool(x), pooled, activation=activation)])


def normalised_conv(b: GraphBuilder, x: str, width: int, kernel: int = 1, activation: str = "relu") -> str:
    """Add batch normalisation, activation, convolution."""
    return b.conv(b.activation(b.batch_norm(x), activation), width, kernel)


def dense_block(
    b: GraphBuilder, x: str, depth: int, growth: int, *, inner: int, kernel: int = 3, activation: str = "relu"
) -> str:
    """Add layers of which each reads all earlier ones (Huang et al. 2017, §3).

    ``inner`` are the channels of their 1x1 convolutions.
    """
    features = [x]
    for _ in range(depth):
        y = normalised_conv(b, x, inner, activation=activation)
        features.append(normalised_conv(b, y, growth, kernel, activation))
        # Each layer concatenates all earlier ones again, as PyTorch's implementation does.
        x = b.concat(features)
    return x


def shuffle_unit(b: GraphBuilder, x: str, width: int, kernel: int, stride: int) -> str:
    """Add a unit: at stride 1 half of the channels pass unchanged, at stride 2 both branches compute (Ma et al. 2018, Fig. 3)."""
    half = width // 2
    if stride == 1:
        passed, x = b.split(x, (half, half))
    else:
        passed = b.conv_bn(depthwise(b, x, kernel, stride=stride, activation=None), half)
    y = depthwise(b, b.conv_bn(x, half), kernel, stride=stride, activation=None)
    return b.channel_shuffle(b.concat([passed, b.conv_bn(y, half)]), 2)


def ghost_module(b: GraphBuilder, x: str, width: int, activation: str | None) -> str:
    """Add half of the channels by a 1x1 convolution, the other half by a depthwise one of the first (Han et al. 2020, Fig. 2)."""
    half = ceil(width / 2)
    primary = b.conv_bn(x, half, activation=activation)
    return b.concat([primary, b.conv_bn(primary, width - half, 3, groups=half, activation=activation)])


def ghost_bottleneck(b: GraphBuilder, x: str, width: int, *, expanded: int, kernel: int, stride: int, squeezed: int = 0) -> str:
    """Add two ghost modules around a depthwise convolution (at stride 2 only), with a shortcut (Han et al. 2020, Fig. 3).

    ``squeezed`` are the channels of a squeeze-and-excitation, 0 for none.
    """
    y = ghost_module(b, x, expanded, "relu")
    if stride > 1:
        y = depthwise(b, y, kernel, stride=stride, activation=None)
    if squeezed:
        y = b.squeeze_excite(y, squeezed, gate="hard_sigmoid")
    y = ghost_module(b, y, width, None)
    if b.shape(x) != b.shape(y):
        x = b.conv_bn(depthwise(b, x, kernel, stride=stride, activation=None), width, activation=None)
    return b.add(y, x)
