"""The phones: what the columns are called, and what is known of their hardware."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from latcast.datasets.importers import Refusals
from latcast.datasets.importers.named_only import UNSTATED
from latcast.datasets.importers.table import Malformed, Table, number, read_rows
from latcast.errors import DatasetError
from latcast.records import Platform

FEATURES_FILE = "device_features.csv"
FREQUENCY_FILE = "cpu_freq_ram.csv"

SAME_MODEL: Mapping[str, str] = MappingProxyType({"Redmi_Note5_Pro_4": "Redmi_Note5_Pro"})
"""Columns whose name is another model's with a number behind it."""

GHZ_UNIT, RAM_GB_UNIT = 3.0, 12.0
"""By what the static features of frequency and memory were divided."""

SOURCE: Mapping[str, str] = MappingProxyType(
    {
        "name": "iiswc20",
        "source": "iitm-sysdl/Generalizable-DNN-cost-models",
        "licence": "Apache-2.0",
        "paper": "Ganesan et al., A case for generalizable DNN cost models for mobile devices, IISWC 2020",
    }
)


@dataclass(frozen=True)
class Phone:
    """A column of the latencies.

    Attributes:
        platform: ``model/tflite-unstated/1large/int8``; phones of one model are told apart by a number, in order of columns.
        model: The phone's model, as the file spells it.
        environment: Source, and what the static features say: the CPU's number and name, GHz, GB of memory.
    """

    platform: Platform
    model: str
    environment: Mapping[str, Any]


def model_of(column: str) -> str:
    """``GM1901_0`` is a GM1901."""
    name = column.rsplit("_", 1)[0]
    return SAME_MODEL.get(name, name)


def read_phones(folder: Path, columns: Sequence[str], refusals: Refusals) -> tuple[Phone, ...]:
    """The phones of the columns, with their hardware where the folder's files tell it.

    Raises:
        DatasetError: A file of hardware features is malformed or does not have a row for each column.
    """
    hardware = _hardware(folder / FEATURES_FILE, columns) if (folder / FEATURES_FILE).is_file() else [{} for _ in columns]
    names = _cpu_names(folder / FREQUENCY_FILE, refusals) if (folder / FREQUENCY_FILE).is_file() else {}
    seen: Counter[str] = Counter()
    phones = []
    for column, known in zip(columns, hardware, strict=True):
        model = model_of(column)
        seen[model] += 1
        device = model.lower() + (f".{seen[model]}" if seen[model] > 1 else "")
        cpu = {"cpu": names[column]} if column in names else {}
        environment = {"dataset": dict(SOURCE), "device": {"model": model, **cpu, **known}}
        phones.append(Phone(Platform(device, "tflite", UNSTATED, "1large", "int8"), model, environment))
    return tuple(phones)


def _hardware(file: Path, columns: Sequence[str]) -> list[dict[str, float | int]]:
    """One-hot CPU, frequency and memory of each column."""
    rows = [row.cells for row in read_rows(file)]
    if len(rows) != len(columns):
        raise DatasetError(f"{file} has {len(rows)} rows; expected one for each of the {len(columns)} phones")
    found = []
    for line, (column, row) in enumerate(zip(columns, rows, strict=True), start=1):
        try:
            if row[0] != model_of(column):
                raise Malformed(f"the row is of '{row[0]}'; expected {model_of(column)}, as the columns of the latencies go")
            *one_hot, ghz, ram = (number(text, "the feature", least=0) for text in row[1:])
            if sorted(one_hot) != [0.0] * (len(one_hot) - 1) + [1.0]:
                raise Malformed("the CPU is not one-hot")
        except (Malformed, ValueError, IndexError) as problem:
            raise DatasetError(f"{file}:{line}: {problem}") from problem
        found.append({"cpu_code": one_hot.index(1.0), "ghz": round(GHZ_UNIT * ghz, 3), "ram_gb": round(RAM_GB_UNIT * ram, 3)})
    return found


def _cpu_names(file: Path, refusals: Refusals) -> dict[str, str]:
    return {row.cells[0]: row.cells[1] for row in Table(file, ("device", "cpu", "frequency"), refusals).rows()}
