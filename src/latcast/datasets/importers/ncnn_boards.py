"""ncnn's own benchmark on boards and computers: its networks, threads, CPU or Vulkan, as published in its documentation.

The version of ncnn differs between boards and is not stated; the same board under another note (another system, another
build) is a separate device.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from latcast.datasets.importers import Refusals
from latcast.datasets.importers.table import (
    Malformed,
    NamedOnlyImporter,
    Parsed,
    Row,
    Table,
    number,
    published,
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


def _parse(folder: Path, file: str, refusals: Refusals) -> Parsed:
    names: dict[tuple[str, str], str] = {}
    boards: Counter[str] = Counter()

    def device(board: str, note: str) -> str:
        """Return a board's device name, numbered where an earlier board, or the same under another note, has it."""
        if (board, note) not in names:
            before_details = re.split(r" \(|, | - |\[", board)[0]
            name = device_name(before_details)[:_NAME_LENGTH].rstrip("-._+")
            if not name:
                raise Malformed(f"the board '{board}' has no name")
            boards[name] += 1
            names[board, note] = name if boards[name] == 1 else f"{name}.{boards[name]}"
        return names[board, note]

    def measurement_of(row: Row) -> Measurement:
        board, note, _, threads, powersave, gpu, loops, model, least, most, mean = row.cells
        if powersave not in CORES:
            raise Malformed(f"powersave is '{powersave}'; expected 0, 1 or 2")
        if not model:
            raise Malformed("the network has no name")
        count = whole_number(threads, "the number of threads")
        on_gpu = whole_number(gpu, "the GPU's number", least=-1) >= 0
        unit = ("gpu" if gpu == "0" else f"gpu+{gpu}") if on_gpu else f"cpu{count}{CORES[powersave]}"
        precision = "int8" if model.endswith("_int8") else "fp32"
        platform = Platform(device(board, note), "ncnn", UNSTATED, unit, precision)
        least_ms, most_ms, mean_ms = (number(text, f"{name}_ms") for name, text in (("min", least), ("max", most), ("avg", mean)))
        if not least_ms <= mean_ms <= most_ms:
            raise Malformed(f"the mean {mean} does not lie between the smallest {least} and the largest {most}")
        statistic = f"mean of {whole_number(loops, 'the number of loops')} runs"
        environment = {"dataset": SOURCE, "device": {"board": board, "note": note}}
        moment = {"row": f"{file}:{row.line}", "min_ms": least_ms, "max_ms": most_ms}
        return published(platform.id, Reference(SPACE, {"name": model}, model), mean_ms, statistic, environment, moment)

    table = Table(folder / file, COLUMNS, refusals)
    return Parsed(list(table.parsed(measurement_of)), len(table))


IMPORTER = NamedOnlyImporter("ncnn's benchmark: Tencent/ncnn; BSD-3-Clause", ("latency_ms.csv",), _parse)
