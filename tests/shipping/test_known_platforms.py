from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from latcast.devices.covariates import FACTS, USUAL, covariates_of, kind_of, network_kernels
from latcast.devices.device_model import INTERCEPT
from latcast.environment import MOMENT
from latcast.errors import DatasetError
from latcast.kernels.rules import load_rules
from latcast.predictors.network_features import TERM_NAMES, TERM_UNITS
from latcast.records import Measurement, Platform, Reference
from latcast.spaces.catalogue import model
from latcast.spaces.iiswc20 import buildable
from shipping.known_platforms import known_platforms, lineage_or_none, named_in

PIXEL = "pixel4/tflite-2.10/cpu4/fp32"


def measured(
    name: str = "squeezenet1_1", latency_ms: float | None = 5.0, platform: str = PIXEL, **environment: Any
) -> Measurement:
    return Measurement(
        platform, model(name), runs_ms=() if latency_ms is None else (latency_ms,), latency_ms=latency_ms,
        raw_latency_ms=latency_ms, error=None if latency_ms is not None else "it crashed", environment=environment,
    )  # fmt: skip


def test_a_platform_has_the_median_of_each_network() -> None:
    pool = known_platforms([("timm", measured(latency_ms=value)) for value in (4.0, 5.0, 9.0)] + [("timm", measured("alexnet"))])

    [platform] = pool.platforms
    assert platform.name == PIXEL
    assert np.exp(platform.log_ms) == pytest.approx([5.0, 5.0])
    assert [pool.references[index].name for index in platform.networks] == ["squeezenet1_1", "alexnet"]
    assert len(pool.features) == len(pool.lineages) == 2
    assert pool.left_out == {}


def test_a_network_whose_filters_a_platform_standardises_is_another_there() -> None:
    folding, compiled = "i7/openvino-2024.1/cpu/fp32", "i7/pytorch-2.4.0/cpu+dynamo/fp32"
    names = ("timm/nf_resnet26", "timm/resnet26")

    pool = known_platforms([("timm", measured(name, platform=each)) for each in (folding, compiled) for name in names])

    (first, plain), (second, same) = (each.networks.tolist() for each in pool.platforms)
    assert plain == same
    assert first != second
    assert pool.references[first] == pool.references[second]
    # All of its 13.9 million filters' values are normalised.
    more = (pool.features.terms[second] - pool.features.terms[first]) / TERM_UNITS
    assert more[TERM_NAMES.index("moved normalisation")] == pytest.approx(2 * 13_915_328)


def test_the_same_platform_of_two_sources_is_two_that_share_their_silicon() -> None:
    pool = known_platforms([("timm", measured()), ("paddle", measured())])

    assert [each.source for each in pool.platforms] == ["timm", "paddle"]
    assert len({each.silicon for each in pool.platforms}) == 1


@pytest.mark.parametrize(
    ("source", "item", "reason"),
    [
        ("timm", measured(latency_ms=None), "it failed"),
        ("timm", measured(latency_ms=0.01), "it is shorter than 0.02 ms"),
        ("timm", measured(platform="orin/tensorrt-8.4/gpu+b32/fp16"), "it is of a batch"),
        ("xnnpack", measured(latency_ms=3.0, dataset={"rounded_ms": 1.0}), "it is rounded, and shorter than 4 steps"),
        ("renesas_drpai", measured(platform="v2m/tvm-2.4/cpu/fp32", unit_kind="cpu"), "its unit ran code that was not optimised"),
        ("aihub", measured(platform="s23/qnn-2.20/npu/int8", unit_kind="npu", **{MOMENT: {"npu_layers": 95, "cpu_layers": 5}}),
         "more than a fiftieth of its layers ran on another unit"),
        ("iiswc20", Measurement(PIXEL, Reference("iiswc20", {"name": "a"}, "a"), runs_ms=(9.0,), latency_ms=9.0,
                                raw_latency_ms=9.0),
         "its network has no graph"),
    ],
)  # fmt: skip
def test_other_measurements_are_left_out_and_counted(source: str, item: Measurement, reason: str) -> None:
    pool = known_platforms([(source, item), (source, measured())])

    assert pool.left_out == {reason: 1}
    assert [len(each.networks) for each in pool.platforms] == [1]


def test_a_batch_is_told_by_its_unit_and_not_by_a_name_that_begins_so() -> None:
    pool = known_platforms([("timm", measured(platform="orin/tensorrt-8.4/gpu+big/fp16"))])

    assert pool.left_out == {}


def test_a_layer_in_fifty_may_run_on_another_unit() -> None:
    item = measured(platform="s23/qnn-2.20/npu/int8", unit_kind="npu", **{MOMENT: {"npu_layers": 98, "cpu_layers": 2}})

    [platform] = known_platforms([("aihub", item)]).platforms
    assert platform.kind == "npu"


def test_covariates_are_of_the_kind_the_runtime_the_precision_and_the_chip() -> None:
    found = covariates_of(Platform.parse(PIXEL), "cpu")

    assert {INTERCEPT, "kind cpu", "runtime tflite", "precision cpu fp32"} <= set(found)
    assert found["cpu threads"] == 2.0
    assert any(name.startswith("cpu log2") for name in found)


@pytest.mark.parametrize(
    ("unit", "threads", "peak_threads"), [("cpu2", 1.0, 1.0), ("cpu64", 6.0, 4.0), ("cpu", 4.0, 4.0), ("cpu+xnnpack", 0.0, 0.0)]
)
def test_the_peak_is_that_of_the_threads_up_to_sixteen(unit: str, threads: float, peak_threads: float) -> None:
    found = covariates_of(Platform.parse(f"ryzen-9-5950x/tflite-2.10/{unit}/fp32"), "cpu")

    assert found["cpu threads"] == threads
    core = found["cpu log2_fma_bits"] + USUAL["log2_fma_bits"] + found["cpu log2_ghz"] + USUAL["log2_ghz"]
    assert core == pytest.approx(math.log2(512 * 4.9))
    assert found["cpu log2_peak"] == pytest.approx(core + peak_threads - USUAL["log2_peak"])


@pytest.mark.parametrize(
    ("kind", "unit", "fact", "line"),
    [
        ("gpu", "gpu/fp16", "gpu log2_gpu_gflops", ["apple-a12", "apple-a15", "apple-a16", "apple-a19"]),
        ("gpu", "gpu/fp16", "gpu log2_gpu_gflops", ["sdm845", "sm8250", "sm8550", "sm8750"]),
        ("npu", "npu/int8", "npu log2_tops", ["exynos2100", "exynos2400", "exynos2500"]),
    ],
)
def test_a_fact_that_is_not_known_rises_along_a_line_of_chips(kind: str, unit: str, fact: str, line: list[str]) -> None:
    found = [covariates_of(Platform.parse(f"{chip}/tflite-2.10/{unit}"), kind)[fact] for chip in line]

    assert found == sorted(found)
    assert found[-1] > found[0] + 0.5


def test_known_facts_are_kept_where_others_are_filled_in() -> None:
    found = covariates_of(Platform.parse("apple-a16/tflite-2.10/gpu/fp16"), "gpu")

    assert found["gpu log2_bandwidth_gb_s"] == pytest.approx(math.log2(51.2) - USUAL["log2_bandwidth_gb_s"])
    assert found["gpu log2_gpu_fma"] == pytest.approx(math.log2(5 * 128) - USUAL["log2_gpu_fma"])
    assert {f"gpu {name}" for name in FACTS["gpu"]} <= set(found)


def test_a_chip_that_is_not_known_is_as_the_usual_one() -> None:
    found = covariates_of(Platform.parse("whatisit/tflite-2.10/cpu1/fp32"), "cpu")

    assert set(found) == {
        INTERCEPT, "kind cpu", "runtime tflite", "precision cpu fp32", "cpu threads", "cpu threads stated",
    }  # fmt: skip
    assert found["cpu threads"] == 0.0


@pytest.mark.parametrize(
    ("platform", "runtime"),
    [
        ("s24/qnn-unstated/npu/int8", "qairt qnn_dlc"), ("s24/snpe-2.1/npu+qnn_context_binary/int8", "qairt qnn_context_binary"),
        ("snapdragon-8-gen-3/litert-1.4/npu/int8", "tflite qairt-2.42.0"),
        ("s24/tflite-2.17/npu+qairt-2.30/int8", "tflite qairt-2.42.0"),
        ("dimensity-9300/tflite-2.17/npu/int8", "tflite"), ("s24/ort-1.23/npu/int8", "onnxruntime onnx"),
        ("hailo-8/hailort-4.20/npu/int8", "hailo-dfc hailo"), ("rz-v2h/drp-ai-unstated/npu/int8", "drp-ai-tvm"),
    ],
)  # fmt: skip
def test_a_runtime_is_known_by_its_usual_name_and_route(platform: str, runtime: str) -> None:
    assert f"runtime {runtime}" in covariates_of(Platform.parse(platform), "npu")


def test_an_npu_s_runtime_is_that_of_its_backend() -> None:
    assert "runtime onnxruntime qnn" in covariates_of(Platform.parse("s23/onnxruntime-1.20/npu+qnn/int8"), "npu")


def test_the_kind_of_unit_is_what_was_stated_or_what_its_name_says() -> None:
    platform = Platform.parse("s23/qnn-2.20/hexagon/int8")

    assert kind_of(platform, {"unit_kind": "npu"}) == "npu"
    assert kind_of(Platform.parse(PIXEL), {}) == "cpu"
    with pytest.raises(DatasetError, match="of no known kind; expected one of cpu, gpu, npu"):
        kind_of(Platform.parse("a/magic-1.0/abacus/fp32"), {})


def test_networks_of_synthetic_spaces_alone_have_no_lineage() -> None:
    assert lineage_or_none(Reference("random_mixed", {"seed": 1})) == ""
    assert lineage_or_none(model("se_resnet50")) == lineage_or_none(model("resnet50")) != ""
    assert lineage_or_none(buildable()["iiswc20-0"]) == lineage_or_none(model("mobilenet_v2")) != ""


@pytest.mark.parametrize(
    ("name", "times", "kept"), [("resnet18", 3.9, True), ("resnet18", 4.1, False), ("squeezenet1_1", 3.9, True)]
)
def test_a_gpu_that_would_be_four_times_as_fast_as_its_chip_is_left_out(name: str, times: float, kept: bool) -> None:
    """An Apple M1 computes 2600 GFLOP/s at most."""
    mac = "mac/coreml-7.0/gpu/fp32"
    flops = known_platforms([("timm", measured(name))]).features.totals[0, 0]

    pool = known_platforms([("timm", measured(name, flops / (times * 2600e9) * 1e3, mac, chip="Apple M1"))])

    assert [each.name for each in pool.platforms] == ([mac] if kept else [])
    assert sum(pool.left_out.values()) == (0 if kept else 1)


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        (Reference("usc_nas", {"name": "net7"}, "net7"), "the kernels of 'net7' are not known: Li et al"),
        (
            Reference("iiswc20", {"name": "iiswc20-300"}, "iiswc20-300"),
            "the kernels of 'iiswc20-300' are not known: its layers are not",
        ),
    ],
)
def test_of_names_alone_no_kernel_is_known(reference: Reference, reason: str) -> None:
    with pytest.raises(DatasetError, match=reason):
        network_kernels(reference, load_rules("none"))


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"device": {"name": "Jetson Nano"}, "chip": "Tegra X1"}, ("Jetson Nano", "Tegra X1")),
        ({"device": {"board": "Rock3A", "note": "fast"}}, ("Rock3A", "")),
        ({"device": {"model": "GM1901", "cpu_code": 15}}, ("GM1901", "")),
        ({"device": {"soc": "Exynos 9820", "gpu": "Mali G76"}}, ("s10", "Exynos 9820")),
        ({"host": {"cpu": {"model": "AMD EPYC 7763"}}}, ("s10", "AMD EPYC 7763")),
        ({}, ("s10", "")),
    ],
)
def test_device_and_chip_are_read_from_the_environment_as_importers_write_it(
    environment: dict[str, object], expected: tuple[str, str]
) -> None:
    assert named_in("s10", environment) == expected
