"""The AutoFormer spaces (Chen et al., "AutoFormer: searching transformers for visual recognition", 2021, Table 1).

Vision transformers whose blocks have their own heads (of 64 channels) and widths of the feed-forward part. The authors' models
add relative positions inside attention, which are left out here: members are what DeiT is (Touvron et al., 2021).
"""

from __future__ import annotations

import numpy as np

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Shape
from latcast.spaces.nas.inverted_residuals import beyond_depth
from latcast.spaces.nas.supernet import Columns, Dimension, Row, Supernet
from latcast.spaces.token_blocks import feed_forward, tokens_of

EMBEDDING, BLOCK, HEAD = 1, 2, 3
FIELDS = ("kind", "resolution", "tokens", "width", "heads", "hidden")
PATCH = 16
HEAD_SIZE = 64
RESOLUTION = 224
CLASSES = 1000


def add_segment(b: GraphBuilder, x: str, row: Row) -> str:
    """Add the patch embedding with class token and positions, an encoder block, or the classifier."""
    kind, _, tokens, width, heads, hidden = row
    if kind == EMBEDDING:
        x = tokens_of(b, b.conv(x, width, PATCH, stride=PATCH, padding=0, bias=True))
        x = b.concat([b.weight((1, 1, width), stem="class_token"), x], axis=1)
        return b.add(x, b.weight((1, tokens, width), stem="position_embedding"))
    if kind == BLOCK:
        x = b.add(x, b.attention(b.layer_norm(x), heads, head_size=HEAD_SIZE))
        return feed_forward(b, x, hidden, "gelu")
    x = b.reshape(b.slice(b.layer_norm(x), [0], [1], [1]), (1, width))
    return b.linear(x, CLASSES)


def entry_shape(row: Row) -> Shape:
    """Return the shape of an image, or of tokens."""
    kind, resolution, tokens, width, *_ = row
    return (1, 3, resolution, resolution) if kind == EMBEDDING else (1, tokens, width)


def supernet(
    name: str, widths: tuple[int, ...], depths: tuple[int, ...], heads: tuple[int, ...], ratios: tuple[float, ...]
) -> Supernet:
    """Return one of the three spaces."""
    most = max(depths)
    dimensions = (
        Dimension("width", widths), Dimension("depth", depths), Dimension("heads", heads, most),
        Dimension("mlp_ratios", ratios, most),
    )  # fmt: skip
    tokens = (RESOLUTION // PATCH) ** 2 + 1

    def segments(values: Columns) -> np.ndarray:
        count = len(values["width"])
        rows = np.zeros((count, most + 2, len(FIELDS)), dtype=np.int64)
        width = values["width"][:, 0]
        rows[:, :, 1], rows[:, :, 2], rows[:, :, 3] = RESOLUTION, tokens, width[:, None]
        rows[:, 0, 0], rows[:, 1:-1, 0], rows[:, -1, 0] = EMBEDDING, BLOCK, HEAD
        rows[:, 1:-1, 4] = values["heads"]
        rows[:, 1:-1, 5] = (width[:, None] * values["mlp_ratios"]).astype(np.int64)
        rows[:, 1:-1][beyond_depth(values["depth"], most)] = 0
        return rows

    def inactive(values: Columns) -> dict[str, np.ndarray]:
        beyond = beyond_depth(values["depth"], most)
        return {"heads": beyond, "mlp_ratios": beyond}

    return Supernet(name, dimensions, FIELDS, segments, add_segment, entry_shape, inactive)


TINY = supernet("autoformer", (192, 216, 240), (12, 13, 14), (3, 4), (3.5, 4.0))
SMALL = supernet("autoformer_small", (320, 384, 448), (12, 13, 14), (5, 6, 7), (3.0, 3.5, 4.0))
BASE = supernet("autoformer_base", (528, 576, 624), (14, 15, 16), (8, 9, 10), (3.0, 3.5, 4.0))
