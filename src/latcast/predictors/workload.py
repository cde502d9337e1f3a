"""Networks as platforms execute them, with the work that platforms share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from latcast.graph.blocks import main_block
from latcast.graph.ir import Graph
from latcast.graph.operators.classic import ML as CLASSIC_DOMAIN
from latcast.graph.operators.table import sized_by_values, unknown_operators
from latcast.graph.passes.folding import precision_remark
from latcast.kernels.delegates import Delegate
from latcast.kernels.kernel import KernelTable
from latcast.kernels.partitioning import Partitioning, partition
from latcast.kernels.rules import FusionRules
from latcast.kernels.search import find_kernels

if TYPE_CHECKING:
    from latcast.predictors.device_forecast import DeviceForecast, TableOnDevices


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
        self._partitions: dict[tuple[int, int], Partitioning] = {}
        self._remarks: dict[tuple[int, str], str] = {}
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
    def keys(self) -> list[tuple[str, tuple[int, ...]]]:
        """Type and configuration of the table's distinct kernels."""
        return [(name, tuple(row)) for name, rows in self.table.configurations.items() for row in rows.tolist()]

    def partition(self, network: int, delegate: Delegate) -> Partitioning:
        """Return what a delegate takes of a network."""
        key = (network, id(delegate))
        if key not in self._partitions:
            self._partitions[key] = partition(self.graphs[network], delegate)
        return self._partitions[key]

    def precision_remark(self, network: int, precision: str) -> str:
        """Return a sentence where a network is stored in another precision than a platform's."""
        if (network, precision) not in self._remarks:
            self._remarks[network, precision] = precision_remark(self.graphs[network], precision)
        return self._remarks[network, precision]
