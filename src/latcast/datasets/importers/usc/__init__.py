"""The dataset of Li et al. (PEVA 2024): networks on phones, TFLite and PyTorch Mobile, CPU core sets and GPUs.

Whole networks become one record for each network and scenario; the kernels that a GPU was seen to run stand in the record
of the whole network on that GPU, with the configuration that was published of them. Two layouts are read: that of commit 40ba833,
and that of later commits, which have the operations on CPUs as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from latcast.datasets.importers import FileSummary, Imported, NetworkCheck, Refusals
from latcast.datasets.importers.usc.networks import RUNTIMES_OF, SOURCE, read_networks
from latcast.datasets.importers.usc.operations import read_operations
from latcast.errors import DatasetError
from latcast.records import ExecutedKernel, Measurement, Platform

FRAMEWORKS = ("tflite", "torch")


@dataclass(frozen=True)
class SourceFile:
    """A file of the dataset.

    Attributes:
        framework: "tflite" or "torch".
        kind: A key of :data:`latcast.datasets.importers.usc.networks.REFERENCES`.
        whole: Whether it has whole networks, rather than their operations.
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
"""As of commit 40ba833."""

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
"""As later commits name them and say what is in them (``dataset/cnn/README.md``, ``dataset/vit/README.md``). The columns of
operations on CPUs are those that ``website/collect.py`` reads."""

_FOLDERS = (".", "cnn", "vit", "dataset", "dataset/cnn", "dataset/vit")
"""Where a file may lie in the folder that the user gives: the repository's, or one inside it."""

PERMUTED_PLATFORM = "iphonexs/pytorch-2.0/gpu/fp16"
"""Where latencies of operations stand beside the wrong operations of a network with parallel branches: of two convolutions
that read the same tensor, the larger one often has the time of the smaller. Right ones cannot be told from wrong ones by
what was published, so none of this platform is read."""


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
        for path, source in sources.items():
            if source.whole:
                continue
            operations = read_operations(path, source.framework, refusals, RUNTIMES_OF[source.kind])
            records = sum(len(kernels) for kernels in operations.executed.values())
            files[path.name] = FileSummary(operations.rows, records, operations.missing)
            executed |= {(platform, source.kind, name): each for (platform, name), each in operations.executed.items()}
            if operations.unknown:
                unknown = ", ".join(sorted(operations.unknown))
                notes.append(f"operations of {path.name} that are not known keep their configurations as recorded: {unknown}")
        notes += _leave_out_permuted(executed)
        for path, source in sources.items():
            if source.whole:
                networks = read_networks(path, source.framework, source.kind, refusals, source.source)
                files[path.name] = FileSummary(networks.rows, len(networks.measurements), networks.missing)
                found += [(source.kind, measurement) for measurement in networks.measurements]
        complete = [_with_kernels(kind, item, executed) for kind, item in found]
        notes += _unused(executed, found)
        notes += _on_cpus(executed)
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
        """Compare the networks; see :class:`latcast.datasets.importers.DatasetImporter`."""
        from latcast.datasets.importers.usc.built import check_networks

        return check_networks(imported.measurements, watch)


_Subject = tuple[str, str, str]
"""Platform id, kind of networks, and name of a network."""


def _layout(folder: Path) -> tuple[dict[Path, SourceFile], tuple[str, ...]]:
    """Return the files that are there, those of the newer layout before the others, and the names of those that are not.

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


def _with_kernels(kind: str, measurement: Measurement, executed: Mapping[_Subject, tuple[ExecutedKernel, ...]]) -> Measurement:
    kernels = executed.get((measurement.platform, kind, measurement.reference.name))
    return measurement if kernels is None else replace(measurement, executed=kernels)


def _on_cpus(executed: Mapping[_Subject, tuple[ExecutedKernel, ...]]) -> list[str]:
    """Note that operations on CPUs are kept and not used."""
    count = sum(len(kernels) for (platform, _, _), kernels in executed.items() if not _is_gpu(platform))
    if not count:
        return []
    return [
        f"{count} operations on CPUs are kept with their configurations as recorded and belong to no node of a network: which "
        "operations the runtime fused was not published"
    ]


def _is_gpu(platform: str) -> bool:
    return Platform.parse(platform).unit == "gpu"


def _leave_out_permuted(executed: dict[_Subject, tuple[ExecutedKernel, ...]]) -> list[str]:
    """Remove the permuted latencies, and note it."""
    permuted = [subject for subject in executed if subject[0] == PERMUTED_PLATFORM]
    count = sum(len(executed.pop(subject)) for subject in permuted)
    if not count:
        return []
    return [
        f"{count} operations of {len(permuted)} networks on {PERMUTED_PLATFORM} are left out: their latencies are permuted "
        "within networks with parallel branches"
    ]


def _unused(executed: Mapping[_Subject, tuple[ExecutedKernel, ...]], found: Sequence[tuple[str, Measurement]]) -> list[str]:
    """Note the operations of networks that were not measured as a whole."""
    measured = {(item.platform, kind, item.reference.name) for kind, item in found}
    alone = sorted({subject[2] for subject in executed if subject not in measured})
    if not alone:
        return []
    return [f"operations of {len(alone)} networks are left out, which were not measured as a whole: {', '.join(alone[:5])}"]


IMPORTER = UscImporter()
