"""A space and a runtime whose members misbehave on request, imported by worker processes under test."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from latcast.errors import RuntimeFailure
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.measure.settings import WorkerSettings
from latcast.records import ExecutedKernel, Reference
from latcast.runtimes import RUNTIMES
from latcast.spaces import SPACES

REPOSITORY_ROOT = Path(__file__).resolve().parents[2]

PYTHON_PATH = f"{REPOSITORY_ROOT / 'src'}:{REPOSITORY_ROOT}"
"""Search path for processes that tests start: this latcast, not an installed one, and the tests' modules."""

RUN_MS = 0.2


def reference(behaviour: str = "runs", number: int = 0) -> Reference:
    """A network that behaves as told; those of different numbers are different networks."""
    return Reference("behaving", {"behaviour": behaviour, "number": number}, f"{behaviour}_{number}")


def settings(**changes: Any) -> WorkerSettings:
    """For a worker that can run them; without a probe unless asked, as nothing here depends on the host's state."""
    given = {
        "runtime": "behaving",
        "probe": False,
        "imports": ("tests.measure.behaving",),
        "variables": {"PYTHONPATH": PYTHON_PATH},
    }
    return WorkerSettings(**{**given, **changes})


class BehavingSpace:
    """Networks of one ReLU, named for what they will do."""

    def build(self, behaviour: str, number: int) -> Graph:
        builder = GraphBuilder(behaviour)
        return builder.finish(builder.relu(builder.input((1, 1 + number, 4, 4))))

    def sample(self, count: int, seed: int) -> list[Reference]:
        return [reference(number=seed + index) for index in range(count)]


class BehavingSession:
    """Sleeps, or does what its name says."""

    def __init__(self, behaviour: str) -> None:
        self._behaviour = behaviour
        self._runs = 0

    def run(self) -> None:
        self._runs += 1
        if self._behaviour == "dies_running":
            os.abort()
        if self._behaviour == "hangs":
            time.sleep(3600)
        if self._behaviour == "fails_later" and self._runs > 3:
            raise RuntimeFailure("the fourth run went wrong")
        if self._behaviour == "prints":
            os.write(1, b"native libraries print what they like {not json}\n")
        time.sleep(0.05 if self._behaviour == "slow" else RUN_MS / 1e3)

    def set_inputs(self, inputs: Sequence[np.ndarray]) -> None:
        return

    def outputs(self) -> list[np.ndarray]:
        return []

    def executed_kernels(self, runs: int = 10) -> tuple[ExecutedKernel, ...]:
        return (ExecutedKernel("relu", "Sleep", ("relu_0",), RUN_MS),)

    def close(self) -> None:
        if self._behaviour == "dies_closing":
            os.abort()


class BehavingRuntime:
    """Loads a network unless its name forbids."""

    name = "behaving"
    precisions: tuple[str, ...] = ("fp32",)

    def available(self) -> str | None:
        return None

    def version(self) -> str:
        return "1.2.3"

    def load(self, graph: Graph, *, threads: int = 1, precision: str = "fp32", profile: bool = False) -> BehavingSession:
        if graph.name == "dies_loading":
            os.abort()
        if graph.name == "refused":
            raise RuntimeFailure("this network is refused")
        if graph.name == "buggy":
            raise ZeroDivisionError("a bug in the plug-in")
        return BehavingSession(graph.name)


class SilentRuntime(BehavingRuntime):
    """A runtime without a profiler."""

    name = "silent"

    def load(self, graph: Graph, *, threads: int = 1, precision: str = "fp32", profile: bool = False) -> BehavingSession:
        if profile:
            raise RuntimeFailure("its kernels cannot be read")
        return super().load(graph, threads=threads, precision=precision)


class AbsentRuntime(BehavingRuntime):
    """A runtime whose library is missing."""

    name = "absent"

    def available(self) -> str | None:
        return "absent is not installed; add it with: pip install absent"


class DyingRuntime(BehavingRuntime):
    """A runtime that takes the process down before anything is measured."""

    def version(self) -> str:
        print("cannot find libdying.so", flush=True)
        os._exit(7)


SPACES.register("behaving", BehavingSpace())
if "pytest" not in sys.modules:
    # In workers alone: whoever lists the runtimes in the tests' own process must not meet one that kills it.
    for name, kind in (
        ("behaving", BehavingRuntime), ("silent", SilentRuntime), ("absent", AbsentRuntime), ("dying", DyingRuntime),
    ):  # fmt: skip
        RUNTIMES.register(name, kind)
