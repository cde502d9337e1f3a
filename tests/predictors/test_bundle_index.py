"""Finding bundles by name and folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from latcast.environment import cpu_description
from latcast.errors import UnknownPlatformError
from latcast.predictors import bundle_index
from latcast.predictors.bundle import read_summary, save_bundle
from latcast.predictors.card import TRAINING_KEYS
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform

IDS = (
    "pixel4/tflite-2.10/gpu/fp16",
    "pixel4/tflite-2.10/cpu1/fp32",
    "local/onnxruntime-1.31/cpu1/fp32",
    "local/onnxruntime-1.31/cpu16/fp32",
    "local/openvino-2026.4/cpu1/int8",
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No bundles: a home of its own, nothing shipped."""
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(bundle_index, "SHIPPED_FOLDER", tmp_path / "shipped")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home" / "bundles"


def put(predictor: PlatformPredictor, platform: str, path: Path, **card: object) -> Path:
    bare = replace(predictor, platform=Platform.parse(platform), kernels={}, card=card)
    return save_bundle(bare, path)


@pytest.fixture
def stocked(home: Path, predictor: PlatformPredictor) -> Path:
    for platform in IDS:
        put(predictor, platform, bundle_index.bundle_path(platform), mape=4.5, licence="CC0-1.0")
    return home


class TestListing:
    def test_a_bundle_is_named_by_its_platform(self, home: Path) -> None:
        assert bundle_index.bundle_path(Platform.parse(IDS[2])) == home / "local__onnxruntime-1.31__cpu1__fp32.zip"

    def test_without_bundles_there_is_nothing(self, home: Path) -> None:
        assert bundle_index.available_platforms() == []
        assert bundle_index.platforms() == []

    def test_every_bundle_is_listed_with_its_card(self, stocked: Path) -> None:
        listed = bundle_index.available_platforms()

        assert [entry.platform for entry in listed] == sorted(IDS)
        assert all(entry.card == {"mape": 4.5, "licence": "CC0-1.0"} for entry in listed)
        assert all(entry.path.parent == stocked for entry in listed)

    def test_scripts_get_the_figures_of_the_card(self, stocked: Path) -> None:
        [first, *_] = bundle_index.platforms()

        assert (first.id, first.mape, first.licence) == (IDS[2], 4.5, "CC0-1.0")
        assert first.to_json() == {
            "id": IDS[2], "device": "local", "chip": None, "unit": "cpu1", "source": "user", "mape": 4.5,
            "within_5": None, "within_10": None, "interval_coverage": None,
            "label_error": None, "trained_on": None, "licence": "CC0-1.0",
        }  # fmt: skip

    def test_a_pattern_chooses_platforms(self, stocked: Path) -> None:
        assert [found.id for found in bundle_index.platforms("*/onnxruntime-1.31/*")] == sorted(
            name for name in IDS if "/onnxruntime-1.31/" in name
        )
        assert bundle_index.platforms("no such platform") == []

    def test_the_chip_is_where_it_was_measured_or_what_the_phone_is_known_to_have(
        self, home: Path, predictor: PlatformPredictor
    ) -> None:
        environments = {
            "box/onnxruntime-1.31/cpu1/fp32": {"host": {"cpu": {"model": "A CPU"}}},
            "pixel4/tflite-2.10/gpu/fp16": {},
            "strange/onnxruntime-1.31/cpu1/fp32": {"host": 5},
        }
        for index, (platform, environment) in enumerate(environments.items()):
            put(predictor, platform, home / f"{index}.zip", environment=environment)

        assert [found.chip for found in bundle_index.platforms()] == ["A CPU", "Snapdragon 855", None]

    def test_folders_and_shipped_bundles_are_found_too(self, home: Path, predictor: PlatformPredictor) -> None:
        put(predictor, IDS[0], home / "my folder")
        put(predictor, IDS[1], bundle_index.SHIPPED_FOLDER / "b.zip")

        assert [(entry.platform, entry.source) for entry in bundle_index.available_platforms()] == [
            (IDS[1], "shipped"),
            (IDS[0], "user"),
        ]

    def test_ones_own_bundle_hides_the_shipped_one(self, home: Path, predictor: PlatformPredictor) -> None:
        put(predictor, IDS[0], bundle_index.SHIPPED_FOLDER / "b.zip")
        own = put(predictor, IDS[0], home / "own.zip")

        assert [entry.path for entry in bundle_index.available_platforms()] == [own]

    def test_unreadable_bundles_are_listed_as_problems(self, stocked: Path) -> None:
        (stocked / "broken.zip").write_bytes(b"PK")
        (stocked / "notes.txt").write_text("mine")
        (stocked / "folder of mine").mkdir()
        (stocked / ".half.zip").write_bytes(b"")

        found = bundle_index.scan_bundles()

        assert [entry.platform for entry in found.entries] == sorted(IDS)
        [problem] = found.problems
        assert problem.startswith(f"{stocked / 'broken.zip'}: found no readable zip")


class TestFinding:
    @pytest.mark.parametrize("platform", IDS)
    def test_a_platform_is_found_by_its_id(self, stocked: Path, platform: str) -> None:
        assert bundle_index.resolve_platform(platform) == bundle_index.bundle_path(platform)

    def test_a_whole_id_opens_no_other_shipped_bundle(
        self, home: Path, predictor: PlatformPredictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(predictor, IDS[0], tmp_path / "shipped" / bundle_index.file_name(IDS[0]))
        (tmp_path / "shipped" / bundle_index.file_name(IDS[1])).write_bytes(b"PK damaged")
        opened: list[Path] = []
        monkeypatch.setattr(bundle_index, "read_summary", lambda path: opened.append(path))

        assert bundle_index.resolve_platform(IDS[0]) == tmp_path / "shipped" / "pixel4__tflite-2.10__gpu__fp16.zip"
        assert opened == []

    def test_ones_own_bundle_goes_before_a_shipped_one_whatever_its_name(
        self, home: Path, predictor: PlatformPredictor, tmp_path: Path
    ) -> None:
        put(predictor, IDS[0], tmp_path / "shipped" / bundle_index.file_name(IDS[0]))
        own = put(predictor, IDS[0], home / "mine.zip")

        assert bundle_index.resolve_platform(IDS[0]) == own

    @pytest.mark.parametrize("name", ["b.zip", "folder"])
    def test_a_path_is_a_name_too(self, home: Path, predictor: PlatformPredictor, tmp_path: Path, name: str) -> None:
        put(predictor, IDS[0], tmp_path / name)

        assert bundle_index.resolve_platform(name) == Path(name)
        assert bundle_index.resolve_platform(f"./{name}") == Path(name)
        assert bundle_index.resolve_platform(tmp_path / name) == tmp_path / name

    @pytest.mark.parametrize(
        ("beginning", "platform"),
        [
            ("local/onnxruntime-1.31/cpu1", IDS[2]),
            ("local/openvino", IDS[4]),
            ("local/openvino-2026", IDS[4]),
            ("local/open", IDS[4]),
            ("pixel4/tflite-2.10/gpu/", IDS[0]),
        ],
    )
    def test_the_beginning_of_an_id_is_enough_where_it_is_the_only_one(
        self, stocked: Path, beginning: str, platform: str
    ) -> None:
        assert bundle_index.resolve_platform(beginning) == bundle_index.bundle_path(platform)

    def test_the_beginning_of_several_lists_them(self, stocked: Path) -> None:
        with pytest.raises(UnknownPlatformError) as caught:
            bundle_index.resolve_platform("local/onnxruntime")

        assert str(caught.value) == (
            f"'local/onnxruntime' is the beginning of 2 platforms, expected one; give more of the id: {IDS[2]}, {IDS[3]}"
        )

    def test_an_unknown_platform_suggests_the_nearest(self, stocked: Path) -> None:
        with pytest.raises(UnknownPlatformError, match=r"for 'pixel5/tflite-2\.10/gpu/fp16'; nearest: pixel4/tflite"):
            bundle_index.resolve_platform("pixel5/tflite-2.10/gpu/fp16")

    def test_a_damaged_bundle_is_mentioned_where_nothing_is_found(self, stocked: Path) -> None:
        (stocked / "broken.zip").write_bytes(b"PK")

        with pytest.raises(UnknownPlatformError, match=r"1 bundle there cannot be read: .*broken\.zip"):
            bundle_index.resolve_platform("a03s/pytorch-2.0/4small/int8")

    def test_an_empty_folder_says_where_it_looked_and_what_to_do(self, home: Path) -> None:
        with pytest.raises(UnknownPlatformError) as caught:
            bundle_index.resolve_platform("local/onnxruntime")

        assert f"found no bundles in {home}" in str(caught.value)
        assert "latcast profile" in str(caught.value)

    @pytest.mark.parametrize("path", ["gone.zip", "./gone", "/nowhere/gone", "~/gone"])
    def test_a_path_without_a_bundle_is_refused_as_a_path(self, stocked: Path, path: str) -> None:
        with pytest.raises(UnknownPlatformError, match=f"found no bundle at '{path}'"):
            bundle_index.resolve_platform(path)

    def test_a_folder_that_happens_to_have_the_name_of_a_device_is_not_in_the_way(self, stocked: Path, tmp_path: Path) -> None:
        (tmp_path / "local" / "openvino").mkdir(parents=True)

        assert bundle_index.resolve_platform("local/openvino") == bundle_index.bundle_path(IDS[4])


class TestLocal:
    def test_local_stands_for_a_bundle_measured_on_a_cpu_like_this(self, home: Path, predictor: PlatformPredictor) -> None:
        here = {"host": {"cpu": {"model": cpu_description()["model"]}}}
        elsewhere = {"host": {"cpu": {"model": "another CPU"}}}
        own = put(predictor, "desk/onnxruntime-1.31/cpu1/fp32", home / "desk.zip", environment=here)
        put(predictor, "rack/onnxruntime-1.31/cpu1/fp32", home / "rack.zip", environment=elsewhere)
        put(predictor, "shop/onnxruntime-1.31/cpu1/fp32", home / "shop.zip")

        assert bundle_index.resolve_platform("local/onnxruntime-1.31/cpu1/fp32") == own
        assert bundle_index.resolve_platform("local/onnxruntime") == own

    def test_a_bundle_that_is_called_local_comes_first(self, home: Path, predictor: PlatformPredictor) -> None:
        here = {"host": {"cpu": {"model": cpu_description()["model"]}}}
        put(predictor, "desk/onnxruntime-1.31/cpu1/fp32", home / "desk.zip", environment=here)
        local = put(predictor, "local/onnxruntime-1.31/cpu1/fp32", home / "local.zip")

        assert bundle_index.resolve_platform("local/onnxruntime") == local

    def test_a_bundle_from_another_machine_is_not_local(self, home: Path, predictor: PlatformPredictor) -> None:
        put(predictor, "rack/onnxruntime-1.31/cpu1/fp32", home / "rack.zip")

        with pytest.raises(UnknownPlatformError, match="; measure this machine for one with: latcast profile --runtime"):
            bundle_index.resolve_platform("local/onnxruntime-1.31/cpu1/fp32")


class TestShortestName:
    @pytest.mark.parametrize(
        ("platform", "expected"),
        [
            ("local/openvino-2026.4/cpu1/int8", "local/openvino"),
            ("local/onnxruntime-1.31/cpu16/fp32", "local/onnxruntime-1.31/cpu16"),
            ("pixel4/tflite-2.10/gpu/fp16", "pixel4/tflite-2.10/gpu"),
        ],
    )
    @pytest.mark.usefixtures("stocked")
    def test_it_is_the_shortest_beginning_that_is_unique(self, platform: str, expected: str) -> None:
        assert bundle_index.shortest_name(Platform.parse(platform)) == expected
        assert bundle_index.resolve_platform(expected) == bundle_index.bundle_path(platform)

    @pytest.mark.usefixtures("home")
    def test_a_platform_that_has_no_bundle_keeps_its_id(self) -> None:
        assert bundle_index.shortest_name(Platform.parse(IDS[0])) == IDS[0]


class TestTheBetterBundleStays:
    LONG: ClassVar[dict[str, object]] = {"mape": 5.0, "networks": 40, TRAINING_KEYS: ["a", "b", "c"]}
    SHORT: ClassVar[dict[str, object]] = {"mape": 5.0, "networks": 40, TRAINING_KEYS: ["a"]}

    def test_the_first_one_is_found_by_its_platform(self, home: Path, predictor: PlatformPredictor) -> None:
        indexed = bundle_index.keep_bundle(predictor.with_card(self.SHORT))

        assert (indexed.is_current, indexed.before) == (True, None)
        assert indexed.path == bundle_index.resolve_platform("local/onnxruntime")

    def test_a_lesser_one_is_set_aside_where_no_name_finds_it(self, home: Path, predictor: PlatformPredictor) -> None:
        kept = bundle_index.keep_bundle(predictor.with_card(self.LONG)).path

        indexed = bundle_index.keep_bundle(predictor.with_card(self.SHORT))

        assert not indexed.is_current
        assert indexed.before == self.LONG
        assert indexed.path == home / "aside" / kept.name
        assert bundle_index.resolve_platform("local/onnxruntime") == kept
        assert read_summary(kept)[1] == self.LONG
        assert [entry.path for entry in bundle_index.available_platforms()] == [kept]

    def test_what_was_set_aside_before_stays(self, home: Path, predictor: PlatformPredictor) -> None:
        bundle_index.keep_bundle(predictor.with_card(self.LONG))

        aside = [bundle_index.keep_bundle(predictor.with_card(self.SHORT)).path for _ in range(3)]

        assert len({path.name for path in aside}) == 3
        assert all(read_summary(path)[1] == self.SHORT for path in aside)

    def test_a_better_one_takes_its_place(self, home: Path, predictor: PlatformPredictor) -> None:
        bundle_index.keep_bundle(predictor.with_card(self.SHORT))

        indexed = bundle_index.keep_bundle(predictor.with_card(self.LONG))

        assert (indexed.is_current, indexed.before) == (True, self.SHORT)
        assert read_summary(bundle_index.resolve_platform("local/onnxruntime"))[1] == self.LONG

    def test_replace_keeps_the_worse_bundle_on_request(self, home: Path, predictor: PlatformPredictor) -> None:
        bundle_index.keep_bundle(predictor.with_card(self.LONG))

        assert bundle_index.keep_bundle(predictor.with_card(self.SHORT), replace=True).is_current
        assert read_summary(bundle_index.resolve_platform("local/onnxruntime"))[1] == self.SHORT

    def test_one_that_cannot_be_read_gives_way(self, home: Path, predictor: PlatformPredictor) -> None:
        bundle_index.bundle_path(predictor.platform).parent.mkdir(parents=True)
        bundle_index.bundle_path(predictor.platform).write_bytes(b"no zip")

        assert bundle_index.keep_bundle(predictor.with_card(self.SHORT)).is_current
