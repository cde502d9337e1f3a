"""Latencies that somebody wrote down: a CSV file with the header ``model,latency_ms``."""

from __future__ import annotations

import csv
from collections.abc import Sequence

from latcast.datasets.importers.benchmark_tools.output import Section, Timing, positive

HEADER = ("model", "latency_ms")
"""``model`` is a file, or the name of a network."""


class CsvReader:
    """Reads one table. It says neither where nor how often the networks ran."""

    name = f"a CSV file with the header {','.join(HEADER)}"
    runtimes: Sequence[str] = ()
    endings: Sequence[str] = ()

    def begins(self, text: str) -> bool:
        return tuple(cell.strip().lower() for cell in text.split(",")) == HEADER

    def read(self, section: Section) -> list[Timing]:
        """See :class:`~latcast.datasets.importers.benchmark_tools.output.ToolReader`."""
        found = []
        for line in section.lines[1:]:
            try:
                cells = [cell.strip() for cell in next(csv.reader([line.text]), [])]
            except csv.Error as problem:
                raise section.refused(f"not a line of CSV ({problem})", line) from problem
            if not any(cells):
                continue
            if len(cells) != len(HEADER) or not cells[0]:
                raise section.refused(f"found {len(cells)} cells; expected a model and its latency in milliseconds", line)
            found.append(Timing(cells[0], line, positive(section, line, "the latency", cells[1]), "as stated"))
        if not found:
            raise section.refused("no model follows the header; expected a line for each: model,latency_ms")
        return found
