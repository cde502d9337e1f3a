"""Strategies that choose a work-group size, and what each would have given on a measured sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from latcast.workgroups.advice import FIXED, kfast
from latcast.workgroups.cost_model import BUDGET, tune
from latcast.workgroups.rules import rank
from latcast.workgroups.sizes import WorkGroup, exact_divisors
from latcast.workgroups.sweep import Sweep

SHOTS = (1, 3, 5)
"""Runs of each size in tuning: one, as TFLite does, and as a check more."""

LINE = WorkGroup(256, 1, 1)
"""The fixed size of kernels that work along rows."""

CHANCE_DRAWS = 200


@dataclass(frozen=True)
class StrategyResult:
    """What a strategy gives on one sweep.

    Attributes:
        strategy: Its name.
        relative: Latency over that of the best size; the mean where the strategy leaves something to chance. None where it cannot
            be followed.
        worst: The same in the worst case.
        tried: Sizes that are measured before one is chosen.
        tuning_ms: What that takes, compilation included; None where the sweep does not say.
        why: Why it cannot be followed, or what to know.
    """

    strategy: str
    relative: float | None
    worst: float | None = None
    tried: int = 0
    tuning_ms: float | None = None
    why: str = ""


def rules(sweep: Sweep) -> StrategyResult:
    """One of the sizes that the rules leave, at random, as in the paper."""
    found = rank(sweep.sizes, sweep.situation)
    left = sweep.relative[found.order[: found.survivors]]
    why = f"rules {', '.join(found.applied)} leave {found.survivors} of {len(sweep.sizes)}"
    return StrategyResult("rules", float(left.mean()), float(left.max()), why=why)


def rules_measured(sweep: Sweep, count: int = BUDGET) -> StrategyResult:
    """The best of some sizes that the rules leave, which are measured."""
    found = rank(sweep.sizes, sweep.situation)
    return _best_of(f"rules, best of {count}", sweep, found.order[: max(found.survivors, count)], count)


def _best_of(strategy: str, sweep: Sweep, rows: np.ndarray, count: int) -> StrategyResult:
    """The best of some sizes drawn from these rows."""
    rng = np.random.default_rng(0)
    tried = min(count, len(rows))
    best = [sweep.relative[rng.choice(rows, tried, replace=False)].min() for _ in range(CHANCE_DRAWS)]
    return StrategyResult(strategy, float(np.mean(best)), float(np.max(best)), tried)


def kfast_default(sweep: Sweep) -> StrategyResult:
    """TFLite's present default; its formula looks at the grid alone, so it can be followed for other kernels than its own too."""
    return _fixed("kFast", sweep, kfast(sweep.grid, sweep.descriptor, sweep.device.limits))


def fixed(sweep: Sweep, size: WorkGroup = FIXED) -> StrategyResult:
    """Always the same size."""
    return _fixed(f"fixed {size}", sweep, size)


def _fixed(strategy: str, sweep: Sweep, size: WorkGroup) -> StrategyResult:
    row = sweep.index_of(size)
    if row is None:
        return StrategyResult(strategy, None, why=f"{size} is not among the sizes measured")
    return StrategyResult(strategy, float(sweep.relative[row]), float(sweep.relative[row]), why=str(size))


def random(sweep: Sweep) -> StrategyResult:
    """Any size."""
    return StrategyResult("random", float(sweep.relative.mean()), float(sweep.relative.max()))


def random_measured(sweep: Sweep, count: int = BUDGET) -> StrategyResult:
    """The best of some sizes drawn at random, which are measured."""
    return _best_of(f"random, best of {count}", sweep, np.arange(len(sweep.sizes)), count)


def tuning_name(shots: int) -> str:
    """What tuning with so many runs of each size is called."""
    return "single-shot tuning" if shots == 1 else f"{shots}-shot tuning"


def tuned(sweep: Sweep, shots: int) -> StrategyResult:
    """Tuning as TFLite does: every size that divides the grid is timed, the fastest is taken.

    Rounds that went over all sizes are each a trial of their own. Where a size's runs followed each other only the first ones are
    what a tuner sees: it does not warm up.
    """
    strategy = tuning_name(shots)
    sizes = exact_divisors(sweep.sizes, sweep.grid) if sweep.descriptor.accesses_counted else list(sweep.sizes)
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


def guided(sweep: Sweep) -> StrategyResult:
    """The best of some sizes that the cost model chooses, one after another, knowing nothing but what it measured of them."""
    found = tune([sweep], [0], carry=False)
    relative = float(found.regrets([sweep], BUDGET)[0])
    return StrategyResult(f"cost model, best of {BUDGET}", relative, relative, len(found.measured[0]))


STRATEGIES: Mapping[str, Callable[[Sweep], StrategyResult]] = {
    "rules": rules,
    "kFast": kfast_default,
    f"fixed {FIXED}": fixed,
    f"fixed {LINE}": partial(fixed, size=LINE),
    "random": random,
    **{tuning_name(shots): partial(tuned, shots=shots) for shots in SHOTS},
    f"cost model, best of {BUDGET}": guided,
    f"rules, best of {BUDGET}": rules_measured,
    f"random, best of {BUDGET}": random_measured,
}
"""By name; those that tune say how many sizes they tried."""


@dataclass(frozen=True)
class Choice:
    """One recommendation.

    Attributes:
        name: Whose ("rules", "kFast", "fixed").
        size: The size.
        rank: 1 for the best of the sweep; None where the size was not measured.
        relative: Its latency over that of the best.
    """

    name: str
    size: WorkGroup
    rank: int | None
    relative: float | None

    def to_json(self) -> dict[str, Any]:
        """For scripts."""
        return {"name": self.name, "size": list(self.size.shape), "rank": self.rank, "relative": self.relative}


def recommended_choices(sweep: Sweep) -> list[Choice]:
    """The rules' first size among those measured, TFLite's default and the fixed one, as they did in a sweep."""
    first = rank(sweep.sizes, sweep.situation).shortlist(1)[0]
    named = (("rules", first), ("kFast", kfast(sweep.grid, sweep.descriptor, sweep.device.limits)), ("fixed", FIXED))
    return [_choice(sweep, name, size) for name, size in named]


def _choice(sweep: Sweep, name: str, size: WorkGroup) -> Choice:
    row = sweep.index_of(size)
    if row is None:
        return Choice(name, size, None, None)
    return Choice(name, size, 1 + int((sweep.latency_ms < sweep.latency_ms[row]).sum()), float(sweep.relative[row]))
