"""Which predictors of a pool are most like a new platform, kernel type by kernel type (LitePred §5.1).

A few representative kernels are measured on the new platform. A predictor is similar where its latencies of these are
distributed like the measured ones: divided by their sums, both are distributions, and their Kullback-Leibler divergence

    D(P || Q) = Σ P log(P / Q),    P predicted, Q measured (§5.1),

is 0 where they agree up to one factor. The predictor with the lowest divergence is taken. Beside it stand Spearman's rank
correlation (OneProxy, Lu et al. 2021) and a random choice, with which LitePred compares (§7.4, Fig. 6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from latcast.devices.pool import Pool
from latcast.errors import TrainingError
from latcast.kernels.kernel import Configuration
from latcast.predictors.metrics import spearman
from latcast.samplers import SAMPLERS
from latcast.spaces.kernel_space import KernelSpace
from latcast.spaces.kernel_zoo import Listed

WAYS = ("divergence", "spread", "spearman", "random")
"""How a predictor may be chosen: LitePred's; by the relative error that is left when the scale is known, in which small kernels
count as much as large ones; OneProxy's; and by chance."""

CHANNEL_STEPS = 16
"""Consecutive numbers of channels of one sweep (§5.1)."""

KERNEL_SIZES = (1, 3, 5, 7)
"""Windows of one sweep (§5.1)."""

SWEPT_SHARE = 0.5
"""Part of the representative kernels that belong to sweeps; the others are drawn as networks have them. The paper gives no
number."""

FEWEST = 3
"""Kernels below which no similarity can be told."""


def divergence(predicted_ms: np.ndarray, measured_ms: np.ndarray) -> float:
    """Kullback-Leibler divergence of latencies divided by their sums; 0 where one is a multiple of the other.

    Args:
        predicted_ms: (kernels,), positive: P.
        measured_ms: (kernels,), positive: Q.

    Raises:
        TrainingError: A latency is not positive, for which there is no divergence.
    """
    if predicted_ms.shape != measured_ms.shape or not (predicted_ms > 0).all() or not (measured_ms > 0).all():
        raise TrainingError("a divergence is between two equally long lists of positive latencies; found others")
    p, q = predicted_ms / predicted_ms.sum(), measured_ms / measured_ms.sum()
    return max(float((p * np.log(p / q)).sum()), 0.0)


@dataclass(frozen=True)
class Similarity:
    """How like a platform of the pool is, for one kernel type.

    Attributes:
        platform: Id of the pool's platform.
        divergence: See :func:`divergence`; the lower the more alike.
        spearman: Rank correlation of predicted and measured; NaN where one of them is constant.
        scale: Measured over predicted latency, the median.
        spread: Mean absolute deviation of log(measured / predicted) from its median: the relative error that is left when
            the scale is known.
    """

    platform: str
    divergence: float
    spearman: float
    scale: float
    spread: float

    def to_json(self) -> dict[str, Any]:
        rank = None if np.isnan(self.spearman) else self.spearman
        return {
            "platform": self.platform, "divergence": self.divergence, "spearman": rank, "scale": self.scale,
            "spread": self.spread,
        }  # fmt: skip


def similarities(pool: Pool, type_name: str, configurations: np.ndarray, measured_ms: np.ndarray) -> list[Similarity]:
    """Every predictor of a pool that knows a kernel type, against measured kernels of it; in the order of the pool.

    Args:
        pool: Predictors of other platforms.
        type_name: The kernel type.
        configurations: (kernels, fields).
        measured_ms: (kernels,).
    """
    found = []
    for platform, predicted_ms in pool.latency_ms(type_name, configurations).items():
        ratio = np.log(measured_ms / predicted_ms)
        middle = float(np.median(ratio))
        found.append(
            Similarity(
                platform, divergence(predicted_ms, measured_ms), spearman(predicted_ms, measured_ms),
                float(np.exp(middle)), float(np.abs(ratio - middle).mean()),
            )
        )  # fmt: skip
    return found


def ranked(found: Sequence[Similarity], by: str = "divergence", seed: int = 0) -> list[Similarity]:
    """Most similar first.

    Args:
        found: From :func:`similarities`.
        by: One of :data:`WAYS`.
        seed: Of the random choice.

    Raises:
        TrainingError: An unknown way.
    """
    if by == "divergence":
        return sorted(found, key=lambda each: each.divergence)
    if by == "spread":
        return sorted(found, key=lambda each: each.spread)
    if by == "spearman":
        return sorted(found, key=lambda each: (np.isnan(each.spearman), -each.spearman))
    if by == "random":
        shuffled = list(found)
        Random(f"similarity/{seed}").shuffle(shuffled)
        return shuffled
    raise TrainingError(f"'{by}' is no way to choose a predictor; expected one of {', '.join(WAYS)}")


def representative_configurations(
    space: KernelSpace, listed: Listed, count: int, *, sampler: str = "prior", seed: int = 0
) -> list[Configuration]:
    """Kernels by which a platform is recognised (§5.1): some as networks have them, the others in fine-grained sweeps.

    A sweep keeps everything of a kernel but one dimension: sixteen consecutive numbers of channels, which show the staircase
    of a platform, or the window's sizes.

    Args:
        space: Valid configurations of the kernel type.
        listed: Configurations of networks, from which the sampler learns.
        count: How many; fewer where the space has hardly more.
        sampler: Name in :data:`latcast.samplers.SAMPLERS`; LitePred's is ``vae``.
        seed: Of every random choice.
    """
    drawn = SAMPLERS.get(sampler)(space, listed, seed).suggest(count)
    found = dict.fromkeys(drawn[: count - round(SWEPT_SHARE * count)])
    for start in drawn:
        for row in _sweeps(space, start):
            if len(found) >= count:
                return list(found)
            found.setdefault(row)
    for row in drawn:
        found.setdefault(row)
    return list(found)[:count]


def _sweeps(space: KernelSpace, start: Configuration) -> list[Configuration]:
    """The sweeps from one configuration: of every number of channels, and of the window."""
    changes: list[Mapping[str, int]] = [
        {name: value + step} for name, value in space.spans(start).items() for step in range(CHANNEL_STEPS)
    ]
    dimensions = space.dimensions(start)
    if "kernel_h" in dimensions and "pad_h" in dimensions:
        same = {"pad_h": 0, "pad_w": 0}
        changes += [
            {"kernel_h": size, "kernel_w": size, **(dict.fromkeys(same, size - 1) if size % 2 else same)} for size in KERNEL_SIZES
        ]
    rows = (space.moved(start, change) for change in changes)
    return list(dict.fromkeys(row for row in rows if row is not None))
