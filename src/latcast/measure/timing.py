"""The measuring loop: rounds over a batch, bursts of runs, a probe reading around each burst.

Sessions, clock and probe are passed in, so that recorded runs can be "measured" with a simulated clock.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from statistics import fmean

from latcast.errors import LatcastError
from latcast.measure.probe import Probe
from latcast.measure.settings import MeasurePlan
from latcast.runtimes.protocol import Clock, Session

PRIORITY_MS = 50.0
"""Time for which a priority is held: taking it is a system call for every thread, too slow for each round of a millisecond."""


@dataclass(frozen=True)
class Instruments:
    """The readings around the runs.

    Attributes:
        clock: Source of the time.
        probe: Read before and after each burst; None measures raw.
        preemptions: Returns the number of times that another process took the CPU so far.
        frequency_mhz: Returns the CPU's frequency at the end of a round; None where that is not known.
    """

    clock: Clock
    probe: Probe | None = None
    preemptions: Callable[[], int] = lambda: 0
    frequency_mhz: Callable[[], float | None] = lambda: None


@dataclass
class RunLog:
    """The runs of one subject, filled round by round.

    Attributes:
        runs_ms: Timed runs in order.
        readings_ms: For each run, the probe's parts: means of the readings before and after its burst. Empty without probe.
        rounds: Round of each run.
        warmup_runs: Untimed runs before the first round.
        preempted_runs: Timed runs during which another process took the CPU; most of them were taken again.
        frequencies_mhz: The CPU's frequency in each round, where known.
    """

    runs_ms: list[float] = field(default_factory=list)
    readings_ms: list[tuple[float, ...]] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    warmup_runs: int = 0
    preempted_runs: int = 0
    frequencies_mhz: list[float] = field(default_factory=list)


@dataclass
class Subject:
    """A loaded network or kernel with its log; ``failure`` is set when a run fails, and no round follows."""

    session: Session
    log: RunLog = field(default_factory=RunLog)
    failure: LatcastError | None = None


@contextmanager
def garbage_collection_off() -> Iterator[None]:
    """Keep Python's collector from running inside a timed run."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def warm_up(session: Session, plan: MeasurePlan, clock: Clock) -> int:
    """Run a session untimed, ``warmup_runs`` times or until ``max_ms_per_round``; return the number of runs."""
    start = clock.now_ms()
    for count in range(1, plan.warmup_runs + 1):
        session.run()
        if clock.now_ms() - start >= plan.max_ms_per_round:
            return count
    return plan.warmup_runs


def time_round(session: Session, index: int, plan: MeasurePlan, instruments: Instruments, log: RunLog) -> None:
    """Take one round of a session and append it to the log.

    A burst in which another process took the CPU is taken again, at most as often as the round has bursts; on a busier machine
    the disturbed ones are kept.

    Raises:
        RuntimeFailure: A run failed.
    """
    now_ms, probe, preemptions = instruments.clock.now_ms, instruments.probe, instruments.preemptions
    start = now_ms()
    # The first run of a round finds the caches as the other subjects left them; it also shows whether the subject is short
    # enough for bursts.
    session.run()
    last_ms = now_ms() - start
    before = probe.read_ms() if probe is not None else ()
    taken = 0
    retakes = -(-plan.runs_per_round // plan.burst_runs)
    while taken < plan.runs_per_round:
        if probe is not None and last_ms < plan.burst_ms:
            session.run()
        limit = min(plan.burst_runs, plan.runs_per_round - taken)
        burst: list[float] = []
        preempted = preemptions()
        burst_start = now = now_ms()
        while len(burst) < limit and (not burst or now - burst_start < plan.burst_ms):
            run_start = now_ms()
            session.run()
            now = now_ms()
            last_ms = now - run_start
            burst.append(last_ms)
        if probe is not None:
            after = probe.read_ms()
            reading = tuple(fmean(pair) for pair in zip(before, after, strict=True))
            before = after
        preempted = preemptions() - preempted
        if preempted and probe is not None:
            before = probe.read_ms()  # the last reading may hold the other process's time
        out_of_time = now_ms() - start >= plan.max_ms_per_round
        if preempted:
            log.preempted_runs += len(burst)
            if retakes > 0 and not out_of_time:
                retakes -= 1
                continue
        log.runs_ms.extend(burst)
        log.rounds.extend([index] * len(burst))
        taken += len(burst)
        if probe is not None:
            log.readings_ms.extend([reading] * len(burst))
        if out_of_time:
            break
    frequency = instruments.frequency_mhz()
    if frequency is not None:
        log.frequencies_mhz.append(frequency)


def time_batch(
    subjects: Sequence[Subject],
    plan: MeasurePlan,
    instruments: Instruments,
    announce: Callable[[int], None] = lambda index: None,
    priority: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> None:
    """Take all rounds of a batch, interleaved: each round runs every subject once before the next begins.

    Args:
        subjects: Logs and failures are written into them.
        plan, instruments: See :class:`MeasurePlan` and :class:`Instruments`.
        announce: Called with a subject's index before its runs of a round.
        priority: Makes the context in which rounds run, one or several short ones.
    """
    now_ms = instruments.clock.now_ms
    with garbage_collection_off(), ExitStack() as held:
        held_until_ms: float | None = None
        for round_index in range(plan.rounds):
            for index, subject in enumerate(subjects):
                if subject.failure is not None:
                    continue
                announce(index)
                try:
                    if round_index == 0:
                        # A warm-up may start threads, which then need the priority too.
                        held.close()
                        held_until_ms = None
                        subject.log.warmup_runs = warm_up(subject.session, plan, instruments.clock)
                    if held_until_ms is None:
                        held.enter_context(priority())
                        held_until_ms = now_ms() + PRIORITY_MS
                    time_round(subject.session, round_index, plan, instruments, subject.log)
                except LatcastError as failure:
                    subject.failure = failure
                if held_until_ms is not None and now_ms() >= held_until_ms:
                    held.close()
                    held_until_ms = None
