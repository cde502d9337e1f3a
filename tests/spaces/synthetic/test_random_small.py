"""Random networks on small images."""

from __future__ import annotations

from latcast.graph.operators import graph_macs
from latcast.spaces.synthetic import random_mixed
from latcast.spaces.synthetic.random_small import MAC_RANGE, SIZES, SPACE


def test_members_have_small_square_inputs_and_few_multiply_accumulates() -> None:
    members = SPACE.sample(12, 3)
    assert len({reference.key for reference in members}) == 12
    for reference in members:
        graph = SPACE.build(**reference.parameters)
        _, channels, height, width = graph.shape(graph.inputs[0])
        assert channels == 3
        assert height == width
        assert height in SIZES
        assert MAC_RANGE[0] <= graph_macs(graph) <= MAC_RANGE[1]


def test_a_smaller_sample_is_the_beginning_of_a_larger_one() -> None:
    assert SPACE.sample(3, 5) == SPACE.sample(6, 5)[:3]


def test_only_the_input_differs_from_the_mixed_network_of_the_same_seed() -> None:
    small, large = SPACE.build(seed=9, size=64), random_mixed.build(9)
    assert small.shape(small.inputs[0]) == (1, 3, 64, 64)
    assert large.shape(large.inputs[0])[2] > 64
    first = next(node for node in small.nodes if node.op_type == "Conv")
    same = next(node for node in large.nodes if node.op_type == "Conv")
    assert first.attributes == same.attributes
