"""The executed kernels of networks, and the cover of a network by them."""

from __future__ import annotations

from collections.abc import Iterable

from latcast.graph.ir import Graph, Node, Tensor
from latcast.records import ExecutedKernel
from latcast.runtimes.kernel_assignment import VIEWS, duplicates
from latcast.runtimes.protocol import Runtime
from latcast.testing.contracts.runtimes import loaded


def executed(runtime: Runtime, graph: Graph, precision: str = "fp32") -> tuple[ExecutedKernel, ...]:
    with loaded(runtime, graph, precision=precision, profile=True) as session:
        return session.executed_kernels(runs=2)


def check_cover(graph: Graph, kernels: Iterable[ExecutedKernel]) -> None:
    """Check that each node is in one kernel at most, and in one at least unless it is a view or an equal one is computed."""
    listed = [name for kernel in kernels for name in kernel.nodes]
    assert len(listed) == len(set(listed))
    same = duplicates(graph)
    computed = {same[name] for name in listed}
    assert not [node for node in graph.nodes if node.op_type not in VIEWS and same[node.name] not in computed]


def strange_operator() -> Graph:
    """A network of an operator that no runtime knows."""
    tensors = {"x": Tensor((1, 4)), "y": Tensor((1, 4))}
    return Graph("unheard_of", (Node("Unheard", "odd", ("x",), ("y",), domain="com.microsoft"),), ("x",), ("y",), tensors)
