"""The operator table: operator -> output shapes and FLOPs, as pure functions of shapes.

FLOPs count a multiply-accumulate as two. Operators that only move data count zero FLOPs and cost bytes; an operator that
has no entry is not silently free: :func:`lookup` says None and whoever asked must state what it does instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from latcast.errors import ModelError
from latcast.graph.ir import Graph, Node, Shape, Tensor
from latcast.registry import Registry

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class OperatorView:
    """What an operator's functions may look at: its node, the tensors around it and the constants it knows."""

    node: Node
    inputs: tuple[Tensor | None, ...]
    values: Sequence[np.ndarray | None] = ()
    outputs: tuple[Tensor, ...] = ()

    def shape(self, index: int = 0) -> Shape:
        """Shape of an input that must be there.

        Raises:
            ModelError: The input is left out.
        """
        tensor = self.inputs[index] if index < len(self.inputs) else None
        if tensor is None:
            raise ModelError(f"node '{self.node.name}' ({self.node.op_type}) lacks its input {index}")
        return tensor.shape

    def dtype(self, index: int = 0) -> str:
        tensor = self.inputs[index] if index < len(self.inputs) else None
        return tensor.dtype if tensor is not None else "float32"

    def has_input(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] is not None

    def value(self, index: int) -> np.ndarray | None:
        return self.values[index] if index < len(self.values) else None

    def int_attribute(self, name: str, default: int) -> int:
        return int(cast(int, self.node.attributes.get(name, default)))

    def str_attribute(self, name: str, default: str) -> str:
        return str(self.node.attributes.get(name, default))

    def ints(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        found = self.node.attributes.get(name)
        return default if found is None else tuple(map(int, cast("tuple[int, ...]", found)))

    def ints_from(self, attribute: str, index: int) -> tuple[int, ...] | None:
        """Integers that older opsets give as an attribute and newer ones as a constant input."""
        if attribute in self.node.attributes:
            return self.ints(attribute, ())
        value = self.value(index)
        if value is not None:
            return tuple(map(int, value.reshape(-1).tolist()))
        if self.has_input(index):
            raise ModelError(
                f"node '{self.node.name}' ({self.node.op_type}) computes its '{attribute}' at run time; "
                "static shapes need it constant"
            )
        return None

    def fail(self, problem: str) -> ModelError:
        shapes = ", ".join("-" if tensor is None else str(list(tensor.shape)) for tensor in self.inputs)
        return ModelError(f"node '{self.node.name}' ({self.node.op_type}) with inputs {shapes}: {problem}")


InferShapes = Callable[[OperatorView], "list[Tensor]"]
CountFlops = Callable[[OperatorView], int]


def no_flops(view: OperatorView) -> int:
    """For operators that only move data."""
    return 0


@dataclass(frozen=True, slots=True)
class Operator:
    """An entry of the table.

    Attributes:
        op_type: Its name in ONNX files.
        infer: Its outputs.
        flops: Of one node; a multiply-accumulate is two.
        macs: Multiply-accumulates, for operators whose work is matrix products.
        domain: In which ONNX files have it; empty for ONNX's own operators.
    """

    op_type: str
    infer: InferShapes
    flops: CountFlops = no_flops
    macs: CountFlops = no_flops
    domain: str = ""


OPERATORS: Registry[Operator] = Registry("operator", {}, group="latcast.operators")
"""The table, by ``op_type``; the modules beside this one fill it."""


def define(*op_types: str, infer: InferShapes, flops: CountFlops = no_flops, macs: CountFlops = no_flops) -> None:
    """Adds operators that share their functions; ``macs`` is for those whose work is matrix products."""
    for op_type in op_types:
        OPERATORS.register(op_type, Operator(op_type, infer, flops, macs))


def lookup(op_type: str) -> Operator | None:
    """The entry of an operator, or None where the table has none."""
    return OPERATORS.find(op_type)


def known_operators() -> list[str]:
    return OPERATORS.names()


def view_of(graph: Graph, node: Node) -> OperatorView:
    """An operator's view inside a finished graph."""
    return view_among(node, graph.tensors, graph.constants, tuple(graph.tensors[name] for name in node.outputs if name))


def view_among(
    node: Node, tensors: Mapping[str, Tensor], constants: Mapping[str, np.ndarray], outputs: tuple[Tensor, ...] = ()
) -> OperatorView:
    """An operator's view among these tensors; without ``outputs``, they are not known yet."""
    return OperatorView(
        node,
        tuple([tensors[name] if name else None for name in node.inputs]),
        tuple(map(constants.get, node.inputs)),
        outputs,
    )


def node_flops(graph: Graph, node: Node) -> int | None:
    """FLOPs of one node (a multiply-accumulate is two), or None for an operator outside the table."""
    entry = lookup(node.op_type)
    return None if entry is None else entry.flops(view_of(graph, node))


def node_macs(graph: Graph, node: Node) -> int:
    """Multiply-accumulates of one node; none for an operator outside the table."""
    entry = lookup(node.op_type)
    return 0 if entry is None or entry.macs is no_flops else entry.macs(view_of(graph, node))


PICKING = frozenset({"Gather", "GatherElements", "GatherND", "Slice"})
"""Operators that read of their first input what they write and no more: a row of an embedding, not the table."""


def node_bytes(graph: Graph, node: Node) -> float:
    """Bytes that a node reads (activations, weights, constants) and writes."""
    names = (*node.outputs[:1], *node.inputs[1:]) if node.op_type in PICKING else node.inputs
    tensors = [graph.tensors[name] for name in (*names, *node.outputs) if name]
    return float(sum(tensor.size_bytes for tensor in tensors))


def node_parameters(graph: Graph, node: Node) -> int:
    """Learned values that a node reads."""
    return sum(graph.tensors[name].elements for name in node.inputs if name in graph.weights)


def graph_flops(graph: Graph) -> int:
    """FLOPs of a network; operators outside the table count nothing (``unknown_operators`` lists them)."""
    return sum(node_flops(graph, node) or 0 for node in graph.nodes)


def graph_macs(graph: Graph) -> int:
    """Multiply-accumulates of convolutions and matrix products: what papers print as "FLOPs" or "Mult-Adds"."""
    return sum(node_macs(graph, node) for node in graph.nodes)


def unknown_operators(graph: Graph) -> list[str]:
    """Operators of the graph that have no entry in the table, sorted."""
    return sorted({node.op_type for node in graph.nodes if node.op_type not in OPERATORS})
