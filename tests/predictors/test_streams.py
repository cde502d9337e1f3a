"""Predictions for processors that work on several images at once say so, and what was published of a stream."""

from __future__ import annotations

import pytest

import latcast


def warnings_of(network: str, platform: str, **options: object) -> str:
    return " ".join(latcast.predict(network, on=platform, **options).warnings)  # type: ignore[arg-type]


def test_a_stream_s_frames_are_stated_beside_the_latency_of_one_image() -> None:
    # 2718 frames a second in Hailo's table of its model zoo: 1000 / 2718 = 0.368 ms.
    found = warnings_of("resnet18", "hailo-8")

    assert "2718 a second" in found
    assert "0.368 ms each" in found


@pytest.mark.parametrize(("network", "options"), [("timm/resnet50", {}), ("resnet18", {"shapes": {"input": (1, 3, 160, 160)}})])
def test_of_another_network_or_image_the_stream_is_not_known(network: str, options: dict[str, object]) -> None:
    assert "how many a second is not known" in warnings_of(network, "hailo-8", **options)


def test_where_images_do_not_overlap_nothing_is_said_of_streams() -> None:
    assert "stream" not in warnings_of("resnet18", "rk3588 npu")
