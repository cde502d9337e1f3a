"""Files that hold no network that latcast can read: how each is recognised, and what to give instead.

What is compiled for an accelerator is recognised whatever it is wrapped in: by its suffix, by its first bytes, or by the operator
that holds the compiled part of a network in a TFLite or ONNX file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from latcast.errors import ModelError
from latcast.reading import read_json

_TABLES: Mapping[str, Mapping[str, str]] = read_json(Path(__file__).with_suffix(".json"), error=ModelError)

UNREADABLE = _TABLES["unreadable"]
"""Suffix to advice: files that no importer may read."""

CONVERTED = _TABLES["converted"]
"""Suffix to what the file is, and what to give instead: files that latcast itself has no importer for."""

COMPILED = _TABLES["compiled"]
"""Suffix to what such a file is compiled for."""

_COMPILED_STARTS: Mapping[bytes, str] = {
    b"\x01HEF": ".hef",
    b"RKNN": ".rknn",
    b"ftrt": ".engine",
    b"ptrt": ".engine",
    b"LDMK": ".kmodel",
    b"IMOD": ".om",
}
"""First bytes of a file to the suffix that it should have."""

_ORT_IDENTIFIER = b"ORTM"

_COMPILED_OPERATORS = _TABLES["compiled_operators"]
"""What the name of an operator that holds a compiled part of a network begins with, to what that is compiled for."""


def is_foreign(path: Path) -> bool:
    """Return whether a suffix is that of a model which cannot be read; not one of files that lie beside models."""
    return path.suffix.lower() in {*UNREADABLE, *CONVERTED, *COMPILED} - {".data", ".ipynb", ".json", ".py"}


def refuse_compiled(operator: str) -> None:
    """Refuse an operator that holds a compiled part of a network.

    Raises:
        ModelError: It is one.
    """
    for start, target in _COMPILED_OPERATORS.items():
        if operator.startswith(start):
            raise ModelError(
                f"it is compiled for {target}: its operator '{operator}' holds machine code; give the model as it was before it "
                "was compiled"
            )


def refuse_compiled_file(path: Path, start: bytes) -> None:
    """Refuse a file that is compiled for one target.

    Args:
        path: The file or folder.
        start: Its first 8 bytes or more.

    Raises:
        ModelError: It is one.
    """
    suffix = ".ort" if start[4:8] == _ORT_IDENTIFIER else path.suffix.lower()
    suffix = next((known for mark, known in _COMPILED_STARTS.items() if start.startswith(mark)), suffix)
    if suffix in COMPILED:
        raise ModelError(
            f"cannot read '{path}': it is compiled for {COMPILED[suffix]}; give the model as it was before it was compiled "
            "(ONNX, TFLite or PyTorch)"
        )
