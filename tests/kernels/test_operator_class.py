"""Operator classes: the words that fusion rules are written in."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from latcast.graph.builder import GraphBuilder
from latcast.kernels.operator_class import operator_class, snake_case


@pytest.mark.parametrize(
    ("op_type", "expected"),
    [
        ("Conv", "conv"),
        ("GlobalAveragePool", "global_average_pool"),
        ("PRelu", "p_relu"),
        ("LRN", "lrn"),
        ("LSTM", "lstm"),
        ("RMSNormalization", "rms_normalization"),
        ("MatMul", "mat_mul"),
        ("ReduceL2", "reduce_l2"),
        ("GatherND", "gather_nd"),
    ],
)
def test_operators_without_a_class_of_their_own_are_named_in_snake_case(op_type: str, expected: str) -> None:
    assert snake_case(op_type) == expected


def class_of_last(build: Callable[[GraphBuilder], str]) -> str:
    builder = GraphBuilder("one")
    graph = builder.finish(build(builder))
    return operator_class(graph, graph.nodes[-1])


def image(b: GraphBuilder) -> str:
    return b.input((1, 8, 6, 6))


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda b: b.conv(image(b), 16, 3), "conv"),
        (lambda b: b.conv(b.input((1, 1, 6, 6)), 16, 3), "conv"),
        (lambda b: b.depthwise_conv(image(b)), "depthwise_conv"),
        (lambda b: b.conv(image(b), 16, 3, groups=8), "depthwise_conv"),
        (lambda b: b.conv(image(b), 16, 3, groups=4), "grouped_conv"),
        (lambda b: b.conv_transpose(image(b), 4), "conv_transpose"),
        (lambda b: b.linear(b.input((2, 10)), 5), "linear"),
        (lambda b: b.matmul(b.input((2, 3, 10)), b.weight((10, 5))), "linear"),
        (lambda b: b.matmul(b.weight((5, 10)), b.input((10, 3))), "linear"),
        (lambda b: b.matmul(b.input((2, 3, 10)), b.input((2, 10, 3))), "matmul"),
        (lambda b: b.add(image(b), image(b)), "add"),
        (lambda b: b.add(image(b), b.weight((8, 1, 1))), "bias_add"),
        (lambda b: b.add(b.weight((8, 1, 1)), image(b)), "bias_add"),
        (lambda b: b.add(image(b), b.constant(1.0, dtype="float32")), "add_scalar"),
        (lambda b: b.mul(image(b), b.weight((8, 1, 1))), "mul_weight"),
        (lambda b: b.mul(image(b), b.weight((1,))), "mul_scalar"),
        (lambda b: b.div(image(b), image(b)), "div"),
        (lambda b: b.relu6(image(b)), "relu6"),
        (lambda b: b.clip(image(b), 0.0, 1.0), "clip"),
        (lambda b: b.op("Clip", [image(b), b.constant(0.0, dtype="float32"), ""])[0], "clip"),
        (lambda b: b.op("Clip", [image(b)], {"min": 0.0, "max": 6.0})[0], "relu6"),
        (lambda b: b.op("Clip", [image(b)], {"max": 6.0})[0], "clip"),
        (lambda b: b.op("PRelu", [image(b), b.weight((8, 1, 1))])[0], "p_relu"),
        (lambda b: b.op("Swish", [image(b)])[0], "silu"),
        (lambda b: b.global_average_pool(image(b)), "global_average_pool"),
    ],
)
def test_operators_that_runtimes_treat_differently_have_different_classes(
    build: Callable[[GraphBuilder], str], expected: str
) -> None:
    assert class_of_last(build) == expected
