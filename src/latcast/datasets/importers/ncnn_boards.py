"""ncnn's own benchmark on boards and computers: its networks, threads, CPU or Vulkan, as published in its documentation.

The version of ncnn differs between boards and is not stated; the same board under another note (another system, another
build) is a separate device.
"""

from __future__ import annotations

import re
from pathlib import Path

from latcast.datasets.importers import Refusals
from latcast.datasets.importers.table import (
    Malformed,
    NamedOnlyImporter,
    Parsed,
    Row,
    Table,
    number,
    published_mean,
    whole_number,
)
from latcast.records import UNSTATED, Measurement, Platform, Reference, device_name
from latcast.runtimes.benchmark_tools.readers import CORES

SPACE = "ncnn_benchmark"

COLUMNS = (
    "board", "note", "block", "num_threads", "powersave", "gpu_device", "loop_count", "model", "min_ms", "max_ms", "avg_ms",
)  # fmt: skip

SOURCE = {"name": "ncnn_boards", "source": "Tencent/ncnn, benchmark/README.md", "licence": "BSD-3-Clause"}

_NAME_LENGTH = 48


_Names = dict[tuple[str, str], tuple[str, int]]
"""Board and note to the device's name, and its number among the boards of that name."""


def _device(board: str, note: str, names: _Names) -> str:
    """Return a board's device name, numbered where another board or note has the same; ``names`` holds those given so far."""
    if (board, note) not in names:
        before_details = re.split(r" \(|, | - |\[", board)[0]
        name = device_name(before_details)[:_NAME_LENGTH].rstrip("-._+")
        if not name:
            raise Malformed(f"the board '{board}' has no name")
        names[board, note] = name, 1 + sum(known == name for known, _ in names.values())
    name, number_of_name = names[board, note]
    return name if number_of_name == 1 else f"{name}.{number_of_name}"


def _measurement(row: Row, place: str, names: _Names) -> Measurement:
    board, note, _, threads, powersave, gpu, loops, model, least, most, mean = row.cells
    if powersave not in CORES:
        raise Malformed(f"powersave is '{powersave}'; expected 0, 1 or 2")
    if not model:
        raise Malformed("the network has no name")
    count = whole_number(threads, "the number of threads")
    on_gpu = whole_number(gpu, "the GPU's number", least=-1) >= 0
    unit = ("gpu" if gpu == "0" else f"gpu+{gpu}") if on_gpu else f"cpu{count}{CORES[powersave]}"
    precision = "int8" if model.endswith("_int8") else "fp32"
    platform = Platform(_device(board, note, names), "ncnn", UNSTATED, unit, precision)
    latencies = [number(text, f"{name}_ms") for name, text in (("min", least), ("max", most), ("avg", mean))]
    if not latencies[0] <= latencies[2] <= latencies[1]:
        raise Malformed(f"the mean {mean} does not lie between the smallest {least} and the largest {most}")
    record = published_mean(
        platform,
        Reference(SPACE, {"name": model}, model),
        latencies[2],
        statistic=f"mean of {whole_number(loops, 'the number of loops')} runs",
        environment={"dataset": SOURCE, "device": {"board": board, "note": note}},
        place=place,
    )
    record.environment["moment"].update({"min_ms": latencies[0], "max_ms": latencies[1]})
    return record


def _parse(folder: Path, name: str, refusals: Refusals) -> Parsed:
    table = Table(folder / name, COLUMNS, refusals)
    names: _Names = {}
    return Parsed(list(table.parsed(lambda row: _measurement(row, f"{name}:{row.line}", names))), len(table))


IMPORTER = NamedOnlyImporter("ncnn's benchmark: Tencent/ncnn; BSD-3-Clause", ("latency_ms.csv",), _parse)
