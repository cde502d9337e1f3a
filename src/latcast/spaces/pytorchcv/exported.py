"""Networks of pytorchcv as PyTorch exports them, kept as ONNX files without weights in the user's cache.

PyTorch has two exporters, which give the same kernels for these networks; the one that traces is ten times as fast. What is
kept is its file, not our graph: today's importer reads it each time, so the cache does not grow stale when the importer
changes, and the graph is the one of a user's own ``torch.onnx.export``.

The networks that the model of known phones learned from come with the package in the same form: a kit of them is written, and a
prediction checked, where neither pytorchcv nor PyTorch is installed.
"""

from __future__ import annotations

import re
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from io import StringIO
from pathlib import Path
from typing import Any

from latcast.errors import MissingExtraError, ModelError
from latcast.folders import cache_folder, replacing
from latcast.graph.importers import load_graph
from latcast.graph.ir import Graph
from latcast.records import Reference

EXPORT_VERSION = 1
"""Raised when networks are exported another way, so that files of the old way are not read any more."""

OPSET = 18
"""Of the exported files: fixed, so that another version of PyTorch gives the same operators."""

RESOLUTION = 224
"""Height and width of the image. Not what pytorchcv takes by default (300 for efficientnet_edge_large_b), as Li et al. measured
every network at 224."""

_SCALAR_BYTES = 4

SHIPPED = Path(__file__).with_name("shipped") / "graphs.zip"
"""The networks that come with the package: ``NAME.onnx``, without weights, at :data:`RESOLUTION`, one image."""


@cache
def shipped_names() -> frozenset[str]:
    """Names of the networks that are built without pytorchcv."""
    with zipfile.ZipFile(SHIPPED) as archive:
        return frozenset(member.removesuffix(".onnx") for member in archive.namelist())


def write_shipped(names: Iterable[str], file: Path = SHIPPED) -> None:
    """Writes the networks that come with the package, as pytorchcv and PyTorch give them here.

    Raises:
        LatcastError: A network cannot be built.
    """
    import onnx

    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(names):
            # A fixed time, so that the same networks give the same file.
            member = zipfile.ZipInfo(f"{name}.onnx", (2024, 1, 1, 0, 0, 0))
            member.compress_type = zipfile.ZIP_DEFLATED
            _cached_graph(name, RESOLUTION, None, 1)
            model = onnx.load(cached_file(name, RESOLUTION, None, 1), load_external_data=False)
            for tensor in model.graph.initializer:
                # Weights too small to have been dropped: noise, which cannot be compressed.
                if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.raw_data) > _SCALAR_BYTES:
                    tensor.raw_data = bytes(len(tensor.raw_data))
            archive.writestr(member, model.SerializeToString(deterministic=True), compresslevel=9)


def cached_file(name: str, resolution: int, classes: int | None, batch: int) -> Path:
    """Where a network is kept: by the version of pytorchcv, the way of exporting, and its parameters.

    Raises:
        MissingExtraError: pytorchcv is not installed, so that its version is not known.
    """
    try:
        release = version("pytorchcv")
    except PackageNotFoundError as problem:
        raise MissingExtraError("pytorchcv", "pytorchcv", "building a network of pytorchcv") from problem
    key = Reference("pytorchcv", {"name": name, "resolution": resolution, "classes": classes, "batch": batch}).key
    readable = re.sub(r"\W", "_", name)[:64]
    return cache_folder() / "graphs" / f"pytorchcv-{release}-export{EXPORT_VERSION}" / f"{readable}-{key}.onnx"


def exported_graph(name: str, resolution: int, classes: int | None, batch: int) -> Graph:
    """The graph of a network: as it comes with the package, from the cache, or else built and exported now.

    For arguments and errors see :func:`latcast.spaces.pytorchcv.build`.
    """
    if (resolution, classes, batch) == (RESOLUTION, None, 1) and name in shipped_names():
        import onnx

        with zipfile.ZipFile(SHIPPED) as archive:
            model = onnx.load_from_string(archive.read(f"{name}.onnx"))
        return replace(load_graph(model), name=name)
    return _cached_graph(name, resolution, classes, batch)


def _cached_graph(name: str, resolution: int, classes: int | None, batch: int) -> Graph:
    kept = cached_file(name, resolution, classes, batch)
    if kept.exists():
        try:
            return _read(kept, name)
        except ModelError:
            kept.unlink(missing_ok=True)  # damaged, by a full disk for instance: it is made anew
    with tempfile.TemporaryDirectory(prefix="latcast-") as folder:
        file = Path(folder) / "network.onnx"
        _export(name, resolution, classes, batch, file)
        _drop_weights(file)
        graph = _read(file, name)
        _keep(file, kept)
    return graph


def _read(file: Path, name: str) -> Graph:
    return replace(load_graph(file), name=name)


def _export(name: str, resolution: int, classes: int | None, batch: int, file: Path) -> None:
    import torch

    from latcast.spaces.pytorchcv.providers import provider

    arguments = {} if classes is None else {"num_classes": classes}
    image = torch.zeros(batch, 3, resolution, resolution)
    build_module = provider(name)
    try:
        module = _build_for(resolution, build_module, arguments).eval()
        with torch.no_grad(), warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            torch.onnx.export(module, (image,), str(file), dynamo=False, opset_version=OPSET, input_names=["input"])
    except Exception as problem:  # code of pytorchcv and of the exporter, which may raise anything
        first_line = (str(problem).strip().splitlines() or [""])[0]
        raise ModelError(
            f"pytorchcv's {name} cannot be built and exported for images of {list(image.shape)}: "
            f"{type(problem).__name__}: {first_line}"
        ) from problem


def _build_for(resolution: int, build_module: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """A module made for a resolution; some (EfficientNets) insist on their own, but take images of any when they run."""
    module = build_module(pretrained=False, **arguments)
    if tuple(module.in_size) == (resolution, resolution):
        return module
    try:
        return build_module(pretrained=False, in_size=(resolution, resolution), **arguments)
    except AssertionError:
        return module


def _drop_weights(file: Path) -> None:
    from latcast.graph.importers.onnx_file import read_without_weights

    file.write_bytes(read_without_weights(file).SerializeToString())


def _keep(file: Path, kept: Path) -> None:
    """Copies a file into the cache in one step, so that others see it whole or not at all."""
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with replacing(kept) as draft:
            draft.write_bytes(file.read_bytes())
    except OSError:
        return  # a cache that cannot be written costs time, nothing else
