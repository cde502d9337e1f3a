"""A stopwatch for a runtime whose fusion rules are known: costs are made from its kernels, with noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latcast.fusion.decision import TimedBatch
from latcast.fusion.quantities import LATENCY
from latcast.fusion.stopwatch import Execution
from latcast.graph.ir import Graph
from latcast.kernels import FusionRules, find_kernels
from latcast.kernels.kernel import Kernel
from latcast.records import ExecutedKernel, Platform, Reference
from latcast.spaces.catalogue import build

PLATFORM = Platform("local", "made-up", "1.0", "cpu1", "fp32")

HEAVY = {"Softmax": 4.0, "LayerNormalization": 3.0, "Conv": 1.5, "Gelu": 2.0, "Tanh": 1.3, "Erf": 1.3}


class MadeUpStopwatch:
    """Times networks by the kernels that the true rules find in them.

    Args:
        rules: The truth.
        noise: Relative standard deviation of a network's round.
        drift: The same, of what a round's networks have in common.
        kernel_us: What starting a kernel takes.
        call_us: What an inference takes beside its kernels.
        rounds: Rounds in a batch.
        cannot_run: ONNX types of operators that it refuses.
        seed: Of the noise.
    """

    def __init__(
        self,
        rules: FusionRules,
        *,
        noise: float = 0.01,
        drift: float = 0.1,
        kernel_us: float = 1.0,
        call_us: float = 5.0,
        rounds: int = 30,
        cannot_run: frozenset[str] = frozenset(),
        seed: int = 0,
    ) -> None:
        self.platform = PLATFORM
        self.quantity = LATENCY
        self.rules = rules
        self.seconds = 0.0
        self.timed = 0
        self.renewed = 0
        self._noise, self._drift = noise, drift
        self._kernel_us, self._call_us = kernel_us, call_us
        self._rounds = rounds
        self._cannot_run = cannot_run
        self._rng = np.random.default_rng(seed)
        self._exact_us: dict[str, float | str] = {}

    def clock(self) -> float:
        """Seconds that timing would have taken."""
        return self.seconds

    def time(self, networks: Sequence[Reference]) -> TimedBatch:
        self.timed += len(networks)
        self.seconds += 0.05 * len(networks)
        drift = np.exp(self._drift * self._rng.standard_normal(self._rounds))
        costs, failures = {}, {}
        for reference in networks:
            exact = self._exact(reference)
            if isinstance(exact, str):
                failures[reference.key] = exact
                continue
            own = np.exp(self._noise * self._rng.standard_normal(self._rounds))
            costs[reference.key] = exact / 1e3 * drift * own
        return TimedBatch(costs, failures=failures)

    def remembered(self) -> list[TimedBatch]:
        return []

    def executed(self, networks: Sequence[Reference]) -> Execution:
        kernels = {}
        for reference in networks:
            found = find_kernels(build(reference), self.rules)
            kernels[reference.key] = tuple(
                ExecutedKernel(kernel.name, kernel.kernel_type, kernel.nodes, 0.001) for kernel in found
            )
        return Execution(kernels)

    def renew(self) -> None:
        self.renewed += 1

    def _exact(self, reference: Reference) -> float | str:
        """Microseconds without noise, or why it cannot run."""
        if reference.key not in self._exact_us:
            graph = build(reference)
            refused = self._cannot_run & {node.op_type for node in graph.nodes}
            if refused:
                self._exact_us[reference.key] = f"cannot run {', '.join(sorted(refused))}"
            else:
                kernels = find_kernels(graph, self.rules)
                own_us = sum(self._kernel(graph, kernel) for kernel in kernels)
                extra_us = self._extra_us([kernel.operators[0] for kernel in kernels])
                self._exact_us[reference.key] = self._call_us + own_us + extra_us
        return self._exact_us[reference.key]

    def _extra_us(self, types: list[str]) -> float:
        """What kernels of these operators, in this order, take beside their own times."""
        return 0.0

    def _kernel(self, graph: Graph, kernel: Kernel) -> float:
        """A start, and a pass over the elements that grows with what is computed on the way."""
        if kernel.free:
            return 0.0
        last = graph.producers
        outputs = [node.outputs[0] for node in last.values() if node.name in kernel.nodes]
        elements = max(graph.tensors[name].elements for name in outputs)
        work = max(HEAVY.get(operator, 1.0) for operator in kernel.operators)
        return self._kernel_us + 2e-4 * elements * work
