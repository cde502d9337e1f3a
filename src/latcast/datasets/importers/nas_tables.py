"""The tables of HELP (Lee et al., NeurIPS 2021): one row an architecture, one column a device."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from latcast.datasets.importers import Refusals
from latcast.datasets.importers.table import (
    NO_VALUE,
    Malformed,
    NamedOnlyImporter,
    Parsed,
    Row,
    Table,
    number,
    published_mean,
)
from latcast.errors import ModelError
from latcast.records import UNSTATED, Platform, Reference
from latcast.spaces.nas.nas_bench_201 import NAME as NAS_BENCH_201
from latcast.spaces.nas.nas_bench_201 import cell_operations

GPUS = frozenset({"1080ti", "2080ti", "titan_rtx", "titanx", "titanxp"})

CPUS = frozenset({"silver_4114", "silver_4210r", "gold_6226", "gold_6240"})

PHONES = frozenset({"samsung_a50", "samsung_s7", "essential_ph_1", "pixel2", "pixel3", "raspi4"})

ESTIMATED = frozenset({"eyeriss", "fpga"})
"""Accelerators whose latencies a cost model gave."""

WHOLE_MILLISECONDS = frozenset({"pixel2", "samsung_a50", "samsung_s7", "essential_ph_1"})
"""Recorded in whole milliseconds in NAS-Bench-201."""

SUMS_OF_TABLES: Mapping[str, frozenset[str]] = MappingProxyType(
    {"nb201": frozenset(), "fbnet": frozenset({"pixel3", "raspi4", "fpga", "eyeriss"})}
)
"""Dataset to the devices whose latencies are sums of a table of blocks, not measurements."""

_BATCH = re.compile(r"(.+)_(\d+)")


def device_platform(column: str) -> Platform:
    """Return the platform of a column: ``1080ti_32`` is a GPU at a batch of 32.

    Neither the framework nor its version is part of the data.

    Raises:
        Malformed: The dataset has no such device.
    """
    batch = _BATCH.fullmatch(column)
    if batch and batch.group(1) in GPUS:
        return Platform(batch.group(1), UNSTATED, UNSTATED, f"gpu+b{batch.group(2)}", "fp32")
    if column in CPUS | PHONES:
        return Platform(column, UNSTATED, UNSTATED, "cpu", "fp32")
    if column in ESTIMATED:
        return Platform(column, UNSTATED, UNSTATED, "accelerator", "fp32")
    known = ", ".join(sorted({f"{name}_N" for name in GPUS} | CPUS | PHONES | ESTIMATED))
    raise Malformed(f"the column '{column}' is no device of this dataset; expected {known}")


def statistic(dataset: str, column: str) -> str:
    """Return the statistic of a column's numbers."""
    if column in ESTIMATED:
        return "estimate of a cost model, not measured"
    if column in SUMS_OF_TABLES[dataset]:
        return "sum of a table of blocks, not measured as a whole"
    return "as published" + (" (whole milliseconds)" if dataset == "nb201" and column in WHOLE_MILLISECONDS else "")


def environment(dataset: str) -> dict[str, Any]:
    """Return source and licence."""
    return {
        "dataset": {
            "name": dataset,
            "source": "HayeonLee/HELP",
            "licence": "MIT",
            "paper": "Lee et al., HELP: Hardware-adaptive efficient latency prediction for NAS via meta-learning, NeurIPS 2021",
        }
    }


def read_devices(
    file: Path, dataset: str, first: Sequence[str], reference_of: Callable[[Row], Reference], refusals: Refusals
) -> Parsed:
    """Read a table.

    Args:
        file: The file.
        dataset: Its name.
        first: The columns before the devices.
        reference_of: A row's architecture.
        refusals: Where malformed rows go.

    Raises:
        DatasetError: The file or its header is not as expected, or (strict) a row is malformed.
    """
    table = Table(file, first, refusals)
    try:
        platforms = {index: device_platform(name) for index, name in enumerate(table.header) if index >= len(first)}
        if len({platform.id for platform in platforms.values()}) < len(platforms):
            raise Malformed("a device stands in two columns")
    except Malformed as problem:
        raise table.bad_header(problem) from problem
    statistics = {index: statistic(dataset, table.header[index]) for index in platforms}
    known = environment(dataset)
    measurements, missing = [], 0
    seen: dict[str, int] = {}
    for row in table.rows():
        try:
            reference = reference_of(row)
            if seen.setdefault(reference.key, row.line) != row.line:
                raise Malformed(f"'{row.cells[1]}' stands in line {seen[reference.key]} already")
            cells = {index: row.cells[index] for index in platforms if row.cells[index] not in NO_VALUE}
            latencies = {index: number(text, f"the latency on {table.header[index]}") for index, text in cells.items()}
        except Malformed as problem:
            table.refuse(row, problem)
            continue
        missing += len(platforms) - len(latencies)
        measurements += [
            published_mean(
                platforms[index], reference, latency_ms, statistic=statistics[index], environment=known,
                place=f"{file.name}:{row.line}",
            )
            for index, latency_ms in latencies.items()
        ]  # fmt: skip
    return Parsed(measurements, len(table), missing)


def cell_reference(row: Row) -> Reference:
    """Return the NAS-Bench-201 cell of a row, by its text.

    Raises:
        Malformed: It is no cell.
    """
    try:
        cell_operations(row.cells[1])
    except ModelError as problem:
        raise Malformed(str(problem)) from None
    return Reference(NAS_BENCH_201, {"cell": row.cells[1]}, f"{NAS_BENCH_201}-{row.cells[0]}")


FBNET_LAYERS = 22
FBNET_OPERATIONS = 9


def fbnet_reference(row: Row) -> Reference:
    """Return the FBNet network of a row, by the codes of its operations.

    Raises:
        Malformed: They are not 22 numbers from 0 to 8.
    """
    codes = row.cells[1].split()
    if len(codes) != FBNET_LAYERS or not all(code.isdigit() and int(code) < FBNET_OPERATIONS for code in codes):
        raise Malformed(
            f"'{row.cells[1]}' is no list of {FBNET_LAYERS} operations; expected numbers from 0 to {FBNET_OPERATIONS - 1}"
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
