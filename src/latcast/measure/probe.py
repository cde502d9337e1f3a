"""A short fixed piece of work that measures the host's speed at this moment.

Shared machines change speed by tens of per cent within seconds (neighbours on the same core, on the same memory bus), which no
statistic of raw runs repairs. So every burst of runs stands between two readings of a probe, and
:mod:`latcast.measure.statistics` divides the host's state out. The probe has two parts, because the two states change
independently: ``compute`` stays in the first cache level, ``memory`` streams through more than a core's own caches hold.
It needs numpy alone, so it works wherever the package does.

A host has one quiet time for each key of its probe, so that figures of different processes and days compare. A calibration
replaces it where the host is clearly faster.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from latcast.environment import cpu_description
from latcast.errors import MeasurementError
from latcast.folders import cache_folder, replacing
from latcast.reading import read_json
from latcast.records import check_ms, listed
from latcast.runtimes.protocol import Clock, SystemClock

PROBE_VERSION = 2
"""Raised when the work changes: readings of different versions are not comparable."""

QUIET_QUANTILE = 0.2
"""Share of a calibration's bursts that are faster than the quiet time."""

_DISPLACING_BYTES = 8 << 20
"""More than the caches of one core hold."""

_PAGE_BYTES = 4096


class Probe(Protocol):
    """A measure of the host's speed."""

    parts: tuple[str, ...]
    """Names of the times of a reading."""

    key: str
    """Equal for readings that are comparable: same work, same machine, same instruction sets."""

    def read_ms(self) -> tuple[float, ...]:
        """Time the parts now, in milliseconds."""


class HostProbe:
    """The probe of the CPU that this process runs on: about 0.1 ms a reading, nothing allocated.

    ``compute``: products of 64x64 matrices, small enough that no BLAS splits them over threads, and element-wise products
    and sums, so that no single execution unit decides. ``memory``: one float out of every cache line of 256 KB, out of
    64 MB, another piece at each reading, so that the lines are in no core's own cache and little of the subject's data is
    displaced.
    """

    parts: tuple[str, ...] = ("compute", "memory")

    _MATRIX = 64
    _PRODUCTS = 2
    _VECTOR = 2048
    _VECTOR_OPERATIONS = 8
    _LINE_FLOATS = 16
    _PIECE_FLOATS = 1 << 16
    _PIECES = 256

    def __init__(self, clock: Clock | None = None) -> None:
        self._now_ms = (clock or SystemClock()).now_ms
        # Everything on page boundaries: the place of a matrix in memory changes its product's time.
        matrix, vector = (self._MATRIX, self._MATRIX), (self._VECTOR,)
        self._left, self._right, self._product = (_aligned(matrix, value) for value in (1.0001, 0.0155, 0.0))
        self._factor, self._term, self._result = (_aligned(vector, value) for value in (1.0001, 0.5, 0.0))
        self._lines = _aligned((self._PIECES, self._PIECE_FLOATS), 1.0)[:, :: self._LINE_FLOATS]
        self._next_piece = 0
        self.key = probe_key()

    def read_ms(self) -> tuple[float, ...]:
        # Each part first runs untimed: previous work leaves caches, TLB and the core's vector clock in different states.
        self._compute()
        compute_ms = min(self._timed_ms(self._compute), self._timed_ms(self._compute))
        self._stream()
        return compute_ms, self._timed_ms(self._stream)

    def _timed_ms(self, work: Callable[[], None]) -> float:
        start = self._now_ms()
        work()
        return self._now_ms() - start

    def _compute(self) -> None:
        for _ in range(self._PRODUCTS):
            np.dot(self._left, self._right, self._product)
        for _ in range(self._VECTOR_OPERATIONS):
            np.multiply(self._factor, self._term, self._result)
            np.add(self._result, self._term, self._result)

    def _stream(self) -> None:
        # A stride prime to the number of pieces, further than a hardware prefetcher follows.
        self._next_piece = (self._next_piece + 7) % self._PIECES
        np.add.reduce(self._lines[self._next_piece])


def _aligned(shape: tuple[int, ...], value: float) -> np.ndarray:
    """Return a float32 array that begins on a page."""
    size = 4 * math.prod(shape)
    memory = np.empty(size + _PAGE_BYTES, np.uint8)
    start = -memory.ctypes.data % _PAGE_BYTES
    array: np.ndarray = memory[start : start + size].view(np.float32).reshape(shape)
    array[...] = value
    return array


def numpy_instruction_sets() -> tuple[str, ...]:
    """Return the instruction sets that numpy uses in this process; a capped process shows fewer than its machine has."""
    # numpy.core before version 2, numpy._core since; numpy prints the same table in numpy.show_runtime().
    module = "numpy._core" if int(np.__version__.partition(".")[0]) >= 2 else "numpy.core"
    found = importlib.import_module(f"{module}._multiarray_umath").__cpu_features__
    return tuple(sorted(str(name) for name, present in found.items() if present))


def probe_key() -> str:
    """Return the key (16 hex digits) of the host probe in this process: work, CPU, instruction sets and numpy's version."""
    cpu = cpu_description()
    parts = [PROBE_VERSION, cpu["model"], cpu["caches_bytes"], platform.machine(), np.__version__, numpy_instruction_sets()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def calibrate_probe(probe: Probe, *, bursts: int = 30, readings_per_burst: int = 5, pause_s: float = 0.01) -> tuple[float, ...]:
    """Measure the probe's time on a quiet host, from many readings spread over about half a second.

    Caches are displaced before each reading, as by the runs of a network. The result is a low quantile of the bursts' medians:
    fast moments of the host, but not single lucky readings.

    Returns:
        Quiet times of the parts in milliseconds.
    """
    other_memory = np.ones(_DISPLACING_BYTES // 4, np.float32)
    medians = []
    for _ in range(bursts):
        readings = []
        for _ in range(readings_per_burst):
            np.add.reduce(other_memory)
            readings.append(probe.read_ms())
        medians.append(np.median(readings, axis=0))
        time.sleep(pause_s)
    return tuple(float(value) for value in np.quantile(medians, QUIET_QUANTILE, axis=0))


QuietTime = tuple[float, ...]

IMPROVEMENT = 0.05
"""A calibration must be faster than the known quiet time by this share to replace it."""


class QuietTimes(Protocol):
    """Keeps quiet times by probe key."""

    def quiet_ms(self, key: str) -> QuietTime | None:
        """Return the known quiet times of the probe's parts, in milliseconds."""

    def keep_quiet_ms(self, key: str, quiet_ms: QuietTime) -> None:
        """Store them, in place of those known before."""


def settle(known: QuietTime | None, found: Sequence[float]) -> QuietTime:
    """Return the quiet times to go on with, from those known and those a calibration has just found, part by part."""
    if known is None or len(known) != len(found):
        return tuple(found)
    return tuple(new if new < old * (1 - IMPROVEMENT) else old for old, new in zip(known, found, strict=True))


def checked_quiet_ms(values: object) -> QuietTime:
    """Return quiet times from a file or a store; raise a MeasurementError for anything but times above 0."""
    found = listed("the probe's quiet times", values)
    check_ms("the probe's quiet times", found, above_zero=True)
    return tuple(float(value) for value in found)


def default_quiet_times_path() -> Path:
    """Return the path of ``quiet_times.json`` in the user's cache."""
    return cache_folder() / "quiet_times.json"


class QuietTimesFile:
    """Quiet times in a JSON file, by default in the user's cache, for measurements outside a campaign."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_quiet_times_path()

    def quiet_ms(self, key: str) -> QuietTime | None:
        return self._read().get(key)

    def keep_quiet_ms(self, key: str, quiet_ms: QuietTime) -> None:
        known = {**self._read(), key: list(quiet_ms)}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self.path) as draft:
                draft.write_text(json.dumps(known, indent=1), encoding="utf-8")
        except OSError as problem:
            raise MeasurementError(
                f"cannot keep the probe's quiet time in {self.path}: {problem.strerror}; "
                "set XDG_CACHE_HOME to a folder that can be written"
            ) from problem

    def _read(self) -> dict[str, QuietTime]:
        if not self.path.exists():
            return {}
        try:
            found = read_json(self.path, error=MeasurementError)
            if not isinstance(found, dict):
                raise MeasurementError(f"a {type(found).__name__}")
            return {key: checked_quiet_ms(values) for key, values in found.items()}
        except MeasurementError as problem:
            raise MeasurementError(
                f"{self.path} is not a file of quiet times ({problem}); delete it, the probe is then calibrated again"
            ) from problem
