"""Strategies that choose a work-group size, and the latency that each would have given on a measured sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from latcast.workgroups.advice import FIXED, kfast
from latcast.workgroups.rules import rank
from latcast.workgroups.sizes import WorkGroup, exact_divisors
from latcast.workgroups.sweep import SizeSweep

BUDGET = 6
"""Sizes measured by strategies that try a few."""

SHOTS = (1, 3, 5)
"""Runs of each size in tuning: one, as TFLite does, and as a check more."""

LINE = WorkGroup(256, 1, 1)
"""The fixed size of kernels that work along rows."""

CHANCE_DRAWS = 200


@dataclass(frozen=True)
class StrategyResult:
    """The latency that a strategy gives on one sweep.

    Attributes:
        strategy: Its name.
        relative: Latency over that of the best size; the mean where the strategy leaves something to chance. None where it cannot
            be followed.
        worst: The same in the worst case.
        tried: Sizes that are measured before one is chosen.
        tuning_ms: Time that these take, compilation included; None where the sweep does not say.
        why: Why it cannot be followed, or what to know.
    """

    strategy: str
    relative: float | None
    worst: float | None = None
    tried: int = 0
    tuning_ms: float | None = None
    why: str = ""


def follow_rules(sweep: SizeSweep) -> StrategyResult:
    """Take one of the sizes that the rules leave, at random, as in the paper."""
    found = rank(sweep.sizes, sweep.situation)
    left = sweep.relative[found.order[: found.survivors]]
    why = f"rules {', '.join(found.applied)} leave {found.survivors} of {len(sweep.sizes)}"
    return StrategyResult("rules", float(left.mean()), float(left.max()), why=why)


def measure_by_rules(sweep: SizeSweep, count: int = BUDGET) -> StrategyResult:
    """Measure some of the sizes that the rules leave, and take the best."""
    found = rank(sweep.sizes, sweep.situation)
    return _take_best(f"rules, best of {count}", sweep, found.order[: max(found.survivors, count)], count)


def measure_at_random(sweep: SizeSweep, count: int = BUDGET) -> StrategyResult:
    """Measure some sizes drawn at random, and take the best."""
    return _take_best(f"random, best of {count}", sweep, np.arange(len(sweep.sizes)), count)


def _take_best(strategy: str, sweep: SizeSweep, rows: np.ndarray, count: int) -> StrategyResult:
    rng = np.random.default_rng(0)
    tried = min(count, len(rows))
    best = [sweep.relative[rng.choice(rows, tried, replace=False)].min() for _ in range(CHANCE_DRAWS)]
    return StrategyResult(strategy, float(np.mean(best)), float(np.max(best)), tried)


def take_kfast(sweep: SizeSweep) -> StrategyResult:
    """Take TFLite's present default; its formula looks at the grid alone, so other kernels than its own can follow it too."""
    return _take("kFast", sweep, kfast(sweep.grid, sweep.descriptor, sweep.device.limits))


def take_fixed(sweep: SizeSweep, size: WorkGroup = FIXED) -> StrategyResult:
    """Take always the same size."""
    return _take(f"fixed {size}", sweep, size)


def _take(strategy: str, sweep: SizeSweep, size: WorkGroup) -> StrategyResult:
    row = sweep.index_of(size)
    if row is None:
        return StrategyResult(strategy, None, why=f"{size} is not among the sizes measured")
    return StrategyResult(strategy, float(sweep.relative[row]), float(sweep.relative[row]), why=str(size))


def take_any(sweep: SizeSweep) -> StrategyResult:
    """Take any size."""
    return StrategyResult("random", float(sweep.relative.mean()), float(sweep.relative.max()))


def tuning_name(shots: int) -> str:
    """Return the name of tuning with so many runs of each size."""
    return "single-shot tuning" if shots == 1 else f"{shots}-shot tuning"


def tune_exhaustively(sweep: SizeSweep, shots: int) -> StrategyResult:
    """Tune as TFLite does: time every size that divides the grid, and take the fastest.

    Rounds that went over all sizes are each a trial. Where a size's runs followed each other a tuner, which does
    not warm up, sees only the first ones.
    """
    strategy = tuning_name(shots)
    sizes = exact_divisors(sweep.sizes, sweep.grid) if sweep.descriptor.accesses_counted else sweep.sizes
    rows = np.array([row for row in map(sweep.index_of, sizes) if row is not None], dtype=np.int64)
    if not len(rows) or sweep.rounds < shots:
        why = f"{sweep.rounds} runs a size" if len(rows) else "no size measured divides the grid exactly"
        return StrategyResult(strategy, None, why=why)
    times = sweep.times_ms[rows]
    starts = range(0, sweep.rounds - shots + 1, shots) if sweep.interleaved else [0]
    picks = [sweep.relative[rows[times[:, start : start + shots].min(axis=1).argmin()]] for start in starts]
    spent = None
    if sweep.tuning_ms is not None:
        besides = np.maximum(sweep.tuning_ms[rows] - times.sum(axis=1), 0.0)
        spent = float((besides + times[:, :shots].sum(axis=1)).sum())
    return StrategyResult(strategy, float(np.mean(picks)), float(np.max(picks)), len(rows), spent)


STRATEGIES: Mapping[str, Callable[[SizeSweep], StrategyResult]] = {
    "rules": follow_rules,
    "kFast": take_kfast,
    f"fixed {FIXED}": take_fixed,
    f"fixed {LINE}": partial(take_fixed, size=LINE),
    "random": take_any,
    **{tuning_name(shots): partial(tune_exhaustively, shots=shots) for shots in SHOTS},
    f"rules, best of {BUDGET}": measure_by_rules,
    f"random, best of {BUDGET}": measure_at_random,
}
"""Strategies by name; those that tune say how many sizes they tried."""


def recommend_sizes(sweep: SizeSweep) -> dict[str, WorkGroup]:
    """Return the rules' first size among those measured, TFLite's default and the fixed one, by their names."""
    first = rank(sweep.sizes, sweep.situation).shortlist(1)[0]
    return {"rules": first, "kFast": kfast(sweep.grid, sweep.descriptor, sweep.device.limits), "fixed": FIXED}
