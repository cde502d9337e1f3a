"""The tables of HELP (Lee et al., NeurIPS 2021): one row an architecture, one column a device."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from latcast.datasets.importers import Refusals
from latcast.datasets.importers.table import NO_VALUE, Malformed, NamedOnlyImporter, Parsed, Row, Table, number, published
from latcast.errors import ModelError
from latcast.records import UNSTATED, Measurement, Platform, Reference
from latcast.spaces.nas.nas_bench_201 import NAME as NAS_BENCH_201
from latcast.spaces.nas.nas_bench_201 import cell_operations

GPUS = frozenset({"1080ti", "2080ti", "titan_rtx", "titanx", "titanxp"})

CPUS = frozenset({"silver_4114", "silver_4210r", "gold_6226", "gold_6240"})

PHONES = frozenset({"samsung_a50", "samsung_s7", "essential_ph_1", "pixel2", "pixel3", "raspi4"})

ESTIMATED = frozenset({"eyeriss", "fpga"})
"""Accelerators whose latencies come from a cost model."""

WHOLE_MILLISECONDS = frozenset({"pixel2", "samsung_a50", "samsung_s7", "essential_ph_1"})
"""Devices recorded in whole milliseconds in NAS-Bench-201."""

SUMS_OF_TABLES: Mapping[str, frozenset[str]] = MappingProxyType(
    {"nb201": frozenset(), "fbnet": frozenset({"pixel3", "raspi4", "fpga", "eyeriss"})}
)
"""Dataset to the devices whose latencies are sums of a table of blocks, not measurements."""

_BATCH = re.compile(r"(.+)_(\d+)")


def device_platform(column: str) -> Platform:
    """Return the platform of a column (``1080ti_32`` is a GPU at a batch of 32), or raise :class:`Malformed`."""
    batch = _BATCH.fullmatch(column)
    if batch and batch.group(1) in GPUS:
        return Platform(batch.group(1), UNSTATED, UNSTATED, f"gpu+b{batch.group(2)}", "fp32")
    if column in CPUS | PHONES:
        return Platform(column, UNSTATED, UNSTATED, "cpu", "fp32")
    if column in ESTIMATED:
        return Platform(column, UNSTATED, UNSTATED, "accelerator", "fp32")
    known = ", ".join(sorted({f"{name}_N" for name in GPUS} | CPUS | PHONES | ESTIMATED))
    raise Malformed(f"the column '{column}' is not a device of this dataset; expected {known}")


def _statistic(dataset: str, column: str) -> str:
    if column in ESTIMATED:
        return "estimate of a cost model, not measured"
    if column in SUMS_OF_TABLES[dataset]:
        return "sum of a table of blocks, not measured as a whole"
    return "as published" + (" (whole milliseconds)" if dataset == "nb201" and column in WHOLE_MILLISECONDS else "")


def read_devices(
    file: Path, dataset: str, first: Sequence[str], reference_of: Callable[[Row], Reference], refusals: Refusals
) -> Parsed:
    """Read a table whose columns ``first`` stand before the devices; ``reference_of`` gives a row's architecture."""
    table = Table(file, first, refusals)
    try:
        platforms = {index: device_platform(name) for index, name in enumerate(table.header) if index >= len(first)}
        if len({platform.id for platform in platforms.values()}) < len(platforms):
            raise Malformed("a device stands in two columns")
    except Malformed as problem:
        raise table.bad_header(problem) from problem
    statistics = {index: _statistic(dataset, table.header[index]) for index in platforms}
    environment = {
        "dataset": {
            "name": dataset,
            "source": "HayeonLee/HELP",
            "licence": "MIT",
            "paper": "Lee et al., HELP: Hardware-adaptive efficient latency prediction for NAS via meta-learning, NeurIPS 2021",
        }
    }
    seen: dict[str, int] = {}

    def measurements_of(row: Row) -> list[Measurement]:
        reference = reference_of(row)
        if seen.setdefault(reference.key, row.line) != row.line:
            raise Malformed(f"'{row.cells[1]}' stands in line {seen[reference.key]} already")
        moment = {"row": f"{file.name}:{row.line}"}
        cells = {index: row.cells[index] for index in platforms if row.cells[index] not in NO_VALUE}
        latencies = {index: number(text, f"the latency on {table.header[index]}") for index, text in cells.items()}
        return [
            published(platforms[index].id, reference, latency_ms, statistics[index], environment, moment)
            for index, latency_ms in latencies.items()
        ]

    rows = list(table.parsed(measurements_of))
    missing = sum(len(platforms) - len(found) for found in rows)
    return Parsed([each for found in rows for each in found], len(table), missing)


def cell_reference(row: Row) -> Reference:
    """Return the NAS-Bench-201 cell of a row, or raise :class:`Malformed`."""
    try:
        cell_operations(row.cells[1])
    except ModelError as problem:
        raise Malformed(str(problem)) from None
    return Reference(NAS_BENCH_201, {"cell": row.cells[1]}, f"{NAS_BENCH_201}-{row.cells[0]}")


FBNET_LAYERS = 22
FBNET_OPERATIONS = 9


def fbnet_reference(row: Row) -> Reference:
    """Return the FBNet network of a row, by the codes of its operations, or raise :class:`Malformed`."""
    codes = row.cells[1].split()
    if len(codes) != FBNET_LAYERS or not all(code.isdigit() and int(code) < FBNET_OPERATIONS for code in codes):
        raise Malformed(
            f"'{row.cells[1]}' is not a list of {FBNET_LAYERS} operations; expected numbers from 0 to {FBNET_OPERATIONS - 1}"
        )
    return Reference("fbnet", {"operations": [int(code) for code in codes]}, f"fbnet-{row.cells[0]}")


def _importer(space: str, dataset: str, first: Sequence[str], reference_of: Callable[[Row], Reference]) -> NamedOnlyImporter:
    return NamedOnlyImporter(
        f"Lee et al., NeurIPS 2021: HayeonLee/HELP, {space}; MIT",
        ("latency_ms.csv",),
        lambda folder, name, refusals: read_devices(folder / name, dataset, first, reference_of, refusals),
    )


NAS_BENCH_201_IMPORTER = _importer("NAS-Bench-201", "nb201", ("nb201_idx", "arch_str"), cell_reference)
FBNET_IMPORTER = _importer("FBNet", "fbnet", ("i", "op_idx_22layers"), fbnet_reference)
