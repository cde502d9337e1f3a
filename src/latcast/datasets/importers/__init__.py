"""Published measurements become records of the one schema: one module or folder a dataset, found by name.

A reader takes the folder that a user downloaded; nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from latcast.errors import DatasetError
from latcast.records import Measurement
from latcast.registry import Registry


@dataclass(frozen=True)
class Refusal:
    """A row that cannot be what the dataset's description says."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


@dataclass(frozen=True)
class FileSummary:
    """Counts of one file: rows below the header, measurements (or executed kernels) made of them, and cells without a value."""

    rows: int
    records: int
    missing: int


@dataclass(frozen=True)
class Imported:
    """The content of a folder.

    Attributes:
        measurements: Records of the one schema.
        files: File name to its counts.
        absent: Files of the dataset that the folder does not have.
        refused: Malformed rows; empty unless the reader was told to go on after one.
        notes: What was left out or corrected and why, a sentence each.
    """

    measurements: tuple[Measurement, ...]
    files: Mapping[str, FileSummary]
    absent: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class NetworkFigures:
    """A network as built here beside its description in a file of the dataset.

    Attributes:
        flops_ratio: Twice the multiply-accumulates of the graph over the dataset's FLOPs.
        size_ratio: Four bytes a parameter over the dataset's size of the model.
    """

    name: str
    file: str
    flops_ratio: float
    size_ratio: float


@dataclass(frozen=True)
class NetworkCheck:
    """A dataset's networks as built here, compared with those that were measured.

    Attributes:
        figures: Networks that can be built.
        not_buildable: Reason to the names of networks that cannot be built.
        tolerance: Largest distance of a ratio from 1.
    """

    figures: tuple[NetworkFigures, ...]
    not_buildable: Mapping[str, tuple[str, ...]]
    tolerance: float

    @property
    def exceptions(self) -> tuple[NetworkFigures, ...]:
        """Figures outside the tolerance."""
        return tuple(each for each in self.figures if max(abs(each.flops_ratio - 1), abs(each.size_ratio - 1)) > self.tolerance)

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``latcast data import --check --json``."""
        return {
            "tolerance": self.tolerance,
            "figures": [vars(each) for each in self.figures],
            "exceptions": [vars(each) for each in self.exceptions],
            "not_buildable": {reason: list(names) for reason, names in self.not_buildable.items()},
        }


class DatasetImporter(Protocol):
    """A plug-in of the group ``latcast.datasets``."""

    title: str
    """Source and licence, in a line."""

    def read(self, folder: Path, *, strict: bool = True) -> Imported:
        """Read a folder.

        Args:
            folder: Where the dataset's files are.
            strict: Raise at the first malformed row instead of collecting them.

        Raises:
            DatasetError: The folder has none of the files, a header is not the dataset's, or (strict) a row is malformed;
                the message gives file and line.
        """

    def complete(self, imported: Imported, watch: Callable[[str], None]) -> Imported:
        """Add the nodes that each executed kernel computes; ``watch`` takes a network's name before it is built."""

    def check(self, imported: Imported, watch: Callable[[str], None]) -> NetworkCheck:
        """Compare the dataset's figures of its networks with the networks as built here; arguments as in :meth:`complete`."""


IMPORTERS: Registry[DatasetImporter] = Registry(
    "dataset",
    {
        **{name: f"latcast.datasets.importers.{name}:IMPORTER" for name in ("usc", "iiswc20", "ncnn_boards", "tflite_blocks")},
        "nb201": "latcast.datasets.importers.nas_tables:NAS_BENCH_201_IMPORTER",
        "fbnet": "latcast.datasets.importers.nas_tables:FBNET_IMPORTER",
        **{
            name: f"latcast.datasets.importers.latency_tables:{name.upper()}"
            for name in (
                "mlperf", "timm", "paddle", "netspresso", "ti", "aihub", "hailo", "rknn", "renesas_drpai", "mlperf_mobile",
                "opencv_zoo", "mmdeploy", "xnnpack",
            )
        },
    },
    group="latcast.datasets",
)  # fmt: skip


class Refusals:
    """The malformed rows of a dataset; with ``strict`` the first one raises."""

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.found: list[Refusal] = []

    def add(self, file: Path, line: int, reason: str) -> None:
        """Note a row; raise a DatasetError where the importer is strict."""
        if self.strict:
            raise DatasetError(f"{file}:{line}: {reason}")
        self.found.append(Refusal(file.name, line, reason))
