"""NAS-Bench-201 on the devices of HELP (Lee et al., NeurIPS 2021): one row a cell, one column a device."""

from __future__ import annotations

from pathlib import Path

from latcast.datasets.importers import Refusals
from latcast.datasets.importers.named_only import NamedOnlyImporter, Parsed
from latcast.datasets.importers.nas_tables import read_devices
from latcast.datasets.importers.table import Malformed, Row
from latcast.errors import ModelError
from latcast.records import Reference
from latcast.spaces.nas.nas_bench_201 import NAME, cell_operations


def cell_reference(row: Row) -> Reference:
    """The cell of a row, by its text.

    Raises:
        Malformed: It is no cell.
    """
    try:
        cell_operations(row.cells[1])
    except ModelError as problem:
        raise Malformed(str(problem)) from None
    return Reference(NAME, {"cell": row.cells[1]}, f"{NAME}-{row.cells[0]}")


def _parse(folder: Path, name: str, refusals: Refusals) -> Parsed:
    return read_devices(folder / name, "nb201", ("nb201_idx", "arch_str"), cell_reference, refusals)


IMPORTER = NamedOnlyImporter("Lee et al., NeurIPS 2021: HayeonLee/HELP, NAS-Bench-201; MIT", ("latency_ms.csv",), _parse)
