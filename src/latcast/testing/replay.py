"""A runtime that plays recorded measurements back, for tests of everything that measures.

Nothing is computed: each run advances a virtual clock by the next recorded latency. Measured with the runtime's own ``clock``,
the latencies are exactly the recorded ones, at once and on any host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

import numpy as np

from latcast.errors import RuntimeFailure
from latcast.graph.ir import Graph
from latcast.records import ExecutedKernel, Measurement, Reference
from latcast.runtimes.protocol import StandingClock
from latcast.runtimes.session import check_profiling, check_setting, checked_inputs


@dataclass(frozen=True)
class Recording:
    """The measured behaviour of one network or kernel.

    Attributes:
        runs_ms: Latency of each run in order; after the last one the first follows again.
        executed: The executed kernels, where known.
        error: The reason why it could not be loaded, or None.
    """

    runs_ms: tuple[float, ...] = ()
    executed: tuple[ExecutedKernel, ...] = ()
    error: str | None = None


def recordings_of(measurements: Iterable[Measurement], build: Callable[[Reference], Graph]) -> dict[str, Recording]:
    """Return one platform's recordings by structure key, the runs of several measurements of one structure in sequence."""
    found: dict[str, Recording] = {}
    for measurement in measurements:
        key = build(measurement.reference).structure_key
        before = found.get(key, Recording())
        executed = measurement.executed or before.executed
        found[key] = Recording(before.runs_ms + measurement.runs_ms, executed, measurement.error if not before.runs_ms else None)
    return found


class ReplaySession:
    """Recorded runs of one network."""

    def __init__(self, graph: Graph, recording: Recording, clock: StandingClock, *, profile: bool) -> None:
        self.graph = graph
        self._recording = recording
        self._clock = clock
        self._profile = profile
        self._latencies_ms = cycle(recording.runs_ms)

    def run(self) -> None:
        self._clock.advance(next(self._latencies_ms))

    def set_inputs(self, inputs: Sequence[np.ndarray]) -> None:
        checked_inputs(self.graph, inputs)

    def outputs(self) -> list[np.ndarray]:
        """Raise a RuntimeFailure: latencies were recorded, values were not."""
        raise RuntimeFailure(f"recorded runs of '{self.graph.name}' have no outputs; load it in a runtime that computes")

    def executed_kernels(self, runs: int = 10) -> tuple[ExecutedKernel, ...]:
        check_profiling(self.graph, self._profile, runs)
        if not self._recording.executed:
            raise RuntimeFailure(f"the executed kernels of '{self.graph.name}' were not recorded")
        return self._recording.executed

    def close(self) -> None:
        return


class ReplayRuntime:
    """Plays recordings back.

    To find it by name, register a maker: ``RUNTIMES.register("replay", partial(ReplayRuntime, recordings))``.

    Args:
        recordings: Structure key (:attr:`latcast.graph.ir.Graph.structure_key`) to recording.
        name, version: Those of the recorded runtime.
        precisions: Accepted precisions; all find the same recordings.
    """

    def __init__(
        self,
        recordings: Mapping[str, Recording],
        *,
        name: str = "replay",
        version: str = "1.0",
        precisions: tuple[str, ...] = ("fp32",),
    ) -> None:
        self.name = name
        self.precisions = precisions
        self.clock = StandingClock()
        self._version = version
        self._recordings = recordings

    def available(self) -> str | None:
        return None

    def version(self) -> str:
        return self._version

    def load(self, graph: Graph, *, threads: int = 1, precision: str = "fp32", profile: bool = False) -> ReplaySession:
        check_setting(self, graph, threads, precision)
        recording = self._recordings.get(graph.structure_key)
        if recording is None:
            raise RuntimeFailure(
                f"no run of '{graph.name}' (structure {graph.structure_key}) among {len(self._recordings)} recordings; record it"
            )
        if recording.error is not None:
            raise RuntimeFailure(recording.error)
        if not recording.runs_ms:
            raise RuntimeFailure(f"the recording of '{graph.name}' has no runs; record it again")
        return ReplaySession(graph, recording, self.clock, profile=profile)
