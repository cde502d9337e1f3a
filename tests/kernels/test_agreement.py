"""Fusion rules against executed kernels: made-up ones by hand, and those of the runtimes themselves."""

from __future__ import annotations

import pytest

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.kernels import FusionRules, find_kernels
from latcast.kernels.agreement import Agreement, edge_agreement, merge
from latcast.kernels.rules import rules_for
from latcast.records import ExecutedKernel, short_version
from latcast.runtimes import RUNTIMES, get_runtime
from latcast.spaces.catalogue import build, model
from latcast.testing.runtime_contract import loaded

RULES = FusionRules("made up", pairs={"conv": frozenset({"batch_normalization", "relu"})}, free=frozenset({"flatten"}))


@pytest.fixture
def graph() -> Graph:
    """conv_0, batchnormalization_0, relu_0, flatten_0, gemm_0: four edges."""
    b = GraphBuilder("small")
    return b.finish(b.linear(b.flatten(b.conv_bn(b.input((1, 3, 8, 8)), 4, 3)), 5))


def ran(*kernels: str) -> list[ExecutedKernel]:
    return [ExecutedKernel(nodes, "kind", tuple(nodes.split()), 0.1) for nodes in kernels]


def test_edges_are_compared_one_by_one(graph: Graph) -> None:
    executed = ran("conv_0 batchnormalization_0", "relu_0", "flatten_0 gemm_0")

    found = edge_agreement(graph, find_kernels(graph, RULES), executed)

    # Alike: conv-normalization fused, relu-flatten apart. The rules fuse the relu and leave the linear layer alone.
    assert (found.edges, found.agreed, found.share) == (4, 2, 0.5)
    assert found.only_predicted == {("batch_normalization", "relu"): 1}
    assert found.only_executed == {("flatten", "linear"): 1}


def test_free_operators_are_left_out(graph: Graph) -> None:
    executed = ran("conv_0 batchnormalization_0", "relu_0", "flatten_0 gemm_0")

    found = edge_agreement(graph, find_kernels(graph, RULES), executed, RULES.free)

    assert (found.edges, found.agreed) == (2, 1)


def test_operators_that_the_runtime_did_not_report_are_left_out(graph: Graph) -> None:
    found = edge_agreement(graph, find_kernels(graph, RULES), ran("conv_0", "relu_0", "gemm_0"))

    assert (found.edges, found.share) == (0, 1.0)


def test_parts_add_up() -> None:
    first = Agreement(4, 2, {("conv", "relu"): 1}, {})
    second = Agreement(6, 3, {("conv", "relu"): 2}, {("conv", "add"): 1})

    assert merge([first, second]) == Agreement(10, 5, {("conv", "relu"): 3}, {("conv", "add"): 1})


@pytest.mark.parametrize("name", ["mobilenet_v2_0_5", "squeezenet1_1", "ghostnet_x0_5", "regnet_x_400mf"])
@pytest.mark.parametrize("runtime_name", list(RUNTIMES.names()))
def test_shipped_rules_agree_with_what_the_runtime_executes(runtime_name: str, name: str) -> None:
    rules = rules_for(runtime_name, "fp32")
    runtime = get_runtime(runtime_name)
    if (reason := runtime.available()) is not None:
        pytest.skip(reason)
    if (version := short_version(runtime.version())) != rules.version:
        pytest.skip(f"the rules were checked against {runtime_name} {rules.version}, found {version}")
    graph = build(model(name))
    with loaded(runtime, graph, profile=True) as session:
        executed = session.executed_kernels(1)

    found = edge_agreement(graph, find_kernels(graph, rules), executed, rules.free)

    assert found.edges >= 50
    assert found.share >= 0.95, f"only predicted: {found.only_predicted}, only executed: {found.only_executed}"
