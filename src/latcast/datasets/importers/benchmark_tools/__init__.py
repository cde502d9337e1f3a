"""What the runtimes' own benchmark tools print, as measurements: for devices on which latcast does not run.

A tool is recognised by what it prints; output that is cut off, or of no known tool, is refused with file and line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from latcast.datasets.importers.benchmark_tools.manifest import MANIFEST_FILE, RESULTS_FOLDER, KitManifest
from latcast.datasets.importers.benchmark_tools.measured import Named, measurement_of
from latcast.datasets.importers.benchmark_tools.sections import read_sections
from latcast.errors import DatasetError
from latcast.records import Measurement, Platform

__all__ = ["MANIFEST_FILE", "RESULTS_FOLDER", "KitManifest", "ToolOutputs", "output_files", "read_outputs"]


@dataclass(frozen=True)
class ToolOutputs:
    """Attributes:
    measurements: One for each network of each run.
    tools: File to the tools that wrote it.
    notes: What was assumed, a sentence each.
    """

    measurements: tuple[Measurement, ...]
    tools: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...]


def output_files(paths: Iterable[Path]) -> list[Path]:
    """Files, and of folders the ``.txt`` and ``.log`` files in them; of a kit's folder those of its results.

    Raises:
        DatasetError: A folder holds none.
    """
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        folder = path / RESULTS_FOLDER if (path / MANIFEST_FILE).is_file() else path
        inside = sorted(each for each in folder.rglob("*") if each.suffix in (".txt", ".log") and each.is_file())
        if not inside:
            raise DatasetError(f"{folder} holds no results: no file .txt or .log")
        found += inside
    return found


def read_outputs(files: Iterable[Path], *, kit: KitManifest | None = None, platform: Platform | None = None) -> ToolOutputs:
    """Reads files with the output of tools.

    Args:
        files: Each of one run or several.
        kit: The kit that was run, which knows the networks by name.
        platform: Where they were run; needed where the output does not say, as only the kit's script makes it.

    Raises:
        DatasetError: A file is of no known tool, cut off or malformed; a network or platform is not known, or is another one
            than the output says. The message gives file and line.
    """
    named = Named(kit)
    measurements: list[Measurement] = []
    tools: dict[str, tuple[str, ...]] = {}
    for file in files:
        names = []
        for reader, section in read_sections(file):
            measurements += [measurement_of(reader, section, timing, named, platform) for timing in reader.read(section)]
            names.append(reader.name)
        tools[str(file)] = tuple(dict.fromkeys(names))
    return ToolOutputs(tuple(measurements), tools, tuple(named.notes))
