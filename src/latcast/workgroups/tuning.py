"""Replaying a tuner that measures a few sizes of each sweep, chosen by the cost model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from latcast.extras import require
from latcast.workgroups.cost_model import CostModel, Points, Weights, expected_improvement, fit_weights, points_of
from latcast.workgroups.defaults import kfast
from latcast.workgroups.importance import situation_of
from latcast.workgroups.ranking import rank
from latcast.workgroups.sweep import Sweep

BUDGET = 6
"""Sizes measured of each sweep."""


@dataclass(frozen=True, eq=False)
class Campaign:
    """Which sizes a tuner measured, sweep by sweep.

    Attributes:
        sweeps: Numbers of the sweeps, in the order in which they were tuned.
        measured: For each of them, rows of the sizes that were measured, in their order.
    """

    sweeps: tuple[int, ...]
    measured: tuple[tuple[int, ...], ...]

    def regrets(self, sweeps: Sequence[Sweep], count: int) -> np.ndarray:
        """(sweeps,) the best of each one's first ``count`` measured sizes, over the best of all its sizes."""
        return np.array(
            [sweeps[number].relative[list(rows[:count])].min() for number, rows in zip(self.sweeps, self.measured, strict=True)]
        )


def tune(
    sweeps: Sequence[Sweep], order: Sequence[int], *, known: Sequence[int] = (), carry: bool = True, budget: int = BUDGET,
    seed: int = 0, watch: Callable[[float], None] | None = None,
) -> Campaign:  # fmt: skip
    """Tunes sweeps one after another.

    Latencies of sizes that were not measured are never looked at. Where nothing at all is known the first size of a sweep is
    TFLite's default, or the first by the rules where that was not measured; where something is known it is the one
    expected to be fastest. The second is the one expected to be fastest among those that the rules leave: what the model has
    not understood yet, they may have. Later ones have the largest expected improvement.

    Args:
        sweeps: All of one kernel, perhaps on several devices.
        order: Numbers of those to tune.
        known: Numbers of sweeps measured before (on another device, say), of each as many sizes as of the others, at random.
        carry: Whether what was measured of one sweep helps with the next; otherwise each is tuned by itself.
        budget: Sizes to measure of each.
        seed: Of every random choice.
        watch: Told the share done.

    Raises:
        MissingExtraError: SciPy is not installed.
    """
    require("tuning work-group sizes", "scipy")
    points = points_of(sweeps)
    logs = np.log(np.concatenate([sweep.latency_ms for sweep in sweeps]))
    starts = np.cumsum([0, *(len(sweep.sizes) for sweep in sweeps)])
    rng = np.random.default_rng(seed)
    rows: list[int] = []
    for number in known:
        count = len(sweeps[number].sizes)
        rows += (starts[number] + rng.choice(count, min(budget, count), replace=False)).tolist()
    weights = fit_weights(points.only(np.array(rows)), logs[rows], seed) if rows else Weights()
    fitted = len(rows)
    measured = []
    for place, number in enumerate(order):
        if len(rows) >= max(2 * fitted, 2 * budget):
            weights, fitted = fit_weights(points.only(np.array(rows)), logs[rows], seed), len(rows)
        candidates = np.arange(starts[number], starts[number + 1])
        first = [] if rows else [int(starts[number]) + _default(sweeps[number])]
        hedge = (starts[number] + _survivors(sweeps[number])).tolist()
        chosen = _tuned(weights, points, logs, rows, candidates, budget, first, hedge)
        rows += chosen * carry
        measured.append(tuple(int(row - starts[number]) for row in chosen))
        if watch is not None:
            watch((place + 1) / len(order))
    return Campaign(tuple(order), tuple(measured))


def _default(sweep: Sweep) -> int:
    """The row of the size to begin with where nothing is known."""
    row = sweep.index_of(kfast(sweep.grid, sweep.descriptor, sweep.device.limits))
    return int(rank(sweep.sizes, situation_of(sweep)).order[0]) if row is None else row


def _survivors(sweep: Sweep) -> np.ndarray:
    """Rows of the sizes that the rules leave."""
    found = rank(sweep.sizes, situation_of(sweep))
    return found.order[: found.survivors]


def _tuned(
    weights: Weights, points: Points, logs: np.ndarray, rows: Sequence[int], candidates: np.ndarray, budget: int,
    first: Sequence[int], hedge: Sequence[int],
) -> list[int]:  # fmt: skip
    """Rows of one sweep's sizes that are measured, in their order."""
    chosen = list(first)
    left = [row for row in candidates.tolist() if row not in chosen]
    while left and len(chosen) < budget:
        places = [*rows, *chosen]
        model = CostModel(weights, points.only(np.array(places, dtype=np.int64)), logs[places])
        mean, deviation = model.predict(points.only(np.array(left)))
        if len(chosen) == 1 and (kept := [row in hedge for row in left]) and any(kept):
            mean = np.where(kept, mean, np.inf)
        gain = expected_improvement(mean, deviation, float(logs[chosen].min())) if len(chosen) > 1 else -mean
        chosen.append(left.pop(int(gain.argmax())))
    return chosen
