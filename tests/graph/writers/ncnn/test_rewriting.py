"""Groups of operators that ncnn has one layer for, and near misses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from latcast.graph import GraphBuilder
from latcast.graph.weights import synthetic_weights
from latcast.graph.writers.ncnn.rewriting import rewrite


def number(b: GraphBuilder, value: float) -> str:
    return b.constant(value, dtype="float32")


def rewritten(build: Callable[[GraphBuilder, str], str], shape: tuple[int, ...] = (1, 6, 8)) -> list[str]:
    """Operators that are left of what a function builds on an input."""
    b = GraphBuilder("pattern")
    graph = b.finish(build(b, b.input(shape)))
    return [node.op_type for node in rewrite(graph, {**graph.constants, **synthetic_weights(graph)})[0].nodes]


def shifted_clip(b: GraphBuilder, x: str, high: float = 6.0) -> str:
    return b.clip(b.add(x, number(b, 3.0)), 0.0, high)


def gelu_gate(b: GraphBuilder, x: str, divisor: float = 2.0**0.5) -> str:
    return b.add(number(b, 1.0), b.op("Erf", [b.div(x, number(b, divisor))])[0])


def tanh_gate(b: GraphBuilder, x: str) -> str:
    cubic = b.mul(b.op("Pow", [x, number(b, 3.0)])[0], number(b, 0.044715))
    return b.add(b.op("Tanh", [b.mul(b.add(x, cubic), number(b, 0.7978846))])[0], number(b, 1.0))


def layer_norm(b: GraphBuilder, x: str, *, axis: int = -1, affine: bool = True) -> str:
    centred = b.sub(x, b.reduce_mean(x, (axis,)))
    variance = b.reduce_mean(b.op("Pow", [centred, number(b, 2.0)])[0], (axis,))
    y = b.div(centred, b.op("Sqrt", [b.add(variance, number(b, 1e-6))])[0])
    size = (b.shape(x)[-1],)
    return b.add(b.mul(y, b.weight(size)), b.weight(size)) if affine else y


@pytest.mark.parametrize(
    ("expected", "build"),
    [
        ("HardSigmoid", lambda b, x: b.div(shifted_clip(b, x), number(b, 6.0))),
        ("HardSigmoid", lambda b, x: b.mul(number(b, 1 / 6), shifted_clip(b, x))),
        ("HardSwish", lambda b, x: b.mul(x, b.div(shifted_clip(b, x), number(b, 6.0)))),
        ("HardSwish", lambda b, x: b.div(b.mul(shifted_clip(b, x), x), number(b, 6.0))),
        ("HardSwish", lambda b, x: b.mul(b.hard_sigmoid(x), x)),
        ("Swish", lambda b, x: b.silu(x)),
        ("Mish", lambda b, x: b.mul(x, b.op("Tanh", [b.op("Softplus", [x])[0]])[0])),
        ("Gelu", lambda b, x: b.gelu(x)),
        ("Gelu", lambda b, x: b.mul(b.mul(x, number(b, 0.5)), gelu_gate(b, x))),
        ("Gelu", lambda b, x: b.mul(b.mul(gelu_gate(b, x), number(b, 0.5)), x)),
        ("Gelu", lambda b, x: b.mul(b.mul(x, number(b, 0.5)), tanh_gate(b, x))),
        ("LayerNormalization", layer_norm),
        ("LayerNormalization", lambda b, x: layer_norm(b, x, affine=False)),
    ],
)
def test_a_group_is_rewritten_to_one_operator(expected: str, build: Callable[[GraphBuilder, str], str]) -> None:
    assert rewritten(build) == [expected]


def test_a_transposed_right_operand_becomes_part_of_the_product() -> None:
    assert rewritten(lambda b, x: b.matmul(x, b.transpose(x, (0, 2, 1)))) == ["MatMul"]


def test_padding_becomes_the_convolutions_own() -> None:
    assert rewritten(lambda b, x: b.conv(b.pad(x, (0, 0, 1, 0, 0, 0, 0, 2)), 4, 3), (1, 3, 8, 8)) == ["Conv"]


@pytest.mark.parametrize(
    "build",
    [
        lambda b, x: b.div(shifted_clip(b, x, high=5.0), number(b, 6.0)),
        lambda b, x: b.mul(b.mul(x, gelu_gate(b, x, divisor=2.0)), number(b, 0.5)),
        lambda b, x: b.mul(b.mul(x, gelu_gate(b, x)), number(b, 0.6)),
        lambda b, x: b.mul(x, b.sigmoid(b.relu(x))),
        lambda b, x: layer_norm(b, x, axis=1, affine=False),
        lambda b, x: b.matmul(b.transpose(x, (0, 2, 1)), x),
    ],
    ids=["clip of another height", "erf of another scale", "another factor", "gate of something else", "another axis", "left"],
)
def test_a_group_that_differs_from_the_pattern_is_not_rewritten(build: Callable[[GraphBuilder, str], str]) -> None:
    b = GraphBuilder("miss")
    graph = b.finish(build(b, b.input((1, 6, 8))))
    assert rewritten(build) == [node.op_type for node in graph.nodes]


def test_a_group_with_a_second_reader_inside_is_not_rewritten() -> None:
    b = GraphBuilder("shared")
    x = b.input((1, 8))
    gate = b.sigmoid(x)
    graph = b.finish(b.mul(x, gate), gate)
    assert [node.op_type for node in rewrite(graph, {})[0].nodes] == ["Sigmoid", "Mul"]


def test_a_new_node_says_which_nodes_it_stands_for_in_their_order() -> None:
    b = GraphBuilder("names")
    graph = b.finish(b.mul(b.hard_sigmoid(x := b.input((1, 8))), x))
    left, origins = rewrite(graph, {})
    (node,) = left.nodes
    assert origins[node.name] == ("hardsigmoid_0", "mul_0")
    assert node.outputs == graph.outputs
