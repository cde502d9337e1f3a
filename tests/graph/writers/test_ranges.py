"""Ranges worked out without running: networks that are run stay mostly inside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.graph.weights import synthetic_weights
from latcast.graph.writers.ranges import activation_ranges
from latcast.testing.contracts.runtimes import contract_inputs
from latcast.testing.networks import CONTRACT_NETWORKS
from tests.graph.running import run
from tests.random_networks import random_network


def ranges_of(graph: Graph) -> dict[str, tuple[float, float]]:
    return dict(activation_ranges(graph, synthetic_weights(graph)))


def activations(graph: Graph) -> dict[str, np.ndarray]:
    """Return every tensor that a network computes from random inputs."""
    names = tuple(name for node in graph.nodes for name in node.outputs)
    return dict(zip(names, run(replace(graph, outputs=names), *contract_inputs(graph)), strict=True))


@pytest.mark.parametrize("network", sorted(CONTRACT_NETWORKS))
def test_values_neither_saturate_nor_vanish(network: str) -> None:
    graph = CONTRACT_NETWORKS[network]()
    ranges = ranges_of(graph)
    for name, values in activations(graph).items():
        low, high = ranges[name]
        outside = np.mean((values < low) | (values > high))
        assert outside <= 0.01, f"{outside:.1%} of {name} lie outside {low:.3g} to {high:.3g}"
        if name in graph.consumers and graph.consumers[name][0].op_type != "Softmax" and values.size > 64:
            used = (values.max() - values.min()) / (high - low)
            assert used >= 0.1, f"{name} uses {used:.1%} of its range"


def test_few_values_of_random_networks_saturate() -> None:
    for seed in range(10):
        graph = random_network(seed)
        ranges, found = ranges_of(graph), activations(graph)
        outside = sum(int(((v < ranges[n][0]) | (v > ranges[n][1])).sum()) for n, v in found.items())
        assert outside / sum(values.size for values in found.values()) < 0.01


def test_every_range_holds_zero_and_is_not_empty() -> None:
    for name, (low, high) in ranges_of(CONTRACT_NETWORKS["transformer_block"]()).items():
        assert low <= 0 <= high, name
        assert low < high, name


@pytest.mark.parametrize(
    ("spell", "low", "high"),
    [
        (lambda b, x: b.sigmoid(x), 0.0, 1.0),
        (lambda b, x: b.hard_sigmoid(x), 0.0, 1.0),
        (lambda b, x: b.softmax(x), 0.0, 1.0),
        (lambda b, x: b.clip(b.mul(x, b.constant(100.0, dtype="float32")), -2.0, 6.0), -2.0, 6.0),
        (lambda b, x: b.op("Clip", [x], {"min": -0.5, "max": 0.5})[0], -0.5, 0.5),
    ],
)
def test_bounded_operators_keep_their_bounds(spell: Callable[[GraphBuilder, str], str], low: float, high: float) -> None:
    b = GraphBuilder("bounded")
    output = spell(b, b.input((1, 16)))
    found = ranges_of(b.finish(output))[output]
    assert found[0] >= low
    assert found[1] <= high
    assert found[1] - found[0] > 0.3 * (high - low)


@pytest.mark.parametrize("kind", ["ReduceL1", "ReduceL2", "ReduceSumSquare"])
def test_a_norm_lies_in_its_range_and_fills_it(kind: str) -> None:
    b = GraphBuilder("norm")
    norm = b.op(kind, [b.input((1, 16, 10, 10))], {"axes": (2, 3), "keepdims": 0})[0]
    graph = b.finish(norm)

    low, high = ranges_of(graph)[norm]

    greatest = float(activations(graph)[norm].max())
    assert low == 0
    assert greatest < high < 4 * greatest


def test_values_grow_with_the_depth_of_a_network_without_normalisation() -> None:
    b = GraphBuilder("deep")
    x = b.input((1, 16, 8, 8))
    outputs = []
    for _ in range(6):
        x = b.conv(x, 16, 3)
        outputs.append(x)
    ranges = ranges_of(b.finish(x))
    # A linear layer of variance 2 / fan-in doubles the variance.
    assert ranges[outputs[-1]][1] / ranges[outputs[0]][1] == pytest.approx(2.0 ** (5 / 2), rel=0.5)
