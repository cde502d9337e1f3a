"""The ResNet-50 space of Once-for-all: ResNet-D with elastic depth, width and expansion (Cai et al. 2020, released models).

A member with ResNet-50's depths, full widths and an expansion of 0.25 is ResNet-50-D (He et al., "Bag of tricks", 2019, §4).
The average pooling of 1x1 windows, which the authors' code has in the shortcut of the first stage, is left out: it does nothing.
"""

from __future__ import annotations

import numpy as np

from latcast.graph.builder import GraphBuilder
from latcast.spaces.blocks import bottleneck
from latcast.spaces.families.variants import pooled_classifier
from latcast.spaces.nas.inverted_residuals import beyond_depth, rounded_channels
from latcast.spaces.nas.supernet import Columns, Dimension, Row, Supernet, map_shape

STEM, BLOCK, HEAD = 1, 2, 3
FIELDS = ("kind", "size", "in_channels", "width", "inner", "stride")
"""``stride`` of a stem: 2 with the extra residual convolution, 1 without."""

BASE_DEPTHS = (2, 2, 4, 2)
EXTRA = (0, 1, 2)
WIDTHS = (256, 512, 1024, 2048)
MOST_BLOCKS = tuple(depth + max(EXTRA) for depth in BASE_DEPTHS)
MULTIPLIERS = (0.65, 0.8, 1.0)

DIMENSIONS = (
    Dimension("resolution", tuple(range(128, 225, 16))),
    Dimension("stem_residual", (0, 1)),
    Dimension("stem_widths", MULTIPLIERS, 2),
    Dimension("extra_blocks", EXTRA, len(WIDTHS)),
    Dimension("widths", MULTIPLIERS, len(WIDTHS)),
    Dimension("expansions", (0.2, 0.25, 0.35), sum(MOST_BLOCKS)),
)


def segments(values: Columns) -> np.ndarray:
    """Return the segments of the networks with these values."""
    count = len(values["resolution"])
    rows = np.zeros((count, 2 + sum(MOST_BLOCKS), len(FIELDS)), dtype=np.int64)
    size = values["resolution"][:, 0].astype(np.int64)
    stem_inner = rounded_channels(rounded_channels(64 * values["stem_widths"][:, 0]) // 2)
    channels = rounded_channels(64 * values["stem_widths"][:, 1])
    rows[:, 0] = np.stack(
        [np.full(count, STEM), size, np.full(count, 3), channels, stem_inner, 1 + values["stem_residual"][:, 0]], axis=1
    )
    size = (size + 3) // 4
    place = 1
    for stage, most in enumerate(MOST_BLOCKS):
        depth = BASE_DEPTHS[stage] + values["extra_blocks"][:, stage]
        width = rounded_channels(WIDTHS[stage] * values["widths"][:, stage])
        for block in range(most):
            stride = 2 if stage > 0 and block == 0 else 1
            inner = rounded_channels(np.rint(width * values["expansions"][:, place - 1]))
            row = np.stack([np.full(count, BLOCK), size, channels, width, inner, np.full(count, stride)], axis=1)
            rows[:, place] = np.where((block < depth)[:, None], row, 0)
            channels = np.where(block < depth, width, channels)
            size = (size + stride - 1) // stride
            place += 1
    rows[:, place] = np.stack(
        [np.full(count, HEAD), size, channels, np.full(count, 1000), np.zeros(count), np.ones(count)], axis=1
    )
    return rows


def add_segment(b: GraphBuilder, x: str, row: Row) -> str:
    """Add the deep stem, a bottleneck with an averaging shortcut, or the classifier."""
    kind, _, in_channels, width, inner, stride = row
    if kind == STEM:
        x = b.conv_bn(x, inner, 3, stride=2)
        if stride == 2:
            x = b.add(b.conv_bn(x, inner, 3), x)
        return b.max_pool(b.conv_bn(x, width, 3), 3, 2, 1)
    if kind == HEAD:
        return pooled_classifier(b, x, width)
    y = bottleneck(b, x, width, inner=inner, stride=stride)
    if stride != 1 or in_channels != width:
        x = b.average_pool(x, stride, ceil=True) if stride != 1 else x
        x = b.conv_bn(x, width, activation=None)
    return b.relu(b.add(y, x))


def inactive_blocks(values: Columns) -> dict[str, np.ndarray]:
    """Blocks beyond the depth of their stage."""
    depths = values["extra_blocks"] + np.array(BASE_DEPTHS)
    beyond = [beyond_depth(depths[:, [stage]], most) for stage, most in enumerate(MOST_BLOCKS)]
    return {"expansions": np.concatenate(beyond, axis=1)}


SUPERNET = Supernet("ofa_resnet", DIMENSIONS, FIELDS, segments, add_segment, map_shape, inactive_blocks)
