"""The dataset of Ganesan et al. (IISWC 2020): 118 int8 networks on phones, TFLite on one big core, 30 runs each.

``latency_ms.csv`` has one row a network and one column a phone, the mean of 30 runs with the first, cold one. Where the raw
runs are there, a record holds them, and its latency is their median, which says more of the phone: the cold run lies 10 %
above the others at the median and 62 % above at the 95th percentile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from latcast.datasets.importers import FileSummary, Imported, NetworkCheck, Refusals
from latcast.datasets.importers.iiswc20.networks import NETWORKS_FILE, network_reference, read_layers
from latcast.datasets.importers.iiswc20.phones import FEATURES_FILE, FREQUENCY_FILE, Phone, read_phones
from latcast.datasets.importers.named_only import NamedOnlyImporter, Parsed
from latcast.datasets.importers.table import Malformed, Table, number
from latcast.errors import DatasetError
from latcast.measure.environment import MOMENT
from latcast.measure.statistics import quartile_variation
from latcast.records import Measurement, Reference

LATENCY_FILE = "latency_ms.csv"
RUNS_FILE = "raw_runs_ms.npz"

MEAN = "mean of 30 runs, the first, cold one included"
MEDIAN = "median of 30 runs, the first, cold one included"

RUNS = 30


def read_runs(file: Path, columns: Sequence[str]) -> np.ndarray:
    """All runs, (phones, networks, runs), in milliseconds.

    Args:
        file: The archive.
        columns: Names of the phones as the latencies have them.

    Raises:
        DatasetError: The archive cannot be read, or is of other phones.
    """
    try:
        with np.load(file, allow_pickle=False) as archive:
            names, runs = archive["device"].tolist(), archive["runs"].astype(np.float64)
    except (OSError, ValueError, KeyError) as problem:
        raise DatasetError(f"cannot read {file}: {problem}") from problem
    expected = [name.rsplit("_", 1)[0] for name in columns]
    if len(names) != len(columns) or runs.ndim != 3 or runs.shape[0] != len(columns):
        raise DatasetError(f"{file} holds runs of {len(names)} phones in shape {runs.shape}; expected {len(expected)} phones")
    if not (np.isfinite(runs).all() and (runs > 0).all()):
        raise DatasetError(f"{file} holds runs that are not above 0; expected milliseconds")
    return runs


def _parse(folder: Path, refusals: Refusals) -> tuple[Parsed, tuple[Phone, ...]]:
    table = Table(folder / LATENCY_FILE, ("",), refusals)
    if len(table.header) < 3 or table.header[-1].lower() != "flops":
        raise table.bad_header(Malformed(f"the last column is '{table.header[-1]}'; expected phones and then FLOPS"))
    columns = table.header[1:-1]
    phones = read_phones(folder, columns, refusals)
    layers = read_layers(folder / NETWORKS_FILE) if (folder / NETWORKS_FILE).is_file() else None
    runs = read_runs(folder / RUNS_FILE, columns) if (folder / RUNS_FILE).is_file() else None
    measurements: list[Measurement] = []
    notes = [] if layers is not None else [f"{NETWORKS_FILE} is not there: nothing is known of the networks but their names"]
    for row in table.rows():
        try:
            index = int(number(row.cells[0], "the network's number", least=0))
            means = [number(text, f"the latency on {name}") for name, text in zip(columns, row.cells[1:-1], strict=True)]
            mega_macs = number(row.cells[-1], "the number of multiply-accumulates in millions")
            if layers is not None and index >= len(layers):
                raise Malformed(f"network {index} is not in {NETWORKS_FILE}, which has {len(layers)} networks")
            if runs is not None and not _belong(runs, index, means):
                raise Malformed(f"the means of the runs of network {index} in {RUNS_FILE} are other ones")
        except Malformed as problem:
            table.refuse(row, problem)
            continue
        reference = network_reference(index, None if layers is None else layers[index])
        moment = {"row": f"{LATENCY_FILE}:{row.line}", "mega_macs": mega_macs}
        for place, (phone, mean) in enumerate(zip(phones, means, strict=True)):
            record = None if runs is None else runs[place, index]
            measurements.append(_measurement(phone, reference, mean, record, moment))
    return Parsed(measurements, len(table), 0, notes), phones


def _belong(runs: np.ndarray, index: int, means: Sequence[float]) -> bool:
    return index < runs.shape[1] and bool(np.allclose(runs[:, index].mean(axis=1), means, rtol=1e-4))


def _measurement(
    phone: Phone, reference: Reference, mean_ms: float, runs_ms: np.ndarray | None, moment: dict[str, object]
) -> Measurement:
    environment = {**phone.environment, MOMENT: moment}
    if runs_ms is None:
        return Measurement(
            phone.platform.id, reference, latency_ms=mean_ms, raw_latency_ms=mean_ms, statistic=MEAN, environment=environment
        )
    median_ms = float(np.median(runs_ms))
    return Measurement(
        phone.platform.id,
        reference,
        runs_ms=tuple(round(float(value), 6) for value in runs_ms),
        rounds=(0,) * len(runs_ms),
        latency_ms=median_ms,
        raw_latency_ms=median_ms,
        variation=quartile_variation(runs_ms),
        statistic=MEDIAN,
        environment=environment,
    )


class Iiswc20Importer:
    """Reads the folder with the dataset's files; the latencies alone must be there."""

    title = "Ganesan et al., IISWC 2020: iitm-sysdl/Generalizable-DNN-cost-models; Apache-2.0"

    files = (LATENCY_FILE, RUNS_FILE, NETWORKS_FILE, FEATURES_FILE, FREQUENCY_FILE)

    def read(self, folder: Path, *, strict: bool = True) -> Imported:
        """See :meth:`latcast.datasets.importers.DatasetImporter.read`."""
        if not (folder / LATENCY_FILE).is_file():
            raise DatasetError(f"{folder} does not hold {LATENCY_FILE}; expected {', '.join(self.files)}")
        refusals = Refusals(strict=strict)
        parsed, _ = _parse(folder, refusals)
        absent = tuple(name for name in self.files if not (folder / name).is_file())
        files = {LATENCY_FILE: FileSummary(parsed.rows, len(parsed.measurements), parsed.missing)}
        return Imported(tuple(parsed.measurements), files, absent, tuple(refusals.found), tuple(parsed.notes))

    def complete(self, imported: Imported, watch: Callable[[str], None]) -> Imported:
        """See :meth:`latcast.datasets.importers.DatasetImporter.complete`; there is nothing to add."""
        return imported

    def check(self, imported: Imported, watch: Callable[[str], None]) -> NetworkCheck:
        """See :meth:`latcast.datasets.importers.DatasetImporter.check`; no network can be built."""
        return NamedOnlyImporter.check(self, imported, watch)  # type: ignore[arg-type]


IMPORTER = Iiswc20Importer()
