"""ONNX Runtime for browsers: a few files of the npm package onnxruntime-web, fetched once when latcast is built or installed.

They are too large to be kept with the sources. They lie in the package where it was built with them, and in the user's cache
otherwise; where they are missing, the page that needs them says so.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from latcast.errors import RepositoryError
from latcast.folders import cache_folder

PACKAGE = "onnxruntime-web"
VERSION = "1.30.0"
"""Fixed: the version is part of every platform id, so all devices should run the same one."""

WASM_FILES = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
WEBGPU_FILES = ("ort.webgpu.min.mjs", "ort-wasm-simd-threaded.asyncify.mjs", "ort-wasm-simd-threaded.asyncify.wasm")

PACKAGED = Path(__file__).parent / "static" / PACKAGE
"""Where a wheel has them that was built with them."""

MISSING = "onnxruntime-web is not installed here; add it with: latcast repository assets"


@dataclass(frozen=True)
class Assets:
    """Files that are there.

    Attributes:
        folder: Where they lie, each as ``NAME.gz``.
        webgpu: Whether those for WebGPU are among them.
    """

    folder: Path
    webgpu: bool

    def file(self, name: str) -> Path | None:
        """The compressed file of this name, or None where it is none of the package's."""
        known = WASM_FILES + (WEBGPU_FILES if self.webgpu else ())
        return self.folder / f"{name}.gz" if name in known else None

    @property
    def size_bytes(self) -> int:
        """Of the compressed files."""
        return sum(file.stat().st_size for file in self.folder.glob("*.gz"))


def cached_folder() -> Path:
    """Where they are for a latcast that was built without them."""
    return cache_folder() / "repository" / f"{PACKAGE}-{VERSION}"


def find_assets() -> Assets | None:
    """The files of this version, from the package or the cache; None where they have not been fetched."""
    for folder in (PACKAGED, cached_folder()):
        if (folder / "VERSION").is_file() and (folder / "VERSION").read_text(encoding="utf-8").strip() == VERSION:
            present = {file.name.removesuffix(".gz") for file in folder.glob("*.gz")}
            if present.issuperset(WASM_FILES):
                return Assets(folder, present.issuperset(WEBGPU_FILES))
    return None


def fetch_assets(folder: Path | None = None, *, webgpu: bool = True, package_file: Path | None = None) -> Assets:
    """Fetches the package through npm and keeps the files that the page needs, compressed.

    Args:
        folder: Where to; the user's cache by default.
        webgpu: Whether to keep those for WebGPU too, twice as large.
        package_file: The package as npm packs it, where it lies here already.

    Raises:
        RepositoryError: npm is missing or fails, or the package does not hold what is expected.
    """
    target = cached_folder() if folder is None else folder
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="latcast-") as temporary:
        archive = package_file or _npm_pack(Path(temporary))
        try:
            with tarfile.open(archive) as package:
                for name in WASM_FILES + (WEBGPU_FILES if webgpu else ()):
                    content = package.extractfile(f"package/dist/{name}")
                    if content is None:
                        raise KeyError(name)
                    draft = target / f".{name}.part"
                    with gzip.GzipFile(draft, "wb", compresslevel=9, mtime=0) as packed:
                        shutil.copyfileobj(content, packed)
                    draft.replace(target / f"{name}.gz")
        except (OSError, tarfile.TarError, KeyError) as problem:
            raise RepositoryError(f"{archive} does not hold what {PACKAGE} {VERSION} should: {problem}") from problem
    (target / "VERSION").write_text(VERSION + "\n", encoding="utf-8")
    return Assets(target, webgpu)


def _npm_pack(folder: Path) -> Path:
    try:
        done = subprocess.run(
            ["npm", "pack", f"{PACKAGE}@{VERSION}", "--silent"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    except FileNotFoundError as problem:
        raise RepositoryError("npm is not installed; add Node.js, or hand over the package with --file") from problem
    except subprocess.TimeoutExpired as problem:
        raise RepositoryError("npm did not answer within ten minutes; try again") from problem
    found = sorted(folder.glob("*.tgz"))
    if done.returncode or not found:
        text = (done.stderr.strip().splitlines() or ["no package came"])[-1]
        raise RepositoryError(f"npm pack {PACKAGE}@{VERSION} failed: {text}")
    return found[-1]
