"""Swin transformer (Liu et al., "Swin transformer: hierarchical vision transformer using shifted windows", 2021).

Three things differ in form, not in what is computed, from the graphs of exporters. Windows are cut with a transposition of
four axes: exporters use six, but the pixels of a row and the channels of a pixel stay neighbours, so that axes merge, and
runtimes limited to four axes run it. Likewise the four pixels that patch merging joins come from one transposition (timm
does so too) instead of four strided slices and a concatenation; only the order of learned weights depends on it. And
queries, keys and values part before the heads, not after.

The relative position bias enters the graph gathered, (heads, window², window²), as exporters fold it; the network learns a
table of (2 window - 1)² values a head. ``Graph.parameter_count`` therefore exceeds the published number of parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder, Size, pair
from latcast.graph.ir import Graph
from latcast.spaces.catalogue import PublishedModel
from latcast.spaces.families.stages import check_lengths
from latcast.spaces.families.transformer import feed_forward, tokens_of
from latcast.spaces.families.variants import VariantFamily, draw_depths, draw_resolution

PATCH = 4
WIDTHS = (96, 192, 384, 768)
HEADS = (3, 6, 12, 24)
DEPTHS = {"tiny": (2, 2, 6, 2), "small": (2, 2, 18, 2)}
MASKED = -100.0
"""Added to the scores of tokens that are neighbours in a shifted window only."""

Extent = tuple[int, int]


def shifted_window_mask(extent: Extent, window: int, shift: Extent) -> np.ndarray:
    """What keeps tokens apart that come from opposite edges of a cyclically shifted map (Liu et al. Fig. 4).

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
    """Moves a tensor cyclically along an axis towards its start: two slices and a concatenation."""
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


def window_attention(b: GraphBuilder, x: str, heads: int, *, extent: Extent, window: int, shift: Extent, mask: str | None) -> str:
    """Self-attention inside (shifted) windows; tokens (N, H*W, C) in and out."""
    n, tokens, channels = b.shape(x)
    if mask is not None:
        x = b.reshape(x, (n, *extent, channels))
        for axis in (0, 1):
            x = roll(b, x, shift[axis], axis + 1)
    x = cut_windows(b, x, extent, window)
    biases = [b.weight((heads, window**2, window**2), stem="relative_position_bias")]
    x = b.attention(x, heads, biases=biases if mask is None else [*biases, mask], four_axes=True)
    x = join_windows(b, x, extent, window, n)
    if mask is not None:
        for axis in (0, 1):
            x = roll(b, x, -shift[axis], axis + 1)
    return b.reshape(x, (n, tokens, channels))


def stage(b: GraphBuilder, x: str, extent: Extent, *, depth: int, heads: int, window: int, hidden: int) -> str:
    """Blocks whose windows are shifted by half a window in every second one."""
    window = min(window, *extent)
    if extent[0] % window or extent[1] % window:
        raise ModelError(
            f"a feature map of {extent[0]}x{extent[1]} does not divide into windows of {window}; "
            f"give heights and widths that are multiples of {32 * window}"
        )
    # A map of one window has nothing to exchange with.
    shift = (0 if window == extent[0] else window // 2, 0 if window == extent[1] else window // 2)
    mask = None
    if shift != (0, 0) and depth > 1:
        mask = b.constant(np.tile(shifted_window_mask(extent, window, shift), (b.shape(x)[0], 1, 1, 1)))
    for block in range(depth):
        shifted = mask if block % 2 else None
        y = b.layer_norm(x)
        y = window_attention(b, y, heads, extent=extent, window=window, shift=shift, mask=shifted)
        x = feed_forward(b, b.add(x, y), hidden, "gelu")
    return x


def merge_patches(b: GraphBuilder, x: str, extent: Extent, width: int) -> str:
    """Joins the channels of 2x2 neighbours and projects them; (N, H*W, C) to (N, H*W/4, width)."""
    n, tokens, channels = b.shape(x)
    if extent[0] % 2 or extent[1] % 2:
        raise ModelError(
            f"a feature map of {extent[0]}x{extent[1]} has no 2x2 neighbours to merge; give a resolution that is a multiple of 32"
        )
    x = b.reshape(x, (n * extent[0] // 2, 2, extent[1] // 2, 2 * channels))
    x = b.reshape(b.transpose(x, (0, 2, 1, 3)), (n, tokens // 4, 4 * channels))
    return b.linear(b.layer_norm(x), width, bias=False)


def build(
    depths: Sequence[int] = DEPTHS["tiny"],
    widths: Sequence[int] = WIDTHS,
    heads: Sequence[int] = HEADS,
    *,
    window: int = 7,
    expansion: int = 4,
    resolution: Size = 224,
    classes: int = 1000,
    batch: int = 1,
) -> Graph:
    """Swin transformer, Swin-T by default.

    Args:
        depths: Blocks in each stage; all stages but the first halve the resolution.
        widths: Channels of a token in each stage, multiples of its heads.
        heads: Attention heads in each stage.
        window: Height and width of a window; a smaller map is one window.
        expansion: Width between the two linear layers of a block, relative to the stage's width.
        resolution: Height and width of the image, one number or two.
        classes: Outputs.
        batch: Images at a time.

    Raises:
        ModelError: The lists differ in length, or a map does not divide into windows, or a width into heads.
    """
    check_lengths("swin", depths=depths, widths=widths, heads=heads)
    height, breadth = pair(resolution)
    if height % PATCH or breadth % PATCH:
        raise ModelError(f"an image of {height}x{breadth} does not divide into patches of {PATCH}; give multiples of 32")
    b = GraphBuilder("swin")
    x = b.conv(b.input((batch, 3, height, breadth)), widths[0], PATCH, stride=PATCH, padding=0, bias=True)
    x = b.layer_norm(tokens_of(b, x))
    extent = (height // PATCH, breadth // PATCH)
    for index, (depth, width, count) in enumerate(zip(depths, widths, heads, strict=True)):
        if width % count:
            raise ModelError(f"{width} channels do not divide into {count} heads; give a multiple")
        if index > 0:
            x = merge_patches(b, x, extent, width)
            extent = (extent[0] // 2, extent[1] // 2)
        x = stage(b, x, extent, depth=depth, heads=count, window=window, hidden=expansion * width)
    return b.finish(b.linear(b.reduce_mean(b.layer_norm(x), (1,), keepdims=False), classes))


def draw(rng: Random) -> dict[str, Any]:
    """Width moves in whole heads, of the published 32 channels or fewer; the window follows the resolution."""
    head_size = rng.choice((16, 24, 32))
    heads = [max(1, round(width * rng.uniform(0.2, 1.8) / head_size)) for width in WIDTHS]
    resolution = draw_resolution(rng)
    return {
        "depths": draw_depths(rng, DEPTHS[rng.choice(tuple(DEPTHS))]),
        "widths": [count * head_size for count in heads],
        "heads": heads,
        "window": resolution // 32,
        "expansion": rng.choice((2, 3, 4)),
        "resolution": resolution,
    }


_SOURCE = (
    "torchvision models table, MACs with the products inside attention; parameters with the tables of relative position "
    "biases, (2 window - 1)² values a head (Liu et al. 2021, Table 1: {})"
)

SPACE = VariantFamily(
    "swin",
    {
        "swin_tiny": PublishedModel({"depths": list(DEPTHS["tiny"])}, 28.288, 4491, _SOURCE.format("29 M, 4.5 G")),
        "swin_small": PublishedModel({"depths": list(DEPTHS["small"])}, 49.606, 8741, _SOURCE.format("50 M, 8.7 G")),
    },
    build,
    draw,
)
