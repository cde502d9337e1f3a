"""Values that a user gives for inputs: numbers, lists of them or ``.npy`` files, brought to the inputs' shapes and types.

They decide branches, rounds of loops and sizes while a model is read, and are what is fed to it when it is measured.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from latcast.errors import ModelError
from latcast.graph.ir import Values

Array = np.ndarray[Any, Any]

MOST_IN_JSON = 1024
"""Most numbers of a value that references hold, as records keep them for good; sizes and switches are fewer."""


def parse_values(texts: Iterable[str] | None, option: str = "--value", *, files: bool = True) -> dict[str, Array]:
    """Read ``rate=16000``, ``config=10,0.45,0.25`` and ``image=FILE.npy`` as arrays by input name.

    Args:
        texts: One an input.
        option: The option that they come from, for messages.
        files: Whether files may be named.

    Raises:
        ModelError: A text is not of this form, or the file holds no array.
    """
    found = {}
    for text in texts or ():
        name, equals, value = text.rpartition("=")
        if not equals or not name or not value:
            raise ModelError(f"{option} '{text}' is not of the form input=16000, input=10,0.45,0.25 or input=FILE.npy")
        found[name] = _loaded(Path(value)) if files and value.endswith(".npy") else _parsed(value)
    return found


def _loaded(path: Path) -> Array:
    try:
        with path.open("rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError, MemoryError) as problem:
        raise ModelError(f"cannot read the values in '{path}': {problem}; write them with numpy.save") from problem


def _parsed(text: str) -> Array:
    """Return a scalar, or a vector where the text has a comma; of texts where a part is no number."""
    parts = [part.strip() for part in text.strip("[]").split(",")]
    words = {"true": True, "false": False}
    read: list[Any] = [words.get(part.lower(), part) for part in parts]
    for kind in (int, float):
        try:
            read = [part if isinstance(part, bool) else kind(part) for part in read]
            break
        except ValueError:
            continue
    return np.asarray(read if len(read) > 1 else read[0])


def fitted(name: str, value: object, sizes: Sequence[int] | None, dtype: str) -> Array:
    """Return the value of an input in its shape and type.

    Args:
        name: The input's.
        value: One number fills the input; as many numbers as it has elements are laid out in order.
        sizes: Its sizes, below 0 where any fits; None where its rank is not known either.
        dtype: numpy's name of its type; ``string`` for texts.

    Raises:
        ModelError: The numbers do not fit; the message names the input, its shape and its type.
    """
    try:
        given = np.asarray(value)
    except ValueError as problem:
        raise ModelError(f"the values given for input '{name}' make no array: {problem}") from problem
    return _reshaped(name, _converted(name, given, dtype), given.shape if sizes is None else sizes)


def _converted(name: str, given: Array, dtype: str) -> Array:
    if dtype == "string":
        return given.astype(str).astype(object)
    if given.dtype.kind not in "biuf":
        raise ModelError(f"the values given for input '{name}' are no numbers; expected {dtype}")
    try:
        target = np.dtype(dtype)
    except TypeError:
        raise ModelError(f"input '{name}' is of type {dtype}, of which no values can be given") from None
    with np.errstate(all="ignore"):
        result = given.astype(target)
    if target.kind != "f" and not np.array_equal(result.astype(given.dtype), given):
        raise ModelError(f"the values given for input '{name}' are not of its type, {dtype}")
    return result


def _reshaped(name: str, given: Array, sizes: Sequence[int]) -> Array:
    unknown = [axis for axis, size in enumerate(sizes) if size < 0]
    fits = len(sizes) == given.ndim and all(size < 0 or size == own for size, own in zip(sizes, given.shape, strict=True))
    if fits:
        return given
    if given.size == 1:
        return np.full([max(size, 1) if size else 0 for size in sizes], given.reshape(-1)[0], given.dtype)
    shape = [1 if size < 0 and axis != unknown[-1] else size for axis, size in enumerate(sizes)]
    known = prod(size for size in shape if size >= 0)
    if given.ndim == 1 and known and (given.size == known if not unknown else given.size % known == 0):
        return given.reshape(shape)
    wanted = ", ".join(str(size) if size >= 0 else "?" for size in sizes)
    raise ModelError(
        f"input '{name}' has the shape [{wanted}]; the values given for it have {list(given.shape)}: "
        f"give one number for all of it, {known if not unknown else 'all its'} numbers, or an array of that shape"
    )


def pack_values(values: Values) -> bytes:
    """Return values as one file of numpy, which runs no code when it is opened."""
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **{f"value {name}": np.asarray(value) for name, value in values.items()})
    return content.getvalue()


def unpack_values(content: bytes) -> dict[str, Array]:
    """Return what :func:`pack_values` packed."""
    with np.load(io.BytesIO(content), allow_pickle=False) as found:
        return {name.removeprefix("value "): found[name] for name in found.files}


def as_json(value: object) -> Any:
    """Return a value as JSON: its numbers, or of more than :data:`MOST_IN_JSON` of them their shape and hash."""
    array = np.asarray(value)
    if array.size <= MOST_IN_JSON:
        return array.tolist()
    return {"shape": list(array.shape), "sha256": hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()}
