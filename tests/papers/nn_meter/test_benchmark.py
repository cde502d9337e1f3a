"""Reading measured variants from stores, and predicting each family by what saw none of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latcast.datasets.store import Store
from latcast.errors import DatasetError, TrainingError
from latcast.kernels.rules import platform_rules
from latcast.measure.statistics import renormalised
from latcast.records import Measurement
from latcast.spaces.catalogue import SPACES
from latcast.training.samples import KernelObservation, TrainingData
from papers.nn_meter.benchmark import (
    ALONE,
    HeldOutFamily,
    MeasuredBenchmark,
    Training,
    hold_out_each,
    on_the_scale_of,
    read_benchmark,
    train_without,
    without_family,
)
from tests.papers.nn_meter.made_up_benchmark import FAMILIES, OTHER, OVERHEAD_MS, PLATFORM, made_up_store, measurement, true_ms


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


def test_kernels_are_those_of_the_processor_that_was_measured() -> None:
    (reference,) = SPACES.get("nas_bench_201").sample(1, 0)
    flags = {"host": {"cpu": {"flags": "avx2 fma avx sse4_2"}}}
    with Store(":memory:") as store:
        store.add(replace(measurement(reference, PLATFORM, 0), environment=flags))
        found = read_benchmark(store, PLATFORM)
    assert found.rules == platform_rules(PLATFORM, cpu_flags="avx2 fma")
    # Images lie in blocks of eight channels there, of which the classifier reads none.
    assert [kernel.kernel_type for kernel in found.data.networks[0].kernels].count("transpose.from_blocks") == 1


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


def isolated(benchmark: MeasuredBenchmark) -> MeasuredBenchmark:
    """The same with every kernel timed alone too."""
    alone = tuple(KernelObservation(one.kernel, true_ms(one.kernel)) for one in benchmark.data.profiled)
    return replace(benchmark, data=replace(benchmark.data, isolated=alone))


def test_a_family_is_left_out_with_all_that_was_timed_inside_it(benchmark: MeasuredBenchmark) -> None:
    rest = without_family(benchmark.data, "alexnet")
    assert {sample.family for sample in rest.networks} == {"squeezenet", "mobilenet_v1", "nas_bench_201"}
    inside = {sample.reference.key for sample in benchmark.tests["alexnet"]}
    assert not inside & {observation.network for observation in rest.profiled}
    assert rest.profiled


def test_families_that_obey_the_same_law_are_predicted(held: list[HeldOutFamily]) -> None:
    for found in held:
        if found.family != "alexnet":  # nothing else has its large linear layers
            assert np.abs(found.kernel_level_ms / found.actual_ms - 1).max() < 0.1


def test_single_operators_add_up_to_more_than_kernels(held: list[HeldOutFamily]) -> None:
    for found in held:
        assert (found.operator_level_ms > found.kernel_level_ms).all()


def test_every_family_is_announced(benchmark: MeasuredBenchmark) -> None:
    seen: list[tuple[str, int]] = []
    hold_out_each(benchmark, Training("networks"), lambda family, done: seen.append((family, done)))
    assert seen == [(family, index) for index, family in enumerate(benchmark.families)]


def test_kernels_alone_know_nothing_of_networks(benchmark: MeasuredBenchmark) -> None:
    predictor = train_without(isolated(benchmark), "squeezenet", Training(ALONE, "analytical"))
    assert predictor.network.constant_ms == 0
    assert not predictor.network.weights
    [sample, *_] = benchmark.tests["squeezenet"]
    expected = sum(true_ms(kernel) for kernel in sample.kernels if not kernel.free)
    assert predictor.estimate([sample.kernels]).latency_ms[0] == pytest.approx(expected, rel=0.02)
    assert sample.latency_ms == pytest.approx(expected + OVERHEAD_MS)


def test_too_little_without_a_family_is_an_error_that_names_it(benchmark: MeasuredBenchmark) -> None:
    networks = tuple(sample for samples in benchmark.tests.values() for sample in samples[:1])
    with pytest.raises(TrainingError, match=r"without alexnet: .*at least 10 profiled operators"):
        hold_out_each(replace(benchmark, data=TrainingData(networks=networks)), Training())


KEY = "a probe"


def probed(measurement: Measurement, quiet_ms: float) -> Measurement:
    """The same, with a probe that read 2 ms beside every run and is quiet at this time."""
    settings = {"probe": {"key": KEY, "parts": ["compute"], "quiet_ms": [quiet_ms]}}
    whole = measurement.latency_ms or 0.0
    return replace(
        measurement, probe_ms=(2.0, 2.0), probe_parts_ms={"compute": (2.0, 2.0)}, latency_ms=whole * quiet_ms / 2,
        environment={"settings": settings, "moment": {"probe_weights": [1.0]}},
    )  # fmt: skip


def test_further_networks_are_learned_from_and_not_tested() -> None:
    with made_up_store(count=2) as store, made_up_store(count=4) as further:
        alone = read_benchmark(store, PLATFORM)
        found = read_benchmark(store, PLATFORM, learn_from=[further])
    assert (len(alone.data.networks), len(found.data.networks)) == (8, 16)
    assert len(found.data.profiled) > len(alone.data.profiled)
    assert [len(samples) for samples in found.tests.values()] == [2] * 4
    assert found.records == 8


def test_further_measurements_come_on_the_scale_of_the_store() -> None:
    with made_up_store(count=1) as made:
        [first, *_] = made.measurements(platform=PLATFORM.id)
    with Store(":memory:") as store:
        store.keep_quiet_ms(KEY, (1.0,))
        taken = probed(first, 0.8)
        [found] = on_the_scale_of(store, [taken])
        assert found == renormalised(taken, (1.0,))
        # A probe that is quiet at 1 ms, not 0.8, was less disturbed when it read 2.
        assert (found.latency_ms or 0) > (taken.latency_ms or 0)
        [same] = on_the_scale_of(store, [first])
        assert same == first
