"""Opening measurements that exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.datasets import jsonlines
from latcast.datasets.opening import default_store_path, only_platform, open_measurements, opened
from latcast.datasets.store import Store
from latcast.errors import DatasetError
from latcast.measure.settings import WorkerSettings
from latcast.measure.statistics import renormalised
from latcast.records import Measurement, Platform, Reference

HERE, THERE = "local/onnxruntime-1.31/cpu1/fp32", "pixel4/tflite-2.10/gpu/fp16"


def measurement(name: str, platform: str = HERE, *, quiet_ms: float | None = None, taken_at: str = "") -> Measurement:
    """One run of 4 ms, while the probe took 2 ms."""
    bare = Measurement(
        platform, Reference("resnet", {"name": name}, name), runs_ms=(4.0,), rounds=(0,), latency_ms=4.0, taken_at=taken_at
    )
    if quiet_ms is None:
        return bare
    probe = {"key": "k", "parts": ["compute"], "quiet_ms": [quiet_ms]}
    return Measurement(
        **{name: getattr(bare, name) for name in ("platform", "reference", "runs_ms", "rounds", "latency_ms", "taken_at")},
        probe_ms=(2.0,),
        probe_parts_ms={"compute": (2.0,)},
        environment={"settings": {"probe": probe}, "moment": {"probe_weights": [0.8]}},
    )


@pytest.mark.parametrize("name", ["m.sqlite", "m.jsonl", "m.jsonl.gz"])
def test_a_file_is_recognised_by_its_content(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith("sqlite"):
        with Store(path) as store:
            store.add(measurement("a"))
    else:
        jsonlines.write(path, [measurement("a")])

    with open_measurements(path) as found:
        assert [each.reference.name for each in found.measurements()] == ["a"]


def test_a_database_url_is_opened(tmp_path: Path) -> None:
    with Store(tmp_path / "m.sqlite") as store:
        store.add(measurement("a"))

    with open_measurements(f"sqlite:///{tmp_path}/m.sqlite") as found:
        assert len(found) == 1


def test_records_of_joined_files_get_one_quiet_time(tmp_path: Path) -> None:
    # The probe took 2 ms: its quiet time as first known. Later it was found to take 1 ms, so the host had been slow.
    first, second = (measurement("a", quiet_ms=2.0, taken_at=moment) for moment in "12")
    records = [first, renormalised(second, (1.0,))]
    assert records[1].latency_ms < 4.0
    jsonlines.write(tmp_path / "m.jsonl", records)

    with open_measurements(tmp_path / "m.jsonl") as found:
        latencies_ms = [each.latency_ms for each in found.measurements()]
        [label] = found.labels(platform=HERE)

    assert latencies_ms == [records[1].latency_ms] * 2
    assert label.latency_ms == pytest.approx(records[1].latency_ms)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file or directory; check the path"), (b"", "holds no measurements"), (b"\n\n", "holds no measurements"),
        (b"nothing\n", ":1: not JSON"), (b"\x00\xff" * 50, ":1: not UTF-8 text"),
    ],
)  # fmt: skip
def test_a_file_of_another_kind_is_refused_and_nothing_is_made(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "m.sqlite"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(DatasetError, match=reason):
        open_measurements(path)

    assert path.exists() == (content is not None)


class TestOnlyPlatform:
    def test_the_only_one_needs_no_name(self) -> None:
        with Store(":memory:") as store:
            store.add(measurement("a"))

            assert only_platform(store) == only_platform(store, HERE) == Platform.parse(HERE)

    def test_of_several_one_must_be_named(self) -> None:
        with Store(":memory:") as store:
            store.add_all([measurement("a"), measurement("a", THERE)])

            with pytest.raises(DatasetError, match=f"holds 2 platforms, name one with --on: {HERE}, {THERE}"):
                only_platform(store)
            assert only_platform(store, THERE).device == "pixel4"

    def test_the_beginning_of_an_id_is_enough_where_it_is_of_one(self) -> None:
        with Store(":memory:") as store:
            store.add_all([measurement("a"), measurement("a", THERE)])

            assert only_platform(store, THERE.rpartition("/")[0]).id == only_platform(store, "pixel4/").id == THERE
            store.add(measurement("a", THERE.replace("/gpu/", "/cpu4/")))
            with pytest.raises(DatasetError, match="'pixel4' is the beginning of 2 platforms in :memory:; give more of the id"):
                only_platform(store, "pixel4")

    def test_records_of_a_file_go_by_the_file_s_name(self, tmp_path: Path) -> None:
        jsonlines.write(tmp_path / "two.jsonl", [measurement("a"), measurement("a", THERE)])

        with (
            open_measurements(tmp_path / "two.jsonl") as store,
            pytest.raises(DatasetError, match=r"two\.jsonl holds 2 platforms"),
        ):
            only_platform(store)

    def test_one_that_is_not_there_is_refused(self) -> None:
        with Store(":memory:") as store, pytest.raises(DatasetError, match=f"holds no measurements of {HERE}; it holds none"):
            only_platform(store, HERE)


def test_an_open_store_is_used_and_left_open_and_a_path_is_opened(tmp_path: Path) -> None:
    with Store(tmp_path / "m.sqlite") as store:
        store.add(measurement("a"))
        with opened(store) as same:
            assert same is store
        assert len(store) == 1
    with opened(tmp_path / "m.sqlite") as found:
        assert len(found) == 1


@pytest.mark.parametrize(
    ("settings", "kind", "name"),
    [
        (WorkerSettings(), "", "onnxruntime-cpu1-fp32.sqlite"),
        (WorkerSettings("ncnn", 2, "int8", "board"), "adapt", "adapt-board-ncnn-cpu2-int8.sqlite"),
    ],
)
def test_measurements_without_a_place_are_kept_in_the_users_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: WorkerSettings, kind: str, name: str
) -> None:
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path / "home"))

    assert default_store_path(settings, kind) == tmp_path / "home" / "measurements" / name
    assert (tmp_path / "home" / "measurements").is_dir()
