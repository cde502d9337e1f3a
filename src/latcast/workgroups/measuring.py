"""Timing a kernel with many work-group sizes so that their order means something, even on a noisy machine.

Every round launches each size once, in a new order, so that a disturbance meets all sizes equally, and a size's latency
is the least of its rounds. The two halves of the rounds tell how far that can be trusted: see
:attr:`latcast.workgroups.sweep.SizeSweep.repeatability`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from latcast.errors import MeasurementError
from latcast.folders import made
from latcast.workgroups.advice import FIXED, kfast
from latcast.workgroups.devices import DeviceProfile
from latcast.workgroups.gpu_interfaces import KernelSession
from latcast.workgroups.kernel_tuner_cache import FAILURES, read_cache, write_cache
from latcast.workgroups.operands import make_operands
from latcast.workgroups.rules import Situation, rank
from latcast.workgroups.sizes import WorkGroup, candidate_array, candidate_sizes, exact_divisors
from latcast.workgroups.sweep import SizeSweep

LEAST_ROUNDS = 2
"""Rounds that are run even when the time is up: with fewer there are no two halves to compare."""

SHORTLIST = 12
"""How many of the rules' first sizes are measured."""

Watch = Callable[[str, float], None]
"""Told what is going on, and the share of it that is done."""


@dataclass(frozen=True)
class SweepPlan:
    """Effort of a sweep.

    Attributes:
        rounds: Launches of each size in the end, those of an earlier sweep included.
        budget_s: Seconds after which no further round begins, compiling included.
        seed: Of the order within rounds.
    """

    rounds: int = 20
    budget_s: float = 300.0
    seed: int = 0


DEFAULT_PLAN = SweepPlan()


def shortlisted_sizes(situation: Situation, count: int = SHORTLIST) -> list[WorkGroup]:
    """Return the recommended sizes: the rules' first ``count``, TFLite's default and the fixed one."""
    grid, limits = situation.grid, situation.device.limits
    chosen = rank(candidate_array(grid, limits), situation).shortlist(count)
    return list(dict.fromkeys(chosen + [size for size in (kfast(grid, situation.kernel, limits), FIXED) if limits.allow(size)]))


def divisor_sizes(situation: Situation) -> list[WorkGroup]:
    """Return the sizes that TFLite's exhaustive tuning tries; none of them pads the grid."""
    return exact_divisors(candidate_sizes(situation.grid, situation.device.limits), situation.grid)


def sampled_sizes(situation: Situation, most: int, seed: int = 0) -> list[WorkGroup]:
    """Return all sizes that the device allows; where there are more than ``most``, recommended ones and a random sample."""
    candidates = candidate_sizes(situation.grid, situation.device.limits)
    if len(candidates) <= most:
        return candidates
    chosen = shortlisted_sizes(situation, min(SHORTLIST, most))[:most]
    others = sorted(set(candidates) - set(chosen))
    drawn = np.random.default_rng(seed).choice(len(others), most - len(chosen), replace=False)
    return chosen + [others[row] for row in sorted(drawn)]


def continue_sweep(
    path: Path, session: KernelSession, device: DeviceProfile, sizes: Sequence[WorkGroup], plan: SweepPlan, watch: Watch
) -> SizeSweep:
    """Measure a sweep that is kept in a file: go on with its rounds, and keep every new one; see :func:`measure_sweep`."""
    earlier = read_cache(path)[0] if path.exists() else None
    return measure_sweep(session, device, sizes, plan, earlier=earlier, save=lambda sweep: save_sweep(path, sweep), watch=watch)


def measure_sweep(
    session: KernelSession,
    device: DeviceProfile,
    sizes: Sequence[WorkGroup],
    plan: SweepPlan = DEFAULT_PLAN,
    *,
    earlier: SizeSweep | None = None,
    save: Callable[[SizeSweep], None] = lambda sweep: None,
    watch: Watch = lambda what, share: None,
    clock: Callable[[], float] = time.monotonic,
) -> SizeSweep:
    """Time a session's convolution with each size, round after round.

    At least one round more than there are is run, and at least :data:`LEAST_ROUNDS` in all.

    Args:
        session: The convolution on the device; it stays open.
        device: The GPU.
        sizes: To try, at least two.
        plan: How long.
        earlier: Rounds of the same sizes, to go on with.
        save: Called with the sweep so far after every round, so that an interruption loses one round at most.
        watch: Told about progress.
        clock: Seconds, for the budget.

    Raises:
        MeasurementError: A size computes a wrong result, fewer than two run, or ``earlier`` is of something else.
    """
    deadline_s = clock() + plan.budget_s
    workload = session.workload
    if earlier is not None:
        _require_same(earlier, session, device, sizes)
        if earlier.rounds >= plan.rounds:
            return earlier
        sizes = earlier.sizes
    spent_ms, failed = _compile_sizes(session, sizes, watch)
    if earlier is not None and failed:
        lost = next(iter(failed))
        raise MeasurementError(f"{workload} with {lost} ran before and does not now; start again with another output file")
    if len(spent_ms) < 2:
        raise MeasurementError(
            f"{len(spent_ms)} of {len(sizes)} work-group sizes run {workload} on {device.title}; expected at least two"
        )
    sizes, compiling_ms = tuple(spent_ms), np.array(list(spent_ms.values()))
    rounds: list[np.ndarray] = []
    if earlier is not None:
        rounds, failed = list(earlier.times_ms.T), dict(earlier.failed)
        # Drivers mostly keep compiled kernels, so only the first time says how long compiling takes.
        if earlier.tuning_ms is not None:
            compiling_ms = earlier.tuning_ms - earlier.times_ms.sum(axis=1)
    least = max(LEAST_ROUNDS, len(rounds) + 1)
    while True:
        watch(f"timing {len(sizes)} sizes", len(rounds) / plan.rounds)
        taken_ms = np.empty(len(sizes))
        for row in np.random.default_rng((plan.seed, len(rounds))).permutation(len(sizes)):
            taken_ms[row] = session.run(sizes[row])
            if not taken_ms[row] > 0:
                raise MeasurementError(
                    f"the device's clock says that {workload} with {sizes[row]} took {taken_ms[row]:g} ms; its steps are too "
                    "coarse for so small an operator: measure a larger one"
                )
        rounds.append(taken_ms)
        times_ms = np.column_stack(rounds)
        sweep = SizeSweep(
            device, str(workload), workload.descriptor, workload.grid, sizes, times_ms, interleaved=True,
            tuning_ms=compiling_ms + times_ms.sum(axis=1), failed=failed,
        )  # fmt: skip
        save(sweep)
        if len(rounds) >= least and (len(rounds) >= plan.rounds or clock() >= deadline_s):
            return sweep


def _compile_sizes(
    session: KernelSession, sizes: Sequence[WorkGroup], watch: Watch
) -> tuple[dict[WorkGroup, float], dict[WorkGroup, str]]:
    """Compile every size and check its result, so that no round is the first.

    Returns:
        Sizes that run to the milliseconds of compiling each, and the others to why they do not.
    """
    operands = make_operands(session.workload)
    spent_ms: dict[WorkGroup, float] = {}
    failed: dict[WorkGroup, str] = {}
    for index, size in enumerate(sizes):
        watch(f"compiling {len(sizes)} sizes", index / len(sizes))
        if not session.limits.allow(size):
            failed[size] = FAILURES["InvalidConfig"]
            continue
        begin_s = time.perf_counter()
        try:
            session.prepare(size)
            prepared_s = time.perf_counter()
            session.clear()
            session.run(size)
        except MeasurementError:
            failed[size] = FAILURES["RuntimeFailedConfig"]
            continue
        operands.check(session.result(), f"{session.workload} with {size}")
        spent_ms[size] = 1e3 * (prepared_s - begin_s)
    return spent_ms, failed


def _require_same(earlier: SizeSweep, session: KernelSession, device: DeviceProfile, sizes: Sequence[WorkGroup]) -> None:
    workload = session.workload
    found = (earlier.device.title, earlier.operator, earlier.descriptor, earlier.grid)
    if found != (device.title, str(workload), workload.descriptor, workload.grid):
        raise MeasurementError(
            f"the earlier rounds are of {earlier.operator} ({earlier.descriptor.name}) on {earlier.device.title}, not of "
            f"{workload} ({workload.descriptor.name}) on {device.title}: give another output file"
        )
    if {*earlier.sizes, *earlier.failed} != set(sizes):
        raise MeasurementError(
            f"the earlier rounds of {workload} are of {len(earlier.sizes) + len(earlier.failed)} other sizes than the "
            f"{len(sizes)} asked for: give another output file, or the options of then"
        )


def save_sweep(path: Path, sweep: SizeSweep) -> None:
    """Write a sweep's cache whole or not at all, so that an interruption leaves the rounds before it."""
    made(path.parent)
    unfinished = path.with_name(f".{path.name}")
    write_cache(unfinished, sweep)
    os.replace(unfinished, path)
