"""Table 8: members of AutoFormer's space, predicted by a platform's kernels and measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latcast.measure.statistics import label_error
from latcast.predictors.metrics import judge
from latcast.records import Reference
from latcast.spaces.nas.supernet import SUPERNETS
from papers.comparison import Cell, Comparison
from papers.litepred import paper
from papers.litepred.measured import Judged

SPACE = "autoformer"
"""The smallest of the three."""

MEMBERS = 20

SEED = 0


def members(count: int = MEMBERS) -> list[Reference]:
    """Random members, the same ones each time."""
    return SUPERNETS.get(SPACE).sample(count, SEED)


def table_8(judged: Sequence[Judged], references: Sequence[Reference] | None = None) -> Comparison:
    """How well members are predicted, by platform, the paper's platforms first.

    Args:
        judged: Predictors with what was measured of their platforms.
        references: The members; :func:`members` where None. Those that were not measured are left out.
    """
    rows: list[tuple[Cell, ...]] = [
        (name, similar, None, 60 * hours, None, within_5, within_10, None, None, None)
        for name, similar, hours, within_5, within_10 in paper.TABLE_8
    ]
    for platform in judged:
        rows.append((platform.name, "profiled itself", *_row(platform, members() if references is None else references)))
    return Comparison(
        "table 8", "vision transformers of AutoFormer's space",
        (
            "platform", "learned from", "networks", "minutes measured", "MAPE %", "±5 %", "±10 %", "Spearman", "in interval %",
            "label error %",
        ),
        tuple(rows),
        (
            f"The paper adapts predictors of five sub-modules; here kernels of the platform's own profile, in whose training mix "
            f"vision transformers are (DeiT's variants), but no member of {SPACE}.",
            "Without the relative positions of AutoFormer's attention, as DeiT's blocks are.",
        ),
    )  # fmt: skip


def _row(platform: Judged, references: Sequence[Reference]) -> tuple[Cell, ...]:
    labels = [platform.labels[reference.key] for reference in references if reference.key in platform.labels]
    seconds = platform.predictor.card.get("seconds")
    minutes = None if seconds is None else seconds / 60
    if not labels:
        return (0, minutes, None, None, None, None, None, None)
    supernet = SUPERNETS.get(SPACE)
    forecasts = platform.predictor.predict_many([supernet.build(**label.reference.parameters) for label in labels])
    low, predicted, high = (np.array([getattr(each, name) for each in forecasts]) for name in ("low_ms", "latency_ms", "high_ms"))
    found = judge(predicted, np.array([label.latency_ms for label in labels]), low, high)
    error = label_error(labels).percent if any(label.halves_ms for label in labels) else None
    return (
        found.networks, minutes, found.mape, found.within_5, found.within_10, found.to_json()["spearman"],
        found.interval_coverage, error,
    )  # fmt: skip
