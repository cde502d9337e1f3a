"""LiteRT's GPU delegate where there is a driver for it, and what needs none."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from latcast.errors import LatcastError, MeasurementError, RuntimeFailure
from latcast.runtimes import litert_native
from latcast.testing.contracts import GpuInterfaceContract
from latcast.workgroups.gpu_interfaces import find_device
from latcast.workgroups.litert_delegate import clock_of, load_resized, one_convolution, write_program_cache
from latcast.workgroups.operands import TOLERANCE, make_operands
from latcast.workgroups.program_cache import parse_program_cache
from latcast.workgroups.sizes import WorkGroup
from latcast.workgroups.workloads import Convolution, convolution, depthwise_convolution


class TestLiteRtSession(GpuInterfaceContract):
    interface_name = "litert"
    partial_slices = False


@pytest.fixture
def gpu() -> None:
    try:
        find_device("litert")
    except LatcastError as problem:
        pytest.skip(str(problem))


@pytest.mark.parametrize(
    "workload", [convolution(7, 9, 6, 10), convolution(8, 8, 4, 12, 3, 2), depthwise_convolution(9, 8, 6, 5, 2)]
)
def test_the_file_computes_the_expected_result_of_the_operands(workload: Convolution) -> None:
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    operands = make_operands(workload)
    slices, height, width, _ = operands.expected.shape
    loaded = interpreter.Interpreter(model_content=one_convolution(workload, operands))
    loaded.allocate_tensors()

    pixels = operands.source.transpose(1, 2, 0, 3).reshape(1, workload.in_h, workload.in_w, -1)[..., : workload.in_channels]
    loaded.set_tensor(loaded.get_input_details()[0]["index"], np.ascontiguousarray(pixels))
    loaded.invoke()
    found = np.zeros((height, width, 4 * slices), np.float32)
    found[..., : workload.out_channels] = loaded.get_tensor(loaded.get_output_details()[0]["index"])[0]

    expected = operands.expected.transpose(1, 2, 0, 3).reshape(found.shape)
    assert np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max()


def test_padding_of_another_kind_is_refused() -> None:
    workload = Convolution(8, 8, 4, 12, 12, 4, 3, 3, 1, 1, convolution(8, 8, 4, 4).descriptor)

    with pytest.raises(MeasurementError, match="expected those of TFLite"):
        one_convolution(workload, make_operands(workload))


def test_a_cpu_to_which_the_process_is_pinned_is_timed_by_its_own_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0}, raising=False)
    assert clock_of(True) is time.process_time_ns
    assert clock_of(False) is time.perf_counter_ns

    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    assert clock_of(True) is time.perf_counter_ns


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads are bound to CPUs on Linux alone")
def test_threads_that_a_driver_bound_elsewhere_come_back_to_the_process_s_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: dict[int, set[int]] = {}
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1})
    monkeypatch.setattr(os, "sched_setaffinity", lambda thread, cpus: bound.update({thread: cpus}))
    release = threading.Event()
    other = threading.Thread(target=release.wait)
    other.start()
    try:
        litert_native.return_threads_to_own_cpus()
    finally:
        release.set()
        other.join()

    assert other.native_id is not None
    assert bound[threading.get_native_id()] == bound[other.native_id] == {1}


def test_litert_starts_from_a_cache_with_other_sizes_and_computes_the_same(gpu: None, tmp_path: Path) -> None:
    workload = convolution(12, 12, 8, 8)
    operands = make_operands(workload)
    data = one_convolution(workload, operands)
    cache = write_program_cache(data, tmp_path)
    (number,) = [number for number, kernel in enumerate(cache.kernels) if kernel.kind == "conv"]
    changed = cache.resized({number: WorkGroup(3, 2, 1)})
    pixels = np.ascontiguousarray(operands.source.transpose(1, 2, 0, 3).reshape(1, 12, 12, 8))

    results = []
    for content, folder in ((cache.data, "own"), (changed, "other")):
        (tmp_path / folder).mkdir()
        model = load_resized(data, content, tmp_path / folder)
        model.set_inputs([pixels])
        model.run()
        results.append(model.outputs()[0])
        model.close()

    kept = parse_program_cache((tmp_path / "other" / "latcast_mldrift_program_cache.bin").read_bytes())
    assert kept.kernels[number].size == WorkGroup(3, 2, 1)
    assert np.allclose(results[0], results[1], atol=1e-5)


def test_a_cache_of_another_network_is_not_taken(gpu: None, tmp_path: Path) -> None:
    first, second = (convolution(12, 12, 8, channels) for channels in (8, 16))
    cache = write_program_cache(one_convolution(first, make_operands(first)), tmp_path)

    (tmp_path / "second").mkdir()
    with pytest.raises(RuntimeFailure, match="LiteRT did not take the program cache"):
        load_resized(one_convolution(second, make_operands(second)), cache.data, tmp_path / "second")
