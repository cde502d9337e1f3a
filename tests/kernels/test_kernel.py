"""The kernels of many networks as one table."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.graph.builder import GraphBuilder
from latcast.kernels.kernel import Kernel, KernelTable, operator_class, snake_case


def kernel(kernel_type: str, *configuration: int, free: bool = False) -> Kernel:
    return Kernel(kernel_type, configuration, "k", ("k",), ("K",), free=free)


def test_equal_kernels_are_listed_once_and_counted_where_they_occur() -> None:
    table = KernelTable.of(
        [
            [kernel("relu", 4, 1), kernel("add", 7), kernel("relu", 4, 1)],
            [],
            [kernel("add", 8), kernel("relu", 5, 1), kernel("add", 7), kernel("add", 9, free=True)],
        ]
    )

    assert table.configurations["relu"].tolist() == [[4, 1], [5, 1]]
    assert table.configurations["add"].tolist() == [[7], [8]]
    assert table.kernel_types == ["relu", "relu", "add", "add"]
    # Prices: relu(4) 1, relu(5) 10, add(7) 100, add(8) 1000.
    assert table.sum_by_network(np.array([1.0, 10.0, 100.0, 1000.0])).tolist() == [102.0, 0.0, 1110.0]


def test_several_columns_are_summed_each_by_itself() -> None:
    table = KernelTable.of([[kernel("a", 1), kernel("a", 2)], [kernel("a", 2)]])

    sums = table.sum_by_network(np.array([[1.0, 10.0], [2.0, 20.0]]))

    assert sums.tolist() == [[3.0, 30.0], [2.0, 20.0]]


def test_no_networks_and_networks_of_views_alone_sum_to_nothing() -> None:
    assert KernelTable.of([]).sum_by_network(np.zeros(0)).shape == (0,)
    assert KernelTable.of([[kernel("a", 1, free=True)]]).sum_by_network(np.zeros((0, 2))).tolist() == [[0.0, 0.0]]


@given(st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)))))
def test_sums_are_those_of_adding_kernel_by_kernel(networks: list[list[tuple[str, int]]]) -> None:
    table = KernelTable.of([[kernel(name, value) for name, value in network] for network in networks])
    prices = {"a": 1.0, "b": 100.0, "c": 10_000.0}
    keys = [(name, int(row[0])) for name, rows in table.configurations.items() for row in rows]

    sums = table.sum_by_network(np.array([prices[name] * (value + 1) for name, value in keys]))

    expected = [sum(prices[name] * (value + 1) for name, value in network) for network in networks]
    assert sums.tolist() == expected


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
