"""A made-up benchmark and its predictions for all tests."""

from __future__ import annotations

import pytest

from papers.nn_meter.benchmark import HeldOutFamily, MeasuredBenchmark, Training, hold_out_each, read_benchmark
from tests.papers.nn_meter.made_up_benchmark import OTHER, PLATFORM, made_up_store


@pytest.fixture(scope="session")
def benchmark() -> MeasuredBenchmark:
    with made_up_store() as store:
        return read_benchmark(store, PLATFORM)


@pytest.fixture(scope="session")
def other() -> MeasuredBenchmark:
    with made_up_store(OTHER) as store:
        return read_benchmark(store, OTHER)


@pytest.fixture(scope="session")
def held(benchmark: MeasuredBenchmark) -> list[HeldOutFamily]:
    return hold_out_each(benchmark, Training(model="analytical"))
