"""Shipped fusion rules beside the kernels that the runtimes themselves say they executed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.rule_agreement import edge_agreement
from latcast.environment import cpu_description
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.kernels.rules import FusionRules, rules_for
from latcast.kernels.search import find_kernels
from latcast.records import ExecutedKernel, short_version
from latcast.runtimes import RUNTIMES, get_runtime
from latcast.spaces.catalogue import build, model
from latcast.testing.contracts.runtimes import loaded

RULES = FusionRules("made up", pairs={"conv": frozenset({"batch_normalization", "relu"})}, free=frozenset({"flatten"}))
BUSY = replace(RULES, free=frozenset())


@pytest.fixture
def graph() -> Graph:
    """conv_0, batchnormalization_0, relu_0, flatten_0, gemm_0: four edges."""
    b = GraphBuilder("small")
    return b.finish(b.linear(b.flatten(b.conv_bn(b.input((1, 3, 8, 8)), 4, 3)), 5))


def ran(*kernels: str) -> list[ExecutedKernel]:
    return [ExecutedKernel(nodes, "kind", tuple(nodes.split()), 0.1) for nodes in kernels]


def test_edges_are_compared_one_by_one(graph: Graph) -> None:
    executed = ran("conv_0 batchnormalization_0", "relu_0", "flatten_0 gemm_0")

    found = edge_agreement(graph, find_kernels(graph, BUSY), executed, BUSY)

    # Alike: conv-normalization fused, relu-flatten apart. The rules fuse the relu and leave the linear layer alone.
    assert (found.edges, found.agreed) == (4, 2)
    assert found.only_rules == {("batch_normalization", "relu"): 1}
    assert found.only_runtime == {("flatten", "linear"): 1}


def test_free_and_unreported_operators_are_left_out(graph: Graph) -> None:
    kernels = find_kernels(graph, RULES)
    free = edge_agreement(graph, kernels, ran("conv_0 batchnormalization_0", "relu_0", "flatten_0 gemm_0"), RULES)

    assert (free.edges, free.agreed) == (2, 1)
    assert edge_agreement(graph, kernels, ran("conv_0", "relu_0", "gemm_0"), BUSY).edges == 0


@pytest.mark.parametrize("name", ["mobilenet_v2_0_5", "squeezenet1_1", "ghostnet_x0_5", "regnet_x_400mf"])
@pytest.mark.parametrize("runtime_name", list(RUNTIMES.names()))
def test_shipped_rules_agree_with_what_the_runtime_executes(runtime_name: str, name: str) -> None:
    rules = rules_for(runtime_name, "fp32", cpu_flags=cpu_description()["flags"])
    runtime = get_runtime(runtime_name)
    if (reason := runtime.available()) is not None:
        pytest.skip(reason)
    if (version := short_version(runtime.version())) != rules.version:
        pytest.skip(f"the rules were checked against {runtime_name} {rules.version}, found {version}")
    graph = build(model(name))
    with loaded(runtime, graph, profile=True) as session:
        executed = session.executed_kernels(1)

    found = edge_agreement(graph, find_kernels(graph, rules), executed, rules)

    assert found.edges >= 50
    assert found.agreed / found.edges >= 0.95, f"by rules alone: {found.only_rules}, by the runtime alone: {found.only_runtime}"
