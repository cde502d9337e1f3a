"""The graph network: kernels and their data flow in, latencies out."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from latcast.errors import MissingExtraError, TrainingError
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.kernels.search import find_kernels
from papers.nn_meter.graph_network import KernelGraph, fit_graph_network, kernel_graph
from tests.predictors.made_up_platform import RULES

torch = pytest.importorskip("torch", reason="needs the extra 'torch'")


def residual(width: int, depth: int, size: int = 8) -> Graph:
    b = GraphBuilder("residual")
    x = b.conv(b.input((1, 3, size, size)), width, 3)
    for _ in range(depth):
        x = b.add(b.conv(x, width, 3), x)
    return b.finish(b.global_average_pool(x))


def encoded(graph: Graph) -> KernelGraph:
    return kernel_graph(graph, find_kernels(graph, RULES))


NETWORKS = [encoded(residual(width, depth)) for width in (8, 12, 16, 24, 32, 48) for depth in (1, 2, 3, 4)]
LATENCY_MS = np.array([width * width * depth / 1e3 + 0.1 for width in (8, 12, 16, 24, 32, 48) for depth in (1, 2, 3, 4)])


def test_kernels_are_joined_where_data_flows_and_all_feed_the_global_node() -> None:
    graph = residual(8, 1)
    kernels = find_kernels(graph, RULES)
    place = {kernel.nodes[0]: index for index, kernel in enumerate(kernels)}
    edges = set(zip(*kernel_graph(graph, kernels).edges.tolist(), strict=True))
    whole = len(kernels)
    assert {(index, index) for index in range(whole + 1)} <= edges
    assert {(index, whole) for index in range(whole)} <= edges
    flows = {(a, b) for a, b in edges if a != b and b != whole}
    first, second = place["conv_0"], place["conv_1"]
    assert (first, second) in flows
    last = [index for index, kernel in enumerate(kernels) if "globalaveragepool_0" in kernel.nodes]
    assert all(b <= last[0] for _, b in flows)


def test_the_global_node_knows_the_totals() -> None:
    one, two = encoded(residual(16, 1)), encoded(residual(16, 2))
    # FLOPs, moved, weights and count are the columns before the five fields; each is a logarithm.
    assert (two.features[-1, -9:-5] > one.features[-1, -9:-5]).all()
    assert np.expm1(one.features[-1, -6]) == pytest.approx(len(one.features) - 1)


def test_it_learns_what_networks_of_its_kind_take() -> None:
    fitted = fit_graph_network(NETWORKS, LATENCY_MS, seed=1, epochs=60)
    error = np.abs(fitted.latency_ms(NETWORKS) / LATENCY_MS - 1)
    assert error.mean() < 0.25
    assert fitted.latency_ms([]).shape == (0,)


def test_the_same_seed_gives_the_same_network_and_leaves_other_streams_alone() -> None:
    torch.manual_seed(5)
    before = torch.rand(3)
    torch.manual_seed(5)
    first = fit_graph_network(NETWORKS, LATENCY_MS, seed=3, epochs=3)
    assert torch.equal(torch.rand(3), before)
    again = fit_graph_network(NETWORKS, LATENCY_MS, seed=3, epochs=3)
    other = fit_graph_network(NETWORKS, LATENCY_MS, seed=4, epochs=3)
    assert np.array_equal(first.latency_ms(NETWORKS), again.latency_ms(NETWORKS))
    assert not np.array_equal(first.latency_ms(NETWORKS), other.latency_ms(NETWORKS))


def test_predictions_do_not_depend_on_the_company() -> None:
    fitted = fit_graph_network(NETWORKS, LATENCY_MS, epochs=2)
    together = fitted.latency_ms(NETWORKS)
    alone = [fitted.latency_ms([network])[0] for network in NETWORKS]
    assert together == pytest.approx(alone, rel=1e-4)


def test_too_few_networks_are_refused() -> None:
    with pytest.raises(TrainingError, match="at least 10 measured networks, found 3"):
        fit_graph_network(NETWORKS[:3], LATENCY_MS[:3])


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"latcast\[torch\]"):
        fit_graph_network(NETWORKS, LATENCY_MS)
