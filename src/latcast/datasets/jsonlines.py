"""Measurements as JSON Lines: one object a line, each with the schema version, compressed where the name ends in ``.gz``."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from latcast.errors import DatasetError, LatcastError
from latcast.folders import replacing
from latcast.reading import parse_json, read_json, read_lines
from latcast.records import Measurement


def write(path: str | os.PathLike[str], measurements: Iterable[Measurement]) -> int:
    """Write measurements and return their number; the file appears only when all are written."""
    file = Path(path)
    count = 0
    try:
        with replacing(file) as draft:
            open_draft = gzip.open if file.suffix == ".gz" else open
            with open_draft(draft, "wt", encoding="utf-8") as stream:
                for measurement in measurements:
                    stream.write(json.dumps(measurement.to_json(), separators=(",", ":"), sort_keys=True) + "\n")
                    count += 1
    except OSError as problem:
        raise DatasetError(f"cannot write {file}: {problem.strerror}") from problem
    return count


def append(path: str | os.PathLike[str], measurements: Iterable[Measurement], most: int | None = None) -> None:
    """Add measurements to the end of a file, which is made where missing; beyond ``most``, the oldest are removed."""
    file = Path(path)
    lines = [json.dumps(item.to_json(), separators=(",", ":")).encode() + b"\n" for item in measurements]
    try:
        before = file.read_bytes().splitlines(keepends=True) if most is not None and file.exists() else []
        if most is not None and len(before) + len(lines) > most:
            with replacing(file) as draft:
                draft.write_bytes(b"".join([*before, *lines][-most:]))
        else:
            with file.open("ab") as stream:
                stream.writelines(lines)
    except OSError as problem:
        raise DatasetError(f"cannot write {path}: {problem.strerror}") from problem


_DOCUMENT = re.compile(rb'\s*\{(\s*\n|\s*("schema"\s*:\s*\d+\s*,\s*)?"measurements"\s*:)')
"""Beginning of a document, indented or on one line; a record of JSON Lines has other fields on its first line."""


def read_document(path: str | os.PathLike[str]) -> list[Measurement] | None:
    """Read the output of ``latcast measure --json``; return None for a file that begins otherwise.

    Raises:
        DatasetError: The file cannot be read, or begins so and is malformed.
    """
    try:
        with Path(path).open("rb") as file:
            if not _DOCUMENT.match(file.read(200)):
                return None
    except OSError as problem:
        raise DatasetError(f"cannot read measurements from {path}: {problem.strerror}") from problem
    document = read_json(Path(path), error=DatasetError)
    listed = document.get("measurements") if isinstance(document, dict) else None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise DatasetError(f"{path}: found JSON without 'measurements'; expected what measure --json prints, or JSON Lines")
    found = []
    for number, each in enumerate(listed, start=1):
        record = {name: value for name, value in each.items() if name not in ("model", "warnings", "kernels")}
        found.append(_parsed({**record, "executed": each.get("kernels", [])}, f"{path}: measurement {number}"))
    return found


def read(path: str | os.PathLike[str]) -> Iterator[Measurement]:
    """Yield the measurements of a file one by one, or raise a DatasetError with file and line; empty lines are skipped."""
    for number, line in read_lines(Path(path), error=DatasetError):
        place = f"{path}:{number}"
        yield _parsed(parse_json(line, place, error=DatasetError), place)


def _parsed(data: object, place: str) -> Measurement:
    if not isinstance(data, dict):
        raise DatasetError(f"{place}: a {type(data).__name__} where a measurement, a JSON object, was expected")
    try:
        return Measurement.from_json(data)
    except LatcastError as problem:
        raise DatasetError(f"{place}: {problem}") from problem
