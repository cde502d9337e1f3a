"""A runtime that plays recorded runs back: each advances a standing clock by the next recorded latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

import numpy as np

from latcast.errors import RuntimeFailure
from latcast.graph.ir import Graph
from latcast.records import ExecutedKernel
from latcast.runtimes.protocol import StandingClock
from latcast.runtimes.session import check_profiling, check_setting, checked_inputs


@dataclass(frozen=True)
class Recording:
    """Latencies of the runs of one network, over and over, and its executed kernels."""

    runs_ms: tuple[float, ...]
    executed: tuple[ExecutedKernel, ...] = ()


class ReplaySession:
    """Recorded runs of one network."""

    def __init__(self, graph: Graph, recording: Recording, clock: StandingClock, *, profile: bool) -> None:
        self.graph = graph
        self._executed = recording.executed
        self._clock = clock
        self._profile = profile
        self._latencies_ms = cycle(recording.runs_ms)

    def run(self) -> None:
        self._clock.advance(next(self._latencies_ms))

    def set_inputs(self, inputs: Sequence[np.ndarray]) -> None:
        checked_inputs(self.graph, inputs)

    def outputs(self) -> list[np.ndarray]:
        raise RuntimeFailure(f"recorded runs of '{self.graph.name}' have no outputs")

    def executed_kernels(self, runs: int = 10) -> tuple[ExecutedKernel, ...]:
        check_profiling(self.graph, self._profile, runs)
        if not self._executed:
            raise RuntimeFailure(f"the executed kernels of '{self.graph.name}' were not recorded")
        return self._executed

    def close(self) -> None:
        return


class ReplayRuntime:
    """Plays back recordings of networks by their structure key."""

    precisions = ("fp32",)

    def __init__(self, recordings: Mapping[str, Recording], *, name: str = "replay", version: str = "1.0") -> None:
        self.name = name
        self.clock = StandingClock()
        self._version = version
        self._recordings = recordings

    def available(self) -> str | None:
        return None

    def version(self) -> str:
        return self._version

    def load(self, graph: Graph, *, threads: int = 1, precision: str = "fp32", profile: bool = False) -> ReplaySession:
        check_setting(self, graph, threads, precision)
        if graph.structure_key not in self._recordings:
            raise RuntimeFailure(f"no run of '{graph.name}' was recorded")
        return ReplaySession(graph, self._recordings[graph.structure_key], self.clock, profile=profile)
