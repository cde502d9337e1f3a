"""Convolutions take over the padding before them."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.graph import GraphBuilder
from latcast.graph.ir import Graph
from latcast.graph.passes.fold_padding import fold_padding
from tests.graph.running import run


def op_types(graph: Graph) -> list[str]:
    return [node.op_type for node in graph.nodes]


def test_a_convolution_pads_what_an_operator_padded_before_it() -> None:
    b = GraphBuilder("uneven")
    x = b.pad(b.input((1, 3, 8, 8)), (0, 0, 0, 1, 0, 0, 2, 3))
    graph = b.finish(b.conv(x, 4, 3, stride=2, padding=1))

    folded = fold_padding(graph)

    assert op_types(folded) == ["Conv"]
    assert folded.nodes[0].attributes["pads"] == (1, 2, 3, 4)
    assert folded.shape(folded.outputs[0]) == graph.shape(graph.outputs[0])
    np.testing.assert_array_equal(run(folded)[0], run(graph)[0])


def test_two_convolutions_that_read_the_same_padding_both_pad() -> None:
    b = GraphBuilder("branches")
    x = b.pad(b.relu(b.input((1, 3, 6, 6))), (0, 0, 1, 1, 0, 0, 1, 1))
    graph = b.finish(b.add(b.conv(x, 4, 3), b.conv(x, 4, 3)))

    folded = fold_padding(graph)

    assert op_types(folded) == ["Relu", "Conv", "Conv", "Add"]
    np.testing.assert_array_equal(run(folded)[0], run(graph)[0])


def test_padding_that_something_else_reads_stays() -> None:
    b = GraphBuilder("shared")
    x = b.pad(b.input((1, 3, 6, 6)), (0, 0, 1, 1, 0, 0, 1, 1))
    graph = b.finish(b.conv(x, 4, 3), b.relu(x))

    assert fold_padding(graph) is graph


def test_padding_that_leaves_the_network_stays() -> None:
    b = GraphBuilder("output")
    x = b.pad(b.input((1, 3, 6, 6)), (0, 0, 1, 1, 0, 0, 1, 1))
    graph = b.finish(b.conv(x, 4, 3), x)

    assert fold_padding(graph) is graph


@pytest.mark.parametrize("pads", [(0, 1, 0, 0, 0, 0, 0, 0), (0, 0, -1, 0, 0, 0, 0, 0)], ids=["channels", "cropping"])
def test_padding_of_channels_and_cropping_stay(pads: tuple[int, ...]) -> None:
    b = GraphBuilder("other")
    graph = b.finish(b.conv(b.pad(b.input((1, 3, 6, 6)), pads), 4, 3))

    assert fold_padding(graph) is graph


def test_padding_with_another_value_than_zero_stays() -> None:
    b = GraphBuilder("ones")
    pads, one = b.constant([0, 0, 1, 1, 0, 0, 1, 1], dtype="int64"), b.constant(1.0, dtype="float32")
    graph = b.finish(b.conv(b.op("Pad", [b.input((1, 3, 6, 6)), pads, one])[0], 4, 3))

    assert fold_padding(graph) is graph


def test_reflected_padding_stays() -> None:
    b = GraphBuilder("reflected")
    pads = b.constant([0, 0, 1, 1, 0, 0, 1, 1], dtype="int64")
    graph = b.finish(b.conv(b.op("Pad", [b.input((1, 3, 6, 6)), pads], {"mode": "reflect"})[0], 4, 3))

    assert fold_padding(graph) is graph
