"""The dataset of Ganesan et al. (IISWC 2020): 118 int8 networks on phones, TFLite on one big core, 30 runs each.

``latency_ms.csv`` has one row a network and one column a phone, the mean of 30 runs with the first, cold one. Where the raw
runs are there, a record holds them, and its latency is their median, which the cold run does not raise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from latcast.datasets.importers import Refusals
from latcast.datasets.importers.table import Malformed, NamedOnlyImporter, Parsed, Row, Table, number, published
from latcast.errors import DatasetError
from latcast.measure.statistics import quartile_variation
from latcast.reading import UNREADABLE_ZIP, read_csv, require_regular
from latcast.records import UNSTATED, Measurement, Platform
from latcast.spaces.iiswc20 import NAME, OPERATORS, WIDTH, reference

NETWORKS_FILE = "layer_embeddings.csv"


def read_layers(file: Path) -> list[np.ndarray]:
    """Return the layers of each network, each (layers, 13), or raise a DatasetError with file and line."""
    rows = [[cell for cell in cells if cell] for _, cells in read_csv(file, error=DatasetError)]
    networks = []
    for line, row in enumerate(rows, start=1):
        try:
            numbers = np.array([float(cell) for cell in row])
        except ValueError as problem:
            raise DatasetError(f"{file}:{line}: {problem}; expected numbers") from problem
        if not len(row) or len(row) % WIDTH or not np.array_equal(numbers, np.round(numbers)):
            raise DatasetError(f"{file}:{line}: {len(row)} numbers; expected whole ones, {WIDTH} a layer")
        layers = numbers.reshape(-1, WIDTH)
        if not np.array_equal(np.sort(layers[:, : len(OPERATORS)], axis=1), np.tile([0, 0, 0, 0, 1], (len(layers), 1))):
            raise DatasetError(f"{file}:{line}: a layer does not begin with a one-hot operator of {len(OPERATORS)}")
        networks.append(layers)
    return networks


FEATURES_FILE = "device_features.csv"
FREQUENCY_FILE = "cpu_freq_ram.csv"

SAME_MODEL: Mapping[str, str] = MappingProxyType({"Redmi_Note5_Pro_4": "Redmi_Note5_Pro"})
"""Columns named after another model with a number appended."""

GHZ_UNIT, RAM_GB_UNIT = 3.0, 12.0
"""Divisors of the published features of frequency and memory."""

SOURCE: Mapping[str, str] = MappingProxyType(
    {
        "name": NAME,
        "source": "iitm-sysdl/Generalizable-DNN-cost-models",
        "licence": "Apache-2.0",
        "paper": "Ganesan et al., A case for generalizable DNN cost models for mobile devices, IISWC 2020",
    }
)


def model_of(column: str) -> str:
    """Return the phone's model: ``GM1901_0`` is a GM1901."""
    name = column.rsplit("_", 1)[0]
    return SAME_MODEL.get(name, name)


def read_phones(folder: Path, columns: Sequence[str], refusals: Refusals) -> list[tuple[str, dict[str, Any]]]:
    """Return platform id and environment of each column: its source, its model, and what the folder's files tell of its hardware.

    Phones of one model are numbered in order of columns.
    """
    hardware = _hardware(folder / FEATURES_FILE, columns) if (folder / FEATURES_FILE).is_file() else [{} for _ in columns]
    names: dict[str, str] = {}
    if (folder / FREQUENCY_FILE).is_file():
        table = Table(folder / FREQUENCY_FILE, ("device", "cpu", "frequency"), refusals)
        names = {row.cells[0]: row.cells[1] for row in table.rows()}
    seen: Counter[str] = Counter()
    phones = []
    for column, known in zip(columns, hardware, strict=True):
        model = model_of(column)
        seen[model] += 1
        device = model.lower() + (f".{seen[model]}" if seen[model] > 1 else "")
        cpu = {"cpu": names[column]} if column in names else {}
        environment = {"dataset": dict(SOURCE), "device": {"model": model, **cpu, **known}}
        phones.append((Platform(device, "tflite", UNSTATED, "1large", "int8").id, environment))
    return phones


def _hardware(file: Path, columns: Sequence[str]) -> list[dict[str, float | int]]:
    """Return CPU code, frequency and memory of each column."""
    rows = [cells for _, cells in read_csv(file, error=DatasetError)]
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


LATENCY_FILE = "latency_ms.csv"
RUNS_FILE = "raw_runs_ms.npz"

MEAN = "mean of 30 runs, the first, cold one included"
MEDIAN = "median of 30 runs, the first, cold one included"


def read_runs(file: Path, columns: Sequence[str]) -> np.ndarray:
    """Return all runs, (phones, networks, runs), in milliseconds, or raise a DatasetError where they are not of these columns."""
    require_regular(file, error=DatasetError)
    try:
        with np.load(file, allow_pickle=False) as archive:
            names, runs = archive["device"].tolist(), archive["runs"].astype(np.float64)
    except (*UNREADABLE_ZIP, MemoryError) as problem:
        raise DatasetError(f"cannot read {file}: {problem}") from problem
    if len(names) != len(columns) or runs.ndim != 3 or runs.shape[0] != len(columns):
        raise DatasetError(f"{file} holds runs of {len(names)} phones in shape {runs.shape}; expected {len(columns)} phones")
    if not (np.isfinite(runs).all() and (runs > 0).all()):
        raise DatasetError(f"{file} holds runs that are not above 0; expected milliseconds")
    return runs


def _parse(folder: Path, name: str, refusals: Refusals) -> Parsed:
    table = Table(folder / name, ("",), refusals)
    if len(table.header) < 3 or table.header[-1].lower() != "flops":
        raise table.bad_header(Malformed(f"the last column is '{table.header[-1]}'; expected phones and then FLOPS"))
    columns = table.header[1:-1]
    phones = read_phones(folder, columns, refusals)
    layers = read_layers(folder / NETWORKS_FILE) if (folder / NETWORKS_FILE).is_file() else None
    runs = read_runs(folder / RUNS_FILE, columns) if (folder / RUNS_FILE).is_file() else None
    notes = [] if layers is not None else [f"{NETWORKS_FILE} is not there: networks are those published of their numbers"]

    def measurements_of(row: Row) -> list[Measurement]:
        index = int(number(row.cells[0], "the network's number", least=0))
        means = [number(text, f"the latency on {column}") for column, text in zip(columns, row.cells[1:-1], strict=True)]
        mega_macs = number(row.cells[-1], "the number of multiply-accumulates in millions")
        if layers is not None and index >= len(layers):
            raise Malformed(f"network {index} is not in {NETWORKS_FILE}, which has {len(layers)} networks")
        network = reference(index, None if layers is None else layers[index], mega_macs)
        moment = {"row": f"{name}:{row.line}", "mega_macs": mega_macs}
        if runs is None:
            return [
                published(platform, network, mean_ms, MEAN, environment, moment)
                for (platform, environment), mean_ms in zip(phones, means, strict=True)
            ]
        if index >= runs.shape[1] or not np.allclose(runs[:, index].mean(axis=1), means, rtol=1e-4):
            raise Malformed(f"the means of the runs of network {index} in {RUNS_FILE} are other ones")
        return [
            published(
                platform, network, float(np.median(runs_ms)), MEDIAN, environment, moment,
                runs_ms=tuple(round(float(value), 6) for value in runs_ms), rounds=(0,) * len(runs_ms),
                variation=quartile_variation(runs_ms),
            )
            for (platform, environment), runs_ms in zip(phones, runs[:, index], strict=True)
        ]  # fmt: skip

    return Parsed([each for found in table.parsed(measurements_of) for each in found], len(table), 0, notes)


IMPORTER = NamedOnlyImporter(
    "Ganesan et al., IISWC 2020: iitm-sysdl/Generalizable-DNN-cost-models; Apache-2.0",
    (LATENCY_FILE,),
    _parse,
    (RUNS_FILE, NETWORKS_FILE, FEATURES_FILE, FREQUENCY_FILE),
)
