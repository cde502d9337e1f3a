"""The start of a network, timed: loading its file and the first inference."""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from latcast.measure.opened_runtime import OpenedRuntime
from latcast.measure.timing import RunLog
from latcast.runtimes.model_file import Array, InputSlot, Loaded, ModelFile, files_of


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
