"""Files that strangers wrote, read with limits: of size (after unpacking too), of depth, and of what their numbers may be.

All gzip, JSON, lines of JSON, TOML, CSV, zip and safetensors are read here; the callers check the values. The limits are in
docs/commands.md too.
"""

from __future__ import annotations

import csv
import gzip
import importlib
import io
import json
import math
import stat
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from mmap import mmap
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from latcast.errors import LatcastError

MOST_BYTES = 64_000_000
"""Largest unpacked file that is read whole; JSON of this size takes up to 24 times as much memory."""

MOST_LINE_BYTES = 16_000_000
"""Longest line of files that are read line by line, of any size."""

MOST_BLANK_LINES = 100_000

MOST_ROWS = 1_000_000
"""Most rows of a CSV file; each becomes an object of some hundred bytes."""

MOST_TOML_BYTES, MOST_DOTS = 200_000, 1000
"""Most bytes of TOML, and dots in a line of it: parsing takes quadratic time in the parts of a key."""

MOST_RATIO, FREE_BYTES = 100, 16_000_000
"""Largest ratio of unpacked to packed gzip, for more than this many unpacked bytes; measurements reach 25."""

MOST_VALUES = 8_000_000
"""Most brackets, braces and commas of a JSON text; two characters become a list of 56 bytes."""

MOST_DEPTH = 40
"""Deepest nesting of lists and objects."""

MOST_INTEGER = 2**63 - 1

MOST_TENSORS, MOST_HEADER_BYTES, MOST_DIMENSIONS = 10_000, 4_000_000, 8
"""Limits of a safetensors file; latcast's have up to 340 tensors and a header of 80 kB."""

_DTYPES: Mapping[str, str] = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?",
}  # fmt: skip

_GZIP = b"\x1f\x8b"

_ENTRY_BYTES = 200
"""Most bytes of a zip's directory for each file in it."""

UNREADABLE_ZIP = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, KeyError, NotImplementedError, OSError, RuntimeError, ValueError,
)  # fmt: skip
"""Exceptions that zipfile raises for a damaged file, when it is opened and when a member is read."""

_CHUNK_BYTES = 1 << 20


def read_bytes(path: Path, *, error: type[LatcastError], most_bytes: int = MOST_BYTES) -> bytes:
    """Return a regular file's content, unpacked where it is gzip.

    Raises:
        LatcastError: As ``error``: the file cannot be read, is damaged, or larger than ``most_bytes``.
    """
    parts, total = [], 0
    for part in read_portions(path, error=error):
        total += len(part)
        if total > most_bytes:
            raise error(f"{path}: found more than {most_bytes / 1e6:g} MB, expected at most that")
        parts.append(part)
    return b"".join(parts)


def read_lines(path: Path, *, error: type[LatcastError]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank, with their numbers; unpacked where the file is gzip.

    Raises:
        LatcastError: As ``error``: the file cannot be read or is damaged, or a line is too long.
    """
    number, blank, rest = 0, 0, b""
    for part in read_portions(path, error=error):
        *lines, rest = (rest + part).split(b"\n")
        for line in (*lines, rest):
            if len(line) > MOST_LINE_BYTES:
                raise error(f"{path}: found a line of more than {MOST_LINE_BYTES / 1e6:.0f} MB, expected one record a line")
        for line in lines:
            number += 1
            if line and not line.isspace():
                yield number, line
            elif (blank := blank + 1) > MOST_BLANK_LINES:
                raise error(f"{path}:{number}: found more than {MOST_BLANK_LINES} blank lines, expected one record a line")
    if rest.strip():
        yield number + 1, rest


def read_json(path: Path, *, error: type[LatcastError]) -> Any:
    """Return a JSON file; see :func:`read_bytes` and :func:`parse_json`."""
    return parse_json(read_bytes(path, error=error), str(path), error=error)


def check_schema(found: int, newest: int, place: str, *, error: type[LatcastError]) -> None:
    """Refuse a file of a later version than this latcast reads.

    Raises:
        LatcastError: As ``error``, beginning with ``place``.
    """
    if found > newest:
        raise error(f"{place}: found schema {found}, expected {newest} or older; update latcast to read it")


def parse_json(data: bytes | str, place: str, *, error: type[LatcastError]) -> Any:
    """Return a JSON value with finite numbers, integers of 64 bits, and limited nesting, from UTF-8 or text.

    Raises:
        LatcastError: As ``error``, beginning with ``place``.
    """
    try:
        text = data if isinstance(data, str) else str(data, "utf-8-sig")
        if sum(map(text.count, "[{,")) > MOST_VALUES:
            raise error(f"{place}: found more than {MOST_VALUES:,} values, expected at most that")
        found = json.loads(text, parse_constant=_constant, parse_int=_integer, parse_float=_float)
        if "\\ud" in text or "\\uD" in text:
            # Half a character cannot be stored or printed.
            json.dumps(found, ensure_ascii=False).encode()
    except UnicodeDecodeError as problem:
        raise error(f"{place}: not UTF-8 text (byte {problem.start}), expected JSON") from problem
    except UnicodeEncodeError as problem:
        raise error(f"{place}: a text with half a character (a lone surrogate), expected Unicode") from problem
    except RecursionError as problem:
        raise error(f"{place}: nested deeper than {MOST_DEPTH}, expected at most that") from problem
    except MemoryError as problem:
        raise error(f"{place}: takes more memory than there is") from problem
    except ValueError as problem:
        raise error(f"{place}: not JSON ({problem})") from problem
    _refuse_deep(found, place, error)
    return found


def read_toml(path: Path, *, error: type[LatcastError]) -> dict[str, Any]:
    """Return a TOML file, with the limits on depth and integers that JSON has.

    Raises:
        LatcastError: As ``error``: the file cannot be read, is larger than :data:`MOST_TOML_BYTES`, or is not TOML.
    """
    return parse_toml(read_bytes(path, error=error, most_bytes=MOST_TOML_BYTES), str(path), error=error)


def parse_toml(data: bytes, place: str, *, error: type[LatcastError]) -> dict[str, Any]:
    """Parse TOML in UTF-8; see :func:`read_toml`."""
    if max(line.count(b".") for line in data.split(b"\n")) > MOST_DOTS:
        raise error(f"{place}: found a line with more than {MOST_DOTS} dots, expected at most that")
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")  # the same under another name
    try:
        found: dict[str, Any] = toml.loads(data.decode("utf-8-sig"), parse_float=_float)
    except RecursionError as problem:
        raise error(f"{place}: nested deeper than {MOST_DEPTH}, expected at most that") from problem
    except ValueError as problem:  # also of an integer of more digits than Python takes
        raise error(f"{place}: not TOML ({problem})") from problem
    _refuse_deep(found, place, error)
    if any(abs(value) > MOST_INTEGER for value in _integers(found)):
        raise error(f"{place}: found an integer of more than 64 bits, expected one that fits")
    return found


def read_csv(path: Path, *, error: type[LatcastError]) -> list[tuple[int, Sequence[str]]]:
    """Return the rows of a CSV file in UTF-8 that are not empty, with the numbers of the lines on which they end.

    Raises:
        LatcastError: As ``error``: the file cannot be read, is not CSV, or has more than :data:`MOST_ROWS` rows.
    """
    rows: list[tuple[int, Sequence[str]]] = []
    try:
        text = read_bytes(path, error=error).decode("utf-8-sig")
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        for cells in reader:
            if cells:
                rows.append((reader.line_num, cells))
            if len(rows) > MOST_ROWS:
                raise error(f"{path}: found more than {MOST_ROWS:,} rows, expected at most that")
    except (UnicodeDecodeError, csv.Error) as problem:
        raise error(f"cannot read {path}: {problem}") from problem
    return rows


def open_zip(path: Path, *, error: type[LatcastError], most_members: int) -> zipfile.ZipFile:
    """Open a zip of plain files, each once, stored or deflated; reading a member may raise :data:`UNREADABLE_ZIP`.

    Raises:
        LatcastError: As ``error``: the file cannot be read, is not a zip, or has members of another kind or too many.
    """
    require_regular(path, error=error)
    try:
        with path.open("rb") as file:
            end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
        # Before Python makes an object of each entry, which takes ten times the bytes.
        if end is not None and end[zipfile._ECD_SIZE] > _ENTRY_BYTES * most_members:  # type: ignore[attr-defined]
            raise error(f"{path}: found a zip that lists more than {most_members} files, expected at most that")
        archive = zipfile.ZipFile(path)
    except UNREADABLE_ZIP as problem:
        raise error(f"{path}: found no readable zip ({_reason(problem)}); get it again") from problem
    names: set[str] = set()
    for entry in archive.infolist():
        plain = entry.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) and not entry.flag_bits & 1
        if not plain or not entry.filename or stat.S_ISLNK(entry.external_attr >> 16) or entry.filename in names:
            archive.close()
            raise error(
                f"{path}: {entry.filename[:80]}: found it twice, encrypted or as a link, without a name, or packed otherwise "
                "than by deflate, expected a plain file; do not use a file from this source"
            )
        names.add(entry.filename)
    if len(names) > most_members:
        archive.close()
        raise error(f"{path}: found {len(names)} files in the zip, expected at most {most_members}")
    return archive


def parse_tensors(data: bytes | mmap, *, error: type[LatcastError]) -> tuple[dict[str, np.ndarray], Mapping[str, str]]:
    """Return the arrays of a safetensors file, and the texts of its header; nothing is copied, a mapped file is not read yet.

    Raises:
        LatcastError: As ``error``: it is malformed, or has more tensors or a larger header than any that latcast writes.
    """
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(len(data) - 8, MOST_HEADER_BYTES):
        raise error(
            f"found no safetensors (a header of {length} bytes in a file of {len(data)}), expected at most "
            f"{MOST_HEADER_BYTES / 1e6:.0f} MB"
        )
    header = parse_json(data[8 : 8 + length], "found no safetensors", error=error)
    if not isinstance(header, dict):
        raise error(f"found no safetensors (a header that is a {type(header).__name__}), expected an object")
    texts = header.pop("__metadata__", {})
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise error("found no safetensors (a __metadata__ that is not an object of texts)")
    if len(header) > MOST_TENSORS:
        raise error(f"found {len(header)} tensors, expected at most {MOST_TENSORS}")
    arrays: dict[str, np.ndarray] = {}
    extents = []
    for name, entry in header.items():
        try:
            dtype, shape, (start, end) = np.dtype(_DTYPES[entry["dtype"]]), entry["shape"], entry["data_offsets"]
            whole = all(type(value) is int and value >= 0 for value in (*shape, start, end))
            if not whole or len(shape) > MOST_DIMENSIONS or end - start != math.prod(shape) * dtype.itemsize:
                raise ValueError(f"{dtype} of shape {shape} in {end - start} bytes")
            if end > len(data) - 8 - length:
                raise ValueError(f"bytes {start} to {end} of {len(data) - 8 - length}")
            arrays[name] = np.frombuffer(data, dtype, math.prod(shape), 8 + length + start).reshape(shape)
        except (KeyError, TypeError, ValueError) as problem:
            raise error(f"found no safetensors ('{name}': {problem}), expected a known type and its bytes") from problem
        extents.append((start, end))
    # Without gaps and overlaps, so that a few bytes are not many arrays.
    if [start for start, _ in sorted(extents)] != [0, *(end for _, end in sorted(extents))][: len(extents)]:
        raise error("found no safetensors (tensors that overlap or leave gaps)")
    return arrays, texts


def require_regular(path: Path, *, error: type[LatcastError], what: str = "") -> None:
    """Raise ``error`` for a missing file, a folder, a pipe (opening one would block) or a device; ``what`` precedes the path."""
    try:
        status = path.stat()
    except (OSError, ValueError) as problem:
        raise error(f"cannot read {what}{path}: {_reason(problem)}; check the path") from problem
    if not stat.S_ISREG(status.st_mode):
        found = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe or a device"
        raise error(f"cannot read {what}{path}: it is {found}, expected a file")


def read_portions(path: Path, *, error: type[LatcastError]) -> Iterator[bytes]:
    """Yield the content of a regular file in portions, unpacked where it is gzip.

    Raises:
        LatcastError: As ``error``: the file cannot be read, is damaged, cut off or packed too densely.
    """
    require_regular(path, error=error)
    total = 0
    try:
        with path.open("rb") as file:
            # JSON never begins with gzip's first bytes.
            packed = path.suffix == ".gz" or file.read(len(_GZIP)) == _GZIP
            file.seek(0)
            stream: BinaryIO | gzip.GzipFile = gzip.GzipFile(fileobj=file) if packed else file
            while part := stream.read(_CHUNK_BYTES):
                total += len(part)
                # Of what was read so far: a file may hold the same portion many times.
                if packed and total > max(FREE_BYTES, MOST_RATIO * file.tell()):
                    raise error(
                        f"{path}: found {total / 1e6:.0f} MB packed into {file.tell()} bytes, expected at most "
                        f"{MOST_RATIO} times as much; do not use a file from this source"
                    )
                yield part
    except (OSError, EOFError, zlib.error) as problem:
        raise error(f"cannot read {path}: {_reason(problem)}") from problem


def _reason(problem: Exception) -> str:
    return getattr(problem, "strerror", None) or str(problem) or type(problem).__name__


def _constant(text: str) -> NoReturn:
    raise ValueError(f"found {text}, expected a finite number")


def _integer(text: str) -> int:
    value = int(text) if len(text) <= 20 else MOST_INTEGER + 1
    if not -MOST_INTEGER <= value <= MOST_INTEGER:
        raise ValueError(f"found an integer of {len(text)} digits, expected one of 64 bits")
    return value


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"found {text[:40]}, expected a finite number")
    return value


def _refuse_deep(found: Any, place: str, error: type[LatcastError]) -> None:
    depth, level = 0, [found] if isinstance(found, (dict, list)) else []
    while level:
        depth += 1
        if depth > MOST_DEPTH:
            raise error(f"{place}: nested deeper than {MOST_DEPTH}, expected at most that")
        level = [
            child
            for each in level
            for child in (each.values() if isinstance(each, dict) else each)
            if isinstance(child, (dict, list))
        ]


def _integers(value: Any) -> Iterator[int]:
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _integers(child)
    if type(value) is int:
        yield value


def other_content(start: bytes, expected: str) -> str:
    """Return what a file is that is not of the format that is expected: "is a Git LFS pointer, ...".

    Args:
        start: Its first 80 bytes.
        expected: Such as "an ONNX model".
    """
    if start.startswith(b"version https://git-lfs"):
        return "is a Git LFS pointer, not the model itself; fetch it with: git lfs pull"
    first_line = start.splitlines()[0] if start.splitlines() else start
    if first_line and all(32 <= byte < 127 or byte == 9 for byte in first_line):
        return f"is not {expected}: it is text that begins with '{first_line[:40].decode()}'"
    return f"is not {expected} or is damaged"
