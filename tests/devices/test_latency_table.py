"""Measurements as a table of platforms and networks."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.devices.latency_table import LatencyTable, table_of
from latcast.errors import DatasetError
from latcast.records import Measurement, Reference

A, B = "a/tflite-2.10/cpu1/fp32", "b/tflite-2.10/cpu1/fp32"


def network(name: str) -> Reference:
    return Reference("usc_nas", {"name": name}, name)


def published(platform: str, name: str, latency_ms: float | None, **others: object) -> Measurement:
    return Measurement(platform, network(name), latency_ms=latency_ms, raw_latency_ms=latency_ms, **others)  # type: ignore[arg-type]


def table(latency_ms: list[list[float]]) -> LatencyTable:
    values = np.array(latency_ms)
    return LatencyTable(
        tuple(f"p{row}/x-1/cpu1/fp32" for row in range(values.shape[0])),
        tuple(network(f"n{column}") for column in range(values.shape[1])),
        values,
    )


def test_platforms_and_networks_stand_in_the_order_of_their_first_measurement() -> None:
    found = table_of([published(B, "x", 3.0), published(A, "y", 2.0), published(A, "x", 1.0)])

    assert found.platforms == (B, A)
    assert [item.name for item in found.networks] == ["x", "y"]
    assert found.latency_ms[:, 0].tolist() == [3.0, 1.0]
    assert np.isnan(found.latency_ms[0, 1])
    assert found.latency_ms[1, 1] == 2.0


def test_a_cell_is_the_median_over_the_rounds_of_all_its_measurements() -> None:
    runs = [published(A, "x", 1.0, runs_ms=(5.0, 1.0, 3.0), rounds=(0, 0, 0)), published(A, "x", 4.0), published(A, "x", 10.0)]

    assert table_of(runs).latency_ms.tolist() == [[4.0]]  # of 3, 4 and 10


def test_networks_of_equal_content_share_a_column_whatever_they_are_called() -> None:
    again = Measurement(B, Reference("usc_nas", {"name": "x"}, "another name"), latency_ms=2.0)

    found = table_of([published(A, "x", 1.0), again])

    assert found.latency_ms.tolist() == [[1.0], [2.0]]
    assert found.networks == (network("x"),)


def test_failures_and_kernels_give_no_cell() -> None:
    found = table_of(
        [published(A, "x", 1.0), published(A, "y", None, error="out of memory"), published(A, "z", 1.0, role="kernel")]
    )

    assert [item.name for item in found.networks] == ["x"]


def test_without_a_success_there_is_no_table() -> None:
    with pytest.raises(DatasetError, match="found no measurement of a network that succeeded"):
        table_of([published(A, "y", None, error="out of memory")])


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf])
def test_a_latency_that_cannot_be_is_refused(value: float) -> None:
    with pytest.raises(DatasetError, match="not above 0 and finite"):
        table([[1.0, value]])


def test_a_table_of_another_shape_is_refused() -> None:
    with pytest.raises(DatasetError, match=r"shape \(1, 2\) for 1 platforms and 1 networks"):
        LatencyTable((A,), (network("x"),), np.ones((1, 2)))
