"""Ways to come to a work-group size, and what each would have given on a measured sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from latcast.workgroups.defaults import FIXED, kfast
from latcast.workgroups.importance import situation_of
from latcast.workgroups.ranking import rank
from latcast.workgroups.sizes import WorkGroup, exact_divisors
from latcast.workgroups.sweep import Sweep
from latcast.workgroups.tuning import BUDGET, tune

SHOTS = (1, 3, 5)
"""Runs of each size in tuning: one, as TFLite does, and as a check more."""

LINE = WorkGroup(256, 1, 1)
"""The fixed size of kernels that work along rows."""

CHANCE_DRAWS = 200


@dataclass(frozen=True)
class Outcome:
    """What a way gives.

    Attributes:
        way: Its name.
        relative: Latency over that of the best size; the mean where the way leaves something to chance. None where the way cannot
            be followed.
        worst: The same in the worst case.
        tried: Sizes that are measured before one is chosen.
        tuning_ms: What that takes, compilation included; None where the sweep does not say.
        why: Why it cannot be followed, or what to know.
    """

    way: str
    relative: float | None
    worst: float | None = None
    tried: int = 0
    tuning_ms: float | None = None
    why: str = ""


def rules(sweep: Sweep) -> Outcome:
    """One of the sizes that the rules leave, at random, as in the paper."""
    found = rank(sweep.sizes, situation_of(sweep))
    left = sweep.relative[found.order[: found.survivors]]
    why = f"rules {', '.join(found.applied)} leave {found.survivors} of {len(sweep.sizes)}"
    return Outcome("rules", float(left.mean()), float(left.max()), why=why)


def rules_measured(sweep: Sweep, count: int = BUDGET) -> Outcome:
    """The best of some sizes that the rules leave, which are measured."""
    found = rank(sweep.sizes, situation_of(sweep))
    left = found.order[: max(found.survivors, count)]
    rng = np.random.default_rng(0)
    tried = min(count, len(left))
    best = [sweep.relative[rng.choice(left, tried, replace=False)].min() for _ in range(CHANCE_DRAWS)]
    return Outcome(f"rules, best of {count}", float(np.mean(best)), float(np.max(best)), tried)


def kfast_default(sweep: Sweep) -> Outcome:
    """TFLite's present default; its formula looks at the grid alone, so it can be followed for other kernels than its own too."""
    return _fixed("kFast", sweep, kfast(sweep.grid, sweep.descriptor, sweep.device.limits))


def fixed(sweep: Sweep, size: WorkGroup = FIXED) -> Outcome:
    """Always the same size."""
    return _fixed(f"fixed {size}", sweep, size)


def _fixed(way: str, sweep: Sweep, size: WorkGroup) -> Outcome:
    row = sweep.index_of(size)
    if row is None:
        return Outcome(way, None, why=f"{size} is not among the sizes measured")
    return Outcome(way, float(sweep.relative[row]), float(sweep.relative[row]), why=str(size))


def random(sweep: Sweep) -> Outcome:
    """Any size."""
    return Outcome("random", float(sweep.relative.mean()), float(sweep.relative.max()))


def random_measured(sweep: Sweep, count: int = BUDGET) -> Outcome:
    """The best of some sizes drawn at random, which are measured."""
    rng = np.random.default_rng(0)
    tried = min(count, len(sweep.sizes))
    best = [sweep.relative[rng.choice(len(sweep.sizes), tried, replace=False)].min() for _ in range(CHANCE_DRAWS)]
    return Outcome(f"random, best of {count}", float(np.mean(best)), float(np.max(best)), tried)


def tuning_name(shots: int) -> str:
    """What tuning with so many runs of each size is called."""
    return "single-shot tuning" if shots == 1 else f"{shots}-shot tuning"


def tuned(sweep: Sweep, shots: int) -> Outcome:
    """Tuning as TFLite does: every size that divides the grid is timed, the fastest is taken.

    Rounds that went over all sizes are each a trial of their own. Where a size's runs followed each other only the first ones are
    what a tuner sees: it does not warm up.
    """
    way = tuning_name(shots)
    sizes = exact_divisors(sweep.sizes, sweep.grid) if sweep.descriptor.accesses_counted else list(sweep.sizes)
    rows = np.array([row for row in map(sweep.index_of, sizes) if row is not None], dtype=np.int64)
    if not len(rows) or sweep.rounds < shots:
        why = f"{sweep.rounds} runs a size" if len(rows) else "no size measured divides the grid exactly"
        return Outcome(way, None, why=why)
    times = sweep.times_ms[rows]
    starts = range(0, sweep.rounds - shots + 1, shots) if sweep.interleaved else [0]
    picks = [sweep.relative[rows[times[:, start : start + shots].min(axis=1).argmin()]] for start in starts]
    spent = None
    if sweep.tuning_ms is not None:
        besides = np.maximum(sweep.tuning_ms[rows] - times.sum(axis=1), 0.0)
        spent = float((besides + times[:, :shots].sum(axis=1)).sum())
    return Outcome(way, float(np.mean(picks)), float(np.max(picks)), len(rows), spent)


def learned(sweep: Sweep) -> Outcome:
    """The best of some sizes that the cost model chooses, one after another, knowing nothing but what it measured of them."""
    found = tune([sweep], [0], carry=False)
    relative = float(found.regrets([sweep], BUDGET)[0])
    return Outcome(f"cost model, best of {BUDGET}", relative, relative, len(found.measured[0]))


WAYS: Mapping[str, Callable[[Sweep], Outcome]] = {
    "rules": rules,
    "kFast": kfast_default,
    f"fixed {FIXED}": fixed,
    f"fixed {LINE}": partial(fixed, size=LINE),
    "random": random,
    **{tuning_name(shots): partial(tuned, shots=shots) for shots in SHOTS},
    f"cost model, best of {BUDGET}": learned,
    f"rules, best of {BUDGET}": rules_measured,
    f"random, best of {BUDGET}": random_measured,
}
"""Names to ways; those that tune say how many sizes they tried."""
