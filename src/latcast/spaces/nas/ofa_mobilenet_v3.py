"""The MobileNetV3 space of Once-for-all (Cai et al., "Once-for-all: train one network and specialize it", 2020, §4.1).

Five stages of two to four blocks, each block with a kernel size and an expansion of its own, and an elastic resolution.
"""

from __future__ import annotations

import numpy as np

from latcast.spaces.nas.dimension import Columns, Dimension
from latcast.spaces.nas.inverted_residuals import (
    FIELDS,
    InvertedResidualSegments,
    StageChoices,
    beyond_depth,
    chain,
    entry_shape,
    rounded_channels,
)
from latcast.spaces.nas.supernet import Supernet

WIDTHS = (16, 16, 24, 40, 80, 112, 160, 960, 1280)
"""Stem, first block, five stages, last convolution, hidden layer, at width 1."""

STRIDES = (2, 2, 2, 1, 2)
ACTIVATIONS = ("relu", "relu", "hard_swish", "hard_swish", "hard_swish")
SQUEEZE = (0.0, 0.25, 0.0, 0.25, 0.25)
MOST_BLOCKS = 4

DIMENSIONS = (
    Dimension("resolution", tuple(range(128, 225, 4))),
    Dimension("depths", (2, 3, 4), len(STRIDES)),
    Dimension("kernels", (3, 5, 7), len(STRIDES) * MOST_BLOCKS),
    Dimension("expansions", (3, 4, 6), len(STRIDES) * MOST_BLOCKS),
)


def supernet(name: str, width_multiplier: float) -> Supernet:
    """The space at one width; 1.0 and 1.2 were published."""
    stem, first, *widths, head, hidden = rounded_channels(np.array(WIDTHS) * width_multiplier).tolist()

    def segments(values: Columns) -> np.ndarray:
        count = len(values["resolution"])
        one = np.ones((count, 1), dtype=np.int64)
        stages = [StageChoices(first, 1, 1, 3 * one, one, "relu")]
        for stage, width in enumerate(widths):
            columns = slice(stage * MOST_BLOCKS, (stage + 1) * MOST_BLOCKS)
            stages.append(
                StageChoices(
                    width, values["depths"][:, stage], STRIDES[stage], values["kernels"][:, columns],
                    values["expansions"][:, columns], ACTIVATIONS[stage], SQUEEZE[stage],
                )
            )  # fmt: skip
        return chain(values["resolution"][:, 0], stem, stages, head, hidden, "hard_swish")

    return Supernet(
        name, DIMENSIONS, FIELDS, segments, InvertedResidualSegments("relu", "hard_sigmoid"), entry_shape, inactive_blocks
    )


def inactive_blocks(values: Columns) -> dict[str, np.ndarray]:
    """Blocks beyond the depth of their stage."""
    beyond = beyond_depth(values["depths"], MOST_BLOCKS)
    return {"kernels": beyond, "expansions": beyond}


SUPERNET = supernet("ofa_mobilenet_v3", 1.0)
WIDE = supernet("ofa_mobilenet_v3_w12", 1.2)
