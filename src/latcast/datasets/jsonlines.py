"""Measurements as JSON Lines: one object a line, each with the schema version, compressed where the name ends in ``.gz``."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from latcast.errors import DatasetError, LatcastError
from latcast.folders import replacing
from latcast.reading import parse_json, read_lines
from latcast.records import Measurement


def write(path: str | os.PathLike[str], measurements: Iterable[Measurement]) -> int:
    """Writes measurements and returns their number; the file appears only when all are written.

    Raises:
        DatasetError: The file cannot be written.
    """
    file = Path(path)
    count = 0
    try:
        with replacing(file) as draft, _open_draft(draft, compressed=file.suffix == ".gz") as stream:
            for measurement in measurements:
                stream.write(json.dumps(measurement.to_json(), separators=(",", ":"), sort_keys=True) + "\n")
                count += 1
    except OSError as problem:
        raise DatasetError(f"cannot write {file}: {problem.strerror}") from problem
    return count


def read(path: str | os.PathLike[str]) -> Iterator[Measurement]:
    """Measurements of a file, one after the other; empty lines are skipped.

    Raises:
        DatasetError: The file cannot be read, or a line is not a measurement; the message gives file and line.
    """
    file = Path(path)
    for number, line in read_lines(file, error=DatasetError):
        yield _measurement(line, f"{file}:{number}")


def _open_draft(draft: Path, *, compressed: bool) -> IO[str]:
    return gzip.open(draft, "wt", encoding="utf-8") if compressed else draft.open("w", encoding="utf-8")


def _measurement(line: bytes, place: str) -> Measurement:
    data = parse_json(line, place, error=DatasetError)
    if not isinstance(data, dict):
        raise DatasetError(f"{place}: a {type(data).__name__} where a measurement, a JSON object, was expected")
    try:
        return Measurement.from_json(data)
    except LatcastError as problem:
        raise DatasetError(f"{place}: {problem}") from problem
