"""The files of a bundle, in a folder or a zip: read with suspicion, written all at once.

A bundle may come from a stranger. Nothing in it is ever executed or unpacked to disk: files are read into memory, only under
the names a bundle may have, and only up to a size.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from types import TracebackType

from latcast.errors import BundleError
from latcast.reading import UNREADABLE_ZIP, open_zip

MOST_BYTES = 200_000_000
"""A larger bundle is refused: no predictor needs it, and a small zip can hold gigabytes of zeros."""

MOST_FILES = 500

_DOCUMENTS = ("platform.json", "fusion_rules.json", "golden.json", "card.json", "CARD.md")
DEVICE_FILE = "device.safetensors"
"""The posterior of a platform that is known by few measurements."""

_KERNEL_FILE = re.compile(r"kernels/[a-z0-9_]+(\.[a-z0-9_]+)?\.safetensors")
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The moment that every file of a zip gets, so that the same content makes the same bytes."""


def is_bundle(path: Path) -> bool:
    """Return whether this looks like a bundle: a zip by its suffix, or a folder with a ``platform.json``."""
    return path.is_file() if path.suffix == ".zip" else (path / "platform.json").is_file()


def is_pickle(data: bytes) -> bool:
    """Return whether data begins as pickles of protocol 2 and later do.

    A safetensors file may begin with the same two bytes (they are the length of its header), but has a brace at byte 8.
    """
    return data[:1] == b"\x80" and data[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05") and data[8:9] != b"{"


class BundleFiles:
    """The files of an existing bundle, by name; a context manager.

    Raises:
        BundleError: There is no bundle, it holds something that no bundle holds, or it is too large. The message names the
            file, what was found, what was expected, and what to do.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._archive: zipfile.ZipFile | None = None
        if not path.exists():
            raise BundleError(f"{path}: found nothing, expected a bundle (a folder or a .zip); check the path")
        if path.is_dir():
            self._sizes = self._list_folder()
        else:
            self._sizes = self._list_archive()
        total = sum(self._sizes.values())
        if total > MOST_BYTES or len(self._sizes) > MOST_FILES:
            self.close()
            raise BundleError(
                f"{path}: found {len(self._sizes)} files of {total / 1e6:.0f} MB, expected at most {MOST_FILES} files of "
                f"{MOST_BYTES / 1e6:.0f} MB; do not use a bundle from this source"
            )

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._sizes)

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            BundleError: It is missing, damaged, or a pickle.
        """
        if name not in self._sizes:
            raise BundleError(f"{self.path}: {name}: found no such file, expected one in every bundle; get the bundle again")
        try:
            if self._archive is None:
                with (self.path / name).open("rb") as file:
                    data = file.read(self._sizes[name] + 1)
            else:
                data = self._archive.read(name)
        except UNREADABLE_ZIP as problem:
            raise self.damaged(name, str(problem) or type(problem).__name__) from problem
        if len(data) != self._sizes[name]:
            raise self.damaged(name, f"found {len(data)} bytes, expected {self._sizes[name]}")
        if is_pickle(data):
            raise BundleError(
                f"{self.path}: {name}: found a pickle, expected JSON, text or safetensors; pickles can run code, "
                "do not use a bundle from this source"
            )
        return data

    def damaged(self, name: str, problem: str) -> BundleError:
        """Return the error of a file that cannot be used as it is."""
        return BundleError(f"{self.path}: {name}: {' '.join(problem.split())}; the bundle is damaged, get it again")

    def close(self) -> None:
        if self._archive is not None:
            self._archive.close()

    def __enter__(self) -> BundleFiles:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _accept(self, name: str) -> None:
        parts = PurePosixPath(name).parts
        if name.startswith("/") or "\\" in name or ":" in name or ".." in parts:
            raise BundleError(
                f"{self.path}: found the path '{name}', expected names inside the bundle; do not use a bundle from this source"
            )
        if name not in (*_DOCUMENTS, DEVICE_FILE) and not _KERNEL_FILE.fullmatch(name):
            raise BundleError(
                f"{self.path}: found the file '{name}', expected only {', '.join(_DOCUMENTS)} and "
                "kernels/TYPE.safetensors; remove it, or do not use a bundle from this source"
            )

    def _list_folder(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for folder, folders, files in os.walk(self.path):
            inside = Path(folder)
            for name in (*folders, *files):
                place = inside / name
                relative = place.relative_to(self.path).as_posix()
                status = place.lstat()
                if stat.S_ISDIR(status.st_mode):
                    if relative != "kernels":
                        raise self._unexpected_folder(relative)
                    continue
                if not stat.S_ISREG(status.st_mode):
                    raise BundleError(
                        f"{self.path}: {relative}: found a link or a device, expected a file; "
                        "do not use a bundle from this source"
                    )
                self._accept(relative)
                sizes[relative] = status.st_size
        return sizes

    def _list_archive(self) -> dict[str, int]:
        archive = open_zip(self.path, error=BundleError, most_members=MOST_FILES)
        try:
            sizes: dict[str, int] = {}
            for entry in archive.infolist():
                if entry.is_dir():
                    if entry.filename != "kernels/":
                        raise self._unexpected_folder(entry.filename)
                    continue
                self._accept(entry.filename)
                sizes[entry.filename] = entry.file_size
        except BundleError:
            archive.close()
            raise
        self._archive = archive
        return sizes

    def _unexpected_folder(self, name: str) -> BundleError:
        return BundleError(
            f"{self.path}: found the folder '{name}', expected platform.json at the top and one folder 'kernels'; "
            "point to the bundle itself, or get it again"
        )


def write_files(path: Path, files: Mapping[str, bytes], *, compressed: bool = False) -> None:
    """Write a folder, or a zip by its suffix, at once: readers see the old bundle or the new one.

    Zips are not compressed unless asked for: the bytes then depend on the content alone, not on the version of a compressor.

    Raises:
        BundleError: Something other than a bundle is in the way, or the place cannot be written to.
    """
    occupied = path.exists() and not is_bundle(path) and not (path.is_dir() and not any(path.iterdir()))
    if occupied or (path.suffix == ".zip" and path.is_dir()):
        raise BundleError(f"{path}: found something other than a bundle, expected nothing or a bundle to replace; move it away")
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            _remove(fresh)
            if path.suffix == ".zip":
                method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
                with zipfile.ZipFile(fresh, "w", method) as archive:
                    for name in sorted(files):
                        entry = zipfile.ZipInfo(name, _EPOCH)
                        entry.create_system = 3
                        entry.external_attr = (stat.S_IFREG | 0o644) << 16
                        archive.writestr(entry, files[name], method)
                os.replace(fresh, path)
            else:
                for name, data in files.items():
                    (fresh / name).parent.mkdir(parents=True, exist_ok=True)
                    (fresh / name).write_bytes(data)
                _replace_folder(fresh, path)
        finally:
            _remove(fresh)
    except OSError as problem:
        raise BundleError(f"{path}: cannot be written: {problem.strerror}; choose another place") from problem


def _replace_folder(fresh: Path, path: Path) -> None:
    """Move the old folder aside, as a folder cannot be renamed over another, and the new one to its place."""
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    _remove(old)
    if path.exists():
        path.rename(old)
    try:
        fresh.rename(path)
    except OSError:
        if old.exists():
            old.rename(path)
        raise
    _remove(old)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
