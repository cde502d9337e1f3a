from __future__ import annotations

import pytest

from latcast.devices.unmeasured import unmeasured_platform


def test_a_device_whose_chip_is_known_is_predicted_from_it_and_says_so() -> None:
    found = unmeasured_platform("redmi note 8/tflite-2.17/cpu4/fp32")

    assert found is not None
    assert found.platform.id == "redmi-note-8/tflite-2.17/cpu4/fp32"
    assert found.card["measurements"] == 0
    for words in ("nothing was measured", "sm6125", "nearest: ", "latcast device kit"):
        assert words in found.card["warning"]
    prediction = found.predict("resnet18")
    assert prediction.high_ms > 4 * prediction.low_ms
    assert any("nothing was measured" in text for text in prediction.warnings)


def test_a_runtime_needs_no_version() -> None:
    found = unmeasured_platform("redmi note 8/tflite/cpu4/fp32")

    assert found is not None
    assert found.platform.runtime_version == "unstated"


@pytest.mark.parametrize(
    "text",
    [
        "pixel4/tflite-2.11/gpu/fp16",  # another version than the one that is there
        "pixel 4/tflite-2.10/cpu4/fp32",  # the device has platforms under TFLite: one of them is meant
        "pixle4/tflite-2.10/gpu/fp16",
        "redmi note 8/tflite-2.17/cpu4/fp31",
        "redmi note 8/tflite-2.17/cpu4",
        "redmi note/tflite-2.17/cpu4/fp32",  # many are called so
        "cortex-a76/tflite-2.17/cpu4/fp32",  # a core is no device
        "redmi note 8",
        "",
    ],
)
def test_ambiguous_names_give_no_predictor(text: str) -> None:
    assert unmeasured_platform(text) is None
