"""Networks as platforms execute them, with the work that platforms share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from latcast.graph.blocks import main_block
from latcast.graph.ir import Graph
from latcast.graph.operators.classic import ML as CLASSIC_DOMAIN
from latcast.graph.operators.table import sized_by_values, unknown_operators
from latcast.graph.passes.folding import precision_remark
from latcast.kernels.delegates import Delegate
from latcast.kernels.kernel import Kernel, KernelTable
from latcast.kernels.partitioning import Partitioning, partition
from latcast.kernels.rules import FusionRules
from latcast.kernels.search import find_kernels

if TYPE_CHECKING:
    from latcast.predictors.device_forecast import DeviceForecast, TableOnDevices

LEAST_MEMORY_GB = 0.25
"""Sum of all tensors of a network, weights included, from which on it is checked against the memory of a device."""


class Workload:
    """Networks as platforms with the same fusion rules execute them; shared work is done once.

    Args:
        graphs: The networks.
        rules: Of the platforms.
    """

    def __init__(self, graphs: Sequence[Graph], rules: FusionRules) -> None:
        self.graphs = graphs
        self.rules = rules
        self.kernels = [find_kernels(graph, rules) for graph in graphs]
        self.table = KernelTable.of(self.kernels)
        self._partitions: dict[tuple[int, object], tuple[Partitioning, np.ndarray, np.ndarray]] = {}
        self._remarks: dict[tuple[int, str], str] = {}
        self._memory_gb: dict[tuple[int, str], float] = {}
        self._on_devices: TableOnDevices | None = None

    def on_devices(self, device: DeviceForecast) -> TableOnDevices:
        """Return the networks as devices known by few measurements see them; the same for all of these."""
        self._on_devices = self._on_devices or device.on_table(self.table)
        return self._on_devices

    @cached_property
    def lineages(self) -> list[str]:
        """Main block of each network."""
        return [main_block(graph) for graph in self.graphs]

    @cached_property
    def unknown_operators(self) -> list[list[str]]:
        """Operators of each network that latcast does not know."""
        return [unknown_operators(graph) for graph in self.graphs]

    @cached_property
    def classic_operators(self) -> list[list[str]]:
        """Operators of each network that trees, linear models and other classic ones are made of."""
        return [sorted({node.op_type for node in graph.nodes if node.domain == CLASSIC_DOMAIN}) for graph in self.graphs]

    @cached_property
    def sized_by_values(self) -> list[list[str]]:
        """Operators of each network whose results have sizes that depend on values."""
        return [sized_by_values(graph) for graph in self.graphs]

    @cached_property
    def busy(self) -> list[tuple[list[Kernel], np.ndarray]]:
        """Kernels of each network that take time, and the place of each among the table's distinct kernels."""
        places = np.split(self.table.kernel, np.searchsorted(self.table.network, range(1, len(self.graphs))))
        busy = [[kernel for kernel in kernels if not kernel.free] for kernels in self.kernels]
        return list(zip(busy, places[: len(busy)], strict=True))

    def start_features(self, precision: str) -> list[dict[str, float]]:
        """Return what decides the start of each network in a precision."""
        from latcast.predictors.starts import features_of

        return [features_of(*each, self.rules, precision) for each in zip(self.graphs, self.kernels, strict=True)]

    def crossings_ms(self, delegate: Delegate | None) -> np.ndarray:
        """Estimate what crossings between a delegate's unit and the CPU take, (networks,); 0 without a delegate."""
        if delegate is None:
            return np.zeros(len(self.graphs))
        return np.array([self.partition(place, delegate)[0].crossing_ms for place in range(len(self.graphs))])

    def partition(self, network: int, delegate: Delegate) -> tuple[Partitioning, np.ndarray, np.ndarray]:
        """Return what a delegate takes of a network, and which busy kernels it leaves to the CPU: without reorders, and with."""
        key = (network, delegate.key)
        if key not in self._partitions:
            parts, busy = partition(self.graphs[network], delegate), self.busy[network][0]
            left = [not parts.on_cpu.isdisjoint(kernel.nodes) for kernel in busy]
            names = {kernel.name for kernel in compress(busy, left)}
            with_reorders = [kernel.name in names for kernel in busy]
            self._partitions[key] = parts, np.array(left, dtype=bool), np.array(with_reorders, dtype=bool)
        return self._partitions[key]

    def precision_remark(self, network: int, precision: str) -> str:
        """Return a sentence where a network is stored in another precision than a platform's."""
        if (network, precision) not in self._remarks:
            self._remarks[network, precision] = precision_remark(self.graphs[network], precision)
        return self._remarks[network, precision]

    def memory_gb(self, network: int, precision: str) -> float:
        """Return what weights and activations of a network take in a precision, in GB; 0 where every device holds them."""
        if (network, precision) not in self._memory_gb:
            graph, takes_gb = self.graphs[network], 0.0
            if 4e-9 * sum(each.elements for each in graph.tensors.values()) > LEAST_MEMORY_GB:
                from latcast.kernels.memory import memory_of

                takes_gb = memory_of(graph, self.rules, precision, self.kernels[network]).total_bytes / 1e9
            self._memory_gb[network, precision] = takes_gb
        return self._memory_gb[network, precision]
