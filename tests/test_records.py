"""Platforms and records."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.records import (
    ACTIVATION_BYTES,
    PUBLISHED_PRECISIONS,
    UNSTATED,
    WEIGHT_BYTES,
    ExecutedKernel,
    Measurement,
    Platform,
    Reference,
    Unit,
    device_name,
    runtime_and_version,
)
from latcast.tables import decimal, milliseconds, signed

ROOT = Path(__file__).resolve().parents[1]

NUMBERS = st.floats(-1e9, 1e9) | st.floats(-0.1, 0.1)


class TestNumbers:
    @given(NUMBERS, st.integers(0, 4))
    def test_a_number_has_its_decimals_and_zero_has_no_minus_sign(self, value: float, digits: int) -> None:
        usual = f"{value:.{digits}f}"
        zero = float(usual) == 0

        assert decimal(value, digits) == (usual.removeprefix("-") if zero else usual)
        assert signed(value, digits) == (f"+{usual.removeprefix('-')}" if zero else f"{value:+.{digits}f}")

    @pytest.mark.parametrize(("value", "text"), [
        (-0.0, "0.000"), (-0.0004, "0.000"), (-0.0006, "-0.001"), (-9.994, "-9.99"), (-99.94, "-99.9"), (-1234.4, "-1234"),
    ])  # fmt: skip
    def test_a_latency_or_difference_has_three_significant_digits(self, value: float, text: str) -> None:
        assert milliseconds(value) == text

    def test_no_other_place_formats_a_sign_which_would_bring_a_negative_zero(self) -> None:
        sources = [path for folder in ("src", "benchmarks", "papers", "shipping") for path in (ROOT / folder).rglob("*.py")]

        assert sources
        assert not [path for path in sources if re.search(r":\+[.\d]*f\}", path.read_text())]


class TestStatedParts:
    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("RK3566/RK3568 board", "rk3566-rk3568-board"),
            ("Odroid N2+", "odroid-n2+"),
            ("Mi 9 é", "mi-9-e"),
            ("SD7G1_Oppo (Pro)", "sd7g1_oppo-pro"),
            ("§§", ""),
        ],
    )
    def test_a_device_in_any_spelling_is_written_as_ids_have_it(self, text: str, name: str) -> None:
        assert device_name(text) == name

    @pytest.mark.parametrize("name", ["my_board", "a--b", "pi5.", "n2+", "0x1_"])
    def test_the_device_of_an_id_keeps_its_name(self, name: str) -> None:
        assert Platform.parse(f"{name}/tflite-2.16/cpu4/fp32").device == name
        assert device_name(name) == name

    @pytest.mark.parametrize(
        ("text", "parts"),
        [
            ("tflite-2.16", ("tflite", "2.16")),
            ("tflite", ("tflite", "unstated")),
            ("tflite-unstated", ("tflite", "unstated")),
            ("tflite-master", ("tflite", "master")),
            ("paddle-lite", ("paddle-lite", "unstated")),
            ("paddle-lite-unstated", ("paddle-lite", "unstated")),
            ("tensorrt-jetpack4.6", ("tensorrt", "jetpack4.6")),
        ],
    )
    def test_a_runtime_has_the_version_that_is_stated_and_no_second_one(self, text: str, parts: tuple[str, str]) -> None:
        assert runtime_and_version(text) == parts

    @pytest.mark.parametrize(("unit", "batch"), [("gpu+eager+b256", 256), ("gpu", 1), ("cpu4+big", 1), ("gpu+b0", 1)])
    def test_a_unit_says_the_images_that_it_computes_at_once(self, unit: str, batch: int) -> None:
        assert Unit.parse(unit).batch == batch

    def test_a_platform_that_is_stated_again_by_its_parts_is_the_same(self) -> None:
        platform = Platform.stated("my_board", "tflite", "cpu4", "w8a16")

        assert platform.id == "my_board/tflite-unstated/cpu4/w8a16"
        assert Platform.stated(*platform.id.split("/")) == platform

    def test_bytes_are_known_of_every_precision_that_is_stated(self) -> None:
        assert set(ACTIVATION_BYTES) == set(WEIGHT_BYTES) == set(PUBLISHED_PRECISIONS) - {UNSTATED}


class TestExecutedKernels:
    @pytest.mark.parametrize("configuration", [{}, {"operation": "CONV_2D", "input_channels": 64}])
    def test_a_kernel_comes_out_of_json_as_it_went_in(self, configuration: dict[str, int | str]) -> None:
        kernel = ExecutedKernel("convolution_2d_3", "convolution_2d", ("conv", "relu"), 1.5, configuration)
        record = Measurement("pixel4/tflite-2.10/gpu/fp16", Reference("resnet"), latency_ms=2.0, executed=(kernel,))

        assert Measurement.from_json(json.loads(json.dumps(record.to_json()))) == record

    def test_kernels_are_hashable(self) -> None:
        assert (
            len({ExecutedKernel("a", "Conv", (), 1.0, {"stride": 1}), ExecutedKernel("a", "Conv", (), 1.0, {"stride": 1})}) == 1
        )


class TestReferences:
    def test_the_name_does_not_enter_the_key(self) -> None:
        assert Reference("pytorchcv", {"name": "resnet18"}).key == Reference("pytorchcv", {"name": "resnet18"}, "my network").key
        assert Reference("pytorchcv", {"name": "resnet18"}).key != Reference("pytorchcv", {"name": "resnet10"}).key
