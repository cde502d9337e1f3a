"""Building graphs in code: names, shapes, and errors at the line that made them."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

from latcast.errors import ModelError, UnknownOperatorError
from latcast.graph import GraphBuilder, builder
from tests.graph.running import run


def test_the_example_of_the_documentation_holds() -> None:
    assert doctest.testmod(builder).failed == 0


def test_every_node_and_tensor_has_a_name_of_its_own() -> None:
    b = GraphBuilder("names")
    x = b.input((1, 3, 16, 16))
    for _ in range(3):
        x = b.squeeze_excite(b.conv_bn(x, 8), 4)
    graph = b.finish(b.attention(b.transpose(b.reshape(x, (1, 8, 256)), (0, 2, 1)), 2))

    assert len({node.name for node in graph.nodes}) == len(graph.nodes)
    outputs = [name for node in graph.nodes for name in node.outputs]
    assert len(set(outputs)) == len(outputs)


def test_shapes_are_known_as_operators_are_added() -> None:
    b = GraphBuilder("shapes")
    x = b.input((1, 3, 33, 20))

    assert b.shape(b.conv(x, 8, 3, stride=2)) == (1, 8, 17, 10)
    assert b.shape(b.conv(x, 8, 3, padding=0)) == (1, 8, 31, 18)
    assert b.shape(b.conv(x, 8, (1, 5), dilation=2)) == (1, 8, 33, 20)
    assert b.shape(b.max_pool(x, 3, 2)) == (1, 3, 16, 9)
    assert b.shape(b.max_pool(x, 3, 2, ceil=True)) == (1, 3, 16, 10)
    assert b.shape(b.conv_transpose(x, 4)) == (1, 4, 66, 40)
    assert b.shape(b.resize(x, (10, 40))) == (1, 3, 10, 40)
    assert b.shape(b.flatten(x)) == (1, 1980)
    assert [b.shape(part) for part in b.split(x, (1, 2))] == [(1, 1, 33, 20), (1, 2, 33, 20)]


def test_an_activation_is_added_by_name_and_none_leaves_the_tensor_alone() -> None:
    b = GraphBuilder("activations")
    x = b.input((1, 3))

    assert b.activation(x, None) == x
    for kind, count in {"relu": 1, "relu6": 1, "silu": 2, "gelu": 5, "hard_swish": 1, "leaky_relu": 1}.items():
        before = len(b.finish(x).nodes)
        b.activation(x, kind)
        assert len(b.finish(x).nodes) - before == count
    with pytest.raises(ModelError, match=r"no activation is called 'rleu'; expected one of relu"):
        b.activation(x, "rleu")


def test_a_channel_shuffle_interleaves_its_groups() -> None:
    b = GraphBuilder("shuffle")
    graph = b.finish(b.channel_shuffle(b.input((1, 6, 1, 1)), 2))
    values = np.arange(6, dtype=np.float32).reshape(1, 6, 1, 1)

    (shuffled,) = run(graph, feeds={"input": values})

    assert shuffled.reshape(-1).tolist() == [0, 3, 1, 4, 2, 5]


def test_shapes_that_do_not_fit_fail_where_they_are_made() -> None:
    b = GraphBuilder("wrong")
    x = b.input((1, 3, 8, 8))

    with pytest.raises(ModelError, match="3 input channels do not fit"):
        b.conv(x, 8, groups=2)
    with pytest.raises(ModelError, match="cannot reshape 192 elements"):
        b.reshape(x, (1, 100))
    with pytest.raises(ModelError, match="do not broadcast"):
        b.add(x, b.weight((5, 8, 8)))
    with pytest.raises(ModelError, match="empty output of shape"):
        b.slice(x, (4,), (4,), (2,))


def test_an_operator_outside_the_table_is_refused() -> None:
    b = GraphBuilder("unknown")

    with pytest.raises(UnknownOperatorError, match="no 'Convolve'"):
        b.op("Convolve", [b.input((1, 3))])
