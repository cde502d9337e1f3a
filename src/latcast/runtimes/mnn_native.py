"""MNN's native modules without their prints, and its converter of ONNX files.

The converter is the C module ``_tools``; the Python package around it (``MNN.tools``) is never imported, because it installs
packages and reports its use over the network.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from latcast.errors import RuntimeFailure, UnsupportedOperatorError
from latcast.extras import require, unavailable
from latcast.graph.ir import Graph
from latcast.runtimes.session import prints_kept

if TYPE_CHECKING:
    from types import ModuleType

PURPOSE = "measuring with MNN"
LIBRARY = "MNN"

CONVERTER = "_tools"
"""The module of MNN's distribution that has the converter; it lies beside the package, not in it."""


def not_available() -> str | None:
    """Return what is missing and how to add it, or None."""
    missing = unavailable(PURPOSE, LIBRARY)
    if missing is None and find_spec(CONVERTER) is None:
        return f"the installed MNN has no converter (the module '{CONVERTER}'); add it with: pip install --force-reinstall MNN"
    return missing


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Make a folder the current one for a while."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def imported(name: str) -> ModuleType:
    """Import one of MNN's modules quietly; they print the CPU's features when imported.

    Raises:
        MissingExtraError: It is not installed.
    """
    require(PURPOSE, LIBRARY)
    with prints_kept():
        return import_module(name)


FORMATS = {".onnx": "ONNX", ".tflite": "TFLITE"}
"""Suffix of a file to the converter's name of its format."""


def convert(graph: Graph, model: bytes | Path, folder: Path, options: Sequence[str] = ()) -> Path:
    """Write an ONNX model, or a file of :data:`FORMATS`, as one of MNN's into an empty folder.

    ``options`` are further arguments of ``mnnconvert``.

    Raises:
        UnsupportedOperatorError: MNN has no form of an operator; the message names the nodes.
        RuntimeFailure: The converter refused the file.
        MissingExtraError: MNN is not installed.
    """
    converter = imported(CONVERTER)
    if not hasattr(converter, "mnnconvert"):
        place = getattr(converter, "__file__", "this process")
        raise RuntimeFailure(f"the module '{CONVERTER}' in {place} is not MNN's converter; install MNN in a separate environment")
    source, target = model if isinstance(model, Path) else folder / "network.onnx", folder / "network.mnn"
    if isinstance(model, bytes):
        source.write_bytes(model)
    kind = FORMATS[source.suffix.lower()]
    files = ["-f", kind, "--modelFile", str(source.resolve()), "--MNNModel", str(target)]
    # It makes a file of a fixed name in the current folder, which two processes must not share.
    with prints_kept() as printed, _inside(folder):
        converter.mnnconvert(["mnnconvert", *files, "--bizCode", "latcast", *options])
        text = " ".join(printed().split())
    # The result is True whatever happened.
    if not target.exists() or target.stat().st_size == 0:
        types = set(re.findall(r"ONNX::(\w+)", text.partition("Not Support")[2]))
        nodes = ", ".join(f"'{node.name}' ({node.op_type})" for node in graph.nodes if node.op_type in types)
        if nodes:
            raise UnsupportedOperatorError(f"MNN's converter has no form of {nodes} of '{graph.name}'")
        raise RuntimeFailure(f"MNN's converter made nothing of '{graph.name}': {text}")
    return target
