"""Networks as graphs: reading them from files, the operator table, building them in code, writing them back."""

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph, Node, Tensor, topological_order

__all__ = ["Graph", "GraphBuilder", "Node", "Tensor", "topological_order"]
