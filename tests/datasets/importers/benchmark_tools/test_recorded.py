"""Output of the stock tools, as they print it."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.datasets.importers.benchmark_tools import ToolOutputs, read_outputs
from latcast.datasets.importers.benchmark_tools.manifest import KitManifest, KitNetwork
from latcast.records import Measurement, Platform, Reference
from latcast.spaces.catalogue import model

RECORDED = Path(__file__).parent / "recorded"

KIT = KitManifest((KitNetwork("squeezenet1_1", model("squeezenet1_1")),))


def read(name: str, platform: str, kit: KitManifest | None = KIT) -> ToolOutputs:
    return read_outputs([RECORDED / name], kit=kit, platform=Platform.parse(platform))


def only(found: ToolOutputs) -> Measurement:
    [measurement] = found.measurements
    return measurement


def renamed(tmp_path: Path, name: str, text: str | None = None) -> Path:
    """A recording in a file called after the network, as the kit's script does."""
    file = tmp_path / "squeezenet1_1.txt"
    file.write_text((RECORDED / name).read_text() if text is None else text)
    return file


def test_benchmark_model_gives_its_median_in_milliseconds() -> None:
    found = only(read("tflite.txt", "pixel4/tflite-2.17/cpu1/fp32"))

    assert found.platform == "pixel4/tflite-2.17/cpu1/fp32"
    assert found.reference == model("squeezenet1_1")
    assert found.latency_ms == found.raw_latency_ms == pytest.approx(23.905)
    assert found.statistic == "median of the timed runs, 50 runs, by TFLite's benchmark_model"
    assert found.warmup_runs == 21
    assert found.environment["moment"]["row"] == "tflite.txt:17"
    assert found.environment["moment"]["figures_ms"] == pytest.approx({"min": 23.655, "max": 25.87, "mean": 23.9582})
    assert found.executed == ()


def test_an_older_benchmark_model_gives_its_mean_and_its_operators() -> None:
    found = only(read("tflite_profile.txt", "board/tflite-2.10/cpu4/fp32"))

    assert found.latency_ms == pytest.approx(8.6535)
    assert found.statistic == "mean of the timed runs, 115 runs, by TFLite's benchmark_model"
    assert [(each.name, each.kind, each.latency_ms) for each in found.executed] == [
        ("relu_0", "CONV_2D", 2.036),
        ("max_pool_0", "MAX_POOL_2D", 0.299),
        ("relu_1, with: colons", "CONV_2D", 6.292),
    ]


def test_a_line_of_the_profile_that_stands_for_several_calls_counts_them_all() -> None:
    found = only(read("tflite_profile_xnnpack.txt", "pixel4/litert-2.3/cpu1/fp32"))

    assert found.latency_ms == pytest.approx(15.5176)
    assert [each.kind for each in found.executed] == ["Convolution (NHWC, F32) IGEMM", "Convolution (NHWC, F32) GEMM"]
    assert [each.latency_ms for each in found.executed] == pytest.approx([0.407, 13 * 0.25])
    assert found.executed[0].name == "Delegate/Convolution (NHWC, F32) IGEMM"


def test_benchncnn_gives_one_measurement_a_network() -> None:
    found = read("benchncnn.txt", "pixel4/ncnn-1.0/cpu4+big/fp32", kit=None)

    assert [(each.reference.name, each.latency_ms) for each in found.measurements] == [
        ("squeezenet", 8.70),
        ("squeezenet_int8", 7.21),
        ("mobilenet", 12.98),
    ]
    first = found.measurements[0]
    assert first.reference == Reference("ncnn_benchmark", {"name": "squeezenet"}, "squeezenet")
    assert (first.statistic, first.warmup_runs) == ("mean of the timed runs, 8 runs, by benchncnn", 8)
    assert first.environment["moment"]["row"] == "benchncnn.txt:8"


def test_benchncnn_with_a_param_file_names_the_network_of_the_kit() -> None:
    found = only(read("benchncnn_param.txt", "pixel4/ncnn-1.0/gpu/fp16"))

    assert (found.reference, found.latency_ms, found.warmup_runs) == (model("squeezenet1_1"), 8.9, 10)


@pytest.mark.parametrize("average", ["cost: 17.735 ms", "cost total: 17.735000 ms"])  # the latter since a later version
def test_onnxruntime_perf_test_gives_its_median(tmp_path: Path, average: str) -> None:
    text = (RECORDED / "onnxruntime_perf_test.txt").read_text().replace("cost: 17.735 ms", average)
    file = renamed(tmp_path, "", text)

    found = only(read_outputs([file], kit=KIT, platform=Platform.parse("board/onnxruntime-1.31/cpu1/fp32")))

    assert found.latency_ms == pytest.approx(16.7086)
    assert found.environment["moment"]["figures_ms"] == pytest.approx({"mean": 17.735, "min": 15.9831, "max": 23.2702})
    assert found.environment["moment"]["runs"] == 8


def test_benchmark_app_gives_its_median_and_version(tmp_path: Path) -> None:
    file = renamed(tmp_path, "benchmark_app.txt")

    found = only(read_outputs([file], kit=KIT, platform=Platform.parse("xeon/openvino-2026.4/cpu1/fp32")))

    assert (found.latency_ms, found.environment["moment"]["runs"]) == (27.21, 20)
    assert found.environment["moment"]["figures_ms"] == {"min": 13.87, "max": 41.42, "mean": 25.82}


def test_benchmark_app_on_a_gpu_says_so(tmp_path: Path) -> None:
    file = renamed(tmp_path, "benchmark_app_cpp.txt", "# latcast device=nuc\n" + (RECORDED / "benchmark_app_cpp.txt").read_text())

    found = only(read_outputs([file], kit=KIT))

    assert (found.platform, found.latency_ms) == ("nuc/openvino-2024.6/gpu/fp16", 2.29)
