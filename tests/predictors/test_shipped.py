"""The predictors that travel with the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.predictors.bundle_index import SHIPPED_FOLDER, scan_bundles
from latcast.predictors.forecast import load, predict
from latcast.records import Platform

PHONES = {"a03s", "iphone7", "iphonexs", "mi8se", "onefusion", "pixel4", "s10"}


def test_every_scenario_of_the_published_measurements_is_there() -> None:
    found = scan_bundles([SHIPPED_FOLDER])

    platforms = [Platform.parse(entry.platform) for entry in found.entries]
    assert found.problems == ()
    assert sum(platform.runtime == "tflite" for platform in platforms) == 90
    assert sum(platform.runtime == "pytorch" for platform in platforms) == 84
    assert {platform.device for platform in platforms} == PHONES


def test_cards_name_licence_source_and_figures_and_warn_where_these_are_poor() -> None:
    for entry in scan_bundles([SHIPPED_FOLDER]).entries:
        assert "MIT" in entry.card["licence"], entry.platform
        assert entry.card["source"]
        assert entry.card["held_out_by"] == "lineage"
        assert entry.card["networks"] >= 60
        assert ("warning" in entry.card) == (entry.card["within_10"] < 70), entry.platform


def test_they_are_small_and_carry_the_notice_of_the_authors() -> None:
    sizes = [path.stat().st_size for path in SHIPPED_FOLDER.iterdir()]

    assert sum(sizes) < 15e6
    assert max(sizes) < 1e6
    assert "MIT licence" in (SHIPPED_FOLDER / "NOTICE.txt").read_text()


@pytest.mark.parametrize(
    "platform",
    [
        "pixel4/tflite-2.10/gpu/fp16",
        "s10/tflite-2.10/2large/fp32",
        "a03s/pytorch-2.0/4small/int8",
        "iphonexs/pytorch-2.0/gpu/fp16",
    ],
)
def test_they_predict_as_they_did_when_they_were_written(platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path))

    found = predict("resnet18", on=load(platform))  # loading checks the golden values

    assert found.low_ms < found.latency_ms < found.high_ms
    assert found.coverage.share == pytest.approx(1.0)
    # A phone takes between 5 ms and half a second for 3.6 GFLOPs.
    assert 5 < found.latency_ms < 500
