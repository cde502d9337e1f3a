"""Which devices a text names, and which platforms are of them or like them, the nearest first."""

from __future__ import annotations

import json

import pytest

from latcast.chips.chip_names import nearest_known
from latcast.devices import device_search
from latcast.devices.device_search import FoundDevice, find_devices
from latcast.predictors.bundle_index import PlatformSummary
from latcast.records import Platform


def measured(name: str, chip: str | None = None, mape: float | None = 5.0) -> PlatformSummary:
    platform = Platform.parse(name)
    return PlatformSummary(name, platform.device, chip, platform.unit, "shipped", mape, None, None, None, None, None, None)


KNOWN = [
    measured("a-board/ncnn-1/cpu4/fp32", "BCM2711"),
    measured("local/onnxruntime-1.31/cpu1/fp32", "Intel(R) Xeon(R) Platinum 8573C CPU @ 2.60GHz"),
    measured("local/onnxruntime-1.31/wasm1/fp32", "Intel(R) Xeon(R) Platinum 8573C CPU @ 2.60GHz"),
    measured("mi8se/tflite-2.10/1small/fp32", "Snapdragon 710"),
    measured("mi8se/tflite-2.10/gpu/fp16", "Snapdragon 710"),
    measured("nobody-knows/tflite-2.10/gpu/fp16"),
    measured("oneplus-7t/tflite-2.10/1large/fp32", "SM8150-AC"),
    measured("pixel4/tflite-2.10/1large/fp32", "Snapdragon 855"),
    measured("pixel4/tflite-2.10/1small/fp32", "Snapdragon 855", mape=None),
    measured("pixel4/tflite-2.10/gpu/fp16", "Snapdragon 855"),
    measured("some-npu/qnn-1/npu/int8", "qcs9075"),
]


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_search, "platforms", lambda: KNOWN)


def relations(found: FoundDevice) -> list[tuple[str, str, str]]:
    return [(near.id, near.part, near.relation) for near in found.platforms]


def test_the_device_itself_comes_before_its_silicon_its_cores_and_its_gpu_family() -> None:
    assert relations(find_devices("pixel 4")[0]) == [
        ("pixel4/tflite-2.10/1large/fp32", "kryo-485-prime (cortex-a76)", "the same device"),
        ("pixel4/tflite-2.10/1small/fp32", "kryo-485-silver (cortex-a55)", "the same device"),
        ("pixel4/tflite-2.10/gpu/fp16", "Adreno 640", "the same device"),
        ("oneplus-7t/tflite-2.10/1large/fp32", "kryo-485-prime (cortex-a76)", "the same silicon"),
        ("mi8se/tflite-2.10/1small/fp32", "kryo-360-silver (cortex-a55)", "the same core, cortex-a55"),
        ("mi8se/tflite-2.10/gpu/fp16", "Adreno 616", "the same GPU family, adreno6xx"),
        ("some-npu/qnn-1/npu/int8", "hexagon-v73", "the same NPU family, hexagon"),
    ]


def test_another_device_with_the_chip_has_the_same_chip() -> None:
    [found] = [each for each in find_devices("Mi 9") if each.exact]

    assert {near.relation for near in found.platforms if near.device == "pixel4"} == {"the same chip"}
    assert "Pixel 4" in found.devices
    assert "Xiaomi Mi 9" not in found.devices


def test_a_board_with_the_same_core_is_like_it_with_its_big_cores_first() -> None:
    [found] = [each for each in find_devices("orange pi 5") if each.exact]

    assert [(near.id.partition("/")[0], near.relation) for near in found.platforms] == [
        ("oneplus-7t", "the same core, cortex-a76"),
        ("pixel4", "the same core, cortex-a76"),
        ("mi8se", "the same core, cortex-a55"),
        ("pixel4", "the same core, cortex-a55"),
    ]


def test_units_of_a_browser_are_those_of_the_cpu() -> None:
    [found] = find_devices("Xeon Platinum 8592+")

    assert relations(found) == [
        ("local/onnxruntime-1.31/cpu1/fp32", "raptor-cove-sp (golden-cove-sp)", "the same silicon"),
        ("local/onnxruntime-1.31/wasm1/fp32", "raptor-cove-sp (golden-cove-sp)", "the same silicon"),
    ]


def test_npus_are_alike_by_silicon_class_or_family() -> None:
    found = {name: find_devices(name)[0] for name in ("sa8775p", "qcs8550", "snapdragon 8 elite gen 5")}

    relation = {name: [near.relation for near in each.platforms if near.device == "some-npu"] for name, each in found.items()}
    assert relation == {
        "sa8775p": ["the same silicon"],
        "qcs8550": ["the same NPU, hexagon-v73"],
        "snapdragon 8 elite gen 5": ["the same NPU family, hexagon"],
    }


def test_where_nothing_like_it_was_measured_there_are_no_platforms() -> None:
    assert find_devices("esp32")[0].platforms == ()


def test_a_core_tells_which_parts_it_means() -> None:
    found = {each.name: each for each in find_devices("cortex-a76")}

    assert found["Snapdragon 855"].parts == ("kryo-485-prime (cortex-a76)", "kryo-485-gold (cortex-a76)")
    assert found["RK3588"].parts == ("cortex-a76",)
    assert found["RK3588"].by == "core"


def test_what_is_found_goes_to_json_without_what_is_not_known() -> None:
    text = json.dumps([each.to_json() for each in find_devices("redmi note 8")])
    first, second = json.loads(text)

    assert (first["name"], first["kind"], first["exact"], second["exact"]) == ("Redmi Note 8", "device", True, False)
    [chip] = first["chips"]
    assert (chip["id"], chip["cpu"][0]["core"], chip["cpu"][0]["features"]) == ("sm6125", "kryo-260-gold", ["neon"])
    assert "npu" not in chip
    assert None not in chip.values()


def test_a_text_that_names_nothing_is_answered_with_what_is_spelled_most_like_it() -> None:
    assert find_devices("pixle 4") == []
    assert nearest_known("pixle 4")[0] == "Pixel 4"
    assert nearest_known("cortex-a67") == ["cortex-a7", "cortex-a78", "cortex-a77"]
    assert nearest_known("Ring doorbell") == []


def test_one_line_says_what_was_found() -> None:
    assert repr(find_devices("esp32")[0]) == "<FoundDevice ESP32 (ESP32): 0 platforms of it or like it>"
