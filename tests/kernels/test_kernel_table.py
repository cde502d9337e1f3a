"""The kernels of many networks as one table."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from latcast.kernels.kernel import Kernel, KernelTable


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
