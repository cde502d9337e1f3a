"""Reading measured variants from a store."""

from __future__ import annotations

import pytest

from latcast.datasets.store import Store
from latcast.errors import DatasetError
from papers.nn_meter.measured import MeasuredBenchmark, read_benchmark
from tests.papers.nn_meter.made_up_benchmark import FAMILIES, OTHER, PLATFORM, made_up_store, true_ms


def test_families_come_in_the_papers_order_with_all_their_networks(benchmark: MeasuredBenchmark) -> None:
    assert benchmark.families == ("alexnet", "squeezenet", "mobilenet_v1", "nas_bench_201")
    assert set(benchmark.families) == set(FAMILIES)
    assert [len(samples) for samples in benchmark.tests.values()] == [5] * 4
    assert len(benchmark.data.networks) == 20


def test_kernels_were_timed_inside_the_networks(benchmark: MeasuredBenchmark) -> None:
    # The profiled kernels are scaled to what the network took, overhead included.
    for observation in benchmark.data.profiled[:50]:
        assert true_ms(observation.kernel) <= observation.latency_ms < 1.5 * true_ms(observation.kernel) + 0.05


def test_the_label_error_is_half_the_difference_of_the_halves(benchmark: MeasuredBenchmark) -> None:
    for families, networks in ((None, 20), (["alexnet"], 5)):
        found = benchmark.label_error(families)
        assert found is not None
        assert (found.percent, found.networks) == (pytest.approx(1.0), networks)


def test_measuring_time_is_from_record_to_record(benchmark: MeasuredBenchmark) -> None:
    assert benchmark.seconds == pytest.approx(19 * 10)
    assert benchmark.records == 20


def test_a_pause_is_no_measuring_time() -> None:
    from papers.nn_meter.measured import measuring_seconds

    with made_up_store(count=1) as store:
        first, second, *_ = store.measurements(platform=PLATFORM.id)
    from dataclasses import replace

    later = replace(second, taken_at="2026-01-01T05:00:00Z")
    latest = replace(second, taken_at="2026-01-01T05:00:30Z")
    assert measuring_seconds([first, later, latest]) == 30


def test_some_families_alone_can_be_tested() -> None:
    with made_up_store(count=2) as store:
        found = read_benchmark(store, PLATFORM, families=("alexnet",))
    assert found.families == ("alexnet",)
    assert len(found.data.networks) == 8


def test_a_store_without_variants_is_refused_with_what_to_do() -> None:
    with Store(":memory:") as store, pytest.raises(DatasetError, match=r"latcast data variants .* --measure"):
        read_benchmark(store, PLATFORM)
    with made_up_store(count=1) as store, pytest.raises(DatasetError, match="openvino"):
        read_benchmark(store, OTHER)
