"""What importers share whose datasets say nothing of their networks that could be checked: no FLOPs, no executed kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latcast.datasets.importers import FileSummary, Imported, NetworkCheck, Refusals
from latcast.errors import DatasetError
from latcast.measure.environment import MOMENT
from latcast.records import Measurement, Platform, Reference
from latcast.spaces.measured_only import can_build, why_not

UNSTATED = "unstated"
"""Stands in a platform id for a runtime or a version that the dataset does not tell."""


@dataclass(frozen=True)
class Parsed:
    """What a file gave.

    Attributes:
        measurements: Records of the one schema.
        rows, missing: Rows below the header, and cells without a value.
        notes: What was left out or mended, a sentence each.
    """

    measurements: Sequence[Measurement]
    rows: int
    missing: int = 0
    notes: Sequence[str] = ()


class NamedOnlyImporter:
    """A dataset of latencies whose records are complete once read.

    Args:
        title: Source and licence, in a line.
        files: The dataset's files, those that must be there first.
        parse: (the folder, a file's name, refusals) -> what the file gave.
    """

    def __init__(self, title: str, files: Sequence[str], parse: Callable[[Path, str, Refusals], Parsed]) -> None:
        self.title = title
        self.files = tuple(files)
        self._parse = parse

    def read(self, folder: Path, *, strict: bool = True) -> Imported:
        """See :meth:`latcast.datasets.importers.DatasetImporter.read`."""
        refusals = Refusals(strict=strict)
        present = [name for name in self.files if (folder / name).is_file()]
        if not present:
            raise DatasetError(f"{folder} holds none of the files of this dataset; expected {', '.join(self.files)}")
        parsed = {name: self._parse(folder, name, refusals) for name in present}
        return Imported(
            tuple(item for found in parsed.values() for item in found.measurements),
            {name: FileSummary(found.rows, len(found.measurements), found.missing) for name, found in parsed.items()},
            tuple(name for name in self.files if name not in present),
            tuple(refusals.found),
            tuple(note for found in parsed.values() for note in found.notes),
        )

    def complete(self, imported: Imported, watch: Callable[[str], None]) -> Imported:
        """See :meth:`latcast.datasets.importers.DatasetImporter.complete`; there is nothing to add."""
        return imported

    def check(self, imported: Imported, watch: Callable[[str], None]) -> NetworkCheck:
        """See :meth:`latcast.datasets.importers.DatasetImporter.check`; there are no figures to compare."""
        reasons: dict[str, dict[str, None]] = {}
        for measurement in imported.measurements:
            if not can_build(measurement.reference):
                reasons.setdefault(why_not(measurement.reference), {})[measurement.reference.name] = None
        return NetworkCheck((), {reason: tuple(names) for reason, names in reasons.items()}, 0.0)


def published_mean(
    platform: Platform,
    reference: Reference,
    latency_ms: float,
    *,
    statistic: str,
    environment: Mapping[str, Any],
    place: str,
) -> Measurement:
    """A record of one published number.

    Args:
        platform: Where it was measured.
        reference: What was measured.
        latency_ms: The number.
        statistic: What it is of the runs.
        environment: The dataset and what it says of the device.
        place: File and line.
    """
    return Measurement(
        platform.id,
        reference,
        latency_ms=latency_ms,
        raw_latency_ms=latency_ms,
        statistic=statistic,
        environment={**environment, MOMENT: {"row": place}},
    )
