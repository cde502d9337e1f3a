"""Output of the runtimes' own benchmark tools as measurements: for devices on which latcast does not run.

A tool is recognised by its output; output that is cut off, or of no known tool, is refused with file and line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from latcast.datasets.importers.benchmark_tools import stated
from latcast.datasets.importers.benchmark_tools.manifest import MANIFEST_FILE, RESULTS_FOLDER, KitManifest
from latcast.datasets.importers.benchmark_tools.measured import NetworkNames, tool_measurement
from latcast.errors import DatasetError
from latcast.reading import read_bytes
from latcast.records import Measurement, Platform
from latcast.runtimes.benchmark_tools import readers
from latcast.runtimes.benchmark_tools.output import Line, Section, ToolReader, lines_of, read_all
from latcast.runtimes.benchmark_tools.tflite import TfliteReader

READERS: Sequence[ToolReader] = (
    TfliteReader(),
    readers.NcnnReader(),
    readers.OpenvinoReader(),
    readers.OnnxruntimeReader(),
    stated.TableReader(),
    stated.JsonReader(),
)

HEADER = "# latcast"
"""Beginning of the line that the kit's script writes before a tool's output: ``# latcast network=resnet18 device=pixel4``."""

_SETTING = re.compile(r"\b(\w+)=(\S*)")

MOST_LINES = 100_000
"""Most lines of one file; a run prints some thousand."""

MOST_CHARACTERS = 10_000
"""Most characters of a line."""


def read_sections(file: Path) -> list[tuple[ToolReader, Section]]:
    """Return the runs in a file, each with the reader for it, or raise a DatasetError where no tool is recognised."""
    lines = _lines(file)
    found: list[tuple[ToolReader, Section]] = []
    header: Mapping[str, str] = {}
    pending: list[Line] = []
    reader: ToolReader | None = None

    def close() -> None:
        if reader is not None:
            found.append((reader, Section(file, tuple(pending), header)))
        elif header:
            raise DatasetError(
                f"{file}:{pending[0].number if pending else len(lines)}: {_expected()}; the run of "
                f"'{header.get('network', '?')}' that is announced before wrote something else"
            )

    for line in lines:
        if line.text.startswith(HEADER):
            close()
            header, pending, reader = dict(_SETTING.findall(line.text[len(HEADER) :])), [], None
            continue
        # JSON takes the rest of a file.
        begun = None if isinstance(reader, stated.JsonReader) else next((one for one in READERS if one.begins(line.text)), None)
        if begun is not None:
            if reader is not None:
                close()
                pending = []
            reader = begun
        pending.append(line)
    close()
    if not found and file.suffix.lower() in (".csv", ".tsv"):
        first = lines[0].text.strip() if lines else ""
        raise DatasetError(f"{file}:1: found the header '{first[:80]}', expected columns such as {','.join(stated.HEADER)}")
    if not found:
        raise DatasetError(f"{file}:1: {_expected()}")
    return found


def _expected() -> str:
    names = ", ".join(reader.name for reader in READERS)
    return f"no output of a known tool; expected that of {names}, from its first line on"


def _lines(file: Path) -> tuple[Line, ...]:
    data = read_bytes(file, error=DatasetError)
    try:
        # Shells of Windows write UTF-16.
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8").lstrip("\ufeff")
    except UnicodeDecodeError as problem:
        raise DatasetError(
            f"{file}: found bytes that are no text in UTF-8; expected text: save a spreadsheet as 'CSV UTF-8'"
        ) from problem
    parts = text.split("\n")
    if len(parts) > MOST_LINES:
        raise DatasetError(f"{file}: found more than {MOST_LINES:,} lines, expected at most that of a tool's output")
    for number, part in enumerate(parts, start=1):
        if len(part) > MOST_CHARACTERS:
            raise DatasetError(f"{file}:{number}: found a line of {len(part):,} characters, expected at most {MOST_CHARACTERS:,}")
    return lines_of(text)


__all__ = ["MANIFEST_FILE", "RESULTS_FOLDER", "KitManifest", "ToolOutputs", "output_files", "read_outputs"]


@dataclass(frozen=True)
class ToolOutputs:
    """Measurements of each network of each run, the tools that wrote each file, and notes on assumptions, a sentence each."""

    measurements: tuple[Measurement, ...]
    tools: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...]


def output_files(paths: Iterable[Path]) -> list[Path]:
    """Return files, and for folders (for a kit's, that of its results) the ``.txt`` and ``.log`` files in them."""
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        of_kit = (path / MANIFEST_FILE).is_file()
        folder = path / RESULTS_FOLDER if of_kit else path
        inside = sorted(each for each in folder.rglob("*") if each.suffix in (".txt", ".log") and each.is_file())
        if not inside:
            what_to_do = "run the kit's script on the device first" if of_kit else "name what a benchmark tool printed"
            raise DatasetError(f"{folder} holds no results: found no file .txt or .log; {what_to_do}")
        found += inside
    return found


def read_outputs(files: Iterable[Path], *, kit: KitManifest | None = None, platform: Platform | None = None) -> ToolOutputs:
    """Read files with the output of tools, each of one run or several.

    Args:
        files: Their paths.
        kit: The kit that was run, which knows the networks by name.
        platform: Platform of the runs; needed where the output does not say, as without the kit's script.

    Raises:
        DatasetError: A file is of no known tool, cut off or malformed, a network or platform is not known, or the output says
            another one. The message gives file and line.
    """
    named = NetworkNames(kit)
    measurements: list[Measurement] = []
    tools: dict[str, tuple[str, ...]] = {}
    for file in files:
        names = []
        for reader, section in read_sections(file):
            timings = [(timing.line, timing) for timing in reader.read(section)]
            found = read_all(timings, lambda each: tool_measurement(reader, section, each, named, platform))  # noqa: B023
            measurements += [each for each in found if each is not None]
            names.append(reader.name)
        tools[str(file)] = tuple(dict.fromkeys(names))
    return ToolOutputs(tuple(measurements), tools, named.all_notes())
