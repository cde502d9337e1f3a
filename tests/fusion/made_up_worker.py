"""A runtime with known rules and a clock of its own, imported by worker processes under test."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from latcast.errors import RuntimeFailure
from latcast.graph.ir import Graph
from latcast.kernels import FusionRules, find_kernels
from latcast.measure.settings import WorkerSettings
from latcast.records import ExecutedKernel
from latcast.runtimes import RUNTIMES
from latcast.runtimes.protocol import StandingClock

REPOSITORY_ROOT = Path(__file__).resolve().parents[2]

RULES = FusionRules("madeup", pairs={"conv": frozenset({"relu"}), "relu": frozenset({"tanh"})}, patterns=("silu",))

KERNEL_MS, CALL_MS = 0.002, 0.01


def settings(**changes: Any) -> WorkerSettings:
    """For a worker that runs it."""
    given: dict[str, Any] = {
        "runtime": "madeup",
        "imports": ("tests.fusion.made_up_worker",),
        "variables": {"PYTHONPATH": f"{REPOSITORY_ROOT / 'src'}:{REPOSITORY_ROOT}"},
    }
    return WorkerSettings(**{**given, **changes})


class CountedSession:
    """Takes as long as it has kernels."""

    def __init__(self, graph: Graph, clock: StandingClock) -> None:
        self._kernels = find_kernels(graph, RULES)
        self._clock = clock
        self._rng = np.random.default_rng(len(self._kernels))

    def run(self) -> None:
        self._clock.advance((CALL_MS + KERNEL_MS * len(self._kernels)) * float(np.exp(0.01 * self._rng.standard_normal())))

    def set_inputs(self, inputs: Sequence[np.ndarray]) -> None:
        return

    def outputs(self) -> list[np.ndarray]:
        return []

    def executed_kernels(self, runs: int = 10) -> tuple[ExecutedKernel, ...]:
        return tuple(ExecutedKernel(kernel.name, kernel.kernel_type, kernel.nodes, KERNEL_MS) for kernel in self._kernels)

    def close(self) -> None:
        return


class MadeUpRuntime:
    """Refuses transposed convolutions; everything else is a kernel, or part of one by the rules."""

    name = "madeup"
    precisions: tuple[str, ...] = ("fp32",)

    def __init__(self) -> None:
        self.clock = StandingClock()

    def available(self) -> str | None:
        return None

    def version(self) -> str:
        return "1.0.2"

    def load(self, graph: Graph, *, threads: int = 1, precision: str = "fp32", profile: bool = False) -> CountedSession:
        if any(node.op_type == "ConvTranspose" for node in graph.nodes):
            raise RuntimeFailure("no kernel for ConvTranspose")
        return CountedSession(graph, self.clock)


if "pytest" not in sys.modules:
    RUNTIMES.register("madeup", MadeUpRuntime)
