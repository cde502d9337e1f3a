"""Families held out in turn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latcast.errors import TrainingError
from latcast.predictors.samples import KernelObservation, TrainingData
from papers.nn_meter.held_out import ALONE, HeldOutFamily, hold_out_each, train_without, without_family
from papers.nn_meter.measured import MeasuredBenchmark
from tests.papers.nn_meter.made_up_benchmark import OVERHEAD_MS, true_ms


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
    hold_out_each(benchmark, learn_from="networks", watch=lambda family, done: seen.append((family, done)))
    assert seen == [(family, index) for index, family in enumerate(benchmark.families)]


def test_kernels_alone_know_nothing_of_networks(benchmark: MeasuredBenchmark) -> None:
    predictor = train_without(isolated(benchmark), "squeezenet", learn_from=ALONE, model="analytical")
    assert predictor.network.constant_ms == 0
    assert not predictor.network.weights
    [sample, *_] = benchmark.tests["squeezenet"]
    expected = sum(true_ms(kernel) for kernel in sample.kernels if not kernel.free)
    assert predictor.estimate([sample.kernels]).latency_ms[0] == pytest.approx(expected, rel=0.02)
    assert sample.latency_ms == pytest.approx(expected + OVERHEAD_MS)


def test_too_little_without_a_family_is_an_error_that_names_it(benchmark: MeasuredBenchmark) -> None:
    networks = tuple(sample for samples in benchmark.tests.values() for sample in samples[:1])
    with pytest.raises(TrainingError, match=r"without alexnet: .*at least 10 profiled operators"):
        hold_out_each(replace(benchmark, data=TrainingData(networks=networks)))
