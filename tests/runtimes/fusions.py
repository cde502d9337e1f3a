"""The fused kernels of the contract's networks, where runtimes agree, and the cover of a network by its kernels."""

from __future__ import annotations

from collections.abc import Iterable

from latcast.graph.ir import Graph
from latcast.records import ExecutedKernel
from latcast.runtimes.kernel_assignment import VIEWS, duplicates


def fused(kernels: Iterable[ExecutedKernel]) -> set[str]:
    """Every kernel of several operators as one string."""
    return {" ".join(kernel.nodes) for kernel in kernels if len(kernel.nodes) > 1}


def check_cover(graph: Graph, kernels: Iterable[ExecutedKernel]) -> None:
    """Check that each node is in one kernel at most, and in one at least unless it is a view or an equal one is computed."""
    listed = [name for kernel in kernels for name in kernel.nodes]
    assert len(listed) == len(set(listed))
    same = duplicates(graph)
    computed = {same[name] for name in listed}
    assert not [node for node in graph.nodes if node.op_type not in VIEWS and same[node.name] not in computed]


CONVOLUTIONS = {
    "conv_stack": {"conv_0 batchnormalization_0 relu_0", "conv_1 relu_1", "conv_2 batchnormalization_1"},
    "residual": {
        "conv_0 batchnormalization_0 relu_0",
        "conv_1 batchnormalization_1 relu_1",
        "conv_2 batchnormalization_2 add_0 relu_2",
    },
    "depthwise": {
        "conv_0 batchnormalization_0 clip_0",
        "conv_1 batchnormalization_1 clip_1",
        "conv_2 batchnormalization_2 clip_2",
        "conv_3 batchnormalization_3 add_0",
        "conv_4 batchnormalization_4 clip_3",
        "conv_5 batchnormalization_5 clip_4",
    },
    "concat_pool": {f"conv_{i} batchnormalization_{i} relu_{i}" for i in range(5)},
    "channel_shuffle": {
        "conv_0 batchnormalization_0 relu_0",
        "conv_1 batchnormalization_1 relu_1",
        "conv_2 batchnormalization_2",
        "conv_3 batchnormalization_3 relu_2",
    },
}
"""Network to its fused kernels, where sums are fused as well."""
