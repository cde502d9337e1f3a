"""Where random networks begin and end: stems and heads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from latcast.spaces.synthetic.mixed_builder import MixedBuilder, weighted

Stem = Callable[[MixedBuilder, str, int, Random], str]
Head = Callable[[MixedBuilder, str, int, Random], str]

HIDDEN = (512, 1024, 2048, 4096)
MAX_FLATTENED = 25088
"""Features that the widest published network flattens (VGG: 512 maps of 7x7)."""
CLASSES: Mapping[int, float] = {1000: 60, 10: 8, 100: 12, 200: 5, 365: 10, 1001: 5}


def convolution_stem(b: MixedBuilder, x: str, width: int, rng: Random) -> str:
    """One convolution, now and then a pooling."""
    kernel, stride = rng.choice((3, 3, 5, 7)), weighted(rng, {1: 15, 2: 72, 4: 13})
    pooled = rng.random() < 0.35
    x = b.layer(x, width, kernel, stride=stride, activation=b.block_activation(rng))
    return b.halve(x, rng) if pooled else x


def deep_stem(b: MixedBuilder, x: str, width: int, rng: Random) -> str:
    """Two or three small convolutions, now and then a pooling (Inception v3, ResNet-C)."""
    activation, layers, pooled = b.block_activation(rng), rng.randint(2, 3), rng.random() < 0.4
    for index in range(layers):
        x = b.layer(x, width, 3, stride=2 if index == 0 else 1, activation=activation)
    return b.halve(x, rng) if pooled else x


def large_stem(b: MixedBuilder, x: str, width: int, rng: Random) -> str:
    """A large kernel of stride 4 and a pooling (AlexNet)."""
    x = b.layer(x, width, rng.choice((9, 11)), stride=4, activation=b.block_activation(rng))
    return b.halve(x, rng)


def patch_stem(b: MixedBuilder, x: str, width: int, rng: Random) -> str:
    """Patches that do not overlap (ViT, Swin, ConvNeXt)."""
    patch = weighted(rng, {2: 15, 4: 45, 8: 20, 16: 20})
    return b.conv(x, width, patch, stride=patch, padding=0, bias=True)


def pooled_linear(b: MixedBuilder, x: str, classes: int, rng: Random) -> str:
    """Average pooling, a linear layer."""
    return b.linear(b.flatten(_pooled(b, x, rng)), classes)


def expanded_linear(b: MixedBuilder, x: str, classes: int, rng: Random) -> str:
    """A 1x1 convolution to more channels, average pooling, a linear layer (MobileNetV2)."""
    activation = b.block_activation(rng)
    x = b.layer(x, b.rounded(b.channels(x) * rng.choice((2, 3, 4))), activation=activation)
    return b.linear(b.flatten(_pooled(b, x, rng)), classes)


def hidden_linear(b: MixedBuilder, x: str, classes: int, rng: Random) -> str:
    """Average pooling, a hidden layer, a linear layer."""
    x = b.linear(b.flatten(_pooled(b, x, rng)), rng.choice(HIDDEN))
    return b.linear(b.activation(x, b.block_activation(rng)), classes)


def pooled_convolutions(b: MixedBuilder, x: str, classes: int, rng: Random) -> str:
    """Average pooling, then 1x1 convolutions on the single pixel (MobileNetV3, GhostNet)."""
    x = b.conv(_pooled(b, x, rng), rng.choice(HIDDEN), bias=True)
    x = b.conv(b.activation(x, b.block_activation(rng)), classes, bias=True)
    return b.flatten(x)


def classifying_convolution(b: MixedBuilder, x: str, classes: int, rng: Random) -> str:
    """A 1x1 convolution to the classes, then average pooling (SqueezeNet)."""
    x = b.activation(b.conv(x, classes, bias=True), b.block_activation(rng))
    return b.flatten(_pooled(b, x, rng))


def flattened_linear(b: MixedBuilder, x: str, classes: int, rng: Random) -> str:
    """One or two hidden layers on the flattened map (AlexNet, VGG)."""
    activation, hidden = b.block_activation(rng), rng.choice(HIDDEN[1:])
    layers = rng.randint(1, 2)
    while b.channels(x) * b.size(x)[0] * b.size(x)[1] > MAX_FLATTENED and min(b.size(x)) > 1:
        x = b.max_pool(x, 2)
    x = b.flatten(x)
    for _ in range(layers):
        x = b.activation(b.linear(x, hidden), activation)
    return b.linear(x, classes)


def _pooled(b: MixedBuilder, x: str, rng: Random) -> str:
    kind = weighted(rng, {"global": 65, "mean": 20, "window": 15})
    if kind == "mean":
        return b.reduce_mean(x, (2, 3))
    return b.average_pool(x, b.size(x), 1) if kind == "window" else b.global_average_pool(x)


STEMS: Mapping[str, tuple[Stem, float]] = {
    "convolution_stem": (convolution_stem, 50),
    "deep_stem": (deep_stem, 18),
    "large_stem": (large_stem, 12),
    "patch_stem": (patch_stem, 20),
}
"""Stems and their shares in percent."""

HEADS: Mapping[str, tuple[Head, float]] = {
    "pooled_linear": (pooled_linear, 34),
    "expanded_linear": (expanded_linear, 16),
    "hidden_linear": (hidden_linear, 12),
    "pooled_convolutions": (pooled_convolutions, 10),
    "classifying_convolution": (classifying_convolution, 10),
    "flattened_linear": (flattened_linear, 18),
}
"""Heads and their shares in percent."""
