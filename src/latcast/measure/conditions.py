"""Networks timed under conditions: from their start on, and beside other programs.

The start is the loading of a file and the first inference. Alone and beside other programs a network is timed in turn, so that
the host's changes cancel in the ratio.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median

from latcast.errors import MeasurementError
from latcast.measure.opened_runtime import OpenedRuntime
from latcast.measure.settings import SINGLE_THREADED_LIBRARIES
from latcast.measure.timing import RunLog, garbage_collection_off
from latcast.predictors.conditions import SAME, parse_beside
from latcast.runtimes.model_file import Array, InputSlot, Loaded, ModelFile, files_of
from latcast.runtimes.protocol import Session

WORK: Mapping[str, str] = {
    "compute": "a = np.full((128, 128), 0.01, np.float32); b = a.copy()\nwhile True: np.dot(a, a, b)",
    "memory": "a = np.ones(1 << 25, np.float32); b = a.copy()\nwhile True: np.copyto(b, a)",
}
"""Python of the programs: products of matrices in a core's own caches, and copies of 128 MB to 128 MB."""

ENDED_WITH_PARENT = "import ctypes, sys\nif sys.platform == 'linux': ctypes.CDLL(None).prctl(1, 9)\n"
"""Python by which the system kills a program, stopped or not, when the process that started it is gone (PR_SET_PDEATHSIG)."""

ROUNDS, WINDOW_MS, SHARED_WINDOW_MS = 3, 60.0, 200.0
"""Rounds, and milliseconds of processor time in each: on a shared core for each of those that share it, as the scheduler gives it
out in slices of some milliseconds, of which one more or less has to be little."""

SETTLE_S = 0.004
"""Seconds after a program goes on, until its data are where they are while it runs."""


@contextmanager
def _stopped(kind: str) -> Iterator[int]:
    """Start a program and stop it; yield its process id, and end it when the context or this process ends."""
    text = f"{ENDED_WITH_PARENT}import numpy as np\nprint(1, flush=True)\n{WORK[kind]}"
    environment = {**os.environ, **dict.fromkeys(SINGLE_THREADED_LIBRARIES, "1")}
    with subprocess.Popen([sys.executable, "-c", text], env=environment, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise MeasurementError("another program could not be started beside the network: numpy failed; see the log")
            process.send_signal(signal.SIGSTOP)
            yield process.pid
        finally:
            process.kill()


def time_beside(opened: OpenedRuntime, session: Session, scenarios: Sequence[str]) -> tuple[RunLog, dict[str, float]]:
    """Return the runs of a session alone, and how many times as long the mean run takes beside programs, by scenario.

    Args:
        opened: Its CPUs are the network's own.
        session: Loaded.
        scenarios: Each as :func:`latcast.predictors.conditions.parse_beside` reads it.

    Raises:
        MeasurementError: The network is not pinned to CPUs of this machine, or has them all.
        RuntimeFailure: A run failed.
    """
    programs = {"+".join(each): each for each in map(parse_beside, scenarios)}
    if not opened.cpus:
        raise MeasurementError(
            "found a network that is pinned to no CPU of this machine; measure it beside programs on such a CPU"
        )
    # Of the process that started this one, which is not pinned.
    others = sorted(os.sched_getaffinity(os.getppid()) - set(opened.cpus))
    if not others and any(not each.endswith(SAME) for needed in programs.values() for each in needed):
        raise MeasurementError("found no CPU beside those of the network; measure on fewer threads, or beside programs on :same")
    log, slowed_ms = RunLog(), dict[str, list[float]]()
    processes: dict[tuple[str, int], int] = {}
    with ExitStack() as started, garbage_collection_off():

        def placed(needed: Sequence[str]) -> Iterator[tuple[int, bool]]:
            for place, each in enumerate(needed):
                kind, same = each.removesuffix(SAME), each.endswith(SAME)
                cpus = opened.cpus if same else others
                if (kind, place) not in processes:
                    processes[kind, place] = started.enter_context(_stopped(kind))
                os.sched_setaffinity(processes[kind, place], (cpus[-1 - place % len(cpus)],))
                yield processes[kind, place], same

        everything = ("", *programs)
        for index in range(ROUNDS):
            mean_ms = {}
            # In another order each time: what ran before leaves caches and clocks in its own state.
            for place in range(len(everything)):
                scenario = everything[(place + index * len(everything) // ROUNDS) % len(everything)]
                runs_ms, mean_ms[scenario] = _window(opened, session, dict(placed(programs.get(scenario, ()))))
                if not scenario:
                    log.runs_ms += runs_ms
                    log.rounds += [index] * len(runs_ms)
            for scenario in programs:
                slowed_ms.setdefault(scenario, []).append(mean_ms[scenario] / mean_ms[""])
    return log, {scenario: median(found) for scenario, found in slowed_ms.items()}


def _window(opened: OpenedRuntime, session: Session, processes: Mapping[int, bool]) -> tuple[list[float], float]:
    """Return runs back to back while processes run, and the mean run as it would be with nothing else running.

    A shared core is given out in slices of some milliseconds, also to whatever else the machine runs. So what is counted on one
    core is the time that the network and the processes had of it.

    Args:
        opened, session: As for :func:`time_beside`.
        processes: Ids, to whether they are on the network's core.
    """
    now_ms = opened.instruments.clock.now_ms
    sharing = [process for process, same in processes.items() if same]
    window_ms = SHARED_WINDOW_MS * (1 + len(sharing)) if sharing else WINDOW_MS
    runs_ms: list[float] = []
    try:
        for process in processes:
            os.kill(process, signal.SIGCONT)
        if processes:
            time.sleep(SETTLE_S)
        with nullcontext() if sharing else opened.priority([*processes]):
            session.run()
            start_s, used_s, begun = _processor_seconds(sharing), 0.0, now_ms()
            while 1e3 * used_s < window_ms * len(opened.cpus) or len(runs_ms) < 2:
                session.run()
                used_s = _processor_seconds(sharing) - start_s
                runs_ms.append(now_ms() - begun)
                begun = now_ms()
    finally:
        for process in processes:
            os.kill(process, signal.SIGSTOP)
    # Several threads wait for the one that shares its core, which processor time does not show.
    return runs_ms, fmean(runs_ms) if len(opened.cpus) > 1 else 1e3 * used_s / len(runs_ms)


def _processor_seconds(processes: Sequence[int]) -> float:
    """Return the processor time of this process and of others, whose clocks have such numbers (clock_getcpuclockid)."""
    return time.process_time() + sum(time.clock_gettime(~process << 3 | 2) for process in processes)


@dataclass(frozen=True)
class _WatchedFile(ModelFile):
    """A model file that notes when it is loaded, and when its first run begins and ends."""

    now_ms: Callable[[], float] = field(kw_only=True)
    marks_ms: list[float] = field(default_factory=list, kw_only=True)

    def started(self, slots: Sequence[InputSlot], start: Callable[[list[Array]], Loaded]) -> Loaded:
        loaded_ms = self.now_ms()

        def timed(inputs: list[Array]) -> Loaded:
            begun_ms = self.now_ms()
            loaded = start(inputs)
            self.marks_ms[:] = (loaded_ms, begun_ms, self.now_ms())
            return loaded

        return super().started(slots, timed)


def start_log(opened: OpenedRuntime, file: ModelFile, page_cache: str) -> tuple[RunLog, float]:
    """Load a file and run it once; return the log of the first run and the milliseconds of loading, raw.

    Loading is reading, optimising, compiling and allocating. Importing the library comes before, and random inputs are made
    between the two. The probe is read before and after.

    Raises:
        RuntimeFailure: The runtime refused the file.
    """
    importlib.import_module(opened.runtime.library)  # type: ignore[attr-defined]
    for path in files_of(file.path):
        _settle(path, dropped=page_cache == "dropped")
    release_memory()
    probe, now_ms = opened.instruments.probe, opened.instruments.clock.now_ms
    watched = _WatchedFile(file.path, file.name, file.graph, file.shapes, file.values, now_ms=now_ms)
    with opened.priority():
        before = probe.read_ms() if probe is not None else ()
        start_ms = now_ms()
        session = opened.load_file(watched)
        after = probe.read_ms() if probe is not None else ()
    session.close()
    loaded_ms, begun_ms, done_ms = watched.marks_ms
    log = RunLog(runs_ms=[done_ms - begun_ms], rounds=[0])
    if probe is not None:
        log.readings_ms.append(tuple(fmean(pair) for pair in zip(before, after, strict=True)))
    return log, loaded_ms - start_ms


def _settle(path: Path, *, dropped: bool) -> None:
    """Write a file to its disk and read it into the system's memory, or let the system drop it, where it can be told to."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        if not dropped:
            while file.read(1 << 20):
                pass
        elif hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def release_memory() -> None:
    """Give freed memory back to the system, so that what comes next takes its own."""
    gc.collect()
    with suppress(OSError, AttributeError):  # only the GNU C library has it
        ctypes.CDLL(None).malloc_trim(0)
