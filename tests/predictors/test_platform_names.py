from __future__ import annotations

import pytest

from latcast.chips.chip_names import chips_of, find
from latcast.platforms import meaning_of
from latcast.predictors.bundle_index import cards_of, platform_ids
from latcast.predictors.platform_names import Named, best_known, read_name, runtime_called

SPELLINGS = {
    "Pixel 4": ("pixel4", "Pixel 4", "google pixel 4", "PIXEL_4", "pixel-4 gpu", "Pixel4/TFLite-2.10/GPU/FP16"),
    "Pixel 6": ("Pixel 6", "pixel6", "Google Pixel 6 TPU", "pixel 6 cpu"),
    "Pixel 7": ("pixel 7", "Google Pixel 7"),
    "Pixel 8 Pro": ("Pixel 8 Pro", "pixel8pro", "google pixel 8 pro npu"),
    "Galaxy S24": ("Galaxy S24", "samsung galaxy s24", "Samsung S24", "galaxy s24 npu int8"),
    "Galaxy S24 (Exynos)": ("SM-S921B", "sm-s921b gpu"),
    "Galaxy S24 Ultra": ("Galaxy S24 Ultra", "samsung s24 ultra", "SM-S928B"),
    "Galaxy S23": ("Samsung Galaxy S23", "galaxy s23", "S23", "SM-S911B"),
    "Galaxy S21": ("Galaxy S21", "s21"),
    "Galaxy S25": ("samsung galaxy s25", "S25 NPU", "Galaxy S25 qnn"),
    "Galaxy S20 5G": ("Galaxy S20", "samsung galaxy s20 cpu"),
    "Galaxy S10": ("Galaxy S10", "samsung s10 gpu"),
    "Galaxy A54 5G": ("Galaxy A54 5G", "SM-A546B", "galaxy a54", "Samsung A54", "samsung a54 int8"),
    "Galaxy A03s": ("Galaxy A03s", "samsung a03s"),
    "Galaxy Tab S4": ("Galaxy Tab S4", "tab s4", "SM-T830"),
    "Xiaomi Mi 9": ("Xiaomi Mi 9", "mi 9", "mi9 opencl"),
    "Xiaomi 13": ("Xiaomi 13", "xiaomi13"),
    "Motorola Edge 40": ("Motorola Edge 40", "Moto Edge 40"),
    "GeForce RTX 4090": ("RTX 4090 onnxruntime cuda", "nvidia rtx 4090", "RTX 4090 GPU"),
    "GeForce RTX 4090 Laptop GPU": ("RTX 4090 Laptop GPU", "rtx 4090 laptop"),
    "Redmi Note 8 Pro": ("Redmi Note 8 Pro", "redmi note8 pro", "Xiaomi Redmi Note 8 Pro"),
    "Redmi Note 8": ("redmi note 8", "Xiaomi Redmi Note 8"),
    "Poco F3": ("Poco F3", "xiaomi poco f3"),
    "OnePlus 9": ("OnePlus 9", "oneplus9", "one plus 9"),
    "iPhone XS": ("iPhone XS", "iphonexs", "apple iphone xs gpu"),
    "iPhone 13": ("iPhone 13", "iphone13 cpu"),
    "iPhone 15 Pro": ("iPhone 15 Pro", "iphone15pro", "iPhone 15 Pro neural engine"),
    "iPad Pro M1": ("iPad Pro M1", "ipad pro m1 gpu"),
    "MacBook Pro M2": ("MacBook Pro M2", "macbook pro m2 cpu"),
    "MacBook Pro M3 Pro": ("MacBook Pro 14 M3 Pro", "macbook pro 16-inch m3 pro"),
    "Apple M2": ("M2", "Apple M2", "MacBook M2"),
    "Apple A15 Bionic": ("Apple A15", "A15 Bionic"),
    "Huawei Mate 30": ("Huawei Mate 30", "mate 30", "huawei mate30 gpu"),
    "Kirin 990": ("Kirin 990", "hisilicon kirin 990", "kirin990"),
    "Nexus 5": ("Nexus 5", "google nexus 5"),
    "Snapdragon 855": ("Snapdragon 855", "SM8150", "sd855", "qualcomm snapdragon 855 gpu"),
    "Snapdragon 888": ("Snapdragon 888", "sm8350", "SD 888"),
    "Snapdragon 8 Gen 2": ("Snapdragon 8 Gen 2", "SM8550", "8 gen 2 htp", "snapdragon8gen2"),
    "Snapdragon 8 Gen 3": ("Snapdragon 8 Gen 3 NPU", "SM8650", "qualcomm snapdragon 8 gen 3"),
    "Snapdragon 8 Elite": ("Snapdragon 8 Elite", "SM8750"),
    "Snapdragon X Elite": ("Snapdragon X Elite", "snapdragon x elite npu"),
    "Dimensity 9300": ("Dimensity 9300", "MediaTek Dimensity 9300", "MT6989"),
    "Helio G90T": ("Helio G90T", "mediatek helio g90t"),
    "Google Tensor G3": ("Tensor G3", "google tensor g3 tpu"),
    "Exynos 2400": ("Exynos 2400", "samsung exynos 2400 gpu"),
    "Raspberry Pi 4": (
        "Raspberry Pi 4",
        "rpi4",
        "pi 4",
        "RPi 4 ncnn",
        "raspberry pi 4b",
        "raspberry-pi-4 tflite 4 threads",
        "Raspberry Pi 4 Model B 4GB",
        "raspberry pi 4 8 GB RAM",
    ),
    "Raspberry Pi 5": ("Raspberry Pi 5", "rpi5", "pi5 cpu", "raspberry pi 5 with ncnn"),
    "Raspberry Pi 3B+": ("Raspberry Pi 3B+", "rpi 3b+", "raspberry pi 3 model b+"),
    "Raspberry Pi Zero 2 W": ("Raspberry Pi Zero 2 W", "pi zero 2 w", "rpi zero 2w"),
    "Jetson Nano": ("Jetson Nano", "nvidia jetson nano gpu", "jetson-nano tensorrt"),
    "Jetson Orin Nano": (
        "Jetson Orin Nano",
        "nvidia jetson orin nano",
        "jetson orin nano gpu fp16",
        "Jetson Orin Nano Developer Kit 8GB",
    ),
    "Jetson AGX Orin": ("Jetson AGX Orin", "NVIDIA Jetson AGX Orin tensorrt"),
    "Jetson Xavier NX": ("Jetson Xavier NX", "nvidia jetson xavier nx"),
    "Jetson TX2": ("Jetson TX2", "jetson tx2 gpu"),
    "RK3588": ("RK3588", "RK3588 NPU", "rockchip rk3588 cpu"),
    "RK3566": ("rk3566", "Rockchip RK3566"),
    "Orange Pi 5": ("Orange Pi 5", "orangepi5", "orangepi 5 npu"),
    "Radxa ROCK 5B": ("Rock 5B", "Radxa Rock 5B"),
    "Odroid N2+": ("Odroid N2+", "odroid-n2 plus"),
    "Khadas VIM4": ("Khadas VIM4", "vim4"),
    "i.MX 8M Plus": ("i.MX 8M Plus", "imx8mp", "NXP i.MX8M Plus npu"),
    "Edge TPU": ("Edge TPU", "Coral TPU", "Coral Edge TPU", "google coral usb accelerator"),
    "Coral Dev Board": ("Coral Dev Board", "google coral dev board"),
    "Hailo-8": ("Hailo-8", "hailo8", "hailo 8 npu"),
    "Hailo-8L": ("Hailo-8L", "hailo8l"),
    "Core i7-12700H": ("Intel Core i7-12700H", "i7-12700H", "i7 12700h openvino"),
    "GeForce RTX 3090": ("RTX 3090", "NVIDIA GeForce RTX 3090", "3090 tensorrt"),
    "Tesla V100": ("V100", "nvidia tesla v100"),
}
"""Devices and chips of the table as vendors call them, by their model codes and as people type them."""

UNKNOWN = (
    "foo", "gpu", "npu int8", "my phone", "pixle 4", "Pixel 42", "Galaxy", "snapdragon", "jetson", "raspberry pi 9", "iphone 99",
    "RK9999 NPU", "Pixel 4 toaster", "Samsung Mi 9", "oppo a03s",
    "s10 fp31", "Redmi Note", "intel cpu", "arm board", "cortex", "tflite",
    "",
)  # fmt: skip
"""Texts that name no device of the table, or too many."""


def name_of(text: str) -> Named | None:
    return read_name(text, platform_ids())


def main_chips(name: str) -> set[str]:
    """Ids of the chips with the CPU, or of the accelerator, of all that has this name, and of a device's variants."""
    found = [each for each in find(name) if each.exact] or [each for each in find(name) if each.name.startswith(f"{name} (")]
    return {each.chips[0].id for each in found}


def test_nearly_all_spellings_name_their_device_and_none_names_another() -> None:
    cases = [(name, text, name_of(text)) for name, texts in SPELLINGS.items() for text in texts]
    refused = [text for _, text, found in cases if found is None]
    wrong = [
        text
        for name, text, found in cases
        if found is not None and {chips_of(each)[0].id for each in found.entries} - main_chips(name)
    ]

    assert (len(SPELLINGS), len(cases)) >= (60, 150)
    assert wrong == []
    assert len(refused) <= 0.05 * len(cases), refused


@pytest.mark.parametrize("text", UNKNOWN)
def test_what_names_no_device_or_too_many_is_refused(text: str) -> None:
    assert name_of(text) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pixel 4 tflite gpu", {"pixel4/tflite-2.10/gpu/fp16"}),
        ("Pixel 4 (Android 13), TFLite 2.10 GPU", {"pixel4/tflite-2.10/gpu/fp16"}),
        ("pixel 4 tf lite v2.14.1 gpu", {"pixel4/tflite-2.10/gpu/fp16"}),
        ("pixel 4 gpu tflite-2.14", {"pixel4/tflite-2.10/gpu/fp16"}),
        ("Ubuntu 22.04 on jetson tx2 fp16 TensorRT 10.3", {"jetson-tx2/tensorrt-jetpack4.6/gpu/fp16"}),
        ("half precision on the Pixel 4's GPU with TensorFlow Lite", {"pixel4/tflite-2.10/gpu/fp16"}),
        ("PIXEL4/TFLite/GPU/FP16", {"pixel4/tflite-2.10/gpu/fp16"}),
        ("litert 2large float32 samsung galaxy s10", {"s10/tflite-2.10/2large/fp32"}),
        ("tflite int8 pixel 4 1med1large", {"pixel4/tflite-2.10/1large1med/int8"}),
        (
            "raspberry pi 5 cpu 4 threads",
            {f"raspberry-pi-5-broadcom-bcm2712/ncnn-unstated/cpu4/{precision}" for precision in ("fp32", "int8")},
        ),
        ("pixel4/tflite-2.11/gpu/fp16", set()),
    ],
)
def test_words_beside_the_device_choose_among_its_platforms_in_any_order(text: str, said: set[str]) -> None:
    found = name_of(text)

    assert found is not None
    assert set(found.platforms) == said


def test_a_chip_stands_for_the_platforms_of_all_its_devices() -> None:
    found = name_of("Snapdragon 855")

    assert found is not None
    assert {name.split("/")[0] for name in found.platforms} >= {"pixel4", "xiaomi-mi-9", "snapdragon-855-phone"}


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("Snapdragon 8 Elite NPU", {"samsung-galaxy-s25"}),  # whose chip has the same NPU and a faster CPU
        ("Snapdragon 8 Elite CPU", set()),
        ("Snapdragon 8 Gen 1 NPU", {"qcs8450-proxy"}),
        ("Hailo-15M NPU", set()),  # 11 TOPS, where the Hailo-15H that was measured has 20
        ("Orin NX GPU", set()),  # half of the cores of the AGX Orin that was measured
        ("OnePlus 11 NPU", {"qcs8550-proxy"}),  # a phone with a chip that was measured
        ("OnePlus 11 GPU", {"qualcomm-sm8550-ab-snapdragon-8-gen-2"}),
        ("Galaxy S24 NPU", set()),  # which has one of two chips
    ],
)
def test_a_device_or_chip_is_answered_by_others_of_its_silicon_that_have_the_same_unit(text: str, devices: set[str]) -> None:
    found = name_of(text)

    assert found is not None
    assert {name.split("/")[0] for name in found.platforms} == devices
    assert found.alike == bool(devices)


def test_units_that_no_bin_of_the_silicon_was_measured_on_are_answered_from_the_chip() -> None:
    found = meaning_of("Snapdragon 8 Elite", platform_ids(), cards_of)

    assert found is not None
    assert [name.split("/")[0] for name in found.taken] == ["samsung-galaxy-s25"]
    assert [each.platform.unit for each in found.from_chip] == ["cpu4", "gpu"]
    assert found.note.startswith("'Snapdragon 8 Elite' is answered ")


def test_the_best_known_of_each_unit_learned_from_many_networks_and_errs_least() -> None:
    names = (
        "a/tflite-1/2large/fp32",
        "a/tflite-1/1large/fp32",
        "a/tflite-1/1small/fp32",
        "a/tflite-1/1large/int8",
        "a/x-1/gpu/fp16",
    )
    figures = ((100, 6.0), (90, 5.0), (90, 1.0), (100, 1.0), (3, 50.0))
    cards = {name: {"networks": networks, "mape": mape} for name, (networks, mape) in zip(names, figures, strict=True)}
    few = cards | {names[1]: {"networks": 40, "mape": 5.0}}

    assert best_known(Named("a", (), names, ()), cards) == (names[1], names[4])
    assert best_known(Named("a", (), names, ()), few) == (names[0], names[4])


def test_platforms_of_several_precisions_are_of_the_same_cores() -> None:
    by_precision = [[f"a/tflite-1/{unit}/{precision}" for unit in ("1large", "1large1med")] for precision in ("fp32", "int8")]
    one, both = zip(*by_precision, strict=True)
    cards = {name: {"networks": 100, "mape": 6.0} for name in (*one, *both)} | {both[1]: {"networks": 100, "mape": 5.0}}

    assert [best_known(Named("a", (), tuple(names), ()), cards) for names in by_precision] == [(one[0],), (one[1],)]


def test_kernels_that_are_not_optimised_are_taken_only_where_they_are_said_or_nothing_else_is_known() -> None:
    names = ("a/tflite-1/cpu+builtin/fp32", "a/tflite-2/cpu+ruy/fp32")
    cards = {name: {"networks": 40, "mape": mape} for name, mape in zip(names, (7.0, 12.0), strict=True)}

    assert best_known(Named("a", (), names, ()), cards) == (names[1],)
    assert best_known(Named("a", (), names[:1], ("builtin",)), cards) == (names[0],)


def test_of_runtimes_that_are_known_about_as_well_the_most_usual_one_is_taken() -> None:
    names = ("a/tflite-1/cpu/fp32", "a/x-1/cpu/fp32")

    def taken(of_tflite: float) -> tuple[str, ...]:
        cards = {name: {"networks": 90, "mape": mape} for name, mape in zip(names, (of_tflite, 20.0), strict=True)}
        return best_known(Named("a", (), names, ()), cards)

    assert taken(29.0) == (names[0],)
    assert taken(31.0) == (names[1],)


def test_of_runtimes_that_are_known_well_the_most_usual_one_is_taken() -> None:
    names = ("a/tflite-1/gpu/fp16", "a/x-1/gpu/fp16")

    def taken(of_tflite: float) -> tuple[str, ...]:
        cards = {name: {"networks": 90, "mape": mape} for name, mape in zip(names, (of_tflite, 4.0), strict=True)}
        return best_known(Named("a", (), names, ()), cards)

    assert taken(6.0) == (names[0],)
    assert taken(30.0) == (names[1],)


def test_the_cards_of_shipped_and_pooled_platforms_are_read_alone() -> None:
    names = ("pixel4/tflite-2.10/gpu/fp16", "jetson-nano/tensorrt-jetpack4.6/gpu/fp16")

    assert {name: card["networks"] > 0 for name, card in cards_of(names).items()} == dict.fromkeys(names, True)


@pytest.mark.parametrize(
    ("text", "runtime"),
    [
        ("TFLite", "tflite"), ("TensorFlow Lite 2.16", "tflite-2.16"), ("ONNX Runtime 1.23.0", "onnxruntime-1.23.0"),
        ("ncnn 20240410", "ncnn-20240410"), ("Arm NN", "armnn"), ("qnn_dlc", "qnn_dlc"), ("tflite-2.16", "tflite-2.16"),
    ],
)  # fmt: skip
def test_a_runtime_in_any_spelling_is_written_as_ids_have_it(text: str, runtime: str) -> None:
    assert runtime_called(text) == runtime
