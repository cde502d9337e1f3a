"""Convolutional blocks of the mixed random space, each as some published network has it.

A block takes a map and returns one; ``width`` is the number of channels that it should return (some keep their input's)
and ``stride`` is 1 or 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from latcast.graph.builder import Size
from latcast.spaces.synthetic.mixed_builder import MixedBuilder, kernel_fits, weighted

Block = Callable[[MixedBuilder, str, int, int, Random], str]

SPATIAL_KERNELS: Mapping[int, float] = {3: 70, 5: 20, 7: 10}


def plain(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """One or two convolutions in a row (VGG, AlexNet, stems)."""
    activation = b.block_activation(rng)
    for index in range(rng.randint(1, 2)):
        kernel = weighted(rng, {1: 22, 3: 48, 5: 16, 7: 9, 11: 5})
        size = b.size(x)
        kernel = kernel if kernel_fits(size, kernel) else 3
        x = b.layer(x, width, kernel, stride=stride if index == 0 else 1, activation=activation)
    return x


def factorised(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """A kxk convolution as 1xk and kx1 (Inception v3)."""
    activation = b.block_activation(rng)
    kernel = rng.choice((3, 5, 7))
    x = b.layer(x, width, (1, kernel), activation=activation)
    return b.layer(x, width, (kernel, 1), stride=stride, activation=activation)


def basic_residual(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Two spatial convolutions and an addition (ResNet-18)."""
    activation = b.block_activation(rng)
    kernel, gated = weighted(rng, {3: 85, 5: 12, 1: 3}), rng.random() < 0.15
    y = b.layer(x, width, kernel, stride=stride, activation=activation)
    y = b.layer(y, width, kernel, activation=None)
    y = b.gate_channels(y, rng, reduction=16) if gated else y
    return b.activation(b.add(y, b.shortcut(x, width, stride)), activation)


def bottleneck(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """1x1, spatial, 1x1 and an addition (ResNet-50)."""
    return _bottleneck(b, x, width, stride, rng, inner=b.rounded(width / rng.choice((2, 4, 4))), groups=1)


def grouped_bottleneck(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """A bottleneck with a grouped convolution (ResNeXt, RegNet)."""
    ratio = rng.choice((1.0, 0.5))
    if rng.random() < 0.5:
        groups = rng.choice((2, 4, 8, 16, 32))
        inner = b.rounded(width * ratio, groups)
    else:
        group_width = rng.choice((4, 8, 16, 24, 48))
        inner = b.rounded(width * ratio, group_width)
        groups = inner // group_width
    return _bottleneck(b, x, width, stride, rng, inner=inner, groups=groups)


def _bottleneck(b: MixedBuilder, x: str, width: int, stride: int, rng: Random, *, inner: int, groups: int) -> str:
    activation = b.block_activation(rng)
    kernel, gated = weighted(rng, {3: 85, 5: 10, 7: 5}), rng.random() < 0.2
    y = b.layer(x, inner, activation=activation)
    y = b.layer(y, inner, kernel, stride=stride, groups=groups, activation=activation)
    y = b.gate_channels(y, rng) if gated else y
    y = b.layer(y, width, activation=None)
    return b.activation(b.add(y, b.shortcut(x, width, stride)), activation)


def squeeze_excitation(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """A convolution whose channels are gated (SENet)."""
    x = b.layer(x, width, rng.choice((1, 3)), stride=stride, activation=b.block_activation(rng))
    return b.gate_channels(x, rng, reduction=rng.choice((4, 8, 16)))


def inverted_residual(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """1x1 expansion, depthwise, 1x1 projection (MobileNetV2 and V3, MnasNet, EfficientNet)."""
    activation = rng.choice(("relu", "relu6", "hard_swish", "silu"))
    expansion, gated = rng.choice((1, 1.5, 2, 3, 4, 6, 6)), rng.random() < 0.35
    kernel = weighted(rng, SPATIAL_KERNELS)
    y = x
    if expansion > 1:
        y = b.layer(x, b.rounded(b.channels(x) * expansion), activation=activation)
    y = b.depthwise(y, kernel, stride=stride, activation=activation)
    y = b.gate_channels(y, rng) if gated else y
    y = b.layer(y, width, activation=None)
    return b.add(x, y) if b.shape(x) == b.shape(y) else y


def separable(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Depthwise and 1x1 (MobileNet, Xception)."""
    activation = b.block_activation(rng)
    kernel = weighted(rng, SPATIAL_KERNELS)
    for index in range(rng.randint(1, 2)):
        x = b.depthwise(x, kernel, stride=stride if index == 0 else 1, activation=activation)
        x = b.layer(x, width, activation=activation)
    return x


def dense(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Layers that each see all earlier ones, normalised and activated first (DenseNet); sometimes a transition."""
    depth, growth = rng.randint(2, 6), b.rounded(width / rng.choice((3, 4, 6, 8)))
    activation = rng.choice(("relu", "relu", "relu", "silu"))
    features = [x]
    for _ in range(depth):
        y = b.conv(b.activation(b.batch_norm(x), activation), b.rounded(4 * growth))
        y = b.conv(b.activation(b.batch_norm(y), activation), growth, 3)
        features.append(y)
        x = b.concat(features)
    if rng.random() < 0.6:
        x = b.conv(b.activation(b.batch_norm(x), activation), width)
    return x if stride == 1 else b.average_pool(x, 2, 2)


def inception(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Branches of different kernels side by side, concatenated (GoogLeNet, Inception v3)."""
    activation = b.block_activation(rng)
    shares = [rng.uniform(0.1, 0.5) for _ in range(4)]
    parts = [b.rounded(width * share) for share in shares]
    narrow = b.rounded(width * rng.uniform(0.1, 0.4))
    large, factored = rng.choice((3, 5, 5, 7)), rng.random() < 0.25
    branches = []
    if stride == 1:
        branches.append(b.layer(x, parts[0], activation=activation))
    y = b.layer(x, narrow, activation=activation)
    branches.append(b.layer(y, parts[1], 3, stride=stride, activation=activation))
    y = b.layer(x, narrow, activation=activation)
    y = b.layer(y, parts[2], (1, large), activation=activation) if factored else y
    last: Size = (large, 1) if factored else large
    branches.append(b.layer(y, parts[2], last, stride=stride, activation=activation))
    pool = rng.choice((b.max_pool, b.average_pool))
    branches.append(b.layer(pool(x, 3, stride, 1), parts[3], activation=activation))
    return b.concat(branches)


def fire(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """A squeezing 1x1 convolution and two expanding ones side by side (SqueezeNet)."""
    activation = b.block_activation(rng)
    half, kernel = b.rounded(width / 2), weighted(rng, SPATIAL_KERNELS)
    squeezed = b.rounded(width / rng.choice((4, 8)))
    x = b.max_pool(x, 3, 2, 1) if stride == 2 else x
    x = b.layer(x, squeezed, activation=activation)
    return b.concat([b.layer(x, half, activation=activation), b.layer(x, half, kernel, activation=activation)])


def channel_shuffle(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Half of the channels convolved, then all mixed (ShuffleNetV2), or grouped 1x1 convolutions (ShuffleNet)."""
    if rng.random() < 0.35:
        return _grouped_shuffle(b, x, width, stride, rng)
    kernel, half = weighted(rng, SPATIAL_KERNELS), b.rounded(width / 2)
    if stride == 2:
        left = b.layer(b.depthwise(x, kernel, stride=2, activation=None), half, activation="relu")
        right = x
    else:
        # The unit splits its input into equal halves; any other input is first brought to that width.
        x = x if b.channels(x) % 2 == 0 else b.layer(x, 2 * half, activation="relu")
        half = b.channels(x) // 2
        left, right = b.split(x, (half, half))
    right = b.layer(right, half, activation="relu")
    right = b.depthwise(right, kernel, stride=stride, activation=None)
    right = b.layer(right, half, activation="relu")
    return b.channel_shuffle(b.concat([left, right]), 2)


def _grouped_shuffle(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    groups = rng.choice((2, 3, 4, 8))
    width = b.rounded(width, groups)
    inner = b.rounded(width / 4, groups)
    first = groups if b.channels(x) % groups == 0 else 1
    y = b.layer(x, inner, groups=first, activation="relu")
    y = b.depthwise(b.channel_shuffle(y, groups), 3, stride=stride, activation=None)
    y = b.layer(y, width, groups=groups, activation=None)
    return b.relu(b.add(y, b.shortcut(x, width, stride)))


def ghost(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Half of the maps made from the other half by cheap depthwise convolutions (GhostNet)."""
    expansion, kernel = rng.choice((1.5, 2, 3, 4, 6)), rng.choice((3, 3, 5))
    gated = rng.random() < 0.3
    y = _ghost_module(b, x, b.rounded(width * expansion), "relu")
    y = b.depthwise(y, kernel, stride=2, activation=None) if stride == 2 else y
    y = b.squeeze_excite(y, max(b.channels(y) // 4, 4), gate="hard_sigmoid") if gated else y
    y = _ghost_module(b, y, width, None)
    if stride == 1 and b.shape(x) == b.shape(y):
        return b.add(y, x)
    side = b.depthwise(x, kernel, stride=stride, activation=None)
    return b.add(y, b.layer(side, b.channels(y), activation=None))


def _ghost_module(b: MixedBuilder, x: str, width: int, activation: str | None) -> str:
    primary = b.layer(x, b.rounded(width / 2), activation=activation)
    return b.concat([primary, b.depthwise(primary, 3, activation=activation)])


def pooling(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """A pooling, then mostly a 1x1 convolution."""
    kernel, mixed = rng.choice((2, 3, 3, 5)), rng.random() < 0.7
    pool = rng.choice((b.max_pool, b.average_pool))
    if stride == 1:
        kernel = 5 if kernel == 5 else 3
    kernel = kernel if kernel_fits(b.size(x), kernel) else 2
    x = pool(x, kernel, stride, 0 if kernel == 2 else kernel // 2)
    return b.layer(x, width, activation=b.block_activation(rng)) if mixed else x


CONVOLUTIONAL: Mapping[str, Block] = {
    "plain": plain,
    "factorised": factorised,
    "basic_residual": basic_residual,
    "bottleneck": bottleneck,
    "grouped_bottleneck": grouped_bottleneck,
    "squeeze_excitation": squeeze_excitation,
    "inverted_residual": inverted_residual,
    "separable": separable,
    "dense": dense,
    "inception": inception,
    "fire": fire,
    "channel_shuffle": channel_shuffle,
    "ghost": ghost,
    "pooling": pooling,
}
