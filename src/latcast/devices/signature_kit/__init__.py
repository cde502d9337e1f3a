"""A folder to carry to a device on which latcast does not run: the signature networks as files, and a script that times them.

The script runs the stock tools; :mod:`latcast.datasets.importers.benchmark_tools` reads what they print. The weights repeat, so
that an archive of the folder has a few percent of its size, and any unzip unpacks it to ordinary files.
"""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from latcast.datasets.importers.benchmark_tools.manifest import MANIFEST_FILE, RESULTS_FOLDER, KitManifest, KitNetwork
from latcast.errors import DatasetError, UnsupportedOperatorError
from latcast.graph.ir import Graph
from latcast.records import Reference
from latcast.spaces import build

SCRIPTS = ("measure.sh", "android.sh")

NETWORKS_FOLDER, TOOLS_FOLDER = "networks", "tools"

PRECISIONS = ("fp32", "int8")


@dataclass(frozen=True)
class Kit:
    """A kit that was written.

    Attributes:
        folder: Where: the folder, or the archive of it.
        manifest: What is in it.
        left_out: (network, format, reason) of files that could not be written.
        size_bytes: Of all files of networks, unpacked.
        archive_bytes: Of the archive; None where a folder was written.
    """

    folder: Path
    manifest: KitManifest
    left_out: tuple[tuple[str, str, str], ...]
    size_bytes: int
    archive_bytes: int | None = None


def _tflite(graph: Graph, precision: str) -> Iterator[tuple[str, bytes]]:
    from latcast.graph.writers.tflite import to_tflite

    yield ".tflite", to_tflite(graph, precision=precision, compressible=True)


def _onnx(graph: Graph, precision: str) -> Iterator[tuple[str, bytes]]:
    if precision == "int8":
        from latcast.graph.writers.onnx_qdq import to_qdq

        yield ".onnx", to_qdq(graph, compressible=True)
        return
    from latcast.graph.writers.onnx import to_onnx

    yield ".onnx", to_onnx(graph, precision=precision, compressible=True)


def _ncnn(graph: Graph, precision: str) -> Iterator[tuple[str, bytes]]:
    from latcast.graph.writers.ncnn import to_ncnn

    param, weights = to_ncnn(graph, precision=precision, compressible=True)
    yield ".ncnn.param", param.encode()
    yield ".ncnn.bin", weights


FORMATS: Mapping[str, Callable[[Graph, str], Iterator[tuple[str, bytes]]]] = {"tflite": _tflite, "onnx": _onnx, "ncnn": _ncnn}

EXAMPLES: Mapping[str, tuple[str, str]] = {
    "tflite": ("tflite", "2.17"), "onnx": ("onnxruntime", "1.31"), "ncnn": ("ncnn", "20260113"),
}  # fmt: skip
"""Format to a runtime and version that read it, as commands that are shown name them."""


def example_of(manifest: KitManifest) -> tuple[str, str]:
    """Return a runtime, and its version, that reads the networks of a kit."""
    written = {kind for network in manifest.networks for kind in network.files}
    return EXAMPLES[next((kind for kind in FORMATS if kind in written), "tflite")]


def write_kit(
    networks: Sequence[Reference],
    folder: Path,
    *,
    formats: Sequence[str] = tuple(FORMATS),
    precision: str = "fp32",
    chosen: Mapping[str, Any] | None = None,
    watch: Callable[[str], None] | None = None,
) -> Kit:
    """Write a kit.

    Args:
        networks: What to measure, in this order.
        folder: Where; it may hold an older kit, whose results stay. With the ending ``.zip`` an archive of the folder, which
            replaces an older one.
        formats: Names in :data:`FORMATS`.
        precision: "fp32" or "int8".
        chosen: How the networks were chosen, for the manifest.
        watch: Told each network's name before it is written.

    Raises:
        DatasetError: The folder cannot be written or holds something else; or a network can be written in none of the formats.
        LatcastError: A network cannot be built.
    """
    if folder.suffix == ".zip":
        with tempfile.TemporaryDirectory() as place:
            unpacked = Path(place) / folder.stem
            kit = write_kit(networks, unpacked, formats=formats, precision=precision, chosen=chosen, watch=watch)
            return replace(kit, folder=folder, archive_bytes=_archive(unpacked, folder))
    _prepare(folder)
    written: list[KitNetwork] = []
    left_out: list[tuple[str, str, str]] = []
    size_bytes = 0
    names: dict[str, None] = {}
    for reference in networks:
        # A free name that is safe in shells, tools and file systems.
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", reference.name or reference.key).strip("_") or reference.key
        if name in names:
            name = f"{name}-{reference.key}"
        names[name] = None
        if watch is not None:
            watch(name)
        graph = build(reference)
        of_format: dict[str, tuple[str, ...]] = {}
        for kind in formats:
            try:
                parts = list(FORMATS[kind](graph, precision))
            except UnsupportedOperatorError as problem:
                left_out.append((name, kind, str(problem)))
                continue
            for ending, data in parts:
                (folder / NETWORKS_FOLDER / f"{name}{ending}").write_bytes(data)
                size_bytes += len(data)
            of_format[kind] = tuple(f"{name}{ending}" for ending, _ in parts)
        if not of_format:
            raise DatasetError(f"'{name}' can be written in none of {', '.join(formats)}: {left_out[-1][2]}")
        written.append(KitNetwork(name, reference, of_format, graph.shape(graph.inputs[0])))
    manifest = KitManifest(tuple(written), precision, dict(chosen or {}))
    _write_texts(folder, manifest)
    manifest.write(folder)
    return Kit(folder, manifest, tuple(left_out), size_bytes)


def _prepare(folder: Path) -> None:
    """Make the kit's folders; an older kit's networks go, its results stay."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()) and not (folder / MANIFEST_FILE).is_file():
            raise DatasetError(f"{folder} holds something else than a kit; name a new folder")
        for name in (NETWORKS_FOLDER, TOOLS_FOLDER, RESULTS_FOLDER):
            (folder / name).mkdir(exist_ok=True)
        for old in (folder / NETWORKS_FOLDER).iterdir():
            old.unlink()
    except OSError as problem:
        raise DatasetError(f"cannot write the kit to {folder}: {problem.strerror}") from problem


def _archive(folder: Path, archive: Path) -> int:
    """Pack a kit so that it unpacks to one folder, its scripts executable; return the archive's bytes."""
    part = archive.with_name(f".{archive.name}.part")
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
            for path in sorted(folder.rglob("*")):
                packed.write(path, path.relative_to(folder.parent))
        part.replace(archive)
        return archive.stat().st_size
    except OSError as problem:
        part.unlink(missing_ok=True)
        raise DatasetError(f"cannot write the kit to {archive}: {problem.strerror}") from problem


def _write_texts(folder: Path, manifest: KitManifest) -> None:
    room = files(__package__)
    for name in SCRIPTS:
        (folder / name).write_text((room / name).read_text(encoding="utf-8"), encoding="utf-8", newline="\n")
        (folder / name).chmod(0o755)
    # benchncnn takes width, height and channels: without the batch, backwards.
    shapes = [",".join(map(str, reversed(network.input_shape[1:]))) for network in manifest.networks]
    listed = "".join(f"{network.name} [{shape}]\n" for network, shape in zip(manifest.networks, shapes, strict=True))
    (folder / "networks.txt").write_text(listed, encoding="utf-8", newline="\n")
    (folder / "precision.txt").write_text(f"{manifest.precision}\n", encoding="utf-8", newline="\n")
    rows = [
        f"| {network.name} | {'x'.join(map(str, network.input_shape))} | {', '.join(network.files)} |"
        for network in manifest.networks
    ]
    table = "\n".join(["| network | input | formats |", "|---|---|---|", *rows])
    text = (room / "README.md").read_text(encoding="utf-8")
    runtime, version = example_of(manifest)
    parts = {"@NETWORKS@": table, "@PRECISION@": manifest.precision, "@RUNTIME@": runtime, "@VERSION@": version}
    for name, part in parts.items():
        text = text.replace(name, part)
    (folder / "README.md").write_text(text, encoding="utf-8", newline="\n")
