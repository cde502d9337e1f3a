"""``latcast platforms`` and ``latcast models``: the lists and what matches, a card, two platforms side by side."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from latcast.predictors import bundle_index
from latcast.predictors.bundle import save_bundle
from latcast.predictors.bundle_index import bundle_path, pool_path
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform
from tests.cli.conftest import Latcast
from tests.cli.dataset import PLATFORM

POOL, SHIPPED_FOLDER = pool_path(), bundle_index.SHIPPED_FOLDER

JETSON = "jetson-nano/tensorrt-jetpack4.6/gpu/fp16"

TWICE_AS_FAST = "local/openvino-2026.4/cpu1/fp32"


@pytest.fixture
def two(bundle: Path, trained: PlatformPredictor) -> None:
    """The trained platform, and one that takes half as long for everything."""
    halved = {name: values / 2 for name, values in trained.analytical.coefficients.items()}
    other = replace(trained, platform=Platform.parse(TWICE_AS_FAST), analytical=replace(trained.analytical, coefficients=halved))
    save_bundle(other, bundle_path(TWICE_AS_FAST))


def test_without_predictors_the_list_is_empty_and_says_how_to_begin(latcast: Latcast) -> None:
    assert latcast("platforms", "--json").json == []

    found = latcast("platforms")
    assert (found.code, found.out) == (0, "")
    assert found.err.endswith("make one of this machine with: latcast demo, or latcast profile\n")


@pytest.mark.usefixtures("bundle")
def test_the_json_is_a_list_with_the_keys_that_scripts_rely_on(latcast: Latcast, trained: PlatformPredictor) -> None:
    [found] = latcast("platforms", "--json").json

    assert set(found) >= {"id", "source", "mape", "within_5", "within_10", "interval_coverage", "trained_on", "licence"}
    assert (found["id"], found["source"], found["licence"]) == (PLATFORM, "user", "CC0-1.0")
    assert found["mape"] == pytest.approx(trained.card["mape"])


@pytest.mark.usefixtures("two")
def test_the_list_has_a_line_for_each_platform(latcast: Latcast) -> None:
    head, *rows = latcast("platforms").out.splitlines()

    assert "MAPE %" in head
    assert [row.split()[0] for row in rows] == [PLATFORM, TWICE_AS_FAST]
    assert rows[0].endswith("23 networks  user")


@pytest.mark.usefixtures("bundle")
def test_a_damaged_bundle_is_named_and_the_others_are_listed(latcast: Latcast, home: Path) -> None:
    (home / "bundles" / "broken.zip").write_bytes(b"no zip")

    found = latcast("platforms", "--json")

    assert [each["id"] for each in found.json] == [PLATFORM]
    assert "broken.zip: found no readable zip" in found.err


@pytest.mark.usefixtures("bundle")
def test_a_platform_shows_its_card_and_what_the_device_does_well(latcast: Latcast, trained: PlatformPredictor) -> None:
    lines = [line.split() for line in latcast("platforms", "show", "local").out.splitlines()]

    assert [PLATFORM] in lines
    assert ["licence", "of", "the", "data", "CC0-1.0"] in lines
    assert ["MAPE,", "%", f"{trained.card['mape']:.4g}"] in lines
    of = dict(zip(trained.analytical.terms, trained.analytical.coefficients["any"].tolist(), strict=True))
    [row] = [line for line in lines if line[:1] == ["any"]]
    assert float(row[1]) == pytest.approx(1e-6 / of["flops"], rel=0.006)
    assert float(row[2]) == pytest.approx(4e-6 / of["moved"], rel=0.006)
    assert float(row[4]) == pytest.approx(1e3 * (of["count"] + of.get("cold_count", 0.0)), rel=0.006)


@pytest.mark.usefixtures("two")
def test_two_platforms_compare_line_by_line(latcast: Latcast) -> None:
    found = latcast("platforms", "show", PLATFORM, TWICE_AS_FAST)

    lines = found.out.splitlines()
    assert lines[:2] == [f"A: {PLATFORM}", f"B: {TWICE_AS_FAST}"]
    [row] = [line.split() for line in lines if line.startswith("conv 1x1 ") and "strided" not in line and "un" not in line]
    first, second = float(row[2]), float(row[3])
    assert second == pytest.approx(2 * first, rel=0.01)


@pytest.mark.usefixtures("two")
def test_the_json_of_platforms_holds_card_overhead_and_throughputs(latcast: Latcast, trained: PlatformPredictor) -> None:
    first, second = latcast("platforms", "show", PLATFORM, TWICE_AS_FAST, "--json").json["platforms"]

    assert (first["id"], second["id"]) == (PLATFORM, TWICE_AS_FAST)
    assert first["card"]["learn_from"] == "operators"
    assert first["overhead_ms"] == trained.network.constant_ms
    assert first["throughputs"][0]["kernel_class"] == "any"
    assert second["throughputs"][0]["gflop_per_s"] == pytest.approx(2 * first["throughputs"][0]["gflop_per_s"])


class TestPatterns:
    @pytest.mark.usefixtures("two")
    @pytest.mark.parametrize("pattern", ["openvino", "*/openvino-*/cpu1/*", TWICE_AS_FAST])
    def test_the_platforms_that_match_are_listed(self, latcast: Latcast, pattern: str) -> None:
        assert [each["id"] for each in latcast("platforms", pattern, "--json").json] == [TWICE_AS_FAST]
        assert latcast("platforms", "list", pattern).out == latcast("platforms", pattern).out

    def test_the_name_of_a_device_needs_no_quotes(self, latcast: Latcast) -> None:
        assert latcast("platforms", "Pixel", "4", "GPU").out == latcast("platforms", "Pixel 4 GPU").out

    @pytest.mark.usefixtures("two")
    @pytest.mark.parametrize(
        "command", [("platforms",), ("predict", "resnet18", "--on"), ("compare", "resnet18", "alexnet", "--on")]
    )
    def test_a_pattern_without_matches_is_answered_with_the_nearest(self, latcast: Latcast, command: tuple[str, ...]) -> None:
        reason = latcast(*command, "local/openvinoo-*").reason

        assert reason == f"no platform matches 'local/openvinoo-*'; nearest: {TWICE_AS_FAST}, {PLATFORM}; all: latcast platforms"

    @pytest.mark.usefixtures("two")
    def test_a_pattern_stands_for_its_platforms_in_a_prediction(self, latcast: Latcast, model_file: Path) -> None:
        found = latcast("predict", model_file, "--on", f"*/cpu1/*,{PLATFORM}", "--json").json["predictions"]

        assert [each["platform"] for each in found] == [PLATFORM, TWICE_AS_FAST]

    def test_networks_are_listed_with_their_published_figures(self, latcast: Latcast) -> None:
        found = latcast("models", "resnet*").out.splitlines()

        assert found[0].split() == ["model", "family", "million", "parameters", "million", "MACs", "top-1,", "%"]
        assert ["resnet50", "resnet", "25.56", "4089", "80.9"] in [line.split() for line in found]
        [network] = latcast("models", "squeezenet1_[1]", "--json").json
        assert (network["name"], network["family"], network["million_macs"]) == ("squeezenet1_1", "squeezenet", 349)
        assert latcast("models", "resnet19").reason.startswith("no published network matches 'resnet19'; nearest: resnet18, ")


def test_without_a_pattern_each_device_that_is_shipped_has_a_line(latcast: Latcast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_index, "SHIPPED_FOLDER", SHIPPED_FOLDER)
    every = latcast("platforms", "*", "--json").json
    head, *rows = latcast("platforms").out.split("\n\n")[0].splitlines()

    assert head.split() == ["device", "platforms", "CPU", "MAPE", "%", "GPU", "MAPE", "%", "NPU", "MAPE", "%"]
    assert [row.split()[0] for row in rows] == list(dict.fromkeys(each["device"] for each in every))
    assert sum(int(row.split()[1]) for row in rows) == len(every)


class TestNarrowTerminals:
    @pytest.fixture(autouse=True)
    def terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "60")
        monkeypatch.setenv("TTY_COMPATIBLE", "1")
        monkeypatch.setenv("NO_COLOR", "1")

    @pytest.mark.usefixtures("two")
    def test_ids_stay_in_one_piece_and_columns_are_left_out(self, latcast: Latcast) -> None:
        lines = re.sub(r"\x1b\[\d*m", "", latcast("platforms").out).splitlines()

        assert max(map(len, lines)) <= 60
        assert "licence" not in lines[0]
        assert [line.split()[0] for line in lines[1:]] == [PLATFORM, TWICE_AS_FAST]

    @pytest.mark.usefixtures("two")
    def test_every_command_prints_names_whole(self, latcast: Latcast, model_file: Path) -> None:
        found = latcast("predict", model_file, "--on", PLATFORM).out + latcast("compare", model_file, "alexnet", "--on", "*").out

        assert found.split().count(str(model_file)) == 2
        assert found.split().count(PLATFORM) == 2
        assert TWICE_AS_FAST in found.split()


class TestFind:
    @pytest.fixture
    def phone(self, bundle: Path, trained: PlatformPredictor) -> str:
        """A platform of a known phone."""
        name = "pixel4/tflite-2.10/1large/fp32"
        save_bundle(replace(trained, platform=Platform.parse(name)), bundle_path(name))
        return name

    def test_a_device_is_shown_with_its_chip_and_similar_platforms(self, latcast: Latcast, phone: str) -> None:
        lines = latcast("platforms", "--find", "mi 9").out.splitlines()

        assert lines[0] == "Xiaomi Mi 9"
        assert [line.split(maxsplit=1) for line in (*lines[1:3], lines[4])] == [
            ["or", "mi 9"],
            ["chip", "Snapdragon 855, sm8150, Qualcomm, 2018, 7 nm"],
            ["GPU", "Adreno 640, 585 MHz"],
        ]
        [row] = [re.split(r"  +", line) for line in lines if phone in line]
        assert row == ["pixel4", "kryo-485-prime (cortex-a76)", "the same chip", "1", phone]
        assert lines[-1] == "Also called so: Xiaomi Mi 9 SE (Snapdragon 712)"

    @pytest.mark.usefixtures("phone")
    def test_a_core_lists_its_chips_and_platforms(self, latcast: Latcast) -> None:
        lines = latcast("platforms", "--find", "cortex-a76").out.splitlines()

        assert {"BCM2712", "RK3588", "Kirin"} <= {line.split()[0] for line in lines if line}
        assert lines[-1].startswith("pixel4 ")
        assert not any(line.startswith("pixel4 ") for line in latcast("platforms", "--find", "cortex-a55").out.splitlines())

    def test_the_json_has_the_chips_and_the_platforms(self, latcast: Latcast, phone: str) -> None:
        [found] = [each for each in latcast("platforms", "--find", "pixel_4", "--json").json if each["exact"]]

        assert found["chips"][0]["name"] == "Snapdragon 855"
        assert [(near["id"], near["relation"]) for near in found["platforms"]] == [(phone, "the same device")]
        assert latcast("platforms", "--find", "pixle", "--json").json == []

    def test_an_unknown_device_is_answered_with_the_nearest(self, latcast: Latcast) -> None:
        assert latcast("platforms", "--find", "pixle 4").reason == (
            "no device, chip, core, GPU or NPU is called 'pixle 4'; nearest: Pixel 4, Pixel 4a, Pixel C; "
            "to measure it: latcast device kit"
        )
        assert latcast("platforms", "tflite", "--find", "pi 5").reason == (
            "both a pattern, 'tflite', and --find 'pi 5' were given; give one of them"
        )


def test_a_platform_of_the_pool_shows_measured_and_inferred_values(latcast: Latcast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_index, "pool_path", lambda: POOL)

    shown = latcast("platforms", "show", JETSON).out
    listed = latcast("platforms", "jetson-nano", "--json").json
    document = latcast("platforms", "show", JETSON, "--json").json["platforms"][0]

    count = document["card"]["measurements"]
    assert f"{count} networks of " in shown
    assert "inferred from other platforms, uncertain by" in shown
    assert "Apache-2.0 (Nota-NetsPresso" in shown
    assert {each["id"] for each in listed} >= {JETSON}
    [row] = [each for each in listed if each["id"] == JETSON]
    assert (row["chip"], row["unit"], row["source"]) == ("Tegra X1", "gpu", "shipped")
    assert row["mape"] == document["card"]["mape"]
    assert all(each["factor_68"] >= 1 for each in document["coefficients"])
