"""MobileViT (Mehta and Rastegari, "MobileViT: light-weight, general-purpose, and mobile-friendly vision transformer", 2022).

Inverted residuals, and in the last three stages transformers that see every pixel: pixels at the same place of 2x2 patches
attend to each other (§3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder, Size, pair
from latcast.graph.ir import Graph
from latcast.spaces.catalogue import PublishedModel
from latcast.spaces.families.inverted_residual import Stage, inverted_residual_stages
from latcast.spaces.families.stages import check_lengths
from latcast.spaces.families.transformer import encoder_block
from latcast.spaces.families.variants import (
    VariantFamily,
    draw_depths,
    draw_kernels,
    draw_resolution,
    draw_widths,
)

STRIDES = (1, 2, 2, 2, 2)
DEPTHS = (1, 3, 1, 1, 1)
KERNELS = (3, 3, 3, 3, 3)
TRANSFORMER_DEPTHS = (2, 4, 3)
HEADS = 4
PATCH = 2
ACTIVATION = "silu"

SIZES: dict[str, dict[str, Any]] = {
    "xxs": {"widths": [16, 24, 48, 64, 80], "dims": [64, 80, 96], "head": 320, "expansion": 2},
    "xs": {"widths": [32, 48, 64, 80, 96], "dims": [96, 120, 144], "head": 384, "expansion": 4},
    "s": {"widths": [32, 64, 96, 128, 160], "dims": [144, 192, 240], "head": 640, "expansion": 4},
}


def unfold(b: GraphBuilder, x: str) -> str:
    """A map (N, C, H, W) as (N * 4, patches, C): a sequence for each place inside a patch."""
    n, c, h, w = b.shape(x)
    rows, columns = h // PATCH, w // PATCH
    x = b.transpose(b.reshape(x, (n * c * rows, PATCH, columns, PATCH)), (0, 2, 1, 3))
    x = b.transpose(b.reshape(x, (n, c, rows * columns, PATCH**2)), (0, 3, 2, 1))
    return b.reshape(x, (n * PATCH**2, rows * columns, c))


def fold(b: GraphBuilder, x: str, shape: Sequence[int]) -> str:
    """Back from (N * 4, patches, C) to a map of this shape (N, C, H, W)."""
    n, c, h, w = shape
    rows, columns = h // PATCH, w // PATCH
    x = b.transpose(b.reshape(x, (n, PATCH**2, rows * columns, c)), (0, 3, 2, 1))
    x = b.transpose(b.reshape(x, (n * c * rows, columns, PATCH, PATCH)), (0, 2, 1, 3))
    return b.reshape(x, (n, c, h, w))


def mobilevit_block(b: GraphBuilder, x: str, *, dim: int, depth: int, kernel: int) -> str:
    """Local convolutions, transformer over unfolded patches, projection, fusion with the input (Fig. 1 b).

    A map that 2x2 patches do not cover is resized before and after the transformer, as the authors' code does.
    """
    n, channels, height, width = b.shape(x)
    y = b.conv(b.conv_bn(x, channels, kernel, activation=ACTIVATION), dim)
    covered = (-(-height // PATCH) * PATCH, -(-width // PATCH) * PATCH)
    if covered != (height, width):
        y = b.resize(y, covered, mode="linear")
    y = unfold(b, y)
    for _ in range(depth):
        y = encoder_block(b, y, HEADS, 2 * dim, ACTIVATION, four_axes=True)
    y = fold(b, b.layer_norm(y), (n, dim, *covered))
    if covered != (height, width):
        y = b.resize(y, (height, width), mode="linear")
    y = b.conv_bn(y, channels, activation=ACTIVATION)
    return b.conv_bn(b.concat([x, y]), channels, kernel, activation=ACTIVATION)


def build(
    widths: Sequence[int] = tuple(SIZES["s"]["widths"]),
    dims: Sequence[int] = tuple(SIZES["s"]["dims"]),
    depths: Sequence[int] = DEPTHS,
    transformer_depths: Sequence[int] = TRANSFORMER_DEPTHS,
    kernels: Sequence[int] = KERNELS,
    *,
    expansion: int = 4,
    stem: int = 16,
    head: int = int(SIZES["s"]["head"]),
    resolution: Size = 256,
    classes: int = 1000,
    batch: int = 1,
) -> Graph:
    """MobileViT, the small one by default.

    Args:
        widths: Output channels of the five stages; all but the first halve the resolution.
        dims: Channels of the transformers in the last three stages, multiples of 4 (their heads).
        depths: Inverted residuals in each stage.
        transformer_depths: Encoder blocks in each of the last three stages.
        kernels: Kernel size in each stage, of depthwise convolutions and of those around the transformer.
        expansion: Expansion of the inverted residuals.
        stem: Channels of the first convolution.
        head: Channels of the last 1x1 convolution.
        resolution: Height and width of the image, one number or two.
        classes: Outputs.
        batch: Images at a time.

    Raises:
        ModelError: Lists of the wrong length, or a transformer's channels do not divide into heads.
    """
    check_lengths("mobilevit", strides=STRIDES, widths=widths, depths=depths, kernels=kernels)
    check_lengths("mobilevit's transformers", stages=STRIDES[2:], dims=dims, transformer_depths=transformer_depths)
    b = GraphBuilder("mobilevit")
    x = b.conv_bn(b.input((batch, 3, *pair(resolution))), stem, 3, stride=2, activation=ACTIVATION)
    for index, (width, stride, depth, kernel) in enumerate(zip(widths, STRIDES, depths, kernels, strict=True)):
        x = inverted_residual_stages(b, x, [Stage(width, stride, [kernel] * depth, [expansion] * depth)], ACTIVATION)
        transformer = index - (len(STRIDES) - len(dims))
        if transformer >= 0:
            dim = dims[transformer]
            if dim % HEADS:
                raise ModelError(f"{dim} channels do not divide into {HEADS} heads; give a multiple")
            x = mobilevit_block(b, x, dim=dim, depth=transformer_depths[transformer], kernel=kernel)
    x = b.conv_bn(x, head, activation=ACTIVATION)
    return b.finish(b.linear(b.flatten(b.global_average_pool(x)), classes))


def draw(rng: Random) -> dict[str, Any]:
    base = SIZES[rng.choice(tuple(SIZES))]
    return {
        "widths": draw_widths(rng, base["widths"]),
        "dims": draw_widths(rng, base["dims"]),
        "depths": draw_depths(rng, DEPTHS),
        "transformer_depths": draw_depths(rng, TRANSFORMER_DEPTHS),
        "kernels": draw_kernels(rng, KERNELS, (1, 3, 5)),
        "expansion": rng.choice((2, 3, 4)),
        "stem": draw_widths(rng, [16])[0],
        "head": draw_widths(rng, [base["head"]])[0],
        "resolution": draw_resolution(rng),
    }


def _published(size: str, million_parameters: float, million_macs: float, counted: str) -> PublishedModel:
    return PublishedModel(
        dict(SIZES[size]),
        million_parameters,
        million_macs,
        f"timm's mobilevit_{size} at 256x256; MACs of convolutions, linear layers and the products inside attention as "
        f"fvcore counts them; with the normalisations that fvcore adds, {counted} G",
    )


SPACE = VariantFamily(
    "mobilevit",
    {
        "mobilevit_xxs": _published("xxs", 1.272, 407.4, "0.42"),
        "mobilevit_xs": _published("xs", 2.318, 1025.9, "1.05"),
        "mobilevit_s": _published("s", 5.579, 2000.8, "2.03"),
    },
    build,
    draw,
)
