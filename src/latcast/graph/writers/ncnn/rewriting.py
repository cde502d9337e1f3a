"""Replacing groups of nodes by one, while keeping account of what was replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from latcast.graph.ir import Graph, Node


class Rewriter:
    """A graph in the course of being rewritten.

    Attributes:
        values: The weights and constants whose values are known.
        origins: Name of a node to the names of the graph's original nodes that it stands for, in their order.
    """

    def __init__(self, graph: Graph, values: Mapping[str, np.ndarray]) -> None:
        self.graph = graph
        self.values = values
        self.origins: dict[str, tuple[str, ...]] = {}
        self._order = {node.name: index for index, node in enumerate(graph.nodes)}
        self._nodes = {node.name: node for node in graph.nodes}
        self._producers = dict(graph.producers)
        self._consumers = {name: list(nodes) for name, nodes in graph.consumers.items()}
        self._outputs = set(graph.outputs)

    def nodes(self) -> list[Node]:
        """The nodes as they are now, in order; safe to rewrite while going through them."""
        return list(self._nodes.values())

    def __contains__(self, node: Node) -> bool:
        return self._nodes.get(node.name) is node

    def producer(self, tensor: str, *op_types: str) -> Node | None:
        """The node that makes a tensor, if it is one of these operators."""
        node = self._producers.get(tensor)
        return node if node is not None and (not op_types or node.op_type in op_types) else None

    def sole_consumer(self, tensor: str, *op_types: str) -> Node | None:
        """The only reader of a tensor that does not leave the network, if it is one of these operators."""
        readers = self._consumers.get(tensor, [])
        if len(readers) != 1 or tensor in self._outputs:
            return None
        return readers[0] if not op_types or readers[0].op_type in op_types else None

    def scalar(self, tensor: str) -> float | None:
        """The value of a one-element constant."""
        value = self.graph.constants.get(tensor)
        return float(value.reshape(-1)[0]) if value is not None and value.size == 1 else None

    def scaled(self, node: Node | None) -> tuple[str, float] | None:
        """``(x, factor)`` of a multiplication with, or a division by, a constant number."""
        return self._with_scalar(node, "Mul", "Div")

    def shifted(self, node: Node | None) -> tuple[str, float] | None:
        """``(x, term)`` of the addition or subtraction of a constant number."""
        return self._with_scalar(node, "Add", "Sub")

    def _with_scalar(self, node: Node | None, commutative: str, inverse: str) -> tuple[str, float] | None:
        if node is None or node.op_type not in (commutative, inverse):
            return None
        first, second = node.inputs
        value = self.scalar(second)
        if value is not None:
            if node.op_type == commutative:
                return first, value
            return first, -value if inverse == "Sub" else 1.0 / value if value else float("inf")
        value = self.scalar(first)
        return (second, value) if value is not None and node.op_type == commutative else None

    def other_operand(self, node: Node, tensor: str) -> str | None:
        """What a two-operand node combines ``tensor`` with; None where it does not read it."""
        if len(node.inputs) != 2 or tensor not in node.inputs:
            return None
        return node.inputs[1] if node.inputs[0] == tensor else node.inputs[0]

    def replace(self, old: Sequence[Node], op_type: str, inputs: Sequence[str], attributes: Mapping[str, object]) -> bool:
        """Puts one node in the place of several, where nothing else reads what lies between them.

        The new node takes the name, the place and the outputs of the last of the old ones.

        Returns:
            Whether it was possible.
        """
        unique = {node.name: node for node in old}
        old = sorted(unique.values(), key=lambda node: self._order[node.name])
        last = old[-1]
        for node in old[:-1]:
            for output in node.outputs:
                readers = self._consumers.get(output, [])
                if output in self._outputs or any(reader.name not in unique for reader in readers):
                    return False
        for node in old:
            for name in node.inputs:
                if name:
                    self._consumers[name] = [reader for reader in self._consumers[name] if reader is not node]
            for output in node.outputs:
                self._producers.pop(output, None)
            if node is not last:
                del self._nodes[node.name]
        new = Node(op_type, last.name, tuple(inputs), last.outputs, dict(attributes))  # type: ignore[arg-type]
        self._nodes[last.name] = new
        for name in new.inputs:
            if name:
                self._consumers.setdefault(name, []).append(new)
        self._producers.update(dict.fromkeys(new.outputs, new))
        names = [origin for node in old for origin in self.origins.pop(node.name, (node.name,))]
        self.origins[new.name] = tuple(sorted(names, key=self._order.__getitem__))
        return True

    def finish(self) -> Graph:
        """The rewritten graph; nodes may have operators and attributes that ONNX does not define."""
        return self.graph.with_nodes(self._nodes.values())
