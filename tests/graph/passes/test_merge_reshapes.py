"""Several reshapes in a row are one."""

from __future__ import annotations

import numpy as np

from latcast.graph import GraphBuilder
from latcast.graph.passes.merge_reshapes import merge_reshapes
from tests.graph.running import run


def test_the_last_of_a_chain_of_reshapes_remains() -> None:
    b = GraphBuilder("chain")
    x = b.relu(b.input((1, 4, 1, 6)))
    axes = b.constant([2], dtype="int64")
    x = b.reshape(b.flatten(b.op("Squeeze", [x, axes])[0]), (1, 2, 12))
    graph = b.finish(b.sigmoid(x))

    merged = merge_reshapes(graph)

    assert [node.op_type for node in merged.nodes] == ["Relu", "Reshape", "Sigmoid"]
    np.testing.assert_array_equal(run(merged)[0], run(graph)[0])


def test_a_reshape_in_between_stays_for_its_other_reader() -> None:
    b = GraphBuilder("shared")
    x = b.flatten(b.relu(b.input((1, 4, 6))))
    graph = b.finish(b.sigmoid(b.reshape(x, (6, 4))), b.op("Neg", [x])[0])

    merged = merge_reshapes(graph)

    assert sorted(node.op_type for node in merged.nodes) == ["Flatten", "Neg", "Relu", "Reshape", "Sigmoid"]


def test_single_reshapes_are_left_as_they_are() -> None:
    b = GraphBuilder("single")
    graph = b.finish(b.reshape(b.relu(b.input((1, 4, 6))), (6, 4)))

    assert merge_reshapes(graph) is graph
