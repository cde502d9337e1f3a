"""Timing a kernel with many work-group sizes so that their order means something, even on a noisy machine.

One sweep after another over all sizes tells nothing there: two such sweeps hardly agree. Instead every round launches each size
once, in an order of its own, so that a disturbance meets all sizes alike, and a size's latency is the least of its rounds. How
far that can be trusted is told by the two halves of the rounds: see :attr:`latcast.workgroups.sweep.Sweep.repeatability`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from latcast.errors import MeasurementError
from latcast.folders import made
from latcast.workgroups.advice import FIXED, kfast
from latcast.workgroups.devices import DeviceProfile
from latcast.workgroups.gpu_interfaces import KernelSession
from latcast.workgroups.kernel_tuner_cache import FAILURES, write_cache
from latcast.workgroups.operands import make_operands
from latcast.workgroups.rules import Situation, rank
from latcast.workgroups.sizes import WorkGroup, candidate_sizes, exact_divisors
from latcast.workgroups.sweep import Sweep
from latcast.workgroups.workloads import Workload

LEAST_ROUNDS = 2
"""Rounds that are run even when the time is up: with fewer there are no two halves to compare."""

SHORTLIST = 12
"""How many of the rules' first sizes are measured."""

Watch = Callable[[str, float], None]
"""Told what is going on, and the share of it that is done."""


@dataclass(frozen=True)
class SweepPlan:
    """How long to measure.

    Attributes:
        rounds: Launches of each size in the end, those of an earlier sweep included.
        budget_s: Seconds after which no further round begins, compiling included.
        seed: Of the order within rounds.
    """

    rounds: int = 20
    budget_s: float = 300.0
    seed: int = 0


@dataclass
class _Prepared:
    """Attributes:
    sizes: Those that run.
    spent_ms: What compiling each of them and running it for the first time took.
    failed: The others, and why.
    """

    sizes: list[WorkGroup] = field(default_factory=list)
    spent_ms: list[float] = field(default_factory=list)
    failed: dict[WorkGroup, str] = field(default_factory=dict)


def shortlisted_sizes(situation: Situation, count: int = SHORTLIST) -> list[WorkGroup]:
    """The sizes that somebody recommends: the rules' first ones, TFLite's default and the fixed one.

    Args:
        situation: Grid, kernel and device.
        count: Of the rules' sizes.
    """
    return _recommended(candidate_sizes(situation.grid, situation.device.limits), situation, count)


def divisor_sizes(situation: Situation) -> list[WorkGroup]:
    """The sizes that TFLite's exhaustive tuning tries; none of them pads the grid."""
    return exact_divisors(candidate_sizes(situation.grid, situation.device.limits), situation.grid)


def sampled_sizes(situation: Situation, most: int, seed: int = 0) -> list[WorkGroup]:
    """All sizes that the device allows, or as many of them as there is time for.

    Args:
        situation: Grid, kernel and device.
        most: Sizes at most; where there are more, the recommended ones and a uniform sample of the others.
        seed: Of the sample.
    """
    candidates = candidate_sizes(situation.grid, situation.device.limits)
    if len(candidates) <= most:
        return candidates
    chosen = _recommended(candidates, situation, min(SHORTLIST, most))[:most]
    others = sorted(set(candidates) - set(chosen))
    drawn = np.random.default_rng(seed).choice(len(others), most - len(chosen), replace=False)
    return chosen + [others[row] for row in sorted(drawn)]


def _recommended(candidates: Sequence[WorkGroup], situation: Situation, count: int) -> list[WorkGroup]:
    limits = situation.device.limits
    known = [kfast(situation.grid, situation.kernel, limits), FIXED]
    chosen = rank(candidates, situation).shortlist(count) + [size for size in known if limits.allow(size)]
    return list(dict.fromkeys(chosen))


def measure_sweep(
    session: KernelSession,
    device: DeviceProfile,
    workload: Workload,
    sizes: Sequence[WorkGroup],
    plan: SweepPlan | None = None,
    *,
    earlier: Sweep | None = None,
    save: Callable[[Sweep], None] = lambda sweep: None,
    watch: Watch = lambda what, share: None,
    clock: Callable[[], float] = time.monotonic,
) -> Sweep:
    """Times a workload with each size, round after round.

    Args:
        session: The workload on the device; it stays open.
        device: What is known of it.
        workload: What is computed.
        sizes: To try, at least two.
        plan: How long.
        earlier: Rounds of the same sizes, to go on with.
        save: Called with the sweep so far after every round, so that an interruption loses one round at most.
        watch: Told about progress.
        clock: Seconds, for the budget.

    Raises:
        MeasurementError: A size computes a wrong result, fewer than two run, or ``earlier`` is of something else.
    """
    plan = plan or SweepPlan()
    deadline_s = clock() + plan.budget_s
    if earlier is not None:
        _require_same(earlier, device, workload, sizes)
        if earlier.rounds >= plan.rounds:
            return earlier
        sizes = earlier.sizes
    # Compiled again in any case; drivers mostly keep what they compiled, so only the first time says what tuning costs.
    ready = _prepare(session, workload, sizes, watch)
    if earlier is not None and ready.failed:
        lost = next(iter(ready.failed))
        raise MeasurementError(f"{workload} with {lost} ran before and does not now; start anew with another output file")
    if len(ready.sizes) < 2:
        raise MeasurementError(
            f"{len(ready.sizes)} of {len(sizes)} work-group sizes run {workload} on {device.title}; expected at least two"
        )
    return _time_rounds(session, device, workload, ready, plan, earlier, deadline_s, save, watch, clock)


def _prepare(session: KernelSession, workload: Workload, sizes: Sequence[WorkGroup], watch: Watch) -> _Prepared:
    """Compiles every size and checks what it computes, so that no round is the first."""
    operands = make_operands(workload)
    ready = _Prepared()
    for index, size in enumerate(sizes):
        watch(f"compiling {len(sizes)} sizes", index / len(sizes))
        if not session.limits.allow(size):
            ready.failed[size] = FAILURES["InvalidConfig"]
            continue
        begin_s = time.perf_counter()
        try:
            session.prepare(size)
            spent_ms = 1e3 * (time.perf_counter() - begin_s)
            session.clear()
            session.run(size)
        except MeasurementError:
            ready.failed[size] = FAILURES["RuntimeFailedConfig"]
            continue
        operands.check(session.result(), f"{workload} with {size}")
        ready.sizes.append(size)
        ready.spent_ms.append(spent_ms)
    return ready


def _time_rounds(
    session: KernelSession, device: DeviceProfile, workload: Workload, ready: _Prepared, plan: SweepPlan,
    earlier: Sweep | None, deadline_s: float, save: Callable[[Sweep], None], watch: Watch, clock: Callable[[], float],
) -> Sweep:  # fmt: skip
    """At least one round more than there are, and until there are two."""
    rounds = [] if earlier is None else list(earlier.times_ms.T)
    known = len(rounds)
    compiling_ms = np.array(ready.spent_ms)
    if earlier is not None and earlier.tuning_ms is not None:
        compiling_ms = earlier.tuning_ms - earlier.times_ms.sum(axis=1)
    failed = ready.failed if earlier is None else earlier.failed
    while True:
        done = len(rounds)
        watch(f"timing {len(ready.sizes)} sizes", done / plan.rounds)
        rounds.append(_one_round(session, workload, ready.sizes, np.random.default_rng((plan.seed, done))))
        times_ms = np.column_stack(rounds)
        sweep = Sweep(
            device, str(workload), workload.descriptor, workload.grid, tuple(ready.sizes), times_ms,
            interleaved=True, tuning_ms=compiling_ms + times_ms.sum(axis=1), failed=failed,
            filter_size=(workload.kernel_h, workload.kernel_w),
        )  # fmt: skip
        save(sweep)
        enough = len(rounds) >= max(LEAST_ROUNDS, known + 1)
        if enough and (len(rounds) >= plan.rounds or clock() >= deadline_s):
            return sweep


def _one_round(session: KernelSession, workload: Workload, sizes: Sequence[WorkGroup], rng: np.random.Generator) -> np.ndarray:
    times_ms = np.empty(len(sizes))
    for row in rng.permutation(len(sizes)):
        times_ms[row] = session.run(sizes[row])
        if not times_ms[row] > 0:
            raise MeasurementError(
                f"the device's clock says that {workload} with {sizes[row]} took {times_ms[row]:g} ms; its steps are too coarse "
                "for so small an operator: measure a larger one"
            )
    return times_ms


def _require_same(earlier: Sweep, device: DeviceProfile, workload: Workload, sizes: Sequence[WorkGroup]) -> None:
    found = (earlier.device.title, earlier.operator, earlier.descriptor, earlier.grid)
    expected = (device.title, str(workload), workload.descriptor, workload.grid)
    if found != expected:
        raise MeasurementError(
            f"the earlier rounds are of {earlier.operator} ({earlier.descriptor.name}) on {earlier.device.title}, not of "
            f"{workload} ({workload.descriptor.name}) on {device.title}: give another output file"
        )
    if {*earlier.sizes, *earlier.failed} != set(sizes):
        raise MeasurementError(
            f"the earlier rounds of {workload} are of {len(earlier.sizes) + len(earlier.failed)} other sizes than the "
            f"{len(sizes)} asked for: give another output file, or the options of then"
        )


def save_sweep(path: Path, sweep: Sweep) -> None:
    """Writes a sweep's cache whole or not at all, so that an interruption leaves the rounds before it."""
    made(path.parent)
    unfinished = path.with_name(f".{path.name}")
    write_cache(unfinished, sweep)
    os.replace(unfinished, path)
