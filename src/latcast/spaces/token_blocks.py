"""Blocks of vision transformers, each written once for families, synthetic spaces and search spaces.

Tokens are (N, tokens, channels), maps (N, C, H, W).

Three things of Swin's blocks differ in form, not in what is computed, from the graphs of exporters. Windows are cut with a
transposition of four axes: exporters use six, but the pixels of a row and the channels of a pixel stay neighbours, so that axes
merge, and runtimes limited to four axes run it. Likewise the four pixels that patch merging joins come from one transposition
(timm does so too) instead of four strided slices and a concatenation; only the order of learned weights depends on it. And
queries, keys and values part before the heads, not after.

The relative position bias enters the graph gathered, (heads, window², window²), as exporters fold it; the network learns a
table of (2 window - 1)² values a head. ``Graph.parameter_count`` therefore exceeds the published number of parameters.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder


def tokens_of(b: GraphBuilder, x: str) -> str:
    """Return a feature map (N, C, H, W) as tokens (N, H*W, C)."""
    n, channels, height, width = b.shape(x)
    return b.transpose(b.reshape(x, (n, channels, height * width)), (0, 2, 1))


def feed_forward(b: GraphBuilder, x: str, hidden: int, activation: str) -> str:
    """Layer normalisation, two linear layers, and the input added."""
    y = b.activation(b.linear(b.layer_norm(x), hidden), activation)
    return b.add(x, b.linear(y, b.shape(x)[-1]))


def check_heads(channels: int, heads: int) -> None:
    """Raise a ModelError if attention heads have no whole channels."""
    if channels % heads:
        raise ModelError(f"{channels} channels do not divide into {heads} heads; give a multiple")


def encoder_block(b: GraphBuilder, x: str, heads: int, hidden: int, activation: str = "gelu", *, four_axes: bool = False) -> str:
    """Add self-attention over all tokens, then the feed-forward part, both pre-norm (Dosovitskiy et al. 2021, eqs. 2 and 3)."""
    x = b.add(x, b.attention(b.layer_norm(x), heads, four_axes=four_axes))
    return feed_forward(b, x, hidden, activation)


MASKED = -100.0
"""Added to the scores of tokens that are neighbours in a shifted window only."""

Extent = tuple[int, int]


def shifted_window_mask(extent: Extent, window: int, shift: Extent) -> np.ndarray:
    """Return the mask between tokens from opposite edges of a cyclically shifted map (Liu et al. Fig. 4).

    Returns:
        (windows, 1, window², window²): 0 where two tokens of a window may see each other, else ``MASKED``.
    """
    rows, columns = (
        np.searchsorted([size - window, size - moved] if moved else [size], np.arange(size), side="right")
        for size, moved in zip(extent, shift, strict=True)
    )
    regions = rows[:, None] * 3 + columns[None, :]
    tiles = regions.reshape(extent[0] // window, window, extent[1] // window, window)
    tiles = tiles.transpose(0, 2, 1, 3).reshape(-1, window * window)
    apart = tiles[:, None, :, None] != tiles[:, None, None, :]
    return np.where(apart, MASKED, 0.0).astype(np.float32)


def roll(b: GraphBuilder, x: str, distance: int, axis: int) -> str:
    """Move a tensor cyclically along an axis towards its start: two slices and a concatenation."""
    size = b.shape(x)[axis]
    distance %= size
    if distance == 0:
        return x
    head = b.slice(x, [0], [distance], [axis])
    tail = b.slice(x, [distance], [size], [axis])
    return b.concat([tail, head], axis=axis)


def cut_windows(b: GraphBuilder, x: str, extent: Extent, window: int) -> str:
    """Tokens of a map, (N, H*W, C) or (N, H, W, C), to (N * windows, window², C)."""
    n, channels = b.shape(x)[0], b.shape(x)[-1]
    rows, columns = extent[0] // window, extent[1] // window
    x = b.transpose(b.reshape(x, (n * rows, window, columns, window * channels)), (0, 2, 1, 3))
    return b.reshape(x, (n * rows * columns, window * window, channels))


def join_windows(b: GraphBuilder, x: str, extent: Extent, window: int, batch: int) -> str:
    """(N * windows, window², C) back to (N, H, W, C)."""
    channels = b.shape(x)[-1]
    rows, columns = extent[0] // window, extent[1] // window
    x = b.transpose(b.reshape(x, (batch * rows, columns, window, window * channels)), (0, 2, 1, 3))
    return b.reshape(x, (batch, *extent, channels))


def window_attention(
    b: GraphBuilder,
    x: str,
    heads: int,
    *,
    extent: Extent,
    window: int,
    shift: Extent = (0, 0),
    mask: str | None = None,
    bias_stem: str = "relative_position_bias",
) -> str:
    """Add self-attention inside windows, shifted where ``shift`` is not zero; tokens (N, H*W, C) in and out.

    ``bias_stem`` begins the name of the learned position bias; there is none where it is empty.
    """
    n, tokens, channels = b.shape(x)
    if shift != (0, 0):
        x = b.reshape(x, (n, *extent, channels))
        for axis in (0, 1):
            x = roll(b, x, shift[axis], axis + 1)
    x = cut_windows(b, x, extent, window)
    biases = [b.weight((heads, window**2, window**2), stem=bias_stem)] if bias_stem else []
    x = b.attention(x, heads, biases=biases if mask is None else [*biases, mask], four_axes=True)
    x = join_windows(b, x, extent, window, n)
    if shift != (0, 0):
        for axis in (0, 1):
            x = roll(b, x, -shift[axis], axis + 1)
    return b.reshape(x, (n, tokens, channels))


def merge_patches(b: GraphBuilder, x: str, extent: Extent, width: int) -> str:
    """Join the channels of 2x2 neighbours and projects them; (N, H*W, C) to (N, H*W/4, width)."""
    n, tokens, channels = b.shape(x)
    if extent[0] % 2 or extent[1] % 2:
        raise ModelError(
            f"a feature map of {extent[0]}x{extent[1]} has no 2x2 neighbours to merge; give a resolution that is a multiple of 32"
        )
    x = b.reshape(x, (n * extent[0] // 2, 2, extent[1] // 2, 2 * channels))
    x = b.reshape(b.transpose(x, (0, 2, 1, 3)), (n, tokens // 4, 4 * channels))
    return b.linear(b.layer_norm(x), width, bias=False)


PATCH = 2


def unfold(b: GraphBuilder, x: str) -> str:
    """Return a map (N, C, H, W) as (N * 4, patches, C): a sequence for each place inside a patch."""
    n, c, h, w = b.shape(x)
    rows, columns = h // PATCH, w // PATCH
    x = b.transpose(b.reshape(x, (n * c * rows, PATCH, columns, PATCH)), (0, 2, 1, 3))
    x = b.transpose(b.reshape(x, (n, c, rows * columns, PATCH**2)), (0, 3, 2, 1))
    return b.reshape(x, (n * PATCH**2, rows * columns, c))


def fold(b: GraphBuilder, x: str, shape: Sequence[int]) -> str:
    """Return (N * 4, patches, C) as a map of this shape (N, C, H, W)."""
    n, c, h, w = shape
    rows, columns = h // PATCH, w // PATCH
    x = b.transpose(b.reshape(x, (n, PATCH**2, rows * columns, c)), (0, 3, 2, 1))
    x = b.transpose(b.reshape(x, (n * c * rows, columns, PATCH, PATCH)), (0, 2, 1, 3))
    return b.reshape(x, (n, c, h, w))


def mobilevit_block(
    b: GraphBuilder,
    x: str,
    width: int,
    *,
    dim: int,
    depth: int,
    heads: int = 4,
    hidden: int | None = None,
    kernel: int = 3,
    activation: str = "silu",
    hidden_activation: str = "silu",
) -> str:
    """Add local convolutions, transformer over unfolded patches, fusion with the input (Mehta and Rastegari 2022, Fig. 1 b).

    A map that 2x2 patches do not cover is resized before and after the transformer, as the authors' code does.

    Args:
        dim: Channels of a token.
        hidden: Width between the two linear layers of a block; twice ``dim`` where not given.
        kernel: Of the first and the last convolution.
        hidden_activation: Between linear layers.
    """
    n, channels, height, breadth = b.shape(x)
    y = b.conv(b.conv_bn(x, channels, kernel, activation=activation), dim)
    covered = (-(-height // PATCH) * PATCH, -(-breadth // PATCH) * PATCH)
    if covered != (height, breadth):
        y = b.resize(y, covered, mode="linear")
    y = unfold(b, y)
    for _ in range(depth):
        y = encoder_block(b, y, heads, hidden or 2 * dim, hidden_activation, four_axes=True)
    y = fold(b, b.layer_norm(y), (n, dim, *covered))
    if covered != (height, breadth):
        y = b.resize(y, (height, breadth), mode="linear")
    y = b.conv_bn(y, channels, activation=activation)
    return b.conv_bn(b.concat([x, y]), width, kernel, activation=activation)
