"""Assignment of a graph's nodes to the kernels that a runtime executed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from latcast.graph.ir import Graph, Node
from latcast.graph.operators import Kind, names_of, operators
from latcast.records import ExecutedKernel

VIEWS = names_of(row for row in operators() if row.kind is Kind.VIEW or row.passes)
"""Operators that change no value; where one is not a kernel of its own it was eliminated."""


def duplicates(graph: Graph) -> Mapping[str, str]:
    """Name of every node to the name of the first node that computes the same from the same (often itself).

    Runtimes compute such nodes once: two squeezes of one map share their pooling.
    """
    values: dict[str, object] = {name: name for name in (*graph.inputs, *graph.weights)}
    values.update({name: (str(v.dtype), v.shape, v.tobytes()) for name, v in graph.constants.items()})
    first: dict[object, str] = {}
    found: dict[str, str] = {}
    for node in graph.nodes:
        attributes = tuple(sorted(node.attributes.items()))
        key = (node.op_type, node.domain, tuple(values.get(name) for name in node.inputs), attributes)
        found[node.name] = first.setdefault(key, node.name)
        values.update({name: (found[node.name], index) for index, name in enumerate(node.outputs)})
    return found


def dynamic_nodes(graph: Graph) -> list[Node]:
    """The nodes that depend on the network's inputs; the others are computed when it is loaded."""
    reached = set(graph.inputs)
    found = []
    for node in graph.nodes:
        if not reached.isdisjoint(node.inputs):
            reached.update(node.outputs)
            found.append(node)
    return found


class Assignment:
    """Assigns the nodes of a graph to kernels, each node once, in the order in which kernels run.

    A runtime usually names only some of the operators that a kernel computes, the last one among them. What leads to those
    and belongs to no earlier kernel belongs to this one. Two sorts of nodes belong to none: those that depend on weights
    alone were computed when the network was loaded, and duplicates of an assigned node were computed with it.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.types = {node.name: node.op_type for node in graph.nodes}
        self._duplicates = duplicates(graph)
        self._computed: set[str] = set()
        self._free = {node.name for node in dynamic_nodes(graph)}

    def claim(self, tensors: Iterable[str]) -> tuple[str, ...]:
        """Names, in the graph's order, of the free nodes that these tensors need; they are free no longer."""
        asked = set(tensors)
        waiting = list(asked)
        found: set[str] = set()
        while waiting:
            tensor = waiting.pop()
            node = self.graph.producers.get(tensor)
            if node is None or node.name not in self._free:
                continue
            if tensor in asked or self._duplicates[node.name] not in self._computed:
                self._free.discard(node.name)
                found.add(node.name)
                waiting.extend(node.inputs)
        self._computed.update(self._duplicates[name] for name in found)
        return self.in_order(found) if found else ()

    def in_order(self, names: Collection[str]) -> tuple[str, ...]:
        return tuple(node.name for node in self.graph.nodes if node.name in names)

    def without_eliminated(self, names: Collection[str]) -> tuple[str, ...]:
        """The names less the views, unless there is nothing else."""
        computing = tuple(name for name in names if self.types[name] not in VIEWS)
        return computing or tuple(names)


def joined(graph: Graph, kernels: Iterable[ExecutedKernel]) -> tuple[ExecutedKernel, ...]:
    """The kernels, those that together compute one node as one whose name says both; nodes in the graph's order."""
    position = {node.name: index for index, node in enumerate(graph.nodes)}
    found: list[ExecutedKernel] = []
    entry_of: dict[str, int] = {}
    for kernel in kernels:
        entry = next((entry_of[name] for name in kernel.nodes if name in entry_of), None)
        if entry is None:
            entry = len(found)
            found.append(replace(kernel, nodes=tuple(sorted(set(kernel.nodes), key=position.__getitem__))))
        else:
            before = found[entry]
            found[entry] = ExecutedKernel(
                f"{before.name} + {kernel.name}",
                f"{before.kind} + {kernel.kind}",
                tuple(sorted({*before.nodes, *kernel.nodes}, key=position.__getitem__)),
                before.latency_ms + kernel.latency_ms,
            )
        for name in kernel.nodes:
            entry_of.setdefault(name, entry)
    return tuple(found)
