"""Blocks of the mixed random space that work on tokens: transformers, windows, MobileViT, ConvNeXt.

Maps enter and leave as (1, C, H, W); inside, tokens are (1, HW, C), and (windows, tokens of a window, C) in attention.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from latcast.spaces.families.mobilevit import fold, unfold
from latcast.spaces.families.swin import cut_windows, join_windows, merge_patches, roll
from latcast.spaces.families.transformer import encoder_block, feed_forward, tokens_of
from latcast.spaces.synthetic.mixed_builder import MixedBuilder, weighted
from latcast.spaces.synthetic.mixed_convolutions import Block

DIMENSION_LIMITS = (64, 768)
HEAD_SIZES: Mapping[int, float] = {16: 15, 32: 45, 48: 10, 64: 30}


@dataclass(frozen=True)
class Encoder:
    """Settings of a row of transformer layers.

    Attributes:
        heads: Attention heads.
        dimension: Channels of a token.
        hidden: Width between the two linear layers.
        activation: The activation there.
    """

    heads: int
    dimension: int
    hidden: int
    activation: str


def draw_encoder(rng: Random, width: int) -> Encoder:
    """Settings for about ``width`` channels."""
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
    """The map at the block's resolution and dimension, by one of the means of hybrid networks."""
    means = rng.choice(("patch", "conv", "pool"))
    if stride == 2 and means == "patch":
        return b.conv(x, dimension, 2, stride=2, padding=0, bias=True)
    if stride == 2 and means == "conv":
        return b.layer(x, dimension, 3, stride=2, activation=None)
    x = b.halve(x, rng) if stride == 2 else x
    return x if b.channels(x) == dimension else b.layer(x, dimension, activation=None)


def transformer(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Encoder layers on the flattened map, now and then with a class token (ViT, DeiT)."""
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
    """Layers that attend inside windows, every second one shifted (Swin); in a small map without windows, to all."""
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
            y = _attend_in_windows(b, y, encoder.heads, size, window, shift, biased=biased)
        tokens = feed_forward(b, b.add(tokens, y), encoder.hidden, encoder.activation)
    return map_of(b, tokens, size)


def _attend_in_windows(
    b: MixedBuilder, x: str, heads: int, size: tuple[int, int], window: int, shift: int, *, biased: bool
) -> str:
    tokens = b.shape(x)
    if shift:
        x = b.reshape(x, (1, *size, tokens[-1]))
        x = roll(b, roll(b, x, shift, 1), shift, 2)
    x = cut_windows(b, x, size, window)
    biases = [b.weight((heads, window**2, window**2), stem="position_bias")] if biased else []
    x = join_windows(b, b.attention(x, heads, biases=biases, four_axes=True), size, window, 1)
    x = roll(b, roll(b, x, -shift, 1), -shift, 2) if shift else x
    return b.reshape(x, tokens)


def unfold_attention(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """Attention among the pixels that share a place in their 2x2 patch, between convolutions (MobileViT)."""
    encoder = draw_encoder(rng, width // 2)
    depth, activation = rng.randint(1, 3), rng.choice(("silu", "silu", "relu"))
    if stride == 2:
        x = b.layer(x, width, 3, stride=2, activation=activation)
    y = b.conv(b.layer(x, b.channels(x), 3, activation=activation), encoder.dimension)
    shape = b.shape(y)
    y = unfold(b, y)
    for _ in range(depth):
        y = encoder_block(b, y, encoder.heads, encoder.hidden, encoder.activation, four_axes=True)
    y = fold(b, b.layer_norm(y), shape)
    y = b.layer(y, b.channels(x), activation=activation)
    return b.layer(b.concat([x, y]), width, 3, activation=activation)


def depthwise_mlp(b: MixedBuilder, x: str, width: int, stride: int, rng: Random) -> str:
    """A depthwise convolution, then a normalised two-layer network on every pixel (ConvNeXt)."""
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
