"""Tables of published measurements, read row by row, and the importer of datasets that only name their networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from latcast.datasets.importers import FileSummary, Imported, NetworkCheck, Refusals
from latcast.environment import MOMENT
from latcast.errors import DatasetError
from latcast.reading import read_csv
from latcast.records import Measurement, Reference
from latcast.spaces.measured_only import can_build, why_not

NO_VALUE = frozenset({"", "N/A"})
"""Cells that were not measured."""

_Parsed = TypeVar("_Parsed")


class Malformed(ValueError):
    """The reason to refuse a row: what was found and what was expected."""


@dataclass(frozen=True)
class Row:
    """One row with its place in the file."""

    line: int
    cells: Sequence[str]


class Table:
    """A CSV file with a header, which must begin with the columns ``first`` in any case; malformed rows go to ``refusals``.

    Raises:
        DatasetError: The file cannot be read, or its header is another one.
    """

    def __init__(self, file: Path, first: Sequence[str], refusals: Refusals) -> None:
        self.file = file
        self.refusals = refusals
        self._rows = [Row(line, cells) for line, cells in read_csv(file, error=DatasetError)]
        self.header = tuple(self._rows[0].cells) if self._rows else ()
        found = [name.lower() for name in self.header[: len(first)]]
        if found != list(first):
            beginning = ", ".join(self.header[: len(first)]) or "nothing"
            raise DatasetError(f"{file}:1: the header begins with {beginning}; expected {', '.join(first)}")

    def __len__(self) -> int:
        return len(self._rows) - 1

    def rows(self) -> Iterator[Row]:
        """Yield the rows as wide as the header; refuse others."""
        for row in self._rows[1:]:
            if len(row.cells) == len(self.header):
                yield row
            else:
                self.refuse(row, Malformed(f"{len(row.cells)} cells where the header has {len(self.header)}"))

    def parsed(self, parse: Callable[[Row], _Parsed]) -> Iterator[_Parsed]:
        """Yield ``parse(row)`` of each row; refuse rows for which it raises :class:`Malformed`."""
        for row in self.rows():
            try:
                found = parse(row)
            except Malformed as problem:
                self.refuse(row, problem)
            else:
                yield found

    def bad_header(self, problem: Malformed) -> DatasetError:
        """Return the error for a column that the dataset does not have."""
        return DatasetError(f"{self.file}:1: {problem}")

    def refuse(self, row: Row, problem: Malformed) -> None:
        """Note a malformed row; raise a DatasetError where the importer is strict."""
        self.refusals.add(self.file, row.line, str(problem))


def number(text: str, what: str, *, least: float | None = None) -> float:
    """Return a finite number above zero, or from ``least`` on, or raise :class:`Malformed`."""
    try:
        value = float(text)
    except ValueError:
        raise Malformed(f"{what} is '{text}'; expected a number") from None
    if not math.isfinite(value) or (value <= 0 if least is None else value < least):
        raise Malformed(f"{what} is {text}; expected a finite number {'above 0' if least is None else f'from {least:g} on'}")
    return value


def whole_number(text: str, what: str, *, least: float = 1) -> int:
    """Return a whole number from ``least`` on, or raise :class:`Malformed`."""
    value = number(text, what, least=least)
    if value != int(value):
        raise Malformed(f"{what} is {text}; expected a whole number")
    return int(value)


@dataclass(frozen=True)
class Parsed:
    """The content of a file.

    Attributes:
        measurements: Records of the one schema.
        rows, missing: Rows below the header, and cells without a value.
        notes: What was left out or corrected, a sentence each.
    """

    measurements: Sequence[Measurement]
    rows: int
    missing: int = 0
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class NamedOnlyImporter:
    """A dataset of latencies that publishes neither FLOPs nor executed kernels of its networks.

    Attributes:
        title: Source and licence, in a line.
        files: Files with latencies, of which one must be there; ``optional`` ones are about the devices and networks.
        parse: Reads a file, given the folder, the file's name and the refusals.
    """

    title: str
    files: Sequence[str]
    parse: Callable[[Path, str, Refusals], Parsed]
    optional: Sequence[str] = ()

    def read(self, folder: Path, *, strict: bool = True) -> Imported:
        """Read a folder; see :class:`latcast.datasets.importers.DatasetImporter`."""
        refusals = Refusals(strict=strict)
        present = [name for name in self.files if (folder / name).is_file()]
        if not present:
            raise DatasetError(f"{folder} holds none of the files of this dataset; expected {', '.join(self.files)}")
        parsed = {name: self.parse(folder, name, refusals) for name in present}
        return Imported(
            tuple(item for found in parsed.values() for item in found.measurements),
            {name: FileSummary(found.rows, len(found.measurements), found.missing) for name, found in parsed.items()},
            tuple(name for name in (*self.files, *self.optional) if not (folder / name).is_file()),
            tuple(refusals.found),
            tuple(note for found in parsed.values() for note in found.notes),
        )

    def complete(self, imported: Imported, watch: Callable[[str], None]) -> Imported:
        """Return the records unchanged: there is nothing to add."""
        return imported

    def check(self, imported: Imported, watch: Callable[[str], None]) -> NetworkCheck:
        """List the networks that cannot be built; there are no figures to compare."""
        reasons: dict[str, dict[str, None]] = {}
        for measurement in imported.measurements:
            if not can_build(measurement.reference):
                reasons.setdefault(why_not(measurement.reference), {})[measurement.reference.name] = None
        return NetworkCheck((), {reason: tuple(names) for reason, names in reasons.items()}, 0.0)


def published(
    platform: str,
    reference: Reference,
    latency_ms: float,
    statistic: str,
    environment: Mapping[str, Any],
    moment: Mapping[str, Any],
    **facts: Any,
) -> Measurement:
    """Return the record of a published latency; ``moment`` has its file and line as ``row``, and what stands beside it."""
    return Measurement(
        platform,
        reference,
        latency_ms=latency_ms,
        raw_latency_ms=latency_ms,
        statistic=statistic,
        environment={**environment, MOMENT: moment},
        **facts,
    )
