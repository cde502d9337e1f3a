"""The dataset of Li et al. (PEVA 2024): networks on phones, TFLite and PyTorch Mobile, CPU core sets and GPUs.

Each network and scenario becomes one record; the kernels that a GPU ran stand in the record of the whole network on that GPU,
with their published configuration. Two layouts are read: that of commit 40ba833, and that of later commits, which have the
operations on CPUs as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from latcast.datasets.importers import FileSummary, Imported, NetworkCheck, Refusals
from latcast.datasets.importers.usc.networks import RUNTIMES_OF, SOURCE, read_networks
from latcast.datasets.importers.usc.operations import read_operations
from latcast.environment import MOMENT
from latcast.errors import DatasetError
from latcast.records import ExecutedKernel, Measurement, Platform

FRAMEWORKS = ("tflite", "torch")


@dataclass(frozen=True)
class SourceFile:
    """A file of the dataset, of whole networks or of their operations.

    Attributes:
        framework: "tflite" or "torch".
        kind: A key of :data:`latcast.datasets.importers.usc.networks.REFERENCES`.
        source: Repository and commit.
    """

    framework: str
    kind: str
    whole: bool
    source: str = SOURCE["source"]


FILES: Mapping[str, SourceFile] = {
    **{
        f"{framework}_{kind}_e2e.csv": SourceFile(framework, kind, whole=True)
        for framework in FRAMEWORKS for kind in ("cnn", "transformer", "nas")
    },
    **{f"{framework}_cnn_ops_gpu.csv": SourceFile(framework, "cnn", whole=False) for framework in FRAMEWORKS},
}  # fmt: skip
"""Files of commit 40ba833."""

_LATER = "qed-usc/mobile-ml-benchmark, a commit later than 40ba833"

_NEWER_KINDS: Mapping[str, str] = {
    "cnn_real": "cnn", "cnn_synthetic": "nas", "vit_real": "transformer", "vit_synthetic": "transformer_nas",
}  # fmt: skip

NEWER_FILES: Mapping[str, SourceFile] = {
    f"{framework}_{words}_{what}.csv": SourceFile(framework, kind, what == "e2e", _LATER)
    for what in ("e2e", "ops_cpu", "ops_cpu_quant", "ops_gpu")
    for framework in FRAMEWORKS
    for words, kind in _NEWER_KINDS.items()
    if not (what == "ops_cpu_quant" and framework == "tflite") and not (what == "ops_gpu" and words.startswith("vit"))
}
"""Files of later commits (``dataset/cnn/README.md``, ``dataset/vit/README.md``; ``website/collect.py`` reads their columns)."""

_FOLDERS = (".", "cnn", "vit", "dataset", "dataset/cnn", "dataset/vit")
"""Places of a file in the folder that the user gives: the repository's, or one inside it."""

PERMUTED_PLATFORM = "iphonexs/pytorch-2.0/gpu/fp16"
"""Platform whose operations are not read: within networks with parallel branches their published latencies are permuted."""

_Subject = tuple[str, str, str]
"""Platform id, kind of networks, and name of a network."""


class UscImporter:
    """Reads the folder with the dataset's CSV files."""

    title = "Li et al., PEVA 2024: qed-usc/mobile-ml-benchmark, commit 40ba833 or later; MIT"

    def read(self, folder: Path, *, strict: bool = True) -> Imported:
        """Read a folder; see :class:`latcast.datasets.importers.DatasetImporter`."""
        refusals = Refusals(strict=strict)
        sources, absent = _layout(folder)
        files: dict[str, FileSummary] = {}
        executed: dict[_Subject, tuple[ExecutedKernel, ...]] = {}
        found: list[tuple[str, Measurement]] = []
        notes: list[str] = []
        for path, source in sorted(sources.items(), key=lambda each: each[1].whole):
            if source.whole:
                networks = read_networks(path, source.framework, source.kind, refusals, source.source)
                files[path.name] = FileSummary(networks.rows, len(networks.measurements), networks.missing)
                found += [(source.kind, measurement) for measurement in networks.measurements]
                continue
            operations = read_operations(path, source.framework, refusals, RUNTIMES_OF[source.kind])
            records = sum(len(kernels) for kernels in operations.executed.values())
            files[path.name] = FileSummary(operations.rows, records, operations.missing)
            executed |= {(platform, source.kind, name): each for (platform, name), each in operations.executed.items()}
            if operations.unknown:
                unknown = ", ".join(sorted(operations.unknown))
                notes.append(f"operations of {path.name} that are not known keep their configurations as recorded: {unknown}")
        subjects = [(item.platform, kind, item.reference.name) for kind, item in found]
        notes += _leave_out_permuted(executed) + _notes_on_operations(executed, set(subjects))
        complete = [
            replace(item, executed=executed[subject]) if subject in executed else item
            for subject, (_, item) in zip(subjects, found, strict=True)
        ]
        return Imported(tuple(complete), files, absent, tuple(refusals.found), tuple(notes))

    def complete(self, imported: Imported, watch: Callable[[str], None]) -> Imported:
        """Add nodes; see :class:`latcast.datasets.importers.DatasetImporter`."""
        from latcast.datasets.importers.usc.built import Builder, with_nodes

        builder = Builder(watch)
        measurements = []
        for measurement in imported.measurements:
            graph = builder.graph(measurement.reference) if measurement.executed and _is_gpu(measurement.platform) else None
            if graph is not None:
                measurement = replace(measurement, executed=with_nodes(measurement.executed, graph))
            measurements.append(measurement)
        notes = tuple(f"nodes of {len(names)} networks are not known: {reason}" for reason, names in builder.failures.items())
        return replace(imported, measurements=tuple(measurements), notes=(*imported.notes, *notes))

    def check(self, imported: Imported, watch: Callable[[str], None]) -> NetworkCheck:
        """Compare FLOPs and size of each network, as each file states them, with the network as it is built here."""
        from latcast.datasets.importers.usc.built import check_networks

        def stated(measurement: Measurement) -> tuple[str, float, float]:
            moment = measurement.environment[MOMENT]
            return moment["row"], moment["flops"], moment["size_bytes"]

        return check_networks(imported.measurements, watch, stated)


def _layout(folder: Path) -> tuple[dict[Path, SourceFile], tuple[str, ...]]:
    """Return the files that are there, and the names of those that are not.

    Raises:
        DatasetError: There is none, or files of both layouts lie side by side and would be read twice.
    """
    present: list[dict[Path, SourceFile]] = []
    for names in (FILES, NEWER_FILES):
        places = {name: [folder / each / name for each in _FOLDERS if (folder / each / name).is_file()] for name in names}
        present.append({found[0]: names[name] for name, found in places.items() if found})
    old, new = present
    if old and new:
        raise DatasetError(
            f"{folder} holds files of two layouts of this dataset, {min(path.name for path in old)} of commit 40ba833 and "
            f"{min(path.name for path in new)} of later ones; give a folder with one of them"
        )
    if not old and not new:
        raise DatasetError(
            f"{folder} holds none of the files of this dataset; expected {', '.join(FILES)}, or those of later commits: "
            "{tflite,torch}_{cnn,vit}_{real,synthetic}_{e2e,ops_cpu,ops_cpu_quant,ops_gpu}.csv"
        )
    have = {path.name for path in (old or new)}
    return old or new, tuple(name for name in (FILES if old else NEWER_FILES) if name not in have)


def _is_gpu(platform: str) -> bool:
    return Platform.parse(platform).unit == "gpu"


def _leave_out_permuted(executed: dict[_Subject, tuple[ExecutedKernel, ...]]) -> list[str]:
    """Remove the operations of :data:`PERMUTED_PLATFORM`, and note it."""
    permuted = [subject for subject in executed if subject[0] == PERMUTED_PLATFORM]
    count = sum(len(executed.pop(subject)) for subject in permuted)
    if not count:
        return []
    return [
        f"{count} operations of {len(permuted)} networks on {PERMUTED_PLATFORM} are left out: their latencies are permuted "
        "within networks with parallel branches"
    ]


def _notes_on_operations(executed: Mapping[_Subject, tuple[ExecutedKernel, ...]], measured: set[_Subject]) -> list[str]:
    """Note operations of networks that were not measured as a whole, and those on CPUs."""
    notes = []
    alone = sorted({subject[2] for subject in executed if subject not in measured})
    if alone:
        notes.append(
            f"operations of {len(alone)} networks are left out, which were not measured as a whole: {', '.join(alone[:5])}"
        )
    count = sum(len(kernels) for (platform, _, _), kernels in executed.items() if not _is_gpu(platform))
    if count:
        notes.append(
            f"{count} operations on CPUs are kept with their configurations as recorded and belong to no node of a network: "
            "which operations the runtime fused was not published"
        )
    return notes


IMPORTER = UscImporter()
