"""Sizes counted on graphs and while networks are written down."""

from __future__ import annotations

import pytest

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder
from latcast.graph.size import NetworkSize, SizeCounter, size_of
from latcast.records import Reference
from latcast.spaces.catalogue import FAMILY_NAMES, build, family, size


def small_network(b: GraphBuilder) -> str:
    """A strided convolution, a gate, tokens with one layer of attention, a classifier."""
    x = b.conv_bn(b.input((2, 3, 8, 8)), 4, 3, stride=2, activation="gelu")
    x = b.squeeze_excite(x, 2)
    tokens = b.transpose(b.reshape(x, (2, 4, 16)), (0, 2, 1))
    tokens = b.add(tokens, b.attention(b.layer_norm(tokens), 2, biases=[b.weight((2, 16, 16))]))
    return b.linear(b.flatten(b.reduce_mean(tokens, (1,), keepdims=False)), 10)


def test_a_network_is_counted_as_worked_out_by_hand() -> None:
    counter = SizeCounter("small")
    out = small_network(counter)

    convolution, gate = 2 * 4 * 4 * (4 * 3 * 9), 2 * (4 * 2 + 2 * 4)
    attention = 2 * 16 * 4 * 12 + 2 * (2 * 16 * 16 * 4) + 2 * 16 * 4 * 4
    learned = 4 * 3 * 9 + 4 * 4, 2 * 4 + 2 + 4 * 2 + 4, 2 * 4 + (4 * 12 + 12) + 2 * 16 * 16 + (4 * 4 + 4), 4 * 10 + 10
    assert counter.shape(out) == (2, 10)
    assert counter.counted == NetworkSize(convolution + gate + attention + 2 * 4 * 10, sum(learned))


def test_a_counter_counts_what_the_graph_of_the_same_calls_has() -> None:
    counter, b = SizeCounter("small"), GraphBuilder("small")
    small_network(counter)

    assert counter.counted == size_of(b.finish(small_network(b)))


def test_a_grouped_dilated_or_transposed_convolution_counts_as_its_graph_does() -> None:
    def network(b: GraphBuilder) -> str:
        x = b.conv(b.input((1, 8, 13, 9)), 12, (3, 5), stride=(2, 1), groups=4, dilation=2, bias=True)
        return b.max_pool(b.conv_transpose(x, 6), 3, 2, 1, ceil=True)

    counter, b = SizeCounter("windows"), GraphBuilder("windows")
    counted, built = network(counter), network(b)

    assert counter.shape(counted) == b.shape(built)
    assert counter.counted == size_of(b.finish(built))


@pytest.mark.parametrize(
    ("add", "problem"),
    [
        (lambda b, x: b.conv(x, 8, 9, padding=0), "larger than its padded input"),
        (lambda b, x: b.conv(x, 8, 3, groups=3), "do not fit"),
        (lambda b, x: b.average_pool(x, 9), "larger than its padded input"),
        (lambda b, x: b.reshape(x, (1, 5, 64)), "cannot reshape"),
        (lambda b, x: b.add(x, b.weight((3, 1, 1))), "do not broadcast"),
        (lambda b, x: b.activation(x, "swoosh"), "no activation"),
    ],
)
def test_a_counter_refuses_what_a_builder_refuses(add: object, problem: str) -> None:
    for b in (GraphBuilder("wrong"), SizeCounter("wrong")):
        x = b.input((1, 4, 8, 8))
        with pytest.raises(ModelError, match=problem):
            add(b, x)  # type: ignore[operator]


def test_a_tensor_that_is_broadcast_to_the_second_has_its_shape() -> None:
    counter = SizeCounter("wide")
    narrow, wide = counter.input((1, 4, 1, 1)), counter.input((1, 4, 8, 8))

    assert counter.shape(counter.mul(narrow, wide)) == (1, 4, 8, 8)
    assert counter.shape(counter.mul(wide, narrow)) == (1, 4, 8, 8)


@pytest.mark.parametrize("name", FAMILY_NAMES)
def test_members_of_families_are_counted_as_they_are_built(name: str) -> None:
    published = next(iter(family(name).published.values()))
    for reference in (Reference(name, published.parameters), *family(name).sample(2, 0)):
        assert size(reference) == size_of(build(reference))
