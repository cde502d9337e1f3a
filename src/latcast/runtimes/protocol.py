"""The interfaces of runtimes, their sessions and clocks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from latcast.graph.ir import Graph
from latcast.records import ExecutedKernel

if TYPE_CHECKING:
    import numpy as np

    from latcast.runtimes.model_file import ModelFile


@runtime_checkable
class Session(Protocol):
    """A network loaded into a runtime, its inputs filled, ready to be timed."""

    def run(self) -> None:
        """Run one inference on the inputs set last; this call alone is timed.

        Raises:
            RuntimeFailure: The runtime returned an error.
        """

    def set_inputs(self, inputs: Sequence[np.ndarray]) -> None:
        """Replace the inputs (logical NCHW float32, in the graph's order); quantised inside where the network is int8."""

    def outputs(self) -> list[np.ndarray]:
        """Return the outputs of the last run in the graph's order: logical NCHW, float32 (dequantised)."""

    def executed_kernels(self, runs: int = 10) -> tuple[ExecutedKernel, ...]:
        """Return the kernels really executed, in order, with median raw milliseconds over ``runs`` profiled runs.

        ``nodes`` holds names of the graph's nodes. A kernel that the runtime inserted itself has none.

        Raises:
            RuntimeFailure: The session was not loaded with ``profile=True``, or the runtime cannot tell.
        """

    def close(self) -> None:
        """Free native memory; the session must not be used after."""


@runtime_checkable
class Runtime(Protocol):
    """An inference framework at the installed version, on the CPU.

    One that also runs on other units names their kinds in ``units`` ("cpu", "gpu", "npu"), and its ``on(kind)`` returns a runtime
    of the same name there. A session may have ``moment()``, which returns observations of the device for its record.
    """

    name: str
    """Its name in platform ids: "onnxruntime"."""

    @property
    def precisions(self) -> tuple[str, ...]:
        """The precisions that it can run here, of :data:`latcast.records.PRECISIONS`."""

    def available(self) -> str | None:
        """Return None where it can run here, else the reason and the command that mends it."""

    def version(self) -> str:
        """Return the full version of the installed library."""

    def load(self, graph: Graph, *, threads: int = 1, precision: str = "fp32", profile: bool = False) -> Session:
        """Write the graph in the runtime's own format, with made-up weights, and load it; inputs are random, seeded.

        Raises:
            UnsupportedOperatorError: The graph has an operator that the writer cannot express.
            RuntimeFailure: The runtime refused it.
            MissingExtraError: The library is not installed.
        """


@runtime_checkable
class FileRuntime(Runtime, Protocol):
    """A runtime that also runs model files of its formats as they are."""

    endings: tuple[str, ...]
    """Suffixes of these files."""

    def load_file(self, file: ModelFile, *, threads: int = 1, precision: str = "fp32", profile: bool = False) -> Session:
        """Load a file with the weights in it and run it once; inputs without a value are random, seeded.

        Raises:
            ModelError: The shapes or values given for inputs do not fit.
            RuntimeFailure: The runtime refused the file, or runs with none of the inputs that were tried.
            MissingExtraError: The library is not installed.
        """


@runtime_checkable
class StartRuntime(FileRuntime, Protocol):
    """A runtime whose start can be timed: it loads files with a library of this machine."""

    library: str
    """Module of the library: importing it is no part of a network's start."""

    def write(self, graph: Graph, folder: Path, precision: str = "fp32") -> Path:
        """Write a network, with made-up weights, as a file of one of its formats; raises what ``load`` raises."""


@runtime_checkable
class DeviceRuntime(Runtime, Protocol):
    """A runtime that drives another device than the machine it is loaded on, with its own clock."""

    clock: Clock

    def device_name(self) -> str:
        """Return the device's name in platform ids."""

    def place(self, unit: str) -> str:
        """Choose cores or another unit for all that is loaded later; return its name in platform ids.

        Raises:
            RuntimeFailure: The device has no such unit.
        """

    def environment(self) -> dict[str, Any]:
        """Return the known facts of the device, as JSON values."""


@runtime_checkable
class Clock(Protocol):
    """A clock that never goes back; only differences of its readings mean something."""

    def now_ms(self) -> float:
        """Return milliseconds since an arbitrary moment."""


class SystemClock:
    """The machine's highest-resolution monotonic clock."""

    def now_ms(self) -> float:
        return time.perf_counter_ns() / 1e6


class StandingClock:
    """A clock that stands still but for the runs that are handed out: recorded ones, or those of a phone."""

    def __init__(self) -> None:
        self._now_ms = 0.0

    def now_ms(self) -> float:
        return self._now_ms

    def advance(self, duration_ms: float) -> None:
        """Let a run pass; raise a ValueError for a negative duration."""
        if not duration_ms >= 0:
            raise ValueError(f"a clock cannot advance by {duration_ms} ms; durations are not negative")
        self._now_ms += duration_ms
