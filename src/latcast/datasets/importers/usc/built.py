"""The dataset's networks as they are built here, beside what it says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from latcast.datasets.importers import NetworkCheck, NetworkFigures
from latcast.errors import LatcastError
from latcast.graph.ir import Graph
from latcast.graph.operators import graph_macs
from latcast.measure.environment import MOMENT
from latcast.records import Measurement, Reference
from latcast.spaces import build
from latcast.spaces.measured_only import can_build, why_not

TOLERANCE = 0.05
"""FLOPs: the graph's products alone lie up to 3.3 % below TFLite's count, which has pools and element-wise operations in it
(small MobileNets V3 most). Sizes: the parameters alone lie up to 2 % below the files, which describe the network too."""


class Builder:
    """Builds each network once.

    Args:
        watch: Told the name of each network before it is built.

    Attributes:
        failures: Why networks could not be built, to their names.
    """

    def __init__(self, watch: Callable[[str], None]) -> None:
        self.failures: dict[str, list[str]] = {}
        self._watch = watch
        self._graphs: dict[str, Graph | None] = {}

    def graph(self, reference: Reference) -> Graph | None:
        """The network, or None where it cannot be built."""
        if reference.key not in self._graphs:
            self._graphs[reference.key] = self._build(reference)
        return self._graphs[reference.key]

    def _build(self, reference: Reference) -> Graph | None:
        if can_build(reference):
            self._watch(reference.name)
            try:
                return build(reference)
            except LatcastError as problem:
                reason = str(problem)
        else:
            reason = why_not(reference)
        self.failures.setdefault(reason, []).append(reference.name)
        return None


def check_networks(measurements: Iterable[Measurement], watch: Callable[[str], None]) -> NetworkCheck:
    """Compares FLOPs and size of each network, as each file states them, with the network as it is built here."""
    builder = Builder(watch)
    figures: dict[str, NetworkFigures] = {}
    for measurement in measurements:
        moment = measurement.environment[MOMENT]
        if moment["row"] in figures:
            continue
        graph = builder.graph(measurement.reference)
        if graph is not None:
            figures[moment["row"]] = NetworkFigures(
                measurement.reference.name,
                str(moment["row"]).partition(":")[0],
                2 * graph_macs(graph) / moment["flops"],
                4 * graph.parameter_count / moment["size_bytes"],
            )
    failures = {reason: tuple(names) for reason, names in builder.failures.items()}
    return NetworkCheck(tuple(figures.values()), failures, TOLERANCE)
