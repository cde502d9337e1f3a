"""Families of vision transformers: ViT and DeiT, Swin, MobileViT."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder
from latcast.spaces.blocks import inverted_residual
from latcast.spaces.families.variants import (
    WIDTH_RANGE,
    Stages,
    VariantFamily,
    check_lengths,
    draw_depths,
    draw_from,
    draw_kernels,
    draw_resolution,
    parameters_of,
    pooled_classifier,
    published_and_defaults,
)
from latcast.spaces.token_blocks import (
    Extent,
    check_heads,
    encoder_block,
    feed_forward,
    merge_patches,
    mobilevit_block,
    shifted_window_mask,
    tokens_of,
    window_attention,
)

# ViT (Dosovitskiy et al., "An image is worth 16x16 words", 2021) and DeiT (Touvron et al. 2021)


def vit(b: GraphBuilder, x: str, *, width: int, heads: int, depth: int, hidden: int | None, patch: int, classes: int) -> str:
    """Add a vision transformer with a class token and learned position embeddings.

    ``hidden`` is the width between the two linear layers of a block; four times ``width`` where None.

    Raises:
        ModelError: The image does not divide into patches, or the width into heads.
    """
    batch, _, height, breadth = b.shape(x)
    if height % patch or breadth % patch:
        raise ModelError(f"an image of {height}x{breadth} does not divide into patches of {patch}; give multiples of it")
    check_heads(width, heads)
    x = tokens_of(b, b.conv(x, width, patch, stride=patch, padding=0, bias=True))
    token = b.weight((1, 1, width), stem="class_token")
    if batch > 1:
        token = b.op("Expand", [token, b.constant([batch, 1, width], dtype="int64")])[0]
    x = b.concat([token, x], axis=1)
    x = b.add(x, b.weight((1, b.shape(x)[1], width), stem="position_embedding"))
    for _ in range(depth):
        x = encoder_block(b, x, heads, hidden or 4 * width)
    x = b.reshape(b.slice(b.layer_norm(x), [0], [1], [1]), (batch, width))
    return b.linear(x, classes)


def _draw_vit(rng: Random) -> dict[str, Any]:
    """Draw a width in whole heads, of the published 64 channels or of 32."""
    sizes = parameters_of("vit", "deit_tiny_16", "deit_small_16", "vit_base_16")
    width = rng.choice(sizes)["width"]
    head_size = rng.choice((32, 64))
    heads = max(1, round(width * rng.uniform(*WIDTH_RANGE) / head_size))
    return {
        "width": heads * head_size,
        "heads": heads,
        "depth": draw_depths(rng, [sizes[0]["depth"]])[0],
        "hidden": heads * head_size * rng.choice((2, 3, 4)),
        "patch": rng.choice((16, 32)),
        "resolution": draw_resolution(rng),
    }


VIT = VariantFamily("vit", *published_and_defaults("vit"), vit, _draw_vit)


# Swin (Liu et al., "Swin transformer: hierarchical vision transformer using shifted windows", 2021)

SWIN_PATCH = 4


def _swin_stage(b: GraphBuilder, x: str, extent: Extent, *, depth: int, heads: int, window: int, hidden: int) -> str:
    """Add blocks whose windows are shifted by half a window in every second one."""
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
        y = b.layer_norm(x)
        shifted = block % 2 == 1 and mask is not None
        y = window_attention(
            b, y, heads, extent=extent, window=window, shift=shift if shifted else (0, 0), mask=mask if shifted else None
        )
        x = feed_forward(b, b.add(x, y), hidden, "gelu")
    return x


def swin(
    b: GraphBuilder, x: str, *, depths: Stages, widths: Stages, heads: Stages, window: int, expansion: int, classes: int
) -> str:
    """Add a Swin transformer: stages of ``depths`` blocks, all but the first halving the resolution.

    ``expansion`` is the width between the two linear layers of a block relative to the stage's; a map smaller than ``window`` is
    one window.

    Raises:
        ModelError: A map does not divide into windows, or a width into heads.
    """
    _, _, height, breadth = b.shape(x)
    if height % SWIN_PATCH or breadth % SWIN_PATCH:
        raise ModelError(f"an image of {height}x{breadth} does not divide into patches of {SWIN_PATCH}; give multiples of 32")
    x = b.conv(x, widths[0], SWIN_PATCH, stride=SWIN_PATCH, padding=0, bias=True)
    x = b.layer_norm(tokens_of(b, x))
    extent = (height // SWIN_PATCH, breadth // SWIN_PATCH)
    for index, (depth, width, count) in enumerate(zip(depths, widths, heads, strict=True)):
        check_heads(width, count)
        if index > 0:
            x = merge_patches(b, x, extent, width)
            extent = (extent[0] // 2, extent[1] // 2)
        x = _swin_stage(b, x, extent, depth=depth, heads=count, window=window, hidden=expansion * width)
    return b.linear(b.reduce_mean(b.layer_norm(x), (1,), keepdims=False), classes)


def _draw_swin(rng: Random) -> dict[str, Any]:
    """Draw widths in whole heads, of the published 32 channels or fewer; the window follows the resolution."""
    published = parameters_of("swin", "swin_tiny", "swin_small")
    head_size = rng.choice((16, 24, 32))
    heads = [max(1, round(width * rng.uniform(*WIDTH_RANGE) / head_size)) for width in published[0]["widths"]]
    resolution = draw_resolution(rng)
    return {
        "depths": draw_depths(rng, rng.choice(published)["depths"]),
        "widths": [count * head_size for count in heads],
        "heads": heads,
        "window": resolution // 32,
        "expansion": rng.choice((2, 3, 4)),
        "resolution": resolution,
    }


SWIN = VariantFamily("swin", *published_and_defaults("swin"), swin, _draw_swin, per_stage="depths widths heads")


# MobileViT (Mehta and Rastegari, "MobileViT: light-weight, general-purpose, and mobile-friendly vision transformer", 2022):
# inverted residuals, and in the last three stages transformers that see every pixel: pixels at the same place of 2x2 patches
# attend to each other (§3.1)

MOBILEVIT_STRIDES = (1, 2, 2, 2, 2)
MOBILEVIT_HEADS = 4


def mobilevit(
    b: GraphBuilder,
    x: str,
    *,
    widths: Stages,
    dims: Stages,
    depths: Stages,
    transformer_depths: Stages,
    kernels: Stages,
    expansion: int,
    stem: int,
    head: int,
    classes: int,
) -> str:
    """Add MobileViT: five stages, of which all but the first halve the resolution and the last three end in a transformer.

    Args:
        dims: Channels of the transformers, multiples of 4 (their heads).
        depths: Inverted residuals in each stage, of this ``expansion``.
        kernels: Of depthwise convolutions and of those around the transformer.

    Raises:
        ModelError: Lists of the wrong length, or a transformer's channels do not divide into heads.
    """
    strides = MOBILEVIT_STRIDES
    check_lengths("mobilevit", strides=strides, widths=widths, depths=depths, kernels=kernels)
    check_lengths("mobilevit's transformers", stages=strides[2:], dims=dims, transformer_depths=transformer_depths)
    x = b.conv_bn(x, stem, 3, stride=2, activation="silu")
    for index, (width, stage_stride, depth, kernel) in enumerate(zip(widths, strides, depths, kernels, strict=True)):
        for block in range(depth):
            inner, stride = b.channels(x) * expansion, stage_stride if block == 0 else 1
            x = inverted_residual(b, x, width, expanded=inner, kernel=kernel, stride=stride, activation="silu")
        transformer = index - (len(strides) - len(dims))
        if transformer >= 0:
            dim = dims[transformer]
            check_heads(dim, MOBILEVIT_HEADS)
            x = mobilevit_block(b, x, width, dim=dim, depth=transformer_depths[transformer], kernel=kernel)
    return pooled_classifier(b, b.conv_bn(x, head, activation="silu"), classes)


MOBILEVIT = VariantFamily(
    "mobilevit",
    *published_and_defaults("mobilevit"),
    mobilevit,
    draw_from(
        "widths dims depths transformer_depths kernels expansion stem head resolution",
        *parameters_of("mobilevit", *(f"mobilevit_{size}" for size in ("xxs", "xs", "s"))),
        kernels=lambda rng, sizes: draw_kernels(rng, sizes, (1, 3, 5)),
        expansion=lambda rng, published: rng.choice((2, 3, 4)),
    ),
)
