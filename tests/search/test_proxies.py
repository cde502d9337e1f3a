"""Zero-cost proxies: numbers worked out by hand, and what every one of them promises."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

from latcast.errors import MissingExtraError
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.graph.weights import synthetic_weights
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.search.constrained_search import SearchPlan, search_encodings
from latcast.search.encodings import EncodingPredictor
from latcast.search.objective import CallableObjective, objective_named
from latcast.search.proxies import BATCH, PROXIES, WORST, independence, log_determinant, small_graph
from latcast.spaces.nas.supernet import SUPERNETS

pytest.importorskip("torch")

NO_PATH = "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|"
"""A cell that nothing gets through."""


def small_network(width: int = 4) -> Graph:
    """Convolution, normalisation, rectifier, classifier."""
    b = GraphBuilder("small")
    x = b.conv_bn(b.input((1, 3, 8, 8)), width, 3)
    return b.finish(b.linear(b.flatten(b.global_average_pool(x)), 5))


@pytest.mark.parametrize("name", PROXIES.names())
def test_a_score_is_finite_and_the_same_twice(name: str) -> None:
    proxy = PROXIES.get(name)
    score = proxy.score(small_network(), 3)

    assert proxy.name == name
    assert WORST < score < math.inf
    assert proxy.score(small_network(), 3) == score
    assert proxy.score(small_network(), 4) != score


@pytest.mark.parametrize("name", ["naswot", "snip", "synflow", "grad_norm"])
def test_wider_networks_score_higher(name: str) -> None:
    assert PROXIES.get(name).score(small_network(64), 0) > PROXIES.get(name).score(small_network(4), 0)


@pytest.mark.parametrize("name", ["jacob_cov", "naswot", "synflow"])
def test_a_network_without_flow_has_the_worst_score(name: str) -> None:
    cells = SUPERNETS.get("nas_bench_201")
    through = small_graph(cells, cells.decode(cells.sample_encodings(1, 0)[0]))
    nothing = small_graph(cells, {"cell": NO_PATH})

    assert PROXIES.get(name).score(nothing, 0) < PROXIES.get(name).score(through, 0)


def test_synaptic_flow_of_two_matrices_is_twice_their_flow() -> None:
    b = GraphBuilder("two matrices")
    graph = b.finish(b.linear(b.relu(b.linear(b.input((1, 3)), 4)), 2))
    first, second = (np.abs(weight) for weight in synthetic_weights(graph, seed=5).values() if weight.ndim == 2)
    if first.shape != (4, 3) and first.shape != (3, 4):
        first, second = second, first
    flow = (first.sum(axis=first.shape.index(3)) * second.sum(axis=second.shape.index(2))).sum()

    assert PROXIES.get("synflow").score(graph, 5) == pytest.approx(math.log10(2 * flow))


def test_codes_of_two_images_that_share_one_rectifier_of_three() -> None:
    assert log_determinant(np.array([[3.0, 1.0], [1.0, 3.0]])) == pytest.approx(math.log(8))
    assert log_determinant(np.array([[3.0, 3.0], [3.0, 3.0]])) == WORST


def test_gradients_at_right_angles_are_the_most_independent() -> None:
    at_right_angles = np.array([[1.0, -1.0, 1.0, -1.0], [1.0, 1.0, -1.0, -1.0]])

    assert independence(at_right_angles) == pytest.approx(-2 * (math.log(1 + 1e-5) + 1 / (1 + 1e-5)))
    assert independence(np.array([[1.0, -1.0, 1.0], [2.0, -2.0, 2.1]])) < independence(at_right_angles)
    assert independence(np.zeros((2, 4))) == WORST


def test_gradient_norm_and_snip_of_one_matrix_follow_from_the_softmax() -> None:
    b = GraphBuilder("one matrix")
    graph = b.finish(b.linear(b.input((1, 3)), 4))
    weights = synthetic_weights(graph, seed=2)
    matrix, bias = weights[graph.nodes[0].inputs[1]], weights[graph.nodes[0].inputs[2]]
    if not graph.nodes[0].attributes.get("transB", 0):
        matrix = matrix.T
    images = np.random.default_rng(2).standard_normal((BATCH, 3))
    labels = np.random.default_rng([2, 1]).integers(0, 4, BATCH)
    scores = np.exp(images @ matrix.T + bias)
    error = (scores / scores.sum(axis=1, keepdims=True) - np.eye(4)[labels]) / BATCH
    gradient = error.T @ images

    assert PROXIES.get("grad_norm").score(graph, 2) == pytest.approx(math.log10(np.linalg.norm(gradient)), abs=1e-5)
    assert PROXIES.get("snip").score(graph, 2) == pytest.approx(math.log10(np.abs(gradient * matrix).sum()), abs=1e-5)


def test_images_are_a_quarter_and_their_order_stays() -> None:
    supernet = SUPERNETS.get("ofa_mobilenet_v3")
    given = supernet.decode(supernet.sample_encodings(1, 0)[0])
    sides = [small_graph(supernet, {**given, "resolution": side}).shape("input")[2] for side in (128, 160, 224)]

    assert sides == [32, 40, 56]


def test_a_transformer_has_fewer_tokens() -> None:
    supernet = SUPERNETS.get("autoformer")
    graph = small_graph(supernet, supernet.decode(supernet.sample_encodings(1, 0)[0]))

    assert graph.shape("input") == (1, 3, 56, 56)
    assert {graph.shape(node.outputs[0])[1] for node in graph.nodes if node.op_type == "LayerNormalization"} == {10}


def test_a_proxy_is_an_objective_that_is_asked_once_for_each_network(platform: PlatformPredictor) -> None:
    cells = EncodingPredictor(platform, "nas_bench_201")
    objective = objective_named("naswot", cells, seed=1)
    encodings = cells.supernet.distinct_encodings(2, 0)

    values = objective.values(np.concatenate([encodings, encodings]))

    assert isinstance(objective, CallableObjective)
    assert objective.costly
    assert len(objective.known) == 2
    expected = [PROXIES.get("naswot").score(small_graph(cells.supernet, cells.supernet.decode(row)), 1) for row in encodings]
    assert values.tolist() == [*expected, *expected]


def test_a_search_for_a_proxy_finds_networks_within_the_limit(platform: PlatformPredictor) -> None:
    cells = EncodingPredictor(platform, "nas_bench_201")
    limit_ms = float(np.median(cells.latencies_ms(cells.supernet.sample_encodings(50, 0))))

    found = search_encodings(cells, objective_named("synflow", cells), SearchPlan(limit_ms, False, evaluations=24, population=8))

    assert len(found.front) > 0
    assert found.front.latency_ms.max() <= limit_ms
    assert (found.objective, found.exhaustive) == ("synflow", False)


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)

    with pytest.raises(MissingExtraError, match=r"pip install 'latcast\[torch\]'"):
        PROXIES.get("naswot").score(small_network(), 0)
