"""Recorded output of tools, read as the phone's runtimes read it; cut off anywhere, it is refused or read as if whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.errors import DatasetError, RuntimeFailure
from latcast.runtimes.adb import read_facts, read_state
from latcast.runtimes.phone_tools import TOOLS, ToolNetwork, ToolSetting
from latcast.testing.networks import CONTRACT_NETWORKS

OURS = Path(__file__).parent / "recorded"
STOCK = Path(__file__).parents[2] / "datasets" / "importers" / "benchmark_tools" / "recorded"


def written(runtime: str, unit: str = "cpu") -> ToolNetwork:
    return TOOLS[runtime](CONTRACT_NETWORKS["residual"](), ToolSetting(unit))


@pytest.mark.parametrize(
    ("runtime", "file", "typical_ms", "least_ms"),
    [
        ("litert", STOCK / "tflite.txt", 23.905, 23.655),
        ("litert", STOCK / "tflite_profile_xnnpack.txt", 15.5176, 14.661),
        ("ncnn", STOCK / "benchncnn_param.txt", 8.90, 8.66),
        ("onnxruntime", STOCK / "onnxruntime_perf_test.txt", 16.7086, 15.9831),
    ],
)
def test_recorded_output_is_a_burst(runtime: str, file: Path, typical_ms: float, least_ms: float) -> None:
    network = written(runtime)
    text = file.read_text()
    burst = network.burst(text, 8)
    assert len(burst.runs_ms) == 8
    assert burst.runs_ms[0] == pytest.approx(typical_ms)
    assert burst.least_ms == pytest.approx(least_ms)
    for end in range(0, len(text), 29):
        try:
            assert network.burst(text[:end], 8) == burst
        except DatasetError:
            continue


def test_single_runs_of_onnxruntime_count_where_they_are_printed() -> None:
    text = "".join(f"iteration:{number},time_cost:0.00{number}\n" for number in range(1, 6))
    burst = written("onnxruntime").burst(text, 3)
    assert burst.runs_ms == pytest.approx((3.0, 4.0, 5.0))
    assert burst.least_ms == pytest.approx(3.0)


def test_mnn_prints_operators_by_time_and_a_summary() -> None:
    pytest.importorskip("MNN")
    network = written("mnn")
    text = (OURS / "mnn_basic.txt").read_text()
    burst = network.burst(text, 8)
    assert min(burst.runs_ms) > burst.least_ms > 0
    kernels = network.kernels(text, {}, 8)
    assert {name for kernel in kernels for name in kernel.nodes} == {node.name for node in CONTRACT_NETWORKS["residual"]().nodes}
    for end in range(0, len(text) - 40, 61):
        with pytest.raises(DatasetError):
            network.burst(text[:end], 8)
    with pytest.raises(RuntimeFailure, match="install the same version"):
        network.kernels(text.replace("conv_", "other_").replace("add_", "more_"), {}, 8)


GPU_PROFILE = """STARTING!
Num threads: [1]
Use gpu: [1]
Enable op profiling: [1]
count=20 first=5200 curr=5100 min=5000 max=5300 avg=5061 std=11

count=50 first=5112 curr=5070 min=5010 max=5210 avg=5061 std=10

Inference timings in us: Init: 1000000, First inference: 5112, Warmup (avg): 5100, Inference (avg): 5061
Operator-wise Profiling Info for Regular Benchmark Runs:
============================== Run Order ==============================
\t             [node type]\t          [start]\t  [first]\t [avg ms]\t     [%]\t  [cdf%]\t  [mem KB]\t[times called]\t[Name]
\t     TfLiteGpuDelegateV2\t            0.008\t    5.112\t    5.061\t100.000%\t100.000%\t     0.000\t        1\t[maxpool_0_out]:6

"""
"""As tensorflow/tensorflow#44369 shows it."""


def test_a_gpu_of_which_one_line_tells_has_no_kernels() -> None:
    network = written("litert", "gpu")
    assert network.burst(GPU_PROFILE, 50).runs_ms[0] == pytest.approx(5.061)
    with pytest.raises(RuntimeFailure, match="one line for all that TfLiteGpuDelegateV2 runs"):
        network.kernels(GPU_PROFILE, {}, 50)


def test_a_phone_that_tells_little_is_read() -> None:
    facts = read_facts("[ro.product.model]: [SM-G973F]\nkernel 4.14.113\n")
    assert (facts.model, facts.gles, str(facts.cores)) == ("SM-G973F", "", "CPUs of which nothing is known")
    folder = "/sys/devices/system/cpu"
    told = f"{folder}/cpu0/cpu_capacity:250\n{folder}/cpu1/cpu_capacity:1024\n{folder}/cpu0/cpufreq/cpuinfo_max_freq:1900000\n"
    assert read_facts(told).cores.kinds == ((0,), (1,))
    assert read_state("Can't find service: thermalservice\n").thermal_status is None
    state = read_state(f"{folder}/cpu4/cpufreq/scaling_cur_freq:1200000\nThermal Status: 3\n")
    assert (state.thermal_status, state.clock_mhz(()), state.limit(())) == (3, 1200.0, None)
