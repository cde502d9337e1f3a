"""Makes one reshape of several in a row."""

from __future__ import annotations

from latcast.graph.ir import Graph, Node
from latcast.graph.passes.rewire import rewire

_RESHAPING = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})


def merge_reshapes(graph: Graph) -> Graph:
    """The graph in which a reshape reads what the first of a chain of reshapes read."""
    sources: dict[str, str] = {}
    nodes: list[Node] = []
    changed = False
    for node in graph.nodes:
        if node.op_type in _RESHAPING:
            source = sources.get(node.inputs[0], node.inputs[0])
            sources[node.outputs[0]] = source
            if node.op_type == "Reshape" and source != node.inputs[0]:
                node = Node("Reshape", node.name, (source, *node.inputs[1:]), node.outputs)
                changed = True
        nodes.append(node)
    return rewire(graph, nodes, {}) if changed else graph
