"""The user's folders."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

import latcast
from latcast import folders
from latcast.datasets.opening import open_measurements
from latcast.devices.measured_files import read_measured
from latcast.errors import LatcastError
from latcast.records import Platform


def test_the_home_of_latcast_holds_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATCAST_HOME", "/srv/latcast")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")

    assert folders.bundles_folder() == Path("/srv/latcast/bundles")
    assert folders.measurements_folder() == Path("/srv/latcast/measurements")
    assert folders.rules_folder() == Path("/srv/latcast/rules")
    assert folders.cache_folder() == Path("/srv/latcast/cache")


def test_the_folders_of_the_desktop_come_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LATCAST_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    monkeypatch.setenv("XDG_CACHE_HOME", "/quick")

    assert folders.bundles_folder() == Path("/data/latcast/bundles")
    assert folders.cache_folder() == Path("/quick/latcast")


def test_the_usual_folders_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LATCAST_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/someone")

    assert folders.bundles_folder() == Path("/home/someone/.local/share/latcast/bundles")
    assert folders.cache_folder() == Path("/home/someone/.cache/latcast")


def test_a_user_without_a_known_home_predicts_and_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs as a bare user number."""
    for name in ("LATCAST_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)

    assert not folders.bundles_folder().exists()
    assert not folders.cache_folder().exists()
    assert folders.last_measurements() is None
    assert latcast.predict("resnet18", on="pixel4/tflite-2.10/gpu/fp16").latency_ms > 0
    monkeypatch.setattr(Path, "mkdir", denied)
    with pytest.raises(LatcastError, match=r"cannot write to .*: Permission denied; .* set LATCAST_HOME"):
        folders.made(folders.measurements_folder())


def denied(*_: object, **__: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_paths_in_the_home_of_a_user_who_is_not_known_are_not_found() -> None:
    with pytest.raises(LatcastError, match=r"no bundle at '~no-such-user/mine\.zip'"):
        latcast.load("~no-such-user/mine.zip")
    with pytest.raises(LatcastError, match=r"measurements from ~no-such-user/mine\.jsonl"):
        open_measurements("~no-such-user/mine.jsonl")
    with pytest.raises(LatcastError, match=r"latencies from ~no-such-user/mine\.csv"):
        read_measured(["~no-such-user/mine.csv"], Platform.parse("rpi5/tflite-2.17/cpu4/fp32"))


def test_a_folder_that_cannot_be_made_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(LatcastError, match=r"cannot write to .*/file/home: Not a directory; .* set LATCAST_HOME"):
        folders.made(tmp_path / "file" / "home")


def test_a_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    assert folders.made(tmp_path / "a" / "b").is_dir()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)

    with pytest.raises(LatcastError, match="it is read-only"):
        folders.made(tmp_path)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    with folders.replacing(file) as draft:
        draft.write_text("old")
        assert not file.exists()
    with suppress(KeyError), folders.replacing(file) as draft:
        draft.write_text("new")
        raise KeyError

    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]
