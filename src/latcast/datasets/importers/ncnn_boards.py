"""ncnn's own benchmark on boards and computers: its networks, threads, CPU or Vulkan, as published in its documentation.

The version of ncnn differs between boards and is not stated; the same board under another note (another system, another
build) is a device of its own.
"""

from __future__ import annotations

import re
from pathlib import Path

from latcast.datasets.importers import Refusals
from latcast.datasets.importers.table import Malformed, NamedOnlyImporter, Parsed, Row, Table, number, published_mean
from latcast.records import UNSTATED, Measurement, Platform, Reference, device_name
from latcast.runtimes.benchmark_tools.readers import CORES

SPACE = "ncnn_benchmark"

COLUMNS = (
    "board", "note", "block", "num_threads", "powersave", "gpu_device", "loop_count", "model", "min_ms", "max_ms", "avg_ms",
)  # fmt: skip

SOURCE = {"name": "ncnn_boards", "source": "Tencent/ncnn, benchmark/README.md", "licence": "BSD-3-Clause"}

_NAME_LENGTH = 48


class _Devices:
    """Names of devices, told apart where two boards or notes would get the same."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}
        self._taken: dict[str, int] = {}

    def name(self, board: str, note: str) -> str:
        if (board, note) not in self._names:
            before_details = re.split(r" \(|, | - |\[", board)[0]
            name = device_name(before_details)[:_NAME_LENGTH].rstrip("-._+")
            if not name:
                raise Malformed(f"the board '{board}' has no name")
            count = self._taken[name] = self._taken.get(name, 0) + 1
            self._names[board, note] = name if count == 1 else f"{name}.{count}"
        return self._names[board, note]


def _whole(text: str, what: str, least: int) -> int:
    value = number(text, what, least=least)
    if value != int(value):
        raise Malformed(f"{what} is {text}; expected a whole number")
    return int(value)


def _measurement(row: Row, place: str, devices: _Devices) -> Measurement:
    board, note, _, threads, powersave, gpu, loops, model, least, most, mean = row.cells
    if powersave not in CORES:
        raise Malformed(f"powersave is '{powersave}'; expected 0, 1 or 2")
    if not model:
        raise Malformed("the network has no name")
    count = _whole(threads, "the number of threads", 1)
    unit = (
        f"cpu{count}{CORES[powersave]}" if _whole(gpu, "the GPU's number", -1) < 0 else "gpu" + ("" if gpu == "0" else f"+{gpu}")
    )
    precision = "int8" if model.endswith("_int8") else "fp32"
    platform = Platform(devices.name(board, note), "ncnn", UNSTATED, unit, precision)
    latencies = [number(text, f"{name}_ms") for name, text in (("min", least), ("max", most), ("avg", mean))]
    if not latencies[0] <= latencies[2] <= latencies[1]:
        raise Malformed(f"the mean {mean} does not lie between the smallest {least} and the largest {most}")
    record = published_mean(
        platform,
        Reference(SPACE, {"name": model}, model),
        latencies[2],
        statistic=f"mean of {_whole(loops, 'the number of loops', 1)} runs",
        environment={"dataset": SOURCE, "device": {"board": board, "note": note}},
        place=place,
    )
    record.environment["moment"].update({"min_ms": latencies[0], "max_ms": latencies[1]})
    return record


def _parse(folder: Path, name: str, refusals: Refusals) -> Parsed:
    table = Table(folder / name, COLUMNS, refusals)
    devices = _Devices()
    measurements = []
    for row in table.rows():
        try:
            measurements.append(_measurement(row, f"{name}:{row.line}", devices))
        except Malformed as problem:
            table.refuse(row, problem)
    return Parsed(measurements, len(table))


IMPORTER = NamedOnlyImporter("ncnn's benchmark: Tencent/ncnn; BSD-3-Clause", ("latency_ms.csv",), _parse)
