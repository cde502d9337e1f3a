"""The dataset of Li et al. (PEVA 2024): networks on phones, TFLite and PyTorch Mobile, CPU core sets and GPUs.

Whole networks become one record for each network and scenario; the kernels that a GPU was seen to run stand in the record
of the whole network on that GPU, with the configuration that was published of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from latcast.datasets.importers import FileSummary, Imported, NetworkCheck, Refusals
from latcast.datasets.importers.usc.networks import REFERENCES, read_networks
from latcast.datasets.importers.usc.operations import Subject, read_operations
from latcast.errors import DatasetError
from latcast.records import ExecutedKernel, Measurement

FRAMEWORKS = ("tflite", "torch")

NETWORK_FILES: Mapping[str, tuple[str, str]] = {
    f"{framework}_{kind}_e2e.csv": (framework, kind) for framework in FRAMEWORKS for kind in REFERENCES
}
OPERATION_FILES: Mapping[str, str] = {f"{framework}_cnn_ops_gpu.csv": framework for framework in FRAMEWORKS}

PERMUTED_PLATFORM = "iphonexs/pytorch-2.0/gpu/fp16"
"""Where latencies of operations stand beside the wrong operations of a network with parallel branches: of two convolutions
that read the same tensor, the larger one often has the time of the smaller. Right ones cannot be told from wrong ones by
what was published, so none of this platform is read."""


class UscImporter:
    """Reads the folder with the dataset's CSV files."""

    title = "Li et al., PEVA 2024: qed-usc/mobile-ml-benchmark, commit 40ba833; MIT"

    def read(self, folder: Path, *, strict: bool = True) -> Imported:
        """See :meth:`latcast.datasets.importers.DatasetImporter.read`."""
        refusals = Refusals(strict=strict)
        expected = (*NETWORK_FILES, *OPERATION_FILES)
        absent = tuple(name for name in expected if not (folder / name).is_file())
        if len(absent) == len(expected):
            raise DatasetError(f"{folder} holds none of the files of this dataset; expected {', '.join(expected)}")
        files: dict[str, FileSummary] = {}
        executed: dict[Subject, tuple[ExecutedKernel, ...]] = {}
        measurements: list[Measurement] = []
        notes: list[str] = []
        for name, framework in OPERATION_FILES.items():
            if name not in absent:
                operations = read_operations(folder / name, framework, refusals)
                records = sum(len(kernels) for kernels in operations.executed.values())
                files[name] = FileSummary(operations.rows, records, operations.missing)
                executed |= operations.executed
                if operations.unknown:
                    unknown = ", ".join(sorted(operations.unknown))
                    notes.append(f"operations of {name} that are not known keep their configurations as recorded: {unknown}")
        notes += _leave_out_permuted(executed)
        for name, (framework, kind) in NETWORK_FILES.items():
            if name not in absent:
                networks = read_networks(folder / name, framework, kind, refusals)
                files[name] = FileSummary(networks.rows, len(networks.measurements), networks.missing)
                measurements += networks.measurements
        complete = [_with_kernels(item, executed) for item in measurements]
        notes += _unused(executed, measurements)
        return Imported(tuple(complete), files, absent, tuple(refusals.found), tuple(notes))

    def complete(self, imported: Imported, watch: Callable[[str], None]) -> Imported:
        """See :meth:`latcast.datasets.importers.DatasetImporter.complete`."""
        from latcast.datasets.importers.usc.built import Builder
        from latcast.datasets.importers.usc.nodes import with_nodes

        builder = Builder(watch)
        measurements = []
        for measurement in imported.measurements:
            graph = builder.graph(measurement.reference) if measurement.executed else None
            if graph is not None:
                measurement = replace(measurement, executed=with_nodes(measurement.executed, graph))
            measurements.append(measurement)
        notes = tuple(f"nodes of {len(names)} networks are not known: {reason}" for reason, names in builder.failures.items())
        return replace(imported, measurements=tuple(measurements), notes=(*imported.notes, *notes))

    def check(self, imported: Imported, watch: Callable[[str], None]) -> NetworkCheck:
        """See :meth:`latcast.datasets.importers.DatasetImporter.check`."""
        from latcast.datasets.importers.usc.built import check_networks

        return check_networks(imported.measurements, watch)


def _with_kernels(measurement: Measurement, executed: Mapping[Subject, tuple[ExecutedKernel, ...]]) -> Measurement:
    kernels = executed.get((measurement.platform, measurement.reference.name))
    return measurement if kernels is None else replace(measurement, executed=kernels)


def _leave_out_permuted(executed: dict[Subject, tuple[ExecutedKernel, ...]]) -> list[str]:
    """Removes what cannot be trusted, and says so."""
    permuted = [subject for subject in executed if subject[0] == PERMUTED_PLATFORM]
    count = sum(len(executed.pop(subject)) for subject in permuted)
    if not count:
        return []
    return [
        f"{count} operations of {len(permuted)} networks on {PERMUTED_PLATFORM} are left out: their latencies are permuted "
        "within networks with parallel branches"
    ]


def _unused(executed: Mapping[Subject, tuple[ExecutedKernel, ...]], measurements: Sequence[Measurement]) -> list[str]:
    """Says which operations belong to no measured network."""
    measured = {(item.platform, item.reference.name) for item in measurements}
    alone = sorted({network for platform, network in executed if (platform, network) not in measured})
    if not alone:
        return []
    return [f"operations of {len(alone)} networks are left out, which were not measured as a whole: {', '.join(alone[:5])}"]


IMPORTER = UscImporter()
