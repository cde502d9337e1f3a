"""ONNX Runtime for browsers: taken out of its npm package, found again, and missed where it is not there."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from latcast.errors import HubError
from latcast.hub import browser
from latcast.hub.browser import VERSION, WASM_FILES, WEBGPU_FILES, fetch_assets, find_assets


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


@pytest.mark.parametrize("webgpu", [True, False])
def test_fetched_assets_are_found(tmp_path: Path, webgpu: bool) -> None:
    fetched = fetch_assets(webgpu=webgpu, package_file=package(tmp_path / "p.tgz", WASM_FILES + WEBGPU_FILES))

    assert find_assets() == fetched
    assert fetched.webgpu is webgpu
    for name in WASM_FILES:
        file = fetched.file(name)
        assert file is not None
        assert gzip.decompress(file.read_bytes()) == name.encode()
    assert (fetched.file(WEBGPU_FILES[0]) is not None) is webgpu
    assert fetched.file("../../etc/passwd") is None


def test_packaged_assets_come_first(tmp_path: Path) -> None:
    archive = package(tmp_path / "p.tgz", WASM_FILES)
    fetch_assets(webgpu=False, package_file=archive)
    fetch_assets(browser.PACKAGED, webgpu=False, package_file=archive)

    found = find_assets()

    assert found is not None
    assert found.folder == browser.PACKAGED


def test_another_version_does_not_count(tmp_path: Path) -> None:
    fetched = fetch_assets(webgpu=False, package_file=package(tmp_path / "p.tgz", WASM_FILES))
    (fetched.folder / "VERSION").write_text("0.0.1")

    assert find_assets() is None


def test_a_package_without_the_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HubError, match=f"does not hold what onnxruntime-web {VERSION} should"):
        fetch_assets(package_file=package(tmp_path / "p.tgz", WASM_FILES[:1]))
    assert find_assets() is None


def test_a_missing_npm_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(HubError, match="npm is not installed"):
        fetch_assets()
