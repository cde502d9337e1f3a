"""Files for measuring in a browser: the signature networks as ONNX files, and ONNX Runtime Web.

All devices run the same networks, so that their latencies compare (Ganesan et al., §III).

Ten small published networks of eight families, so that a phone fetches and runs them in minutes.

The files of the npm package onnxruntime-web are too large to be kept with the sources. They lie in the package where it was
built with them, and in the user's cache otherwise; where they are missing, the page that needs them says so.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import subprocess
import tarfile
import tempfile
from functools import cache, lru_cache
from pathlib import Path

from latcast.errors import HubError
from latcast.folders import cache_folder, replacing
from latcast.records import Reference
from latcast.spaces.catalogue import build, model

SIGNATURE = (
    "mobilenet_v1_0_25", "shufflenet_v2_x0_5", "mobilenet_v3_small", "mobilenet_v2_0_5", "mnasnet0_5", "ghostnet_x0_5",
    "mobilenet_v1_0_5", "squeezenet1_1", "shufflenet_v2_x1_0", "mobilevit_xxs",
)  # fmt: skip
"""The quickest first, so that a device shows something soon."""

CHECK = ("mobilenet_v2_0_75", "squeezenet1_0", "mobilenet_v3_large", "ghostnet_x1_0", "efficientnet_b0")
"""Networks to check predictions by; not part of a signature."""

PRECISIONS = ("fp32", "int8")
"""Precisions of the networks that browsers fetch."""

_WEIGHTS_VERSION = 2


@cache
def networks(names: tuple[str, ...] = SIGNATURE) -> dict[str, Reference]:
    """Return references of published networks, by key, in order."""
    return {reference.key: reference for reference in map(model, names)}


def served_networks() -> dict[str, Reference]:
    """Return networks that browsers may fetch as ONNX files, by key."""
    return networks(SIGNATURE + CHECK)


def _network_file(reference: Reference, precision: str) -> Path:
    kind = "" if precision == "fp32" else f"-{precision}"
    return cache_folder() / "repository" / f"onnx-{_WEIGHTS_VERSION}" / f"{reference.key}{kind}.onnx.gz"


def onnx_file(reference: Reference, precision: str = "fp32") -> Path:
    """Return the compressed ONNX file of a network, written to the user's cache where it is not there yet.

    Raises:
        LatcastError: The network cannot be built or written.
    """
    from latcast.graph.writers.onnx import to_onnx

    file = _network_file(reference, precision)
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        content = to_onnx(build(reference), precision=precision, compressible=True)
        with replacing(file) as draft:
            draft.write_bytes(gzip.compress(content, compresslevel=6, mtime=0))
    return file


@lru_cache(maxsize=256)
def integrity(file: Path) -> str:
    """Return the hash of the content of a compressed file, as browsers compare it."""
    return f"sha384-{base64.b64encode(hashlib.sha384(gzip.decompress(file.read_bytes())).digest()).decode()}"


def known_integrity(reference: Reference) -> dict[str, str | None]:
    """Return the hash of a network's file by precision; None where the file is not made yet."""
    files = {precision: _network_file(reference, precision) for precision in PRECISIONS}
    return {precision: integrity(file) if file.is_file() else None for precision, file in files.items()}


PACKAGE = "onnxruntime-web"
VERSION = "1.30.0"
"""Fixed: the version is part of every platform id, so all devices should run the same one."""

FILES = (
    "ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm",
    "ort.webgpu.min.mjs", "ort-wasm-simd-threaded.asyncify.mjs", "ort-wasm-simd-threaded.asyncify.wasm",
)  # fmt: skip
"""Files of onnxruntime-web that the page loads: three for CPUs, three for GPUs."""

WEB_ASSEMBLY = {"wasm": FILES[2], "webgpu": FILES[5]}
"""Provider to the WebAssembly that it runs."""

PACKAGED = Path(__file__).parent / "static" / PACKAGE
"""Folder of the assets in a wheel that was built with them."""

MISSING = "onnxruntime-web is not installed here; add it with: latcast hub assets"


def cached_folder() -> Path:
    """Return where the files of onnxruntime-web are for a latcast that was built without them."""
    return cache_folder() / "repository" / f"{PACKAGE}-{VERSION}"


def find_assets() -> Path | None:
    """Return the folder of the files, each as ``NAME.gz``: in the package or the cache; None where they have not been fetched."""
    for folder in (PACKAGED, cached_folder()):
        stated = folder / "VERSION"
        current = stated.is_file() and stated.read_text(encoding="utf-8").strip() == VERSION
        if current and all((folder / f"{name}.gz").is_file() for name in FILES):
            return folder
    return None


def fetch_assets(folder: Path | None = None, *, package_file: Path | None = None) -> Path:
    """Fetch the package through npm, keep the files that the page needs, compressed, and return their folder.

    Args:
        folder: Where to; the user's cache by default.
        package_file: The package as npm packs it, where it lies here already.

    Raises:
        HubError: npm is missing or fails, or the package does not hold what is expected.
    """
    target = cached_folder() if folder is None else folder
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="latcast-") as temporary:
        archive = package_file or _npm_pack(Path(temporary))
        try:
            with tarfile.open(archive) as package:
                for name in FILES:
                    content = package.extractfile(f"package/dist/{name}")
                    if content is None:
                        raise KeyError(name)
                    with replacing(target / f"{name}.gz") as draft:
                        draft.write_bytes(gzip.compress(content.read(), compresslevel=9, mtime=0))
        except (OSError, tarfile.TarError, KeyError) as problem:
            raise HubError(f"{archive} does not hold what {PACKAGE} {VERSION} should: {problem}") from problem
    (target / "VERSION").write_text(VERSION + "\n", encoding="utf-8")
    return target


def _npm_pack(folder: Path) -> Path:
    try:
        command = ["npm", "pack", f"{PACKAGE}@{VERSION}", "--silent"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    except FileNotFoundError as problem:
        raise HubError("npm is not installed; add Node.js, or hand over the package with --file") from problem
    except subprocess.TimeoutExpired as problem:
        raise HubError("npm did not answer within ten minutes; try again") from problem
    found = sorted(folder.glob("*.tgz"))
    if done.returncode or not found:
        text = (done.stderr.strip().splitlines() or ["no package came"])[-1]
        raise HubError(f"npm pack {PACKAGE}@{VERSION} failed: {text}")
    return found[-1]
