"""Table 10: sampled convolutions on a fixed test set."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from latcast.datasets.store import Store
from latcast.errors import DatasetError
from latcast.records import Reference
from papers.nn_meter.sampling import convolutions, table_10
from tests.papers.nn_meter.made_up_benchmark import PLATFORM, kernel_measurement


def convolution(size: int, channels: int) -> Reference:
    values = {
        "batch": 1, "in_channels": channels, "in_h": size, "in_w": size, "out_channels": 8, "out_h": size, "out_w": size,
        "kernel_h": 3, "kernel_w": 3, "stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1, "groups": 1, "padded": 1,
    }  # fmt: skip
    return Reference("kernel/conv", values)


def store_of(references: Iterable[Reference]) -> Store:
    store = Store(":memory:")
    store.add_all(kernel_measurement(reference, moment) for moment, reference in enumerate(references))
    return store


ALIKE = [convolution(8, channels) for channels in range(9, 24)]
SPREAD = [convolution(size, channels) for size in (4, 8, 16, 32) for channels in (8, 16, 32, 64, 128)]
TEST = [convolution(size, channels) for size in (6, 24) for channels in (8, 24, 96)]


def test_samplings_are_judged_on_the_same_test_set_at_the_same_budget() -> None:
    with store_of(ALIKE) as random, store_of([*SPREAD, *TEST[:1]]) as adaptive, store_of(TEST) as test:
        found = table_10({"random": random, "adaptive": adaptive}, test, PLATFORM, model="analytical")
    assert found.column("sampling") == ["random", "adaptive"]
    # Fifteen of the twenty that are not in the test set.
    assert found.column("kernels") == [15, 15]
    assert found.column("paper CPU ±10 %") == [21.92, 71.78]
    random_error, adaptive_error = found.column("MAPE %")
    assert float(adaptive_error or 99) < 5
    assert float(random_error or 0) >= float(adaptive_error or 99)


def test_convolutions_come_in_the_order_they_were_measured_in() -> None:
    with store_of(reversed(SPREAD)) as store:
        found = convolutions(store, PLATFORM)
    assert found.configurations[0, 1] == 128
    assert len(found.latency_ms) == 20


def test_a_store_without_kernels_is_refused() -> None:
    with Store(":memory:") as store, pytest.raises(DatasetError, match="--learn-from kernels"):
        convolutions(store, PLATFORM)
