"""Holding fusion rules against the kernels that a runtime says it executed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from latcast.graph.ir import Graph
from latcast.kernels.kernel import Kernel
from latcast.kernels.operator_class import operator_class
from latcast.records import ExecutedKernel


@dataclass(frozen=True)
class Agreement:
    """How well predicted kernels match executed ones.

    Attributes:
        edges: Edges between operators (one reads the other's result) that could be compared.
        agreed: Edges on which both say "same kernel" or both say "another kernel".
        only_predicted: Pairs of operator classes that the rules fuse and the runtime does not, with how often.
        only_executed: Pairs that the runtime fuses and the rules do not.
    """

    edges: int
    agreed: int
    only_predicted: Mapping[tuple[str, str], int]
    only_executed: Mapping[tuple[str, str], int]

    @property
    def share(self) -> float:
        """Agreed edges, from 0 to 1; 1 where there are none."""
        return self.agreed / self.edges if self.edges else 1.0


def edge_agreement(
    graph: Graph, kernels: Sequence[Kernel], executed: Sequence[ExecutedKernel], free: frozenset[str] = frozenset()
) -> Agreement:
    """Compares edge by edge; operators that the runtime did not report (folded, views) and free ones are left out.

    Args:
        graph: The network.
        kernels: What the rules say.
        executed: What the runtime said.
        free: Operator classes that cost nothing, on which no kernel boundary can be seen.
    """
    predicted = {node: index for index, kernel in enumerate(kernels) for node in kernel.nodes}
    real = {node: index for index, kernel in enumerate(executed) for node in kernel.nodes}
    only_predicted: Counter[tuple[str, str]] = Counter()
    only_executed: Counter[tuple[str, str]] = Counter()
    edges = agreed = 0
    for node in graph.nodes:
        if node.name not in real:
            continue
        second = operator_class(graph, node)
        for tensor in graph.activation_inputs(node):
            producer = graph.producers.get(tensor)
            if producer is None or producer.name not in real:
                continue
            first = operator_class(graph, producer)
            if first in free or second in free:
                continue
            says = predicted[producer.name] == predicted[node.name]
            does = real[producer.name] == real[node.name]
            edges += 1
            agreed += says == does
            if says and not does:
                only_predicted[(first, second)] += 1
            elif does and not says:
                only_executed[(first, second)] += 1
    return Agreement(edges, agreed, only_predicted, only_executed)


def merge(parts: Sequence[Agreement]) -> Agreement:
    """Sums over networks."""
    only_predicted: Counter[tuple[str, str]] = Counter()
    only_executed: Counter[tuple[str, str]] = Counter()
    for part in parts:
        only_predicted.update(part.only_predicted)
        only_executed.update(part.only_executed)
    return Agreement(sum(part.edges for part in parts), sum(part.agreed for part in parts), only_predicted, only_executed)
