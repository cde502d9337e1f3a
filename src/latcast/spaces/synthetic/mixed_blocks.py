"""The blocks of random networks, each with the drawn sizes and options of some published network's.

A block takes a map (1, C, H, W) and returns one; ``width`` is the number of channels that it should return (some keep their
input's) and ``stride`` is 1 or 2. Blocks on tokens work on (1, HW, C) inside, and on (windows, tokens of a window, C) in
attention.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TypeVar

from latcast.graph.builder import GraphBuilder, Size, pair
from latcast.spaces import blocks, token_blocks
from latcast.spaces.blocks import SqueezeExcite
from latcast.spaces.families.variants import round_channels
from latcast.spaces.token_blocks import encoder_block, feed_forward, merge_patches, tokens_of

WIDTH_LIMITS = (8, 2048)
ACTIVATIONS: Mapping[str, float] = {
    "relu": 50, "silu": 14, "hard_swish": 12, "relu6": 10, "leaky_relu": 8, "gelu": 3, "sigmoid": 3,
}  # fmt: skip
"""Activations and how often they occur, in percent."""

Item = TypeVar("Item")


def weighted(rng: Random, weights: Mapping[Item, float]) -> Item:
    """Draw one of the keys, as often as its weight says."""
    return rng.choices(list(weights), weights=list(weights.values()))[0]


def log_uniform(rng: Random, low: float, high: float) -> float:
    return float(low * (high / low) ** rng.random())


class MixedBuilder(GraphBuilder):
    """Adds the layers that random blocks are made of, and keeps the ``kinds`` of stem, blocks and head, in order.

    Every number that is drawn is independent of ``multiplier``, so that networks of one seed differ in width alone.
    """

    def __init__(self, name: str, rng: Random, multiplier: float) -> None:
        super().__init__(name)
        self.kinds: list[str] = []
        self._multiplier = multiplier
        self._default_activation = weighted(rng, ACTIVATIONS)
        self._normalised = rng.random() < 0.8
        self._multiple = weighted(rng, {8: 80.0, 4: 8.0, 2: 4.0, 1: 8.0})

    def size(self, x: str) -> tuple[int, int]:
        """Height and width of a map."""
        return self.shape(x)[2], self.shape(x)[3]

    def rounded(self, channels: float, multiple: int = 1) -> int:
        """Return a width within the limits, in the network's granularity and a multiple of ``multiple``."""
        low, high = WIDTH_LIMITS
        inside = min(max(channels, low), high)
        step = multiple if self._multiple % multiple else self._multiple
        return round_channels(inside, step)

    def scaled(self, channels: float) -> int:
        """Return a drawn width times the network's multiplier, rounded."""
        return self.rounded(channels * self._multiplier)

    def block_activation(self, rng: Random) -> str:
        """Return the network's own activation, or now and then another one."""
        other = weighted(rng, ACTIVATIONS)
        return other if rng.random() < 0.15 else self._default_activation

    def conv_bn(
        self,
        x: str,
        out_channels: int,
        kernel: Size = 1,
        *,
        stride: Size = 1,
        padding: Size | None = None,
        groups: int = 1,
        activation: str | None = "relu",
    ) -> str:
        """Convolution, batch normalisation (or a bias, in a network without normalisation), activation."""
        x = self.conv(x, out_channels, kernel, stride=stride, padding=padding, groups=groups, bias=not self._normalised)
        return self.activation(self.batch_norm(x) if self._normalised else x, activation)

    def halve(self, x: str, rng: Random) -> str:
        """Halve a map with one of the usual poolings."""
        kind = rng.choice(("max3", "max2", "average2", "average3"))
        kernel = int(kind[-1])
        pool = self.max_pool if kind.startswith("max") else self.average_pool
        # Maps of odd size keep their border in the 3x3 poolings and lose it in the 2x2 ones, as in real networks.
        return pool(x, kernel, 2, 1 if kernel == 3 else 0)


def drawn_gate(rng: Random, channels: int, *, reduction: int = 4) -> SqueezeExcite:
    """Squeeze-and-excitation of one of the published kinds, for a map of so many channels."""
    inner, gate = rng.choice((("relu", "sigmoid"), ("relu", "hard_sigmoid"), ("silu", "sigmoid")))
    return SqueezeExcite(max(channels // reduction, 4), inner, gate)


def kernel_fits(size: Sequence[int], kernel: Size) -> bool:
    """Return whether a kernel is no larger than the map it slides over."""
    return all(k <= s for k, s in zip(pair(kernel), size, strict=True))


Block = Callable[[MixedBuilder, str, int, int, Random], str]

SPATIAL_KERNELS: Mapping[int, float] = {3: 70, 5: 20, 7: 10}


def plain(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Add one or two convolutions in a row (VGG, AlexNet, stems)."""
    activation = b.block_activation(rng)
    for index in range(rng.randint(1, 2)):
        kernel = weighted(rng, {1: 22, 3: 48, 5: 16, 7: 9, 11: 5})
        size = b.size(x)
        kernel = kernel if kernel_fits(size, kernel) else 3
        x = b.conv_bn(x, width, kernel, stride=stride if index == 0 else 1, activation=activation)
    return x


def factorised(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Add a kxk convolution as 1xk and kx1 (Inception v3)."""
    activation = b.block_activation(rng)
    kernel = rng.choice((3, 5, 7))
    x = b.conv_bn(x, width, (1, kernel), activation=activation)
    return b.conv_bn(x, width, (kernel, 1), stride=stride, activation=activation)


def basic_residual(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Add two spatial convolutions and an addition (ResNet-18)."""
    activation = b.block_activation(rng)
    kernel, gated = weighted(rng, {3: 85, 5: 12, 1: 3}), rng.random() < 0.15
    y = b.conv_bn(x, width, kernel, stride=stride, activation=activation)
    y = b.conv_bn(y, width, kernel, activation=None)
    y = drawn_gate(rng, width, reduction=16).add(b, y) if gated else y
    return b.activation(b.add(y, blocks.shortcut(b, x, width, stride)), activation)


def bottleneck(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Add 1x1, spatial, 1x1 and an addition (ResNet-50)."""
    return _bottleneck(b, x, width, stride, rng, inner=b.rounded(width / rng.choice((2, 4, 4))), groups=1)


def grouped_bottleneck(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Add a bottleneck with a grouped convolution (ResNeXt, RegNet)."""
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
    gate = drawn_gate(rng, inner) if gated else None
    y = blocks.bottleneck(
        b, x, width, inner=inner, kernel=kernel, stride=stride, groups=groups, activation=activation, squeeze_excite=gate
    )
    return b.activation(b.add(y, blocks.shortcut(b, x, width, stride)), activation)


def squeeze_excitation(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Add a convolution whose channels are gated (SENet)."""
    x = b.conv_bn(x, width, rng.choice((1, 3)), stride=stride, activation=b.block_activation(rng))
    return drawn_gate(rng, width, reduction=rng.choice((4, 8, 16))).add(b, x)


def inverted_residual(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Add 1x1 expansion, depthwise, 1x1 projection (MobileNetV2 and V3, MnasNet, EfficientNet)."""
    activation = rng.choice(("relu", "relu6", "hard_swish", "silu"))
    expansion, gated = rng.choice((1, 1.5, 2, 3, 4, 6, 6)), rng.random() < 0.35
    kernel = weighted(rng, SPATIAL_KERNELS)
    expanded = b.rounded(b.channels(x) * expansion) if expansion > 1 else b.channels(x)
    gate = drawn_gate(rng, expanded) if gated else None
    return blocks.inverted_residual(
        b, x, width, expanded=expanded, kernel=kernel, stride=stride, activation=activation, squeeze_excite=gate,
        expand=expansion > 1,
    )  # fmt: skip


def separable(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Add depthwise and 1x1 (MobileNet, Xception)."""
    activation = b.block_activation(rng)
    kernel = weighted(rng, SPATIAL_KERNELS)
    for index in range(rng.randint(1, 2)):
        x = blocks.separable(b, x, width, kernel, stride=stride if index == 0 else 1, activation=activation)
    return x


def dense(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Add layers that each see all earlier ones, normalised and activated first (DenseNet); sometimes a transition."""
    depth, growth = rng.randint(2, 6), b.rounded(width / rng.choice((3, 4, 6, 8)))
    activation = rng.choice(("relu", "relu", "relu", "silu"))
    x = blocks.dense_block(b, x, depth, growth, inner=b.rounded(4 * growth), activation=activation)
    if rng.random() < 0.6:
        x = blocks.normalised_conv(b, x, width, activation=activation)
    return x if stride == 1 else b.average_pool(x, 2, 2)


def inception(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Add branches of different kernels side by side, concatenated (GoogLeNet, Inception v3)."""
    activation = b.block_activation(rng)
    shares = [rng.uniform(0.1, 0.5) for _ in range(4)]
    parts = [b.rounded(width * share) for share in shares]
    narrow = b.rounded(width * rng.uniform(0.1, 0.4))
    large, factored = rng.choice((3, 5, 5, 7)), rng.random() < 0.25
    pool = rng.choice((b.max_pool, b.average_pool))
    reduction: blocks.Convolution = (narrow, 1, 1)
    branches: list[list[blocks.Convolution]] = [[reduction, (parts[1], 3, stride)], [reduction, (parts[2], large, stride)]]
    if factored:
        branches[1] = [reduction, (parts[2], (1, large), 1), (parts[2], (large, 1), stride)]
    if stride == 1:
        branches.insert(0, [(parts[0], 1, 1)])
    return blocks.inception(b, x, branches, parts[3], lambda y: pool(y, 3, stride, 1), activation)


def fire(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Add a squeezing 1x1 convolution and two expanding ones side by side (SqueezeNet)."""
    activation = b.block_activation(rng)
    half, kernel = b.rounded(width / 2), weighted(rng, SPATIAL_KERNELS)
    squeezed = b.rounded(width / rng.choice((4, 8)))
    x = b.max_pool(x, 3, 2, 1) if stride == 2 else x
    return blocks.fire(b, x, squeezed, half, half, kernel, partial(b.conv_bn, activation=activation))


def channel_shuffle(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Add half of the channels convolved, then all mixed (ShuffleNetV2), or grouped 1x1 convolutions (ShuffleNet)."""
    if rng.random() < 0.35:
        return _grouped_shuffle(b, x, width, stride, rng)
    kernel, width = weighted(rng, SPATIAL_KERNELS), 2 * b.rounded(width / 2)
    if stride == 1:
        # The unit splits its input into equal halves; any other input is first brought to that width.
        x = x if b.channels(x) % 2 == 0 else b.conv_bn(x, width)
        width = b.channels(x)
    return blocks.shuffle_unit(b, x, width, kernel, stride)


def _grouped_shuffle(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    groups = rng.choice((2, 3, 4, 8))
    width = b.rounded(width, groups)
    inner = b.rounded(width / 4, groups)
    first = groups if b.channels(x) % groups == 0 else 1
    y = b.conv_bn(x, inner, groups=first)
    y = blocks.depthwise(b, b.channel_shuffle(y, groups), stride=stride, activation=None)
    y = b.conv_bn(y, width, groups=groups, activation=None)
    return b.relu(b.add(y, blocks.shortcut(b, x, width, stride)))


def ghost(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Add half of the maps made from the other half by cheap depthwise convolutions (GhostNet)."""
    expansion, kernel = rng.choice((1.5, 2, 3, 4, 6)), rng.choice((3, 3, 5))
    gated = rng.random() < 0.3
    expanded, width = (2 * b.rounded(channels / 2) for channels in (b.rounded(width * expansion), width))
    squeezed = max(expanded // 4, 4) if gated else 0
    return blocks.ghost_bottleneck(b, x, width, expanded=expanded, kernel=kernel, stride=stride, squeezed=squeezed)


def pooling(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Add a pooling, then mostly a 1x1 convolution."""
    kernel, mixed = rng.choice((2, 3, 3, 5)), rng.random() < 0.7
    pool = rng.choice((b.max_pool, b.average_pool))
    if stride == 1:
        kernel = 5 if kernel == 5 else 3
    kernel = kernel if kernel_fits(b.size(x), kernel) else 2
    if min(b.size(x)) >= kernel or kernel != 2:
        x = pool(x, kernel, stride, 0 if kernel == 2 else kernel // 2)
    return b.conv_bn(x, width, activation=b.block_activation(rng)) if mixed else x


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


DIMENSION_LIMITS = (64, 768)
HEAD_SIZES: Mapping[int, float] = {16: 15, 32: 45, 48: 10, 64: 30}


@dataclass(frozen=True)
class Encoder:
    """Settings of a row of transformer layers: heads, channels of a token, width and activation between the two linear layers."""

    heads: int
    dimension: int
    hidden: int
    activation: str


def draw_encoder(rng: Random, width: int) -> Encoder:
    """Draw settings for about ``width`` channels."""
    head_size = weighted(rng, HEAD_SIZES)
    low, high = DIMENSION_LIMITS
    heads = max(round(min(max(width, low), high) / head_size), 1)
    activation = weighted(rng, {"gelu": 76, "silu": 14, "relu": 5, "hard_swish": 5})
    dimension = heads * head_size
    return Encoder(heads, dimension, dimension * rng.choice((2, 3, 4, 4)), activation)


def map_of(b: MixedBuilder, x: str, size: tuple[int, int]) -> str:
    """Tokens (N, HW, C) as a feature map (N, C, H, W)."""
    n, _, c = b.shape(x)
    return b.reshape(b.transpose(x, (0, 2, 1)), (n, c, *size))


def entered(b: MixedBuilder, x: str, dimension: int, stride: int, rng: Random) -> str:
    """Return the map at the block's resolution and dimension, by one of the means of hybrid networks."""
    means = rng.choice(("patch", "conv", "pool"))
    if stride == 2 and means == "patch":
        return b.conv(x, dimension, 2, stride=2, padding=0, bias=True)
    if stride == 2 and means == "conv":
        return b.conv_bn(x, dimension, 3, stride=2, activation=None)
    x = b.halve(x, rng) if stride == 2 else x
    return x if b.channels(x) == dimension else b.conv_bn(x, dimension, activation=None)


def transformer(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Add encoder layers on the flattened map, now and then with a class token (ViT, DeiT)."""
    encoder = draw_encoder(rng, width)
    depth, classed = rng.randint(1, 4), rng.random() < 0.25
    positioned, normalised = rng.random() < 0.5, rng.random() < 0.5
    x = entered(b, x, encoder.dimension, stride, rng)
    size = b.size(x)
    tokens = tokens_of(b, x)
    if classed:
        tokens = b.concat([b.weight((1, 1, encoder.dimension), stem="class_token"), tokens], axis=1)
    if positioned:
        tokens = b.add(tokens, b.weight(b.shape(tokens), stem="position_embedding"))
    for _ in range(depth):
        tokens = encoder_block(b, tokens, encoder.heads, encoder.hidden, encoder.activation)
    tokens = b.layer_norm(tokens) if normalised else tokens
    if classed:
        tokens = b.slice(tokens, [1], [b.shape(tokens)[1]], [1])
    return map_of(b, tokens, size)


def window_sizes(size: tuple[int, int]) -> list[int]:
    """Windows of 4 to 8 tokens a side that tile a map."""
    return [window for window in range(4, 9) if size[0] % window == 0 and size[1] % window == 0]


def window_attention(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Add layers that attend inside windows, every second one shifted (Swin); in a small map without windows, to all."""
    encoder = draw_encoder(rng, width)
    layers, biased, shifted = rng.randint(1, 3), rng.random() < 0.7, rng.random() < 0.6
    if stride == 2 and all(side % 2 == 0 for side in b.size(x)):
        size = (b.size(x)[0] // 2, b.size(x)[1] // 2)
        tokens = merge_patches(b, tokens_of(b, x), b.size(x), encoder.dimension)
    else:
        x = entered(b, x, encoder.dimension, stride, rng)
        size, tokens = b.size(x), tokens_of(b, x)
    fitting = window_sizes(size)
    window = rng.choice(fitting) if fitting else None
    for layer in range(layers):
        y = b.layer_norm(tokens)
        if window is None:
            y = b.attention(y, encoder.heads)
        else:
            shift = window // 2 if shifted and layer % 2 else 0
            y = token_blocks.window_attention(
                b, y, encoder.heads, extent=size, window=window, shift=(shift, shift), bias_stem="position_bias" if biased else ""
            )
        tokens = feed_forward(b, b.add(tokens, y), encoder.hidden, encoder.activation)
    return map_of(b, tokens, size)


def unfold_attention(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Attention among the pixels that share a place in their 2x2 patch, between convolutions (MobileViT)."""
    encoder = draw_encoder(rng, width // 2)
    depth, activation = rng.randint(1, 3), rng.choice(("silu", "silu", "relu"))
    if stride == 2:
        x = b.conv_bn(x, width, 3, stride=2, activation=activation)
    return token_blocks.mobilevit_block(
        b, x, width, dim=encoder.dimension, depth=depth, heads=encoder.heads, hidden=encoder.hidden, activation=activation,
        hidden_activation=encoder.activation,
    )  # fmt: skip


def depthwise_mlp(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Add a depthwise convolution, then a normalised two-layer network on every pixel (ConvNeXt)."""
    encoder = draw_encoder(rng, width)
    kernel, depth = rng.choice((5, 7, 7, 9)), rng.randint(1, 2)
    x = entered(b, x, encoder.dimension, stride, rng)
    for _ in range(depth):
        y = b.layer_norm(tokens_of(b, b.depthwise_conv(x, kernel, bias=True)))
        y = b.linear(b.activation(b.linear(y, encoder.hidden), encoder.activation), encoder.dimension)
        x = b.add(x, map_of(b, y, b.size(x)))
    return x


TOKENS: Mapping[str, Block] = {
    "transformer": transformer,
    "window_attention": window_attention,
    "unfold_attention": unfold_attention,
    "depthwise_mlp": depthwise_mlp,
}

FITS: Mapping[str, Callable[[tuple[int, int]], bool]] = {
    "transformer": lambda size: size[0] * size[1] <= 1024,
    "window_attention": lambda size: bool(window_sizes(size)) or size[0] * size[1] <= 256,
    "unfold_attention": lambda size: size[0] % 2 == size[1] % 2 == 0 and size[0] * size[1] <= 1600,
    "depthwise_mlp": lambda size: size[0] * size[1] <= 4096,
}
"""Whether a block is affordable on an output map of this size: attention grows with the square of the tokens."""
