"""ONNX Runtime for browsers: taken out of its npm package, found again, and missed where it is not there."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from latcast.errors import HubError
from latcast.hub import browser
from latcast.hub.browser import FILES, VERSION, fetch_assets, find_assets


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(browser, "PACKAGED", tmp_path / "packaged")


def package(path: Path, names: tuple[str, ...]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            entry = tarfile.TarInfo(f"package/dist/{name}")
            entry.size = len(name)
            archive.addfile(entry, io.BytesIO(name.encode()))
    return path


def test_fetched_assets_are_found(tmp_path: Path) -> None:
    folder = fetch_assets(package_file=package(tmp_path / "p.tgz", FILES))

    assert find_assets() == folder
    for name in FILES:
        assert gzip.decompress((folder / f"{name}.gz").read_bytes()) == name.encode()


def test_packaged_assets_come_first(tmp_path: Path) -> None:
    archive = package(tmp_path / "p.tgz", FILES)
    fetch_assets(package_file=archive)
    fetch_assets(browser.PACKAGED, package_file=archive)

    assert find_assets() == browser.PACKAGED


def test_another_version_does_not_count(tmp_path: Path) -> None:
    folder = fetch_assets(package_file=package(tmp_path / "p.tgz", FILES))
    (folder / "VERSION").write_text("0.0.1")

    assert find_assets() is None


def test_a_package_without_the_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HubError, match=f"does not hold what onnxruntime-web {VERSION} should"):
        fetch_assets(package_file=package(tmp_path / "p.tgz", FILES[:1]))
    assert find_assets() is None


def test_a_missing_npm_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(HubError, match="npm is not installed"):
        fetch_assets()
