"""Finding GELU where it is spelled out in element-wise operators."""

from __future__ import annotations

from latcast.graph.ir import Graph, Node


def gelu_nodes(graph: Graph) -> frozenset[str]:
    """Names of the element-wise nodes that spell GELU around an Erf, or its approximation around a Tanh.

    ``0.5 x (1 + erf(x / sqrt 2))`` and ``0.5 x (1 + tanh(0.8 (x + 0.045 x^3)))``, with the factors in any order.
    """
    found: set[str] = set()
    for centre in graph.nodes:
        if centre.op_type in ("Erf", "Tanh"):
            plus_one = _only_reader(graph, centre)
            if plus_one is not None and plus_one.op_type == "Add" and _has_constant(graph, plus_one):
                found |= {centre.name, plus_one.name} | _before(graph, centre) | _after(graph, plus_one)
    return frozenset(found)


def _has_constant(graph: Graph, node: Node) -> bool:
    arithmetic = node.op_type in ("Add", "Mul", "Div", "Pow")
    return arithmetic and any(name in graph.constants for name in node.inputs)


def _makers(graph: Graph, node: Node) -> list[Node]:
    return [graph.producers[name] for name in node.inputs if name in graph.producers]


def _only_reader(graph: Graph, node: Node) -> Node | None:
    readers = graph.consumers.get(node.outputs[0], [])
    return readers[0] if len(readers) == 1 else None


def _before(graph: Graph, centre: Node) -> set[str]:
    """What leads from x to the Erf or Tanh: factors, and for the Tanh one sum with the cube."""
    found: set[str] = set()
    waiting = _makers(graph, centre)
    sums = 1 if centre.op_type == "Tanh" else 0
    while waiting:
        node = waiting.pop()
        if node.op_type == "Add" and sums and any(_has_constant(graph, maker) for maker in _makers(graph, node)):
            sums -= 1
        elif node.name in found or not _has_constant(graph, node):
            continue
        found.add(node.name)
        waiting += _makers(graph, node)
    return found


def _after(graph: Graph, plus_one: Node) -> set[str]:
    """The products with x and with one half, in either order."""
    found: set[str] = set()
    node = _only_reader(graph, plus_one)
    while node is not None and node.op_type == "Mul" and (not found or _has_constant(graph, node)):
        found.add(node.name)
        found.update(maker.name for maker in _makers(graph, node) if maker.op_type == "Mul" and _has_constant(graph, maker))
        node = _only_reader(graph, node)
    return found
