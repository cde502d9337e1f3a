"""Checking a ``.pt2`` archive before PyTorch opens it.

``torch.export.load`` unpickles what an archive asks it to: weights and constants marked ``use_pickle``, custom objects,
sample inputs that the safe loader refuses, and it loads compiled libraries. Any of these runs code of whoever made the
file. Ordinary files of ``torch.export.save`` need none of it, so an archive that does is refused.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

from latcast.errors import ModelError

_PICKLED_OBJECTS = ("custom_obj_", "opaque_obj_")
_COMPILED = ("aotinductor", "executorch", "xl_model_weights")

_SYMBOLIC_WORDS = frozenset({
    "Symbol", "Integer", "Rational", "Add", "Mul", "Pow", "Max", "Min", "Mod", "PythonMod", "FloorDiv",
    "CleanDiv", "CeilDiv", "IntTrueDiv", "Eq", "Ne", "Lt", "Le", "Gt", "Ge", "StrictLessThan",
    "StrictGreaterThan", "LessThan", "GreaterThan", "Equality", "Unequality", "positive", "negative",
    "nonnegative", "integer", "real", "zero", "True", "False",
})  # fmt: skip
_QUOTED_SYMBOL = re.compile(r"'[a-z]{1,4}\d+'")
_WORD = re.compile(r"[A-Za-z_]\w*")
_PLAIN_EXPRESSION = re.compile(r"[\w\s+\-*/(),<>=]*")


def check_archive(path: Path) -> None:
    """Makes sure that loading an archive runs no code of its maker.

    Raises:
        ModelError: It is damaged, or holds pickled objects or compiled code.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                _check_member(path, archive, name)
    except (zipfile.BadZipFile, EOFError, KeyError) as error:
        raise ModelError(f"'{path}' is damaged or no archive of torch.export.save: {error}") from error


def _check_member(path: Path, archive: zipfile.ZipFile, name: str) -> None:
    parts = name.split("/")
    if any(part in _COMPILED for part in parts[:-1]):
        raise _refusal(path, f"compiled code ({name})")
    if parts[-1].startswith(_PICKLED_OBJECTS):
        raise _refusal(path, f"a pickled object ({name})")
    if name.endswith((".pt", ".pth", ".pkl")):
        _check_tensors(path, name, archive.read(name))
    elif name.endswith(".json"):
        try:
            content = json.loads(archive.read(name))
        except (UnicodeDecodeError, ValueError) as error:
            raise ModelError(f"'{path}' is damaged: {name} is no JSON ({error})") from error
        _check_json(path, name, content)


def _check_tensors(path: Path, name: str, content: bytes) -> None:
    """PyTorch's safe loader, which knows tensors and plain containers only, must be able to read it."""
    import pickle

    import torch

    if not content:
        return
    try:
        torch.load(io.BytesIO(content), weights_only=True, map_location="meta")
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise _refusal(path, f"pickled objects that are no tensors ({name})") from error


def _check_json(path: Path, name: str, content: Any) -> None:
    """No entry may ask for unpickling, and symbolic sizes, which are evaluated, must be plain arithmetic."""
    waiting = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if value.get("use_pickle"):
                raise _refusal(path, f"a pickled tensor ({name})")
            expression = value.get("expr_str")
            if isinstance(expression, str) and not _is_arithmetic(expression):
                raise _refusal(path, f"the size expression '{expression[:40]}'")
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _is_arithmetic(expression: str) -> bool:
    """Whether a symbolic size, which is evaluated as Python, only adds, multiplies and compares symbols and numbers."""
    plain = _QUOTED_SYMBOL.sub("0", expression)
    words_known = all(word in _SYMBOLIC_WORDS or re.fullmatch(r"[a-z]{1,4}\d+", word) for word in _WORD.findall(plain))
    return words_known and _PLAIN_EXPRESSION.fullmatch(plain) is not None


def _refusal(path: Path, what: str) -> ModelError:
    return ModelError(
        f"'{path}' holds {what}, which could run code when it is loaded; "
        "export the model to ONNX, or save it again with torch.export.save without custom objects"
    )
