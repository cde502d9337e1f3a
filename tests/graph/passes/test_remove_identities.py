"""Operators that give their input back go; those that only look as if they did stay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from latcast.graph import Graph, GraphBuilder
from latcast.graph.passes import remove_dead_nodes, remove_identities
from latcast.graph.passes.remove_identities import merge_reshapes
from tests.graph.running import run

Build = Callable[[GraphBuilder, str], str]


def scalar(b: GraphBuilder, value: float) -> str:
    return b.constant(value, dtype="float32")


def between(build: Build, shape: tuple[int, ...] = (1, 4, 6, 6)) -> Graph:
    """The operator between a sigmoid and a negation."""
    b = GraphBuilder("between")
    return b.finish(b.op("Neg", [build(b, b.sigmoid(b.input(shape)))])[0])


IDENTITIES: dict[str, Build] = {
    "identity": lambda b, x: b.op("Identity", [x])[0],
    "dropout": lambda b, x: b.op("Dropout", [x])[0],
    "cast to the same type": lambda b, x: b.op("Cast", [x], {"to": 1})[0],
    "reshape to the same shape": lambda b, x: b.reshape(x, (1, 4, 6, 6)),
    "flatten of two axes": lambda b, x: b.op("Expand", [x, b.constant([1, 1, 1, 1], dtype="int64")])[0],
    "transpose without change": lambda b, x: b.transpose(x, (0, 1, 2, 3)),
    "pad of nothing": lambda b, x: b.pad(x, [0] * 8),
    "slice of everything": lambda b, x: b.slice(x, (0,), (99,), (2,)),
    "concatenation of one": lambda b, x: b.concat([x]),
    "split into one": lambda b, x: b.split(x, (4,))[0],
    "resize to the same size": lambda b, x: b.resize(x, 6),
    "sum of one": lambda b, x: b.op("Sum", [x])[0],
    "tile once": lambda b, x: b.op("Tile", [x, b.constant([1, 1, 1, 1], dtype="int64")])[0],
    "add zero": lambda b, x: b.add(x, scalar(b, 0)),
    "zero and it": lambda b, x: b.add(scalar(b, 0), x),
    "subtract zero": lambda b, x: b.sub(x, scalar(b, 0)),
    "times one": lambda b, x: b.mul(scalar(b, 1), x),
    "divide by one": lambda b, x: b.div(x, scalar(b, 1)),
    "to the power of one": lambda b, x: b.op("Pow", [x, scalar(b, 1)])[0],
    "clip without bounds": lambda b, x: b.op("Clip", [x])[0],
    "pool of one": lambda b, x: b.max_pool(x, 1, 1),
}

CHANGES: dict[str, Build] = {
    "cast to another type": lambda b, x: b.op("Cast", [b.op("Cast", [x], {"to": 10})[0]], {"to": 1})[0],
    "transpose of equal sizes": lambda b, x: b.transpose(x, (0, 1, 3, 2)),
    "slice backwards": lambda b, x: b.op("Slice", [x, *(b.constant([n], dtype="int64") for n in (-1, -(2**31), 3, -1))])[0],
    "pad and crop": lambda b, x: b.pad(x, [0, 0, 1, 0, 0, 0, -1, 0]),
    "one minus it": lambda b, x: b.sub(scalar(b, 1), x),
    "one over it": lambda b, x: b.div(scalar(b, 1), x),
    "zero minus it": lambda b, x: b.sub(scalar(b, 0), x),
    "one to its power": lambda b, x: b.op("Pow", [scalar(b, 1), x])[0],
    "add zeros that broadcast": lambda b, x: b.add(x, b.constant(np.zeros((3, 1, 1, 1)), dtype="float32")),
    "add a weight": lambda b, x: b.add(x, b.weight((4, 1, 1))),
    "clip": lambda b, x: b.clip(x, 0.4, 0.5),
    "pool with steps": lambda b, x: b.max_pool(x, 1, 2),
    "pool over neighbours": lambda b, x: b.max_pool(x, 3, 1, 1),
}


@pytest.mark.parametrize("name", sorted(IDENTITIES))
def test_an_operator_that_does_nothing_is_removed(name: str) -> None:
    graph = between(IDENTITIES[name])

    simplified = remove_identities(graph)

    assert [node.op_type for node in simplified.nodes] == ["Sigmoid", "Neg"]
    assert not simplified.constants
    np.testing.assert_array_equal(run(simplified)[0], run(graph)[0])


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_an_operator_that_changes_something_stays(name: str) -> None:
    graph = between(CHANGES[name])

    assert remove_identities(graph) is graph
    without = between(lambda b, x: x)
    if name != "add a weight":
        assert not np.array_equal(run(graph)[0], run(without)[0])


def test_an_output_behind_an_identity_keeps_its_name() -> None:
    b = GraphBuilder("named")
    (y,) = b.op("Identity", [b.relu(b.input((1, 3)))], name="last")

    simplified = remove_identities(b.finish(y))

    assert simplified.outputs == ("last_out",)
    assert simplified.nodes[0].outputs == ("last_out",)


def test_two_outputs_that_are_the_same_become_one() -> None:
    b = GraphBuilder("twice")
    x = b.relu(b.input((1, 3)))

    simplified = remove_identities(b.finish(x, *b.op("Identity", [x])))

    assert simplified.outputs == (x,)


def test_an_identity_whose_second_output_is_read_stays() -> None:
    b = GraphBuilder("mask")
    x, mask = b.op("Dropout", [b.input((1, 3))], outputs=2)

    assert len(remove_identities(b.finish(b.relu(x), b.op("Not", [mask])[0])).nodes) == 3


def test_operators_that_no_output_needs_go_with_their_weights() -> None:
    b = GraphBuilder("dead")
    x = b.input((1, 3, 8, 8))
    b.conv(x, 4, 3)
    graph = b.finish(b.relu(x))

    simplified = remove_dead_nodes(graph)

    assert [node.op_type for node in simplified.nodes] == ["Relu"]
    assert simplified.parameter_count == 0
    assert set(simplified.tensors) == {"input", "relu_0_out"}


def test_an_input_that_nothing_reads_stays_an_input() -> None:
    b = GraphBuilder("unread")
    x, _ = b.input((1, 3)), b.input((1, 5))
    b.relu(x)

    simplified = remove_dead_nodes(b.finish(b.sigmoid(x)))

    assert simplified.inputs == ("input", "input_0")


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
