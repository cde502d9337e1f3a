"""Tables 4, 9 and 10, Figs. 6 and 11."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from latcast.datasets.store import Store
from latcast.errors import DatasetError
from latcast.graph.builder import GraphBuilder
from latcast.kernels.rules import load_rules
from latcast.kernels.search import find_kernels
from latcast.records import Reference
from latcast.training.samples import KernelObservation
from papers.nn_meter.benchmark import HeldOutFamily, MeasuredBenchmark, Training
from papers.nn_meter.kernels import composition, convolutions, figure_6, figure_11, table_4, table_9, table_10
from tests.papers.nn_meter.made_up_benchmark import PLATFORM, kernel_measurement


def test_kernels_are_named_as_in_the_paper() -> None:
    b = GraphBuilder("small")
    x = b.relu(b.batch_norm(b.conv(b.input((1, 4, 8, 8)), 4, 3)))
    graph = b.finish(b.linear(b.flatten(b.global_average_pool(b.depthwise_conv(x))), 10))
    names = [composition(graph, kernel) for kernel in find_kernels(graph, load_rules("none"))]
    assert names == ["conv", "bn", "relu", "dwconv", "avgpool", "flatten", "fc"]
    assert "conv+bn+relu" in [composition(graph, kernel) for kernel in find_kernels(graph, load_rules("onnxruntime"))]


def test_kernels_of_resnet18_stand_beside_the_papers() -> None:
    found = table_4(load_rules("litert"))
    rows = {str(row[0]): row[1:] for row in found.rows}
    assert sum(int(row[0] or 0) for name, row in rows.items() if name.startswith("conv")) == 20
    # The first convolution and the first of each of eight blocks; what the paper finds on all its devices too.
    assert rows["conv+bn+relu"][1:] == (9, 9, 9)
    assert rows["conv+bn+add+relu"][1:] == (0, 8, 0)


def test_a_runtime_that_fuses_nothing_runs_every_operator() -> None:
    rows = {row[0]: row[1] for row in table_4(load_rules("none")).rows}
    assert (rows["conv"], rows["bn"], rows["relu"], rows["add"]) == (20, 20, 17, 8)


def test_kinds_of_kernels_are_counted_over_the_measured_networks(benchmark: MeasuredBenchmark) -> None:
    [note] = table_4(benchmark.rules, benchmark).notes
    assert int(note.split()[0]) >= 6
    assert "CPU 22" in note


def test_time_is_shared_out_among_kernel_types(benchmark: MeasuredBenchmark) -> None:
    [sample, *_] = benchmark.tests["mobilenet_v1"]
    by_type = {kernel.kernel_type: kernel for kernel in sample.kernels}
    times = {"conv": 6.0, "depthwise_conv": 3.0, "linear": 0.5, "reduce": 0.5}
    profiled = tuple(KernelObservation(by_type[name], took, sample.reference.key) for name, took in times.items())
    found = figure_6(replace(benchmark, data=replace(benchmark.data, profiled=profiled)))
    first = dict(zip(found.columns, found.rows[0], strict=True))
    assert first == {
        "family": "MobileNetv1s", "Conv and DWConv %": 90, "conv %": 60, "depthwise_conv %": 30, "linear %": 5, "pooling %": 5,
        "concat %": 0, "others %": 0,
    }  # fmt: skip
    assert [row[0] for row in found.rows] == ["MobileNetv1s", "mean"]


def test_without_timed_kernels_there_are_no_shares(benchmark: MeasuredBenchmark) -> None:
    found = figure_6(replace(benchmark, data=replace(benchmark.data, profiled=())))
    assert found.rows == ()
    assert "no shares are known" in found.notes[-1]


def test_kernel_predictors_are_judged_type_by_type(benchmark: MeasuredBenchmark, held: list[HeldOutFamily]) -> None:
    found = table_9(benchmark, held)
    rows = {row[0]: dict(zip(found.columns, row, strict=True)) for row in found.rows}
    # Kernels take what their quantities say, and a little more: the network's overhead is shared out among them.
    assert 0 < float(rows["conv"]["MAPE %"] or 0) < 15
    assert rows["conv"]["paper CPU ±10 %"] == 89.1
    assert (rows["channel_shuffle"]["kernels"], rows["channel_shuffle"]["±10 %"]) == (0, None)
    # MobileNetV1 alone has depthwise kernels, so that they are estimated by the throughput of all kernels.
    depthwise = {one.kernel.configuration for one in benchmark.data.profiled if one.kernel.kernel_type == "depthwise_conv"}
    assert rows["depthwise_conv"]["kernels"] == len(depthwise)
    assert rows["depthwise_conv"]["MAPE %"] is not None


def test_the_sum_of_kernels_is_compared_with_that_of_operators(benchmark: MeasuredBenchmark, held: list[HeldOutFamily]) -> None:
    labels = np.array([10.0, 20.0])
    one = replace(held[1], actual_ms=labels, kernel_level_ms=labels * 1.04, operator_level_ms=labels * [1.08, 1.3])
    found = figure_11(benchmark, [one])
    first = dict(zip(found.columns, found.rows[0], strict=True))
    assert first["kernels MAPE %"] == pytest.approx(4)
    assert (first["kernels ±5 %"], first["kernels ±10 %"]) == (100, 100)
    assert first["operators MAPE %"] == pytest.approx(19)
    assert (first["operators ±5 %"], first["operators ±10 %"]) == (0, 50)
    assert found.rows[-1][-3:] == (91.3, 53.7, 8.5)
    assert "better than operators on 1 of 1" in found.notes[0]


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
        found = table_10({"random": random, "adaptive": adaptive}, test, PLATFORM, Training(model="analytical"))
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
