"""Files of kernel tables: arrays of numbers, compressed (``.npz`` without objects), and a fingerprint of what each is made from.

A table that was made from something else, or before a kernel type had other fields, is not used.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from latcast.errors import UnknownNameError
from latcast.folders import cache_folder, replacing
from latcast.kernels.kernel import Configuration, Kernel
from latcast.kernels.types.kernel_type import kernel_type

CHECKED = 3
"""Networks that are built to see whether a table of the user's cache still holds."""

_TYPE = "type."
"""Prefix of the names of arrays of configurations."""

Configurations = Mapping[str, np.ndarray]
"""Kernel type to (distinct kernels, fields)."""


def table_file(made_from: str, configurations: Configurations, **arrays: Any) -> bytes:
    """Return the content of a file from its fingerprint, distinct kernels, and further arrays."""
    types: dict[str, Any] = {_TYPE + name: small(rows) for name, rows in configurations.items()}
    fields = np.array(json.dumps(_fields(configurations)))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, fingerprint=np.array(made_from), fields=fields, **arrays, **types)
    return buffer.getvalue()


def read_table(content: bytes, made_from: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]] | None:
    """Return configurations and other arrays; None where the file is damaged or was made from something else."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        configurations = {
            name.removeprefix(_TYPE): rows.astype(np.int64) for name, rows in arrays.items() if name.startswith(_TYPE)
        }
        if (str(arrays["fingerprint"]), json.loads(str(arrays["fields"]))) != (made_from, _fields(configurations)):
            return None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, UnknownNameError):
        return None
    return configurations, arrays


def is_current(path: Path) -> bool:
    """Return whether a table is there whose kernels have the fields that their types have."""
    try:
        with np.load(path, allow_pickle=False) as file:
            said = json.loads(str(file["fields"]))
        return said == _fields(said)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, UnknownNameError):
        return False


def small(values: np.ndarray) -> np.ndarray:
    """Whole numbers in as few bytes as hold them."""
    least = np.int32 if values.size and values.min() < 0 else np.min_scalar_type(int(values.max(initial=0)))
    return values.astype(least)


def stored(shipped: Path) -> Iterator[tuple[bytes, bool]]:
    """Yield the tables of a file's name, each with whether it is the shipped one: that first, then that of the user's cache."""
    for path in (shipped, _cached(shipped.name)):
        with suppress(OSError):
            yield path.read_bytes(), path is shipped


def _cached(name: str) -> Path:
    return cache_folder() / "tables" / name


def keep(name: str, content: bytes) -> None:
    """Write a table to the user's cache; where that cannot be written, nothing is kept."""
    path = _cached(name)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as draft:
            draft.write_bytes(content)


def keys_of(configurations: Configurations) -> list[tuple[str, Configuration]]:
    """Kernel type and numbers of each distinct kernel, in the tables' order."""
    return [(name, tuple(row)) for name, rows in configurations.items() for row in rows.tolist()]


def counted(kernels: Iterable[Kernel]) -> Counter[tuple[str, Configuration]]:
    """Count each kernel, without free ones."""
    return Counter(kernel.key for kernel in kernels if not kernel.free)


def _fields(configurations: Iterable[str]) -> dict[str, list[str]]:
    """Return what the numbers of each kernel type's configurations mean."""
    return {name: list(kernel_type(name).fields) for name in sorted(configurations)}
