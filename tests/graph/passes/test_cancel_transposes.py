"""Transposes that undo each other go, and what the network computes stays."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latcast.graph import Graph, GraphBuilder
from latcast.graph.passes import cancel_transposes, remove_identities
from tests.graph.op_types import op_types
from tests.graph.running import run

TO_FIRST, TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)


def transposes(graph: Graph) -> int:
    return op_types(graph).count("Transpose")


def conv_last(b: GraphBuilder, x: str, channels: int, *, stride: int = 1) -> str:
    """A convolution of a channels-last tensor, as tf2onnx writes it."""
    return b.transpose(b.conv(b.transpose(x, TO_FIRST), channels, 3, stride=stride), TO_LAST)


def channels_last_network() -> Graph:
    b = GraphBuilder("network")
    x = b.input((1, 16, 16, 3))
    x = b.relu(conv_last(b, x, 8))
    y = b.relu6(conv_last(b, x, 8))
    x = b.add(x, conv_last(b, y, 8))
    x = b.concat([x, b.sigmoid(x)], axis=3)
    x = b.pad(x, (0, 1, 1, 0, 0, 1, 1, 0))
    x = conv_last(b, x, 12, stride=2)
    x = b.reduce_mean(x, (1, 2), keepdims=False)
    return b.finish(b.linear(x, 10))


def channels_first_network() -> Graph:
    b = GraphBuilder("network")
    x = b.input((1, 3, 16, 16))
    x = b.relu(b.conv(x, 8, 3))
    y = b.relu6(b.conv(x, 8, 3))
    x = b.add(x, b.conv(y, 8, 3))
    x = b.concat([x, b.sigmoid(x)], axis=1)
    x = b.pad(x, (0, 0, 1, 1, 0, 0, 1, 1))
    x = b.conv(x, 12, 3, stride=2)
    x = b.reduce_mean(x, (2, 3), keepdims=False)
    return b.finish(b.linear(x, 10))


def test_a_channels_last_network_is_left_with_the_transpose_of_its_input() -> None:
    simplified = cancel_transposes(channels_last_network())

    assert transposes(channels_last_network()) == 8
    assert transposes(simplified) == 1
    assert simplified.producers[simplified.nodes[1].inputs[0]].op_type == "Transpose"
    assert Counter(op_types(simplified)) == {**Counter(op_types(channels_first_network())), "Transpose": 1}


def test_with_views_a_channels_last_network_equals_its_channels_first_sibling() -> None:
    last = channels_last_network()
    views = [node.name for node in last.nodes if node.op_type == "Transpose"]

    simplified = cancel_transposes(last, views=views)

    assert simplified.shape(simplified.inputs[0]) == (1, 3, 16, 16)
    assert simplified.inputs == last.inputs
    assert simplified.structure_key == channels_first_network().structure_key


def test_a_view_that_cannot_be_cancelled_becomes_a_reshape() -> None:
    b = GraphBuilder("flattened")
    x = conv_last(b, b.input((1, 8, 8, 3)), 4)
    graph = b.finish(b.linear(b.flatten(x), 10))

    simplified = cancel_transposes(graph, views=[node.name for node in graph.nodes if node.op_type == "Transpose"])

    assert Counter(op_types(simplified)) == {"Conv": 1, "Reshape": 1, "Gemm": 1}


def test_a_gate_that_comes_from_a_fully_connected_layer_is_reshaped_rather_than_transposed() -> None:
    b = GraphBuilder("gated")
    x = conv_last(b, b.input((1, 8, 8, 3)), 4)
    gate = b.reshape(b.sigmoid(b.linear(b.reduce_mean(x, (1, 2), keepdims=False), 4)), (1, 1, 1, 4))
    graph = b.finish(conv_last(b, b.mul(x, gate), 5))

    simplified = cancel_transposes(graph)

    # Left are those of the input and of the output; the gate's axes of size one move for nothing.
    assert transposes(simplified) == 2
    np.testing.assert_allclose(run(simplified)[0], run(graph)[0], rtol=1e-4, atol=1e-5)


def test_a_vector_of_weights_along_the_channels_follows_them() -> None:
    b = GraphBuilder("scaled")
    x = conv_last(b, b.input((1, 8, 8, 3)), 4)
    x = b.op("PRelu", [b.mul(x, b.weight((4,))), b.weight((1, 1, 4))])[0]
    graph = b.finish(conv_last(b, x, 5))

    simplified = cancel_transposes(graph)

    assert transposes(simplified) == 2
    scale, slope = (
        next(name for node in simplified.nodes if node.op_type == op_type for name in node.inputs if name in simplified.weights)
        for op_type in ("Mul", "PRelu")
    )
    assert simplified.shape(scale) == (4, 1, 1)
    assert simplified.shape(slope) == (4, 1, 1)
    assert simplified.parameter_count == graph.parameter_count


def test_a_transpose_that_gains_nothing_stays_in_place_beside_some_that_go() -> None:
    b = GraphBuilder("both")
    x = b.input((1, 4, 6))
    x = b.relu(b.transpose(x, (0, 2, 1)))
    x = b.matmul(x, b.weight((4, 4)))
    x = b.transpose(b.relu(b.transpose(x, (0, 2, 1))), (0, 2, 1))
    graph = b.finish(b.matmul(x, b.weight((4, 5))))

    simplified = cancel_transposes(graph)

    assert [node.op_type for node in simplified.nodes] == ["Transpose", "Relu", "MatMul", "Relu", "MatMul"]


def test_a_transpose_stays_for_one_reader_when_another_undoes_it() -> None:
    b = GraphBuilder("shared")
    x = b.transpose(b.input((2, 3, 4)), (1, 0, 2))
    graph = b.finish(b.matmul(x, b.weight((4, 5))), b.relu(b.transpose(x, (1, 0, 2))))

    simplified = cancel_transposes(graph)

    assert transposes(simplified) == 1
    for before, after in zip(run(graph), run(simplified), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-5)


KINDS = (
    *("transpose",) * 3,
    "unary", "scalar", "vector", "binary", "concat", "split", "softmax", "reduce", "argmax", "pad", "slice", "resize",
    "reshape", "matmul", "clip",
)  # fmt: skip


@st.composite
def random_graphs(draw: st.DrawFn) -> Graph:
    """Transposes between operators that they may be pushed through, with several branches."""
    b = GraphBuilder("random")
    live = [b.input((1, 2, 3, 4)), b.input((1, 2, 3, 4))]
    for _ in range(draw(st.integers(2, 12))):
        x = draw(st.sampled_from(live))
        shape = b.shape(x)
        rank = len(shape)
        axis = draw(st.integers(0, max(rank - 1, 0)))
        kind = draw(st.sampled_from(KINDS))
        if kind == "transpose" and rank:
            y = b.transpose(x, draw(st.permutations(range(rank))))
        elif kind == "unary":
            y = draw(st.sampled_from((b.relu, b.sigmoid, b.hard_swish)))(x)
        elif kind == "clip":
            y = b.clip(x, -0.5, 0.5)
        elif kind == "scalar":
            y = b.mul(x, b.constant(draw(st.sampled_from((0.5, 2.0))), dtype="float32"))
        elif kind == "vector" and rank:
            y = b.add(x, b.constant(np.linspace(0, 1, shape[-1]), dtype="float32"))
        elif kind == "binary":
            other = draw(st.sampled_from([name for name in live if b.shape(name) == shape]))
            y = b.add(other, x)
        elif kind == "concat" and rank:
            others = [
                name
                for name in live
                if len(b.shape(name)) == rank
                and all(s == o for a, (s, o) in enumerate(zip(shape, b.shape(name), strict=True)) if a != axis)
            ]
            y = b.concat([draw(st.sampled_from(others)), x], axis=axis)
        elif kind == "split" and rank and shape[axis] > 1:
            first, y = b.split(x, (1, shape[axis] - 1), axis=axis)
            live.append(first)
        elif kind == "softmax" and rank:
            y = b.softmax(x, axis=draw(st.sampled_from((axis, axis - rank))))
        elif kind == "reduce" and rank:
            y = b.reduce_mean(x, (axis,), keepdims=draw(st.booleans()))
        elif kind == "argmax" and rank:
            attributes = {"axis": axis, "keepdims": draw(st.integers(0, 1))}
            y = b.op("Cast", [b.op("ArgMax", [x], attributes)[0]], {"to": 1})[0]
        elif kind == "pad" and rank:
            y = b.pad(x, [draw(st.integers(0, 1)) for _ in range(2 * rank)])
        elif kind == "slice" and rank:
            y = b.slice(x, (0,), (max(1, shape[axis] - 1),), (axis,))
        elif kind == "resize" and rank == 4:
            sizes = b.constant([*shape[:2], shape[2] * 2, shape[3]], dtype="int64")
            attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
            y = b.op("Resize", [x, "", "", sizes], attributes)[0]
        elif kind == "reshape" and rank:
            y = b.reshape(x, (*shape[:-1], 1, shape[-1]) if rank < 4 else (shape[0], -1, shape[3]))
        elif kind == "matmul" and rank >= 2:
            y = b.matmul(x, b.weight((shape[-1], 3)))
        else:
            continue
        live.append(y)
    produced = live[2:] or [b.relu(live[0])]
    outputs = draw(st.lists(st.sampled_from(produced), unique=True, min_size=1, max_size=3))
    return remove_identities(b.finish(*outputs))


@pytest.mark.parametrize("orders", [[(0, 1, 2, 3)], [TO_FIRST, TO_LAST]])
def test_a_network_of_nothing_but_transposes_that_undo_each_other_stays(orders: list[tuple[int, ...]]) -> None:
    b = GraphBuilder("network")
    x = b.input((2, 3, 4, 5))
    for order in orders:
        x = b.transpose(x, order)
    graph = b.finish(x)

    assert Counter(op_types(cancel_transposes(graph))) == {"Transpose": len(orders)}


@settings(max_examples=150)
@given(graph=random_graphs())
def test_cancelling_transposes_keeps_the_results(graph: Graph) -> None:
    simplified = cancel_transposes(graph)

    moved = [sum(g.tensors[n.outputs[0]].elements for n in g.nodes if n.op_type == "Transpose") for g in (graph, simplified)]
    assert moved[1] <= moved[0]
    assert len({node.name for node in simplified.nodes}) == len(simplified.nodes)
    assert [simplified.shape(name) for name in simplified.outputs] == [graph.shape(name) for name in graph.outputs]
    for before, after in zip(run(graph), run(simplified), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-5)
