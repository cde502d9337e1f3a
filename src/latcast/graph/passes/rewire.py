"""Putting a graph back together after a pass: tensors replaced by others, operators that no output depends on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from latcast.graph.ir import Graph, Node


def rewire(graph: Graph, nodes: Iterable[Node], aliases: Mapping[str, str], **changes: object) -> Graph:
    """Return the graph with these nodes and with aliases resolved; the graph unchanged if no node would be left.

    Outputs of the graph keep their names wherever that is possible: not where an input, or another output, leaves directly.

    Args:
        graph: The graph that is changed.
        nodes: The nodes that stay, in topological order; they may still read aliases.
        aliases: Tensor to the tensor that replaces it, which may be an alias itself.
        **changes: Other fields of the new graph.
    """
    resolve = partial(resolved, aliases)
    kept = [
        replace(node, inputs=tuple(map(resolve, node.inputs))) if any(name in aliases for name in node.inputs) else node
        for node in nodes
    ]
    produced = {name for node in kept for name in node.outputs}
    tensors = changes.pop("tensors", graph.tensors)
    assert isinstance(tensors, Mapping)
    renamed: dict[str, str] = {}
    outputs = []
    for name in graph.outputs:
        target = resolve(name)
        if target != name and target in produced and target not in graph.outputs and target not in renamed:
            renamed[target] = name
        outputs.append(renamed.get(target, target))
    if renamed:
        kept = [node.renamed(renamed) for node in kept]
        tensors = {**tensors, **{new: tensors[old] for old, new in renamed.items()}}
    unique = tuple(dict.fromkeys(outputs))
    live = live_nodes(kept, unique)
    return graph.with_nodes(live, outputs=unique, tensors=tensors, **changes) if live else graph


def resolved(aliases: Mapping[str, str], name: str) -> str:
    """Return the tensor that stands in the end for one of this name."""
    while name in aliases:
        name = aliases[name]
    return name


def live_nodes(nodes: Sequence[Node], outputs: Iterable[str]) -> list[Node]:
    """Return the nodes, in topological order, that the outputs depend on."""
    needed = set(outputs)
    live = []
    for node in reversed(nodes):
        if not needed.isdisjoint(node.outputs):
            live.append(node)
            needed.update(node.inputs)
            needed.discard("")
    live.reverse()
    return live


def remove_dead_nodes(graph: Graph) -> Graph:
    """Return the graph without unused operators, weights and constants; inputs stay."""
    live = live_nodes(graph.nodes, graph.outputs)
    return graph if len(live) == len(graph.nodes) else graph.with_nodes(live)
