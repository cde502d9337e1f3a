"""Which tool wrote a file, and where each of its runs begins."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from latcast.datasets.importers.benchmark_tools.latencies_csv import CsvReader
from latcast.datasets.importers.benchmark_tools.ncnn import NcnnReader
from latcast.datasets.importers.benchmark_tools.onnxruntime import OnnxruntimeReader
from latcast.datasets.importers.benchmark_tools.openvino import OpenvinoReader
from latcast.datasets.importers.benchmark_tools.output import Line, Section, ToolReader
from latcast.datasets.importers.benchmark_tools.tflite import TfliteReader
from latcast.errors import DatasetError
from latcast.reading import read_bytes

READERS: Sequence[ToolReader] = (TfliteReader(), NcnnReader(), OpenvinoReader(), OnnxruntimeReader(), CsvReader())

HEADER = "# latcast"
"""How a line begins that the kit's script writes before a tool's output: ``# latcast network=resnet18 device=pixel4``."""

_SETTING = re.compile(r"(\w+)=(\S*)")


def read_sections(file: Path) -> list[tuple[ToolReader, Section]]:
    """The runs whose output a file holds, each with the reader for it.

    Raises:
        DatasetError: The file cannot be read, or no tool is recognised.
    """
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
        begun = next((each for each in READERS if each.begins(line.text)), None)
        if begun is not None:
            if reader is not None:
                close()
                pending = []
            reader = begun
        pending.append(line)
    close()
    if not found:
        raise DatasetError(f"{file}:1: {_expected()}")
    return found


def _expected() -> str:
    names = ", ".join(reader.name for reader in READERS)
    return f"no output of a tool that is known; expected that of {names}, from its first line on"


def _lines(file: Path) -> list[Line]:
    data = read_bytes(file, error=DatasetError)
    try:
        # Shells of Windows write UTF-16; progress bars write carriage returns.
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8").lstrip("\ufeff")
    except UnicodeDecodeError as problem:
        raise DatasetError(f"cannot read {file}: {problem}") from problem
    parts = text.replace("\r\n", "\n").split("\n")
    # After the last line's end there is no further, empty line: whether a table ended with one must stay visible.
    return [Line(number, part.rpartition("\r")[2]) for number, part in enumerate(parts if parts[-1] else parts[:-1], start=1)]
