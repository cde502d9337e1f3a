"""The BigNAS space (Yu et al., "BigNAS: scaling up neural architecture search with big single-stage models", 2020, §4).

EfficientNet's stages, each with a width, a depth and a kernel size; EfficientNet-B0 is a member.
"""

from __future__ import annotations

import numpy as np

from latcast.spaces.catalogue import PublishedModel
from latcast.spaces.nas.dimension import Columns, Dimension
from latcast.spaces.nas.inverted_residuals import FIELDS, InvertedResidualSegments, StageChoices, chain, entry_shape
from latcast.spaces.nas.supernet import Supernet

STRIDES = (1, 2, 2, 2, 1, 2, 1)
WIDTHS = ((16, 24), (24, 32), (40, 48), (80, 88), (112, 120, 128), (192, 200, 208, 216), (320, 328, 336, 344, 352))
DEPTHS = ((1, 2), (2, 3), (2, 3), (2, 3, 4), (2, 3, 4, 5, 6), (2, 3, 4, 5, 6), (1, 2))
KERNELS = ((3,), (3,), (3, 5), (3, 5), (3, 5), (3, 5), (3, 5))
EXPANSIONS = (1, 6, 6, 6, 6, 6, 6)

DIMENSIONS = (
    Dimension("resolution", (192, 224, 288, 320)),
    Dimension("stem", (32, 40)),
    *(Dimension(f"width{stage + 1}", choices) for stage, choices in enumerate(WIDTHS)),
    *(Dimension(f"depth{stage + 1}", choices) for stage, choices in enumerate(DEPTHS)),
    *(Dimension(f"kernel{stage + 1}", choices) for stage, choices in enumerate(KERNELS)),
    Dimension("head", tuple(range(1280, 1409, 8))),
)


def segments(values: Columns) -> np.ndarray:
    """Of the networks with these values."""
    count = len(values["resolution"])
    stages = []
    for stage, depths in enumerate(DEPTHS):
        blocks = np.ones((count, max(depths)), dtype=np.int64)
        stages.append(
            StageChoices(
                values[f"width{stage + 1}"][:, 0], values[f"depth{stage + 1}"][:, 0], STRIDES[stage],
                values[f"kernel{stage + 1}"] * blocks, EXPANSIONS[stage] * blocks, "silu", 0.25, "input", 0.0,
            )
        )  # fmt: skip
    return chain(values["resolution"][:, 0], values["stem"][:, 0], stages, values["head"][:, 0], 0, "silu")


EFFICIENTNET_B0 = {
    "resolution": 224, "stem": 32, "head": 1280,
    **{f"width{stage + 1}": width for stage, width in enumerate((16, 24, 40, 80, 112, 192, 320))},
    **{f"depth{stage + 1}": depth for stage, depth in enumerate((1, 2, 2, 3, 3, 4, 1))},
    **{f"kernel{stage + 1}": kernel for stage, kernel in enumerate((3, 3, 5, 3, 5, 5, 3))},
}  # fmt: skip

SUPERNET = Supernet(
    "bignas",
    DIMENSIONS,
    FIELDS,
    segments,
    InvertedResidualSegments(None, "sigmoid"),
    entry_shape,
    published={
        "efficientnet_b0": PublishedModel(EFFICIENTNET_B0, 5.289, 386, "torchvision models table (Tan and Le 2019, Table 2)")
    },
)
