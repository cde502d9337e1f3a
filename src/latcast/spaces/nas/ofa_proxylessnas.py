"""The ProxylessNAS space (Cai et al., "ProxylessNAS", 2019, §4) as Once-for-all trained it: elastic kernels, expansions, depths.

ProxylessNAS searches kernels of 3, 5 and 7 with expansions of 3 and 6, and may skip blocks; Once-for-all adds an expansion of 4
and skips from a stage's end. Width 1.3 of the mobile network, as published.
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

STEM, FIRST, *STAGES, LAST, HEAD = rounded_channels(np.array((32, 16, 24, 40, 80, 96, 192, 320, 1280)) * 1.3).tolist()
STRIDES = (2, 2, 2, 1, 2)
MOST_BLOCKS = 4
BLOCKS = len(STRIDES) * MOST_BLOCKS + 1
"""With the one block of the last stage, which is always there."""

DIMENSIONS = (
    Dimension("resolution", tuple(range(128, 225, 4))),
    Dimension("depths", (2, 3, 4), len(STRIDES)),
    Dimension("kernels", (3, 5, 7), BLOCKS),
    Dimension("expansions", (3, 4, 6), BLOCKS),
)


def segments(values: Columns) -> np.ndarray:
    """Of the networks with these values."""
    one = np.ones((len(values["resolution"]), 1), dtype=np.int64)
    stages = [StageChoices(FIRST, 1, 1, 3 * one, one, "relu6")]
    for stage, width in enumerate(STAGES):
        columns = slice(stage * MOST_BLOCKS, (stage + 1) * MOST_BLOCKS)
        kernels, expansions = values["kernels"][:, columns], values["expansions"][:, columns]
        stages.append(StageChoices(width, values["depths"][:, stage], STRIDES[stage], kernels, expansions, "relu6"))
    stages.append(StageChoices(LAST, 1, 1, values["kernels"][:, -1:], values["expansions"][:, -1:], "relu6"))
    return chain(values["resolution"][:, 0], STEM, stages, HEAD, 0, "relu6")


def inactive_blocks(values: Columns) -> dict[str, np.ndarray]:
    """Blocks beyond the depth of their stage."""
    beyond = beyond_depth(values["depths"], MOST_BLOCKS)
    beyond = np.concatenate([beyond, np.zeros((len(beyond), 1), dtype=bool)], axis=1)
    return {"kernels": beyond, "expansions": beyond}


SUPERNET = Supernet("ofa_proxylessnas", DIMENSIONS, FIELDS, segments, InvertedResidualSegments(), entry_shape, inactive_blocks)
