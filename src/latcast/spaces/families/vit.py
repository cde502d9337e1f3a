"""Vision transformers: ViT (Dosovitskiy et al., "An image is worth 16x16 words", 2021) and DeiT (Touvron et al. 2021)."""

from __future__ import annotations

from random import Random
from typing import Any

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder, Size, pair
from latcast.graph.ir import Graph
from latcast.spaces.catalogue import PublishedModel
from latcast.spaces.families.transformer import encoder_block, tokens_of
from latcast.spaces.families.variants import VariantFamily, draw_depths, draw_resolution

DEPTH = 12
SIZES = {"tiny": (192, 3), "small": (384, 6), "base": (768, 12)}
"""Width and heads."""


def build(
    width: int = 768,
    heads: int = 12,
    depth: int = DEPTH,
    hidden: int | None = None,
    *,
    patch: int = 16,
    resolution: Size = 224,
    classes: int = 1000,
    batch: int = 1,
) -> Graph:
    """A vision transformer with a class token and learned position embeddings, ViT-B/16 by default.

    Args:
        width: Channels of a token, a multiple of ``heads``.
        heads: Attention heads.
        depth: Encoder blocks.
        hidden: Width between the two linear layers of a block; four times ``width`` where not given.
        patch: Height and width of a patch.
        resolution: Height and width of the image, one number or two, multiples of ``patch``.
        classes: Outputs.
        batch: Images at a time.

    Raises:
        ModelError: The image does not divide into patches, or the width into heads.
    """
    height, breadth = pair(resolution)
    if height % patch or breadth % patch:
        raise ModelError(f"an image of {height}x{breadth} does not divide into patches of {patch}; give multiples of it")
    if width % heads:
        raise ModelError(f"{width} channels do not divide into {heads} heads; give a multiple")
    b = GraphBuilder("vit")
    x = b.conv(b.input((batch, 3, height, breadth)), width, patch, stride=patch, padding=0, bias=True)
    x = tokens_of(b, x)
    token = b.weight((1, 1, width), stem="class_token")
    if batch > 1:
        token = b.op("Expand", [token, b.constant([batch, 1, width], dtype="int64")])[0]
    x = b.concat([token, x], axis=1)
    x = b.add(x, b.weight((1, b.shape(x)[1], width), stem="position_embedding"))
    for _ in range(depth):
        x = encoder_block(b, x, heads, hidden or 4 * width)
    x = b.layer_norm(x)
    x = b.reshape(b.slice(x, [0], [1], [1]), (batch, width))
    return b.finish(b.linear(x, classes))


def draw(rng: Random) -> dict[str, Any]:
    """Width moves in whole heads, of the published 64 channels or of 32."""
    width, _ = SIZES[rng.choice(tuple(SIZES))]
    head_size = rng.choice((32, 64))
    heads = max(1, round(width * rng.uniform(0.2, 1.8) / head_size))
    return {
        "width": heads * head_size,
        "heads": heads,
        "depth": draw_depths(rng, [DEPTH])[0],
        "hidden": heads * head_size * rng.choice((2, 3, 4)),
        "patch": rng.choice((16, 32)),
        "resolution": draw_resolution(rng),
    }


def _published(size: str, patch: int, million_parameters: float, million_macs: float, source: str) -> PublishedModel:
    width, heads = SIZES[size]
    return PublishedModel({"width": width, "heads": heads, "patch": patch}, million_parameters, million_macs, source)


_TORCHVISION = "torchvision models table, MACs with the two products inside attention"
_TIMM = "parameters: timm's model; MACs with the two products inside attention: {}"

SPACE = VariantFamily(
    "vit",
    {
        "deit_tiny_16": _published("tiny", 16, 5.717, 1258, _TIMM.format("fvcore, which adds 0.4 % of normalisations")),
        "deit_small_16": _published("small", 16, 22.051, 4600, _TIMM.format("timm's model card, 4.6 G")),
        "vit_base_16": _published("base", 16, 86.568, 17564, _TORCHVISION),
        "vit_base_32": _published("base", 32, 88.224, 4409, _TORCHVISION),
    },
    build,
    draw,
)
