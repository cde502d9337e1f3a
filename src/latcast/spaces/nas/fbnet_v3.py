"""The FBNetV3 space (Dai et al., "FBNetV3: joint architecture-recipe search using predictor pretraining", 2021, §4).

Stages of inverted residuals: width, depth, and kernel and expansion of the first block and of the others. The ranges here hold
the networks that the authors released; widths are multiples of 8, as in their models.
"""

from __future__ import annotations

import numpy as np

from latcast.spaces.catalogue import PublishedModel
from latcast.spaces.nas.dimension import Columns, Dimension
from latcast.spaces.nas.inverted_residuals import FIELDS, InvertedResidualSegments, StageChoices, chain, entry_shape
from latcast.spaces.nas.supernet import Supernet

STRIDES = (2, 2, 2, 1, 2)
WIDTHS = ((24, 32), (24, 32, 40, 48), (56, 64, 72, 80), tuple(range(96, 145, 8)), tuple(range(184, 225, 8)))
DEPTHS = ((4, 5, 6, 7), (4, 5, 6, 7), (4, 5, 6, 7, 8), (6, 7, 8, 9, 10), (5, 6, 7, 8, 9))
REST = ((2, 3, 4, 5),) * 4 + ((4, 5, 6, 7),)
SQUEEZE = (0.0, 0.25, 0.0, 0.25, 0.25)
HIDDEN = 1984

DIMENSIONS = (
    Dimension("resolution", tuple(range(224, 273, 8))),
    Dimension("stem", (16, 24)),
    Dimension("width1", (16, 24)),
    Dimension("depth1", (1, 2, 3, 4)),
    Dimension("kernel1", (3, 5)),
    *(
        dimension
        for stage in range(len(STRIDES))
        for dimension in (
            Dimension(f"width{stage + 2}", WIDTHS[stage]),
            Dimension(f"depth{stage + 2}", DEPTHS[stage]),
            Dimension(f"kernels{stage + 2}", (3, 5), 2),
            Dimension(f"expansion{stage + 2}_first", (4, 5, 6, 7)),
            Dimension(f"expansion{stage + 2}_rest", REST[stage]),
        )
    ),
    Dimension("width7", tuple(range(184, 241, 8))),
    Dimension("kernel7", (3, 5)),
)


def segments(values: Columns) -> np.ndarray:
    """Of the networks with these values."""
    count = len(values["resolution"])
    blocks = np.ones((count, 4), dtype=np.int64)
    stages = [StageChoices(values["width1"][:, 0], values["depth1"][:, 0], 1, values["kernel1"] * blocks, blocks, "hard_swish")]
    for stage, depths in enumerate(DEPTHS):
        rest = np.ones((count, max(depths) - 1), dtype=np.int64)
        number = stage + 2
        kernels, first = values[f"kernels{number}"], values[f"expansion{number}_first"]
        stages.append(
            StageChoices(
                values[f"width{number}"][:, 0],
                values[f"depth{number}"][:, 0],
                STRIDES[stage],
                np.concatenate([kernels[:, :1], kernels[:, 1:] * rest], axis=1),
                np.concatenate([first, values[f"expansion{number}_rest"] * rest], axis=1),
                "hard_swish",
                SQUEEZE[stage],
                "input",
                0.95,
            )
        )
    last = values["width7"][:, 0]
    six = np.full((count, 1), 6)
    stages.append(StageChoices(last, 1, 1, values["kernel7"], six, "hard_swish", 0.25, "input", 0.95))
    return chain(values["resolution"][:, 0], values["stem"][:, 0], stages, 6 * last, HIDDEN, "hard_swish")


def _released(stem: int, *stages: tuple[int, int, int, int, int, int], last: int) -> dict[str, object]:
    """A released network: stem, then width, depth, kernels and expansions of five stages, then the last width."""
    parameters: dict[str, object] = {
        "resolution": 224, "stem": stem, "width1": 16, "depth1": 2, "kernel1": 3, "width7": last, "kernel7": 5,
    }  # fmt: skip
    for number, (width, depth, first_kernel, kernel, first, rest) in enumerate(stages, start=2):
        parameters |= {
            f"width{number}": width, f"depth{number}": depth, f"kernels{number}": [first_kernel, kernel],
            f"expansion{number}_first": first, f"expansion{number}_rest": rest,
        }  # fmt: skip
    return parameters


FBNET_V3_B = _released(
    16, (24, 4, 5, 5, 4, 2), (40, 5, 5, 5, 5, 3), (72, 5, 5, 3, 5, 3), (120, 6, 3, 5, 5, 3), (184, 6, 3, 5, 6, 4), last=224
)

SUPERNET = Supernet(
    "fbnet_v3",
    DIMENSIONS,
    FIELDS,
    segments,
    InvertedResidualSegments(None, "hard_sigmoid"),
    entry_shape,
    published={"fbnet_v3_b": PublishedModel(FBNET_V3_B, 8.60, None, "timm's fbnetv3_b: 8.60 M parameters")},
)
