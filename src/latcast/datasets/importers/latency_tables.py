"""Tables of latencies in one schema, of several published datasets.

``latency_ms.csv`` has a row a measurement, ``platforms.csv`` one a platform: device, chip, unit, threads, runtime, backend,
precision and batch together. An empty cell was not published; it is ``unstated`` in a platform id, or left out of the unit.
What a row says besides is kept in the record's moment, under the names of the columns.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from latcast.datasets.importers import FileSummary, Imported, NetworkCheck, Refusals
from latcast.datasets.importers.table import Malformed, Row, Table, number, published, whole_number
from latcast.datasets.importers.usc.built import check_networks
from latcast.environment import MOMENT
from latcast.errors import DatasetError, LatcastError
from latcast.records import PUBLISHED_PRECISIONS, UNSTATED, Measurement, Platform, device_name, runtime_and_version
from latcast.spaces.measured_only import can_build
from latcast.spaces.published_names import published_network

LATENCIES, PLATFORMS, ACCURACY = "latency_ms.csv", "platforms.csv", "accuracy.csv"

PLATFORM = ("device", "chip", "core_or_unit", "threads", "runtime", "backend", "precision", "batch")
"""Columns that make a platform."""

COLUMNS = (
    "network", "weights_or_input", *PLATFORM, "latency_ms", "statistic", "repeats_of", "source_file", "source_commit",
)  # fmt: skip

PLAIN_COLUMNS = (
    "source", "device", "chip", "unit", "runtime", "precision", "threads", "batch", "network", "input", "latency_ms", "statistic",
    "path", "licence", "note",
)  # fmt: skip
"""Columns of tables that state what their origin does, in its words."""

UNIT_KINDS: Mapping[str, str] = {"cpu": "cpu", "gpu": "gpu", "npu": "npu", "dsp": "npu"}
"""First word of a unit to its kind."""

STATISTICS: Mapping[str, str] = {
    "mean": "mean of the published runs",
    "median": "median of the published runs",
    "fps-inverse": "1000 / frames a second at batch 1",
    "": UNSTATED,
}

RUNTIME_NAMES: Mapping[str, str] = {"torch": "pytorch"}
"""The tables' names of runtimes to those of platform ids."""

Cells = Mapping[str, str]
"""Column to cell."""


def published_platform(cells: Cells) -> Platform:
    """Return the platform of a row.

    The unit is ``cpu4``, or ``cpu`` where the threads were not published, with qualifiers in this order: cores (``big``,
    ``1core``), the backend where it is not the runtime itself, a second runtime below the first (``qairt-2.42.0``), the
    precision of a quantised network's mixed operators (``mixed_int16``), the batch (``b4``) where it is not 1.

    Raises:
        Malformed: A part that a platform id cannot have.
    """
    kind, _, cores = cells["core_or_unit"].partition("-")
    if kind not in UNIT_KINDS:
        raise Malformed(f"the unit is '{cells['core_or_unit']}'; expected it to begin with one of {', '.join(UNIT_KINDS)}")
    threads = str(whole_number(cells["threads"], "the number of threads")) if cells["threads"] else ""
    batch = whole_number(cells["batch"], "the batch")
    first, _, below = cells["runtime"].partition("+")
    name, version = runtime_and_version(first)
    precision, _, mixed = cells["precision"].partition("_")
    if precision == "w8a8":
        precision = "int8"
    precision = precision or UNSTATED
    if precision not in PUBLISHED_PRECISIONS:
        raise Malformed(f"the precision is '{cells['precision']}'; expected one of {', '.join(PUBLISHED_PRECISIONS)}, or none")
    backend = "" if cells["backend"] == name else cells["backend"]
    qualifiers = [cores, backend, below, mixed, "" if batch == 1 else f"b{batch}"]
    unit = "+".join([kind + threads, *(each for each in qualifiers if each)])
    platform = Platform(device_name(cells["device"]), RUNTIME_NAMES.get(name, name), version, unit, precision)
    try:
        return Platform.parse(platform.id)
    except LatcastError as problem:
        raise Malformed(str(problem)) from None


def is_stream(cells: Cells) -> bool:
    """Return whether frames a second are those of a pipeline, which batch 8 does not make faster.

    Its interval is shorter than the latency: a network is loaded in parts, and each frame passes all of them.
    """
    eight = number(cells["fps_batch8"] or "0", "fps_batch8", least=0)
    return eight <= 1.05 * number(cells["fps_batch1"], "fps_batch1")


STREAM = "frames a second of a pipeline, whose interval is not a latency (batch 8 is not 5 % faster than batch 1, or unknown)"


@dataclass(frozen=True)
class LatencyTables:
    """A dataset of this schema; an importer of the group ``latcast.datasets``.

    Attributes:
        source: Repositories and commits.
        latencies: Files with latencies.
        accuracy: Whether there is a file of accuracies.
        caveats: Limits of the data, a sentence each.
        streams: Returns whether a row is the interval of a pipeline instead of a latency.
        needed: Columns that ``streams`` reads, besides those of the schema.
        rounded_ms: What latencies are rounded to; None where they are not.
        operations: Column with the operations of a network, and the FLOPs of its unit.
        rewritten: Turns a row of :data:`PLAIN_COLUMNS` into one of :data:`COLUMNS`; None where the tables have these.
    """

    name: str
    source: str
    licence: str
    latencies: tuple[str, ...] = (LATENCIES,)
    accuracy: bool = False
    caveats: tuple[str, ...] = ()
    streams: Callable[[Cells], bool] | None = None
    needed: tuple[str, ...] = ()
    rounded_ms: float | None = None
    operations: tuple[str, float] | None = None
    rewritten: Callable[[Cells], Cells] | None = None

    @property
    def title(self) -> str:
        """Source and licence, in a line."""
        return f"{self.source}; {self.licence}"

    @property
    def files(self) -> tuple[str, ...]:
        """All files of the dataset."""
        return (*self.latencies, *(() if self.rewritten else (PLATFORMS,)), *((ACCURACY,) if self.accuracy else ()))

    def read(self, folder: Path, *, strict: bool = True) -> Imported:
        """Read a folder; see :class:`latcast.datasets.importers.DatasetImporter`."""
        absent = tuple(name for name in self.files if not (folder / name).is_file())
        if not set(self.latencies) - set(absent):
            raise DatasetError(f"{folder} holds none of {', '.join(self.latencies)} of this dataset")
        refusals = Refusals(strict=strict)
        files: dict[str, FileSummary] = {}
        reading = _Reading(self)
        if PLATFORMS in self.files and PLATFORMS not in absent:
            files[PLATFORMS] = reading.read_platforms(Table(folder / PLATFORMS, PLATFORM[:-1], refusals))
        if self.accuracy and ACCURACY not in absent:
            files[ACCURACY] = reading.read_accuracy(Table(folder / ACCURACY, ("network", "weights", "input", "top1"), refusals))
        for name in self.latencies:
            if name not in absent:
                columns = PLAIN_COLUMNS if self.rewritten else COLUMNS
                files[name] = reading.read_latencies(Table(folder / name, columns, refusals))
        notes = (*self.caveats, *reading.notes(known_platforms=PLATFORMS not in absent))
        return Imported(tuple(reading.found), files, absent, tuple(refusals.found), notes)

    def complete(self, imported: Imported, watch: Callable[[str], None]) -> Imported:
        """Return the records unchanged: there is nothing to add."""
        return imported

    def check(self, imported: Imported, watch: Callable[[str], None]) -> NetworkCheck:
        """Build every network, whether figures are published for it or not, and compare those that are."""

        def stated(measurement: Measurement) -> tuple[str, float, float] | None:
            column, unit = self.operations or ("", 0.0)
            moment = measurement.environment[MOMENT]
            operations, million_parameters = moment.get(column), moment.get("params_m")
            if not all(isinstance(figure, float) and figure > 0 for figure in (operations, million_parameters)):
                return None
            return measurement.reference.key, unit * operations, 4e6 * million_parameters

        return check_networks(imported.measurements, watch, stated)


class _Reading:
    """One folder while it is read."""

    def __init__(self, dataset: LatencyTables) -> None:
        self.dataset = dataset
        self.found: list[Measurement] = []
        self.repeat_percent: dict[Sequence[str], float | None] = {}
        self.device_notes: dict[Sequence[str], str] = {}
        self.unstable: set[Sequence[str]] = set()
        self.columns: tuple[str, ...] = PLATFORM
        self.top1: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        self.platforms: dict[str, Sequence[str]] = {}
        self.left_out: Counter[str] = Counter()
        self.streams = 0

    def read_platforms(self, table: Table) -> FileSummary:
        """Read repeatability and notes of each platform; timm's has no column for the batch."""
        header = {name.lower() for name in table.header}
        self.columns = tuple(name for name in PLATFORM if name in header)

        def read(row: Row, cells: Cells) -> None:
            key = tuple(cells[name] for name in self.columns)
            percent = number(cells["repeat_pct"], "repeat_pct", least=0) if cells["repeat_pct"] else None
            if key in self.repeat_percent:
                raise Malformed(f"the platform '{' '.join(key):.200}' stands there twice")
            if cells["unstable"] not in ("", "yes"):
                raise Malformed(f"unstable is '{cells['unstable']}'; expected yes or nothing")
            self.repeat_percent[key], self.device_notes[key] = percent, cells["note"]
            if cells["unstable"]:
                self.unstable.add(key)

        return _read_rows(table, ("repeat_pct", "unstable", "note"), read)

    def read_accuracy(self, table: Table) -> FileSummary:
        """Read the top-1 accuracy of each network and input, by weights."""

        def read(row: Row, cells: Cells) -> None:
            self.top1[cells["network"], cells["input"]][cells["weights"]] = number(cells["top1"], "top1")

        return _read_rows(table, (), read)

    def read_latencies(self, table: Table) -> FileSummary:
        """Read a record a row, but for those that are left out."""
        before = len(self.found)

        def read(row: Row, cells: Cells) -> None:
            if self.dataset.rewritten is not None:
                cells = self.dataset.rewritten(cells)
            key = tuple(cells[name] for name in self.columns)
            if self.repeat_percent and key not in self.repeat_percent:
                raise Malformed(f"the platform '{' '.join(key):.200}' is not in {PLATFORMS}")
            record = self._record(cells, key, f"{table.file.name}:{row.line}")
            stream = self.dataset.streams is not None and self.dataset.streams(cells)
            if key in self.unstable:
                self.left_out[record.platform] += 1
            elif stream:
                self.streams += 1
            else:
                self.found.append(record)

        return replace(_read_rows(table, self.dataset.needed, read), records=len(self.found) - before)

    def _record(self, cells: Cells, key: Sequence[str], place: str) -> Measurement:
        name, size = cells["network"], cells["weights_or_input"]
        if not name:
            raise Malformed("the network has no name")
        if cells["statistic"] not in STATISTICS:
            raise Malformed(f"the statistic is '{cells['statistic']}'; expected {', '.join(filter(None, STATISTICS))} or nothing")
        latency_ms = number(cells["latency_ms"], "latency_ms")
        platform = published_platform(cells).id
        parts = tuple(cells[column] for column in PLATFORM)
        if self.platforms.setdefault(platform, parts) != parts:
            both = f"'{' '.join(parts):.100}' and '{' '.join(self.platforms[platform]):.100}'"
            raise Malformed(f"{both} would both be {platform}")
        classes = whole_number(cells["classes"], "the number of classes") if cells.get("classes") else None
        moment: dict[str, Any] = {"row": place, "source_file": cells["source_file"]}
        moment |= {"input": size} if size else {}
        if cells["repeats_of"]:
            # Another run, even where it has the number of the first one.
            moment |= {"repeats_of": cells["repeats_of"], "worker": cells.get("run") or place}
        moment |= {
            column: float(text) if re.fullmatch(r"[0-9]{1,15}(?:\.[0-9]+)?", text) else text
            for column, text in cells.items()
            if column not in COLUMNS and text
        }
        accuracies = self.top1.get((name, size))
        moment |= {"top1_percent": accuracies} if accuracies else {}
        note, percent, dataset = self.device_notes.get(key), self.repeat_percent.get(key), self.dataset
        environment = {
            "dataset": {
                "name": dataset.name, "source": dataset.source, "licence": dataset.licence, "commit": cells["source_commit"],
                **({} if dataset.rounded_ms is None else {"rounded_ms": dataset.rounded_ms}),
            },
            "device": {"name": cells["device"], **({"note": note} if note else {})},
            "chip": cells["chip"],
            "unit_kind": UNIT_KINDS[cells["core_or_unit"].partition("-")[0]],
            "published": {column: cells[column] for column in PLATFORM[2:]},
            **({} if percent is None else {"repeat_percent": percent}),
        }  # fmt: skip
        network = published_network(dataset.name, name, size, classes=classes)
        return published(platform, network, latency_ms, STATISTICS[cells["statistic"]], environment, moment)

    def notes(self, *, known_platforms: bool) -> list[str]:
        """Return notes on omitted rows, repeated records, and how many networks have a graph."""
        notes = []
        if not known_platforms:
            notes.append(f"{PLATFORMS} is not there: which platforms are unstable is not known")
        if self.left_out:
            names = ", ".join(sorted(self.left_out))
            notes.append(
                f"{sum(self.left_out.values())} rows are left out whose platform is unstable, two runs on it differ by more than "
                f"5 %: {names}"
            )
        if self.streams:
            notes.append(f"{self.streams} rows are left out: {STREAM}")
        repeated = sum("repeats_of" in record.environment[MOMENT] for record in self.found)
        if repeated:
            notes.append(f"{repeated} records are runs of a network and platform that was measured again, told by 'repeats_of'")
        graphs = {record.reference.key: can_build(record.reference) for record in self.found}
        rows = sum(graphs[record.reference.key] for record in self.found)
        notes.append(
            f"{sum(graphs.values())} of {len(graphs)} networks have a graph here, and so {rows} of {len(self.found)} records; of "
            "the others only latencies are known"
        )
        return notes


def _read_rows(table: Table, columns: Collection[str], read: Callable[[Row, Cells], None]) -> FileSummary:
    """Read rows by their cells under the columns' names, in lower case; raise a DatasetError where a column is missing."""
    header = [name.lower() for name in table.header]
    for name in columns:
        if name not in header:
            raise table.bad_header(Malformed(f"there is no column '{name}'"))
    for _ in table.parsed(lambda row: read(row, dict(zip(header, row.cells, strict=True)))):
        pass
    return FileSummary(len(table), 0, 0)


_VERSION = re.compile(r"\d+(?:\.\d+)+")
_ALL_CORES = re.compile(r"cpu \((all cores|as many threads as big cores)\)")


def in_own_columns(cells: Cells) -> Cells:
    """Return a row of :data:`PLAIN_COLUMNS` under the names of :data:`COLUMNS`, its runtime as ``name-version``.

    A runtime of which several versions were used, or none is stated, is ``unstated``; networks of one name keep their origin
    ("from ONNX") as part of the name, but those of timm.
    """
    runtime = cells["runtime"].lower().replace(" (cpu only)", "")
    versions = set(_VERSION.findall(runtime))
    name = re.split(r" v?\d|[ (/]", runtime)[0]
    unit = _ALL_CORES.sub(lambda found: "cpu" if found[1] == "all cores" else "cpu-big", cells["unit"])
    cores = re.fullmatch(r"cpu(\d+)", unit)
    origin = re.search(r"from ([^,;]+)", cells["note"])
    made_by = origin[1].strip() if origin else ""
    suffix = "" if made_by in ("", "pytorch-image-models") else f" ({made_by})"
    sides = re.findall(r"\d+", cells["input"])
    precision = cells["precision"].partition(" ")[0]
    return {
        **cells, "network": cells["network"] + suffix, "weights_or_input": "x".join(sides), "threads": cores[1] if cores else "",
        "core_or_unit": "cpu" if cores else unit, "runtime": f"{name}-{versions.pop() if len(versions) == 1 else UNSTATED}",
        "backend": "", "precision": precision, "batch": cells["batch"] or "1", "repeats_of": "", "source_file": cells["path"],
        "source_commit": cells["path"].partition("@")[2].partition(":")[0],
    }  # fmt: skip


def _plain(name: str, source: str, licence: str, *caveats: str, rounded_ms: float | None = None) -> LatencyTables:
    caveats += (f"latencies are multiples of {rounded_ms:g} ms",) if rounded_ms else ()
    return LatencyTables(name, source, licence, caveats=caveats, rewritten=in_own_columns, rounded_ms=rounded_ms)


MLPERF = LatencyTables(
    "mlperf",
    "mlcommons/inference_results_v0.5 f5acb8b, v1.0 f7759ba, v2.1 91f7859, v3.0 1948f9b",
    "Apache-2.0",
    caveats=(
        "threads were not recorded: the submitters' program takes every processor unless told otherwise, and a query includes "
        "copying the input and reading the answer",
    ),
)
TIMM = LatencyTables(
    "timm",
    "huggingface/pytorch-image-models aa4b585",
    "Apache-2.0",
    latencies=(LATENCIES, "gpu_ms.csv"),
    accuracy=True,
    caveats=("on GPUs a latency is that of the batch that stands in the unit (+b256), under autocast, which is given as fp16",),
    operations=("gmacs", 2e9),
)
PADDLE = LatencyTables(
    "paddle",
    "PaddlePaddle/Paddle-Lite 5013318 (2.3) to cd09a8e (2.13), PaddlePaddle/PaddleClas d178931",
    "Apache-2.0",
    caveats=(
        "the precision under OpenCL is not stated; inputs that are not stated are taken as 224x224 for networks of a family, as "
        "PaddleClas's classifiers have them",
    ),
)
NETSPRESSO = LatencyTables(
    "netspresso",
    "Nota-NetsPresso/netspresso-trainer cdefe12",
    "Apache-2.0",
    caveats=("what fp16 means on the CPUs of Raspberry Pis is not stated",),
)
TI = LatencyTables("ti", "TexasInstruments/edgeai-modelzoo 0d60abf", "BSD-3-Clause")
AIHUB = LatencyTables(
    "aihub",
    "quic/ai-hub-models 52c080d (v0.46.1), 052dc1f (v0.45.0)",
    "BSD-3-Clause",
    caveats=(
        "whether a time is a mean or a minimum is not stated; 'float' is given as fp16 on NPUs and GPUs, fp32 on CPUs; "
        "npu_layers, gpu_layers and cpu_layers say where the layers ran",
    ),
)
HAILO = LatencyTables(
    "hailo",
    "hailo-ai/hailo_model_zoo c83fc03",
    "MIT",
    streams=is_stream,
    needed=("fps_batch1", "fps_batch8"),
    operations=("ops_g", 1e9),
)
RKNN = LatencyTables(
    "rknn",
    "airockchip/rknn_model_zoo bad6c73",
    "Apache-2.0",
    caveats=("at the highest clock of the NPU; RK3588 and RK3576 on one of their cores",),
)
RENESAS_DRPAI = _plain(
    "renesas_drpai", "renesas-rz/rzv_drp-ai_tvm a557552", "Apache-2.0",
    "latencies of the NPU include what TVM leaves to the CPU", rounded_ms=1.0,
)  # fmt: skip
MLPERF_MOBILE = _plain(
    "mlperf_mobile", "mlcommons/mobile_results_v2.1 to v5.0", "Apache-2.0", "the precision depends on the task"
)  # fmt: skip
OPENCV_ZOO = _plain("opencv_zoo", "opencv/opencv_zoo 966be4c", "Apache-2.0", "preprocessing may be included")
MMDEPLOY = _plain("mmdeploy", "open-mmlab/mmdeploy 3f8604b", "Apache-2.0")
XNNPACK = _plain("xnnpack", "google/XNNPACK 75db3c0", "BSD-3-Clause", rounded_ms=1.0)
