"""Measurements as JSON Lines: one object a line, each with the schema version, compressed where the name ends in ``.gz``."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Literal, TypeGuard

from latcast.errors import DatasetError, LatcastError
from latcast.records import Measurement, Platform


def write(path: Path | str, measurements: Iterable[Measurement]) -> int:
    """Writes measurements and returns their number; the file appears only when all are written.

    Raises:
        DatasetError: The file cannot be written.
    """
    file = Path(path)
    draft = file.with_name(f".{file.name}.part{'.gz' if file.suffix == '.gz' else ''}")
    count = 0
    try:
        with _open(draft, "wt") as stream:
            for measurement in measurements:
                stream.write(json.dumps(measurement.to_json(), separators=(",", ":"), sort_keys=True) + "\n")
                count += 1
        draft.replace(file)
    except OSError as problem:
        raise DatasetError(f"cannot write {file}: {problem.strerror}") from problem
    finally:
        draft.unlink(missing_ok=True)
    return count


def read(path: Path | str) -> Iterator[Measurement]:
    """Measurements of a file, one after the other; empty lines are skipped.

    Raises:
        DatasetError: The file cannot be read, or a line is not a measurement; the message gives file and line.
    """
    file = Path(path)
    try:
        with _open(file, "rt") as stream:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    yield _measurement(line, f"{file}:{number}")
    except (OSError, EOFError, UnicodeDecodeError) as problem:
        raise DatasetError(f"cannot read {file}: {problem}") from problem


def _open(file: Path, mode: Literal["rt", "wt"]) -> IO[str]:
    return gzip.open(file, mode, encoding="utf-8") if file.suffix == ".gz" else file.open(mode, encoding="utf-8")


def _measurement(line: str, place: str) -> Measurement:
    try:
        data = json.loads(line)
    except ValueError as problem:
        raise DatasetError(f"{place}: not JSON ({problem}); expected one measurement a line") from problem
    if not isinstance(data, dict):
        raise DatasetError(f"{place}: a {type(data).__name__} where a measurement, a JSON object, was expected")
    try:
        measurement = Measurement.from_json(data)
        Platform.parse(measurement.platform)
    except LatcastError as problem:
        raise DatasetError(f"{place}: {problem}") from problem
    _check(measurement, place)
    return measurement


def _check(measurement: Measurement, place: str) -> None:
    """What the types alone do not say."""
    for name in ("probe_ms", "rounds"):
        values = getattr(measurement, name)
        if values and len(values) != len(measurement.runs_ms):
            raise DatasetError(
                f"{place}: {len(measurement.runs_ms)} runs_ms but {len(values)} {name}; there must be one for each run"
            )
    numbers: tuple[object, ...] = (*measurement.runs_ms, *measurement.probe_ms, *measurement.rounds)
    if not all(_is_number(value) and value >= 0 for value in numbers):
        raise DatasetError(f"{place}: runs_ms, probe_ms and rounds must be numbers that are not negative")
    latency_ms: object = measurement.latency_ms
    if measurement.error is None and not (_is_number(latency_ms) and latency_ms > 0):
        raise DatasetError(
            f"{place}: latency_ms is {latency_ms!r} and error is null; "
            "a measurement either has a positive latency or says why it failed"
        )


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
