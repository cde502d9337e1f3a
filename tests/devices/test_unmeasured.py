from __future__ import annotations

import pytest

from latcast.devices.added_device import add_device
from latcast.devices.device_model_file import load_device_model
from latcast.devices.measured_networks import MeasuredNetworks
from latcast.devices.unmeasured import unmeasured_platforms
from latcast.errors import DatasetError, UnknownPlatformError
from latcast.predictors.bundle_index import platform_ids
from latcast.predictors.platform_names import read_name
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform, Unit


def predictors_of(text: str) -> list[PlatformPredictor]:
    named = read_name(text, platform_ids())
    return [] if named is None else unmeasured_platforms(named, platform_ids())


def test_a_device_whose_chip_is_known_is_predicted_from_it_and_says_so() -> None:
    [found] = predictors_of("redmi note 8/tflite-2.17/cpu4/fp32")

    assert found.platform.id == "redmi-note-8/tflite-2.17/cpu4/fp32"
    assert found.card["measurements"] == 0
    for words in ("nothing was measured", "sm6125", "latcast device kit"):
        assert words in found.card["warning"]
    prediction = found.predict("resnet18")
    assert prediction.high_ms > 4 * prediction.low_ms
    assert any("nothing was measured" in text for text in prediction.warnings)


def test_facts_that_are_not_known_of_a_chip_are_named() -> None:
    [iphone], [card] = predictors_of("iPhone 17 Pro gpu"), predictors_of("RTX 4090 gpu")

    assert "estimated from chips that are alike: memory bandwidth, GPU clock, GPU peak, TOPS;" in iphone.card["warning"]
    assert "estimated" not in card.card["warning"]


@pytest.mark.parametrize(
    ("text", "platforms"),
    [
        ("redmi note 8/tflite/cpu4/fp32", ["redmi-note-8/tflite-unstated/cpu4/fp32"]),
        ("Redmi Note 8 cpu", ["redmi-note-8/tflite-unstated/cpu4/fp32"]),
        ("int8 on redmi note 8 with ncnn, 2 threads", ["redmi-note-8/ncnn-unstated/cpu2/int8"]),
        ("RK3588 NPU", ["rk3588/rknpu2-2.3.2/npu+1core+rknn/int8"]),
        ("Hailo-8", ["hailo-8/hailo-dfc-3.33.0/npu+hailo/int8"]),
        ("RTX 4090", ["geforce-rtx-4090/tensorrt-unstated/gpu/fp16"]),
        ("RTX 3060", ["geforce-rtx-3060/tensorrt-unstated/gpu/fp16"]),  # others of its family ran ncnn
        ("pixel 7 gpu", ["pixel-7/tflite-unstated/gpu/fp16"]),  # others of its family ran ArmNN
        ("i5-8250U cpu", ["core-i5-8250u/onnxruntime-unstated/cpu/fp32"]),
        ("i5-8250U tflite cpu", ["core-i5-8250u/tflite-unstated/cpu/fp32"]),
        ("pixel 7 xnnpack 4 threads", ["pixel-7/tflite-unstated/cpu4+xnnpack/fp32"]),
    ],
)
def test_what_is_said_is_kept_and_the_rest_is_usual(text: str, platforms: list[str]) -> None:
    assert [each.platform.id for each in predictors_of(text)][: len(platforms)] == platforms


def test_each_unit_of_a_device_and_each_of_its_variants_is_answered() -> None:
    found = [each.platform for each in predictors_of("Galaxy S24")]

    assert {each.device for each in found} == {"galaxy-s24-exynos", "galaxy-s24-snapdragon"}
    assert [Unit.parse(each.unit).kind for each in found] == ["cpu", "gpu", "npu"] * 2


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("jetson orin nano", ["cpu", "gpu"]),
        ("jetson orin nano tensorrt", ["gpu"]),
        ("jetson orin nano 2 threads", ["cpu"]),
        ("galaxy a54 qnn", ["npu"]),
        ("raspberry pi 5 hailo", []),
    ],
)
def test_only_units_that_the_runtime_or_the_threads_allow_are_answered(text: str, kinds: list[str]) -> None:
    assert [Unit.parse(each.platform.unit).kind for each in predictors_of(text)] == kinds


def test_no_more_threads_than_cores_are_predicted() -> None:
    assert [each.platform.unit for each in predictors_of("rv1103 cpu")] == ["cpu1"]
    assert [each.platform.unit for each in predictors_of("redmi note 8 cpu 8 threads")] == ["cpu8"]


@pytest.mark.parametrize("text", ["ESP32", "STM32H7", "Arduino Nano 33 BLE", "stm32n6 cpu"])
def test_the_cpu_of_a_microcontroller_is_refused_with_what_to_do(text: str) -> None:
    with pytest.raises(UnknownPlatformError, match=r"is a microcontroller, and no network was measured .* latcast device add"):
        predictors_of(text)


@pytest.mark.parametrize("text", ["raspberry pi 3", "nanopi r2s"])
def test_a_gpu_that_only_draws_is_no_unit_of_its_device(text: str) -> None:
    assert predictors_of(f"{text} gpu") == []
    with pytest.raises(DatasetError, match="runs no networks; expected another of its units: cpu"):
        add_device(Platform.stated(text, "ncnn", "gpu", "fp32"), MeasuredNetworks(()), load_device_model())


def test_of_a_microcontroller_with_an_npu_that_is_answered() -> None:
    assert [Unit.parse(each.platform.unit).kind for each in predictors_of("STM32N6")] == ["npu"]


def test_of_devices_with_one_name_the_runtime_tells_which_is_meant() -> None:
    [found] = predictors_of("samsung-galaxy-s24/qairt-2.42.0/npu+qnn_dlc/int8")
    [below] = predictors_of("samsung-galaxy-s24/tflite-2.17.0/npu+qairt-2.42.0/int8")

    assert "sm8650" in found.card["warning"]
    assert "sm8650" in below.card["warning"]


def test_an_id_whose_device_names_a_chip_is_answered_from_it() -> None:
    [found] = predictors_of("my-sa8295p-board/qairt-2.42.0/npu+qnn_dlc/int8")

    assert "the chip SA8295P;" in found.card["warning"]


def test_a_device_with_one_of_several_chips_is_refused_with_their_names() -> None:
    with pytest.raises(UnknownPlatformError, match="it may be galaxy-s24-exynos, galaxy-s24-snapdragon; name one of these"):
        predictors_of("galaxy-s24/tflite-2.17/cpu4/fp32")


@pytest.mark.parametrize(
    "text",
    [
        "pixel4/tflite-2.11/gpu/fp16",  # another version than the one that is there
        "pixel 4/tflite-2.10/cpu4/fp32",  # the device has platforms under TFLite: one of them is meant
        "redmi note 8/tflite-2.17/cpu4/fp31",
        "redmi note/tflite-2.17/cpu4/fp32",  # many are called so
        "cortex-a76/tflite-2.17/cpu4/fp32",  # a core is no device
    ],
)
def test_ambiguous_ids_give_no_predictor(text: str) -> None:
    assert predictors_of(text) == []
