"""The FBNet space on the devices of HELP (Lee et al., NeurIPS 2021): one row a network, 22 operations of 9 kinds each."""

from __future__ import annotations

from pathlib import Path

from latcast.datasets.importers import Refusals
from latcast.datasets.importers.named_only import NamedOnlyImporter, Parsed
from latcast.datasets.importers.nas_tables import read_devices
from latcast.datasets.importers.table import Malformed, Row
from latcast.records import Reference

NAME = "fbnet"

LAYERS = 22
OPERATIONS = 9


def network_reference(row: Row) -> Reference:
    """The network of a row, by the codes of its operations.

    Raises:
        Malformed: They are not 22 numbers from 0 to 8.
    """
    codes = row.cells[1].split()
    if len(codes) != LAYERS or not all(code.isdigit() and int(code) < OPERATIONS for code in codes):
        raise Malformed(f"'{row.cells[1]}' is no list of {LAYERS} operations; expected numbers from 0 to {OPERATIONS - 1}")
    return Reference(NAME, {"operations": [int(code) for code in codes]}, f"{NAME}-{row.cells[0]}")


def _parse(folder: Path, name: str, refusals: Refusals) -> Parsed:
    return read_devices(folder / name, "fbnet", ("i", "op_idx_22layers"), network_reference, refusals)


IMPORTER = NamedOnlyImporter("Lee et al., NeurIPS 2021: HayeonLee/HELP, FBNet; MIT", ("latency_ms.csv",), _parse)
