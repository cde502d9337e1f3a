"""Networks with one thing changed are the networks that would have been built so."""

from __future__ import annotations

import pytest

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder
from latcast.graph.edits import (
    activations,
    channel_groups,
    foldable_batch_norms,
    large_convolutions,
    smaller_images,
    with_channels,
    with_relu,
    with_small_kernels,
    without_batch_norms,
)
from latcast.graph.ir import Graph
from latcast.spaces.catalogue import build, model


def residual(channels: int, inner: int = 24, *, kernel: int = 3, activation: str = "relu", norm: bool = True) -> Graph:
    """A stem, a block around which the stem's maps are led, a depthwise convolution and a classifier."""
    b = GraphBuilder("residual")

    def conv(x: str, width: int, size: int, groups: int = 1) -> str:
        x = b.conv(x, width, size, groups=groups, bias=not norm)
        return b.batch_norm(x) if norm else x

    x = b.activation(conv(b.input((1, 3, 64, 64)), channels, 3), activation)
    y = b.activation(conv(x, inner, kernel), activation)
    y = conv(y, channels, 1)
    x = b.activation(b.add(x, y), activation)
    x = b.activation(conv(x, channels, kernel, groups=channels), activation)
    return b.finish(b.linear(b.flatten(b.global_average_pool(x)), 10))


def same(one: Graph, other: Graph) -> bool:
    return one.structure_key == other.structure_key


def test_sums_and_depthwise_convolutions_tie_channels() -> None:
    groups = channel_groups(residual(30))

    assert [(group.channels, group.makers) for group in groups] == [(30, ("conv_0", "conv_2")), (24, ("conv_1",))]


def test_other_channels_give_the_network_that_is_built_with_them() -> None:
    outer, inner = channel_groups(residual(30))

    assert same(with_channels(residual(30), dict.fromkeys(outer.makers, 32)), residual(32))
    assert same(with_channels(residual(30), dict.fromkeys(inner.makers, 16)), residual(30, 16))


def test_a_concatenation_has_the_channels_of_its_parts() -> None:
    def network(first: int) -> Graph:
        b = GraphBuilder("branches")
        x = b.conv(b.input((1, 3, 16, 16)), 8, 3)
        x = b.batch_norm(b.concat([b.conv(x, first, 1), b.conv(x, 12, 1)]))
        return b.finish(b.linear(b.reshape(b.global_average_pool(x), (1, first + 12)), 10))

    groups = channel_groups(network(10))

    assert [group.makers for group in groups] == [("conv_0",), ("conv_1",), ("conv_2",)]
    changed = with_channels(network(10), {"conv_1": 16})
    assert same(changed, network(16))
    assert changed.shape(changed.nodes[-1].inputs[0]) == (1, 28)


def test_channels_that_a_split_holds_are_refused() -> None:
    b = GraphBuilder("split")
    x = b.conv(b.input((1, 3, 16, 16)), 10, 3)
    left, right = b.split(x, (4, 6))
    graph = b.finish(b.conv(b.concat([left, right]), 4, 1))

    assert channel_groups(graph) == []
    with pytest.raises(ModelError, match=r"split_0.*may hold numbers of channels"):
        with_channels(graph, {"conv_0": 12})


def test_the_channels_of_an_output_stay() -> None:
    b = GraphBuilder("output")
    graph = b.finish(b.relu(b.conv(b.input((1, 3, 16, 16)), 10, 3)))

    assert channel_groups(graph) == []
    with pytest.raises(ModelError, match="other outputs"):
        with_channels(graph, {"conv_0": 12})


def test_another_activation_is_replaced_however_it_is_spelled() -> None:
    for function, places in (("hard_swish", 4), ("silu", 4), ("gelu", 4), ("leaky_relu", 4)):
        graph = residual(16, activation=function)

        assert {name: len(found) for name, found in activations(graph).items()} == {function: places}
        assert same(with_relu(graph, function), residual(16))
    assert activations(residual(16)) == {}
    assert with_relu(residual(16), "silu") == residual(16)


def test_gates_are_not_replaced_as_activations() -> None:
    b = GraphBuilder("gated")
    graph = b.finish(b.squeeze_excite(b.conv(b.input((1, 3, 16, 16)), 8, 3), 4))

    assert activations(graph) == {}


def test_batch_normalisations_are_folded_where_a_convolution_alone_is_before_them() -> None:
    graph = residual(16)

    assert [node.name for node in foldable_batch_norms(graph)] == [f"batchnormalization_{index}" for index in range(4)]
    assert same(without_batch_norms(graph), residual(16, norm=False))
    b = GraphBuilder("before")
    x = b.conv(b.input((1, 3, 16, 16)), 8, 3)
    stays = b.finish(b.add(b.conv(b.batch_norm(x), 8, 3), x))
    assert foldable_batch_norms(stays) == []


def test_large_kernels_become_small_ones() -> None:
    graph = residual(16, kernel=5)

    assert [node.name for node in large_convolutions(graph, depthwise=True)] == ["conv_3"]
    assert [node.name for node in large_convolutions(graph, depthwise=False)] == ["conv_1"]
    assert same(with_small_kernels(with_small_kernels(graph, depthwise=True), depthwise=False), residual(16))
    assert large_convolutions(build(model("resnet18")), depthwise=False) == []  # the stem alone is 7x7


def test_images_are_an_eighth_smaller() -> None:
    assert smaller_images(build(model("resnet18"))) == {"input": (1, 3, 192, 192)}
    b = GraphBuilder("wide")
    assert smaller_images(b.finish(b.relu(b.input((1, 3, 480, 640))))) == {"input": (1, 3, 416, 544)}
    b = GraphBuilder("small")
    assert smaller_images(b.finish(b.relu(b.input((1, 3, 32, 32))))) == {}
