"""The predictors that travel with the package."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from latcast.forecast import predict, predict_many
from latcast.networks import read_model
from latcast.predictors.bundle import load_bundle
from latcast.predictors.bundle_index import SHIPPED_FOLDER, file_name, platform_ids, pool_path, scan_bundles, shipped_pool
from latcast.predictors.intervals import WIDEST
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

    found = predict("resnet18", on=load_bundle(SHIPPED_FOLDER / file_name(platform)))  # loading checks the golden values

    assert found.low_ms < found.latency_ms < found.high_ms
    assert found.coverage.share == pytest.approx(1.0)
    # A phone takes between 5 ms and half a second for 3.6 GFLOPs.
    assert 5 < found.latency_ms < 500


def test_all_of_them_predict_as_they_did_when_they_were_written() -> None:
    entries = scan_bundles([SHIPPED_FOLDER]).entries

    # Loading checks the golden values.
    assert [load_bundle(entry.path).platform.id for entry in entries] == [entry.platform for entry in entries]


class TestPool:
    def test_it_has_many_platforms_of_every_kind_and_is_small(self) -> None:
        pool = shipped_pool()
        assert pool is not None

        devices = {name.partition("/")[0] for name in pool.platforms}
        kinds = Counter(pool.card(name)["unit_kind"] for name in pool.platforms)
        assert len(pool) >= 500
        assert len(devices) >= 140
        assert min(kinds[kind] for kind in ("cpu", "gpu", "npu")) >= 50
        assert pool_path().stat().st_size < 25e6

    def test_no_bundle_has_a_platform_of_it(self) -> None:
        pool = shipped_pool()
        assert pool is not None

        bundles = {entry.platform for entry in scan_bundles([SHIPPED_FOLDER]).entries}
        assert not bundles & set(pool.platforms)
        assert bundles | set(pool.platforms) <= set(platform_ids())

    def test_every_card_names_source_and_a_permissive_licence_and_every_source_is_in_the_notice(self) -> None:
        pool = shipped_pool()
        assert pool is not None
        notice = (pool_path().parent / "devices.NOTICE.txt").read_text()

        for name in pool.platforms:
            card = pool.card(name)
            assert card["licence"].startswith(("MIT", "Apache-2.0", "BSD-3-Clause")), name
            assert card["source"] in notice, name
            assert card["measurements"] >= 4, name
            assert card["trained_on"].startswith(f"{card['measurements']} networks measured there"), name

    @pytest.mark.parametrize(
        ("platform", "fastest_ms", "slowest_ms"),
        [
            ("jetson-nano/tensorrt-jetpack4.6/gpu/fp16", 4, 40),
            ("raspberry-pi-5-broadcom-bcm2712/ncnn-unstated/cpu4/fp32", 15, 100),
            ("qcs8450-proxy/tflite-2.17.0/npu+qairt-2.42.0/int8", 0.1, 5),
        ],
    )
    def test_a_resnet18_takes_about_what_such_a_device_takes(self, platform: str, fastest_ms: float, slowest_ms: float) -> None:
        found = predict("resnet18", on=platform)

        assert fastest_ms < found.latency_ms < slowest_ms
        assert found.low_ms < found.latency_ms < found.high_ms
        assert found.level == 90


SMALLER = (
    ("resnet18", "resnet152"),
    ("yolo/yolov8n", "yolo/yolov8x"),
    ("deit_tiny_16", "vit_base_16"),
    ("timm/convnext_tiny", "timm/convnext_base"),
)
"""Pairs of networks of the same operators, of which the second computes at least three times as much."""


def test_no_known_platform_predicts_a_much_smaller_network_to_take_longer_an_impossible_latency_or_next_to_nothing() -> None:
    names = [name for pair in SMALLER for name in pair]
    platforms = platform_ids()
    predicted = iter(predict_many([read_model(name) for name in names], platforms))
    wrong = []
    for platform in platforms:
        found = {name: next(predicted) for name in names}
        wrong += [(platform, less) for less, more in SMALLER if found[less].latency_ms >= found[more].latency_ms]
        wrong += [(platform, name) for name, each in found.items() if not 0 < each.low_ms <= each.latency_ms <= each.high_ms]
        wrong += [(platform, name) for name, each in found.items() if each.high_ms > 1.001 * WIDEST * each.low_ms]

    assert wrong == []
