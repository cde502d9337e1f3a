"""Random networks of the blocks of all published ones, for training predictors of any network.

A network is a stem, four or five stages at falling resolutions, and a head. Each network has a few kinds of
blocks, and conventions of its own for activation, normalisation and the rounding of widths; input sizes, square or not,
and widths are drawn too. A seed gives the structure; one multiplier scales the widths, so that sampling can aim at a
number of multiply-accumulates and a reference stays two numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import log
from random import Random
from typing import Any

from latcast.errors import ModelError
from latcast.graph.ir import Graph
from latcast.graph.operators import graph_macs
from latcast.spaces.families.variants import DrawnSpace
from latcast.spaces.synthetic.mixed_blocks import CONVOLUTIONAL, FITS, TOKENS, Block, MixedBuilder, log_uniform, weighted

NAME = "random_mixed"
MAC_RANGE = (20e6, 5e9)
MAX_PARAMETERS = 150e6
SIZES: Mapping[int, float] = dict.fromkeys(range(96, 257, 16), 1.0) | {192: 2.0, 224: 4.0, 256: 2.0}
"""Usual input sizes and how much more often some occur; sizes between them occur too."""
MULTIPLIER_LIMITS = (0.3, 3.0)
"""Bounds of the width multiplier, so that widths stay those of real networks."""

Stem = Callable[[MixedBuilder, str, int, Random], str]
Head = Callable[[MixedBuilder, str, int, Random], str]

HIDDEN = (512, 1024, 2048, 4096)
MAX_FLATTENED = 25088
"""Features that the widest published network flattens (VGG: 512 maps of 7x7)."""
CLASSES: Mapping[int, float] = {1000: 60, 10: 8, 100: 12, 200: 5, 365: 10, 1001: 5}


def convolution_stem(b: MixedBuilder, x: str, width: int, rng: Random) -> str:
    """Add one convolution, now and then a pooling."""
    kernel, stride = rng.choice((3, 3, 5, 7)), weighted(rng, {1: 15, 2: 72, 4: 13})
    pooled = rng.random() < 0.35
    x = b.conv_bn(x, width, kernel, stride=stride, activation=b.block_activation(rng))
    return b.halve(x, rng) if pooled else x


def deep_stem(b: MixedBuilder, x: str, width: int, rng: Random) -> str:
    """Add two or three small convolutions, now and then a pooling (Inception v3, ResNet-C)."""
    activation, layers, pooled = b.block_activation(rng), rng.randint(2, 3), rng.random() < 0.4
    for index in range(layers):
        x = b.conv_bn(x, width, 3, stride=2 if index == 0 else 1, activation=activation)
    return b.halve(x, rng) if pooled else x


def large_stem(b: MixedBuilder, x: str, width: int, rng: Random) -> str:
    """Add a large kernel of stride 4 and a pooling (AlexNet)."""
    x = b.conv_bn(x, width, rng.choice((9, 11)), stride=4, activation=b.block_activation(rng))
    return b.halve(x, rng)


def patch_stem(b: MixedBuilder, x: str, width: int, rng: Random) -> str:
    """Add patches that do not overlap (ViT, Swin, ConvNeXt)."""
    patch = weighted(rng, {2: 15, 4: 45, 8: 20, 16: 20})
    return b.conv(x, width, patch, stride=patch, padding=0, bias=True)


def pooled_linear(b: MixedBuilder, x: str, classes: int, rng: Random) -> str:
    """Add average pooling, a linear layer."""
    return b.linear(b.flatten(_pooled(b, x, rng)), classes)


def expanded_linear(b: MixedBuilder, x: str, classes: int, rng: Random) -> str:
    """Add a 1x1 convolution to more channels, average pooling, a linear layer (MobileNetV2)."""
    activation = b.block_activation(rng)
    x = b.conv_bn(x, b.rounded(b.channels(x) * rng.choice((2, 3, 4))), activation=activation)
    return b.linear(b.flatten(_pooled(b, x, rng)), classes)


def hidden_linear(b: MixedBuilder, x: str, classes: int, rng: Random) -> str:
    """Add average pooling, a hidden layer, a linear layer."""
    x = b.linear(b.flatten(_pooled(b, x, rng)), rng.choice(HIDDEN))
    return b.linear(b.activation(x, b.block_activation(rng)), classes)


def pooled_convolutions(b: MixedBuilder, x: str, classes: int, rng: Random) -> str:
    """Add average pooling, then 1x1 convolutions on the single pixel (MobileNetV3, GhostNet)."""
    x = b.conv(_pooled(b, x, rng), rng.choice(HIDDEN), bias=True)
    x = b.conv(b.activation(x, b.block_activation(rng)), classes, bias=True)
    return b.flatten(x)


def classifying_convolution(b: MixedBuilder, x: str, classes: int, rng: Random) -> str:
    """Add a 1x1 convolution to the classes, then average pooling (SqueezeNet)."""
    x = b.activation(b.conv(x, classes, bias=True), b.block_activation(rng))
    return b.flatten(_pooled(b, x, rng))


def flattened_linear(b: MixedBuilder, x: str, classes: int, rng: Random) -> str:
    """Add one or two hidden layers on the flattened map (AlexNet, VGG)."""
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

BLOCKS: Mapping[str, Block] = {**CONVOLUTIONAL, **TOKENS}
KIND_WEIGHTS: Mapping[str, float] = {**{kind: 1.2 if kind in TOKENS else 1.0 for kind in BLOCKS}, "grouped_bottleneck": 1.5}
"""Weights of kinds. Blocks on tokens do not fit every resolution and grouped convolutions have many shapes: both weigh more."""


def kinds_in(**parameters: Any) -> Counter[str]:
    """Count each kind of block in the member with these parameters."""
    return Counter(_assemble(**parameters)[0].kinds)


def build(seed: int, width: float = 1.0, kinds: Sequence[str] | None = None, input_size: tuple[int, int] | None = None) -> Graph:
    """Build the member whose structure ``seed`` decides, with all drawn widths times ``width``.

    ``kinds`` of blocks and the height and width of the input are drawn from the seed where None.

    Raises:
        ModelError: An unknown kind of block.
    """
    b, last = _assemble(seed, width, kinds, input_size)
    return b.finish(last)


def _assemble(
    seed: int, width: float = 1.0, kinds: Sequence[str] | None = None, input_size: tuple[int, int] | None = None
) -> tuple[MixedBuilder, str]:
    """Return a builder with all layers of a member, and its last tensor."""
    for kind in kinds or ():
        if kind not in BLOCKS:
            raise ModelError(f"no kind of block is called '{kind}'; expected some of {', '.join(BLOCKS)}")
    rng = Random(seed)
    b = MixedBuilder(NAME, rng, width)
    network_kinds = tuple(kinds) if kinds else _drawn_kinds(rng)
    height = weighted(rng, SIZES) if rng.random() < 0.9 else rng.randint(min(SIZES), max(SIZES))
    breadth = height if rng.random() < 0.8 else weighted(rng, SIZES)
    x = b.input((1, 3, *(input_size or (height, breadth))))
    input_height = b.size(x)[0]
    stem = weighted(rng, {kind: share for kind, (_, share) in STEMS.items()})
    b.kinds.append(stem)
    x = STEMS[stem][0](b, x, b.scaled(log_uniform(rng, 12, 96)), _branch(rng))
    for stage in range(rng.choice((4, 5))):
        total_stride = input_height / b.size(x)[0]
        shrinks = min(b.size(x)) >= 8 and rng.random() < (0.6 if stage == 0 else 0.9)
        stride = 2 if shrinks else 1
        # Widths grow with the total stride about as they do from VGG's first stage to ResNet's last.
        base = log_uniform(rng, 8, 64) * (total_stride * stride) ** rng.uniform(0.6, 0.95)
        favoured = rng.sample(network_kinds, min(len(network_kinds), rng.choice((1, 2, 2, 3))))
        for index in range(rng.choice((1, 2, 2, 3, 3, 4))):
            wanted = base if rng.random() < 0.75 else base * log_uniform(rng, 0.5, 2)
            x = _add_block(b, x, b.scaled(wanted), stride if index == 0 else 1, favoured, network_kinds, rng)
    head = weighted(rng, {kind: share for kind, (_, share) in HEADS.items()})
    b.kinds.append(head)
    x = HEADS[head][0](b, x, weighted(rng, CLASSES), _branch(rng))
    return b, b.softmax(x) if rng.random() < 0.15 else x


def _branch(rng: Random) -> Random:
    """Return a stream for one block, so that what the block draws does not shift what follows."""
    return Random(rng.getrandbits(64))


def _drawn_kinds(rng: Random) -> tuple[str, ...]:
    """Four to seven different kinds."""
    left = dict(KIND_WEIGHTS)
    chosen = []
    for _ in range(rng.randint(4, 7)):
        kind = weighted(rng, left)
        del left[kind]
        chosen.append(kind)
    return tuple(chosen)


def _add_block(
    b: MixedBuilder, x: str, width: int, stride: int, favoured: Sequence[str], network_kinds: Sequence[str], rng: Random
) -> str:
    height, width_of_map = (-(-side // stride) for side in b.size(x))

    def fitting(kinds: Sequence[str]) -> list[str]:
        return [kind for kind in kinds if kind not in FITS or FITS[kind]((height, width_of_map))]

    stream = _branch(rng)
    kind = stream.choice(fitting(favoured) or fitting(network_kinds) or ["plain"])
    b.kinds.append(kind)
    return BLOCKS[kind](b, x, width, stride, stream)


def fitted_multiplier(seed: int, target_macs: float, input_size: tuple[int, int] | None = None) -> float | None:
    """Return the width multiplier that brings a structure near a number of multiply-accumulates; None if beyond its limits.

    They grow with the square of the width where convolutions dominate and less where limits on widths bite, so one trial
    at the squared estimate shows the true exponent.
    """
    low, high = MULTIPLIER_LIMITS
    at_one = graph_macs(build(seed, input_size=input_size))
    trial = (target_macs / at_one) ** 0.5
    if not low <= trial <= high:
        return None
    at_trial = graph_macs(build(seed, trial, input_size=input_size))
    exponent = 2.0
    if abs(log(trial)) > 0.05 and at_trial != at_one:
        exponent = min(max(log(at_trial / at_one) / log(trial), 0.7), 2.0)
    fitted = trial * (target_macs / at_trial) ** (1 / exponent)
    return round(fitted, 3) if low <= fitted <= high else None


def draw(rng: Random) -> dict[str, Any]:
    """Draw a target, then structures until one reaches it: small networks come from small structures, not from thin ones."""
    target = log_uniform(rng, *MAC_RANGE)
    while True:
        seed = rng.getrandbits(32)
        multiplier = fitted_multiplier(seed, target)
        if multiplier is not None:
            return {"seed": seed, "width": multiplier}


def within_limits(graph: Graph, macs: tuple[float, float] = MAC_RANGE) -> bool:
    """Return whether a network has as many multiply-accumulates and no more weights than the space allows."""
    return macs[0] <= graph_macs(graph) <= macs[1] and graph.parameter_count <= MAX_PARAMETERS


SPACE = DrawnSpace(NAME, build, draw, within_limits)


# The same networks on small images (CIFAR's 32x32 and similar), whose kernels the larger ones hardly ever have. Search spaces
# such as NAS-Bench-201 work at this size: tiny maps with few channels, where overheads outweigh arithmetic.

SMALL_SIZES = (32, 32, 32, 48, 64)
SMALL_MAC_RANGE = (4e6, 500e6)


def build_small(seed: int, width: float = 1.0, size: int = SMALL_SIZES[0]) -> Graph:
    """Build the network that :func:`build` derives from a seed, for a square input of ``size`` pixels a side."""
    return build(seed, width, input_size=(size, size))


def draw_small(rng: Random) -> dict[str, Any]:
    """Draw a target, then structures until one reaches it."""
    size = rng.choice(SMALL_SIZES)
    target = log_uniform(rng, *SMALL_MAC_RANGE)
    while True:
        seed = rng.getrandbits(32)
        try:
            multiplier = fitted_multiplier(seed, target, input_size=(size, size))
        except ModelError:  # a window larger than what strides leave of a small image
            continue
        if multiplier is not None:
            return {"seed": seed, "width": multiplier, "size": size}


SMALL = DrawnSpace("random_small", build_small, draw_small, lambda graph: within_limits(graph, SMALL_MAC_RANGE))
