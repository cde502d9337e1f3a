"""Readers of latencies in CSV or JSON Lines, as people write them down."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence

from latcast.errors import DatasetError
from latcast.reading import parse_json
from latcast.runtimes.benchmark_tools.output import Line, Section, Timing, positive, read_all

HEADER = ("model", "latency_ms")
"""``model`` is a file, or the name of a network."""


_NAMES = (
    frozenset(("model", "modelname", "name", "network")),
    frozenset(("latencyms", "latencyinms", "inferencetimems", "ms", "timems")),
)
"""Letters of the headings that people write: ``Model``, ``Latency (ms)``."""


class CsvReader:
    """Reads one table, with commas between, or with semicolons or tabs. It says neither where nor how often the networks ran."""

    name = f"a CSV file with the header {','.join(HEADER)}"
    runtimes: Sequence[str] = ()
    endings: Sequence[str] = ()

    def begins(self, text: str) -> bool:
        heads = [re.sub(r"[\W_]", "", cell.lower()) for cell in text.split(_separator(text))]
        return len(heads) == len(_NAMES) and all(head in names for head, names in zip(heads, _NAMES, strict=True))

    def read(self, section: Section) -> list[Timing]:
        """Read the timings; see :class:`~latcast.runtimes.benchmark_tools.output.ToolReader`."""
        between = _separator(section.lines[0].text)
        found = _rows(section, section.lines[1:], lambda section, line: _cells(section, line, between))
        if not found:
            raise section.refused("no model follows the header; expected a line for each: model,latency_ms")
        return found


class JsonLinesReader:
    """Reads an object a line. It says neither where nor how often the networks ran."""

    name = 'JSON Lines of {"model": ..., "latency_ms": ...}'
    runtimes: Sequence[str] = ()
    endings: Sequence[str] = ()

    def begins(self, text: str) -> bool:
        try:
            return text.lstrip().startswith("{") and set(parse_json(text, "a line", error=DatasetError)) == set(HEADER)
        except DatasetError:
            return False

    def read(self, section: Section) -> list[Timing]:
        """Read the timings; see :class:`~latcast.runtimes.benchmark_tools.output.ToolReader`."""
        return _rows(section, section.lines, _members)


STATED = frozenset({CsvReader.name, JsonLinesReader.name})
"""Formats that do not say how the latencies were measured."""


def _rows(section: Section, lines: Sequence[Line], cells: Callable[[Section, Line], Sequence[str]]) -> list[Timing]:
    def timing(line: Line) -> Timing | None:
        row = cells(section, line) if line.text.strip() else []
        if not any(row):
            return None
        if len(row) != len(HEADER) or not row[0]:
            raise section.refused(f"found {len(row)} cells; expected a model and its latency in milliseconds", line)
        return Timing(row[0], line, positive(section, line, "the latency", row[1]), "as stated")

    return [found for found in read_all([(line, line) for line in lines], timing) if found is not None]


def _separator(heading: str) -> str:
    return next((each for each in ";\t" if each in heading), ",")


def _cells(section: Section, line: Line, between: str) -> list[str]:
    try:
        cells = [cell.strip() for cell in next(csv.reader([line.text], delimiter=between), [])]
        return cells if between == "," else [*cells[:1], *(cell.replace(",", ".") for cell in cells[1:])]
    except csv.Error as problem:
        raise section.refused(f"not a line of CSV ({problem})", line) from problem


def _members(section: Section, line: Line) -> list[str]:
    try:
        found = parse_json(line.text, "its text", error=DatasetError)
    except DatasetError as problem:
        raise section.refused(f"not a line of JSON: {problem}", line) from problem
    if not isinstance(found, dict) or set(found) != set(HEADER):
        raise section.refused(f"found {line.text.strip()[:60]}; expected an object of model and latency_ms", line)
    return [str(found[name]).strip() for name in HEADER]
