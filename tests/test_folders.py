"""The user's folders."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from latcast import folders
from latcast.errors import LatcastError


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
