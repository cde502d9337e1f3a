"""The pre-norm transformer encoder block that ViT, Swin and MobileViT share (Dosovitskiy et al. 2021, eqs. 2 and 3)."""

from __future__ import annotations

from latcast.graph.builder import GraphBuilder


def tokens_of(b: GraphBuilder, x: str) -> str:
    """A feature map (N, C, H, W) as tokens (N, H*W, C)."""
    n, channels, height, width = b.shape(x)
    return b.transpose(b.reshape(x, (n, channels, height * width)), (0, 2, 1))


def feed_forward(b: GraphBuilder, x: str, hidden: int, activation: str) -> str:
    """Layer normalisation, two linear layers, and the input added."""
    y = b.activation(b.linear(b.layer_norm(x), hidden), activation)
    return b.add(x, b.linear(y, b.shape(x)[-1]))


def encoder_block(b: GraphBuilder, x: str, heads: int, hidden: int, activation: str = "gelu", *, four_axes: bool = False) -> str:
    """Self-attention over all tokens, then the feed-forward part; tokens (N, tokens, C) in and out."""
    x = b.add(x, b.attention(b.layer_norm(x), heads, four_axes=four_axes))
    return feed_forward(b, x, hidden, activation)
