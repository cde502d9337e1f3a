"""The published measurements of Li et al., by kind of network and platform."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from latcast.datasets.importers.usc.networks import PHONES, RUNTIMES
from latcast.environment import MOMENT
from latcast.kernels.rules import unit_kind
from latcast.records import Measurement, Platform
from papers.harness import PaperTable
from papers.peva.paper import PATTERN, SOCS

KIND_OF_SPACE: Mapping[str, str] = {"pytorchcv": "real", "usc_nas": "synthetic", "huggingface": "transformer"}
"""Space of a network to what the paper calls such networks."""

RUNTIME_TITLES: Mapping[str, str] = {"tflite": "TFLite", "pytorch": "PyTorch Mobile"}

LARGE_CORE = "1large"
"""The unit that the tables of the paper call "CPU"."""


@dataclass(frozen=True)
class PublishedNetworks:
    """Everything that a folder of the dataset gave.

    Attributes:
        measurements: (kind, platform id) to network name to its measurement.
        notes: What was left out and why.
    """

    measurements: Mapping[tuple[str, str], Mapping[str, Measurement]]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, measurements: Iterable[Measurement], notes: Sequence[str] = ()) -> PublishedNetworks:
        """Sorts measurements; failed ones are left out."""
        found: dict[tuple[str, str], dict[str, Measurement]] = {}
        for each in measurements:
            kind = KIND_OF_SPACE.get(each.reference.space)
            if kind is not None and each.latency_ms is not None:
                found.setdefault((kind, each.platform), {})[each.reference.name] = each
        return cls(found, tuple(notes))

    @cached_property
    def _platforms(self) -> Mapping[str, Platform]:
        return {each: Platform.parse(each) for _, each in self.measurements}

    def platforms(
        self, kind: str = "real", *, runtime: str = "", unit: str = "", precision: str = "", compute: str = ""
    ) -> list[Platform]:
        """Platforms with networks of a kind: in the paper's order of phones, core sets as in :func:`core_set_order`.

        Args:
            kind: "real", "synthetic" or "transformer".
            runtime, unit, precision: As in platform ids; any where empty.
            compute: "cpu" or "gpu"; any where empty.
        """
        found = [
            self._platforms[name]
            for each, name in self.measurements
            if each == kind
            and runtime in ("", self._platforms[name].runtime)
            and unit in ("", self._platforms[name].unit)
            and precision in ("", self._platforms[name].precision)
            and compute in ("", unit_kind(self._platforms[name].unit))
        ]
        return sorted(found, key=platform_order)

    def of_platform(self, platform: Platform | str, kind: str = "real") -> Mapping[str, Measurement]:
        """Measurements by network name; none where the platform has none of the kind."""
        return self.measurements.get((kind, str(platform)), {})

    def latency_ms(self, platform: Platform | str, kind: str = "real") -> dict[str, float]:
        """Return latencies by network name."""
        return {name: float(each.latency_ms or 0.0) for name, each in self.of_platform(platform, kind).items()}

    def variation(self, platform: Platform | str, kind: str = "real") -> np.ndarray:
        """Coefficients of variation of a platform's runs, in percent, one a network that has one."""
        found = [each.variation for each in self.of_platform(platform, kind).values() if each.variation is not None]
        return 100 * np.array(found, dtype=float)

    def has_operations(self, platform: Platform) -> bool:
        """Return whether operations of a platform were published."""
        return any(each.executed for each in self.of_platform(platform).values())

    def gpus_with_operations(self, runtime: str = "") -> list[Platform]:
        """GPUs whose operations were published."""
        return [each for each in self.platforms(runtime=runtime, compute="gpu") if self.has_operations(each)]

    def with_operations(self, platform: Platform) -> list[Measurement]:
        """Measurements of the networks whose operations were published."""
        return [each for each in self.of_platform(platform).values() if each.executed]

    def mean_variation(self, platform: Platform | str, kind: str = "real") -> float | None:
        """Return mean of :meth:`variation`, in percent; None where no standard deviations were published."""
        found = self.variation(platform, kind)
        return float(found.mean()) if len(found) else None


def flops_and_size(measurement: Measurement) -> tuple[float, float]:
    """FLOPs and bytes of a network's file, as the dataset states them."""
    moment = measurement.environment[MOMENT]
    return float(moment["flops"]), float(moment["size_bytes"])


def soc_of(platform: Platform | str) -> str:
    """Return the system on chip of a platform's phone, as the paper calls it."""
    device = (Platform.parse(platform) if isinstance(platform, str) else platform).device
    return PHONES[device].soc


def runtime_and_soc(platform: Platform) -> tuple[str, str]:
    """Return the first two cells of most rows."""
    return RUNTIME_TITLES[platform.runtime], soc_of(platform)


def quartiles(values: np.ndarray) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile."""
    low, middle, high = np.percentile(values, (25, 50, 75))
    return float(low), float(middle), float(high)


def not_published(rows: tuple[tuple[str, str, str], ...]) -> PaperTable:
    """Return one of the lists of :mod:`papers.peva.paper` as a table."""
    return PaperTable(
        "not published", "What the published files do not allow", ("of the paper", "shows", "missing"), rows, (PATTERN,)
    )


def platform_order(platform: Platform) -> tuple[int, int, str, tuple[int, int, str], str]:
    """Runtimes, then phones in the paper's order, then core sets, then precisions."""
    runtimes = [name for name, _ in RUNTIMES.values()]
    return (
        runtimes.index(platform.runtime), SOCS.index(soc_of(platform)), platform.device, core_set_order(platform.unit),
        platform.precision,
    )  # fmt: skip


def core_set_order(unit: str) -> tuple[int, int, str]:
    """Large, medium, small cores, mixed sets, GPUs; few before many."""
    if unit == "gpu":
        return (9, 0, unit)
    counts = cores_of(unit)
    cluster = ("large", "med", "small").index(next(iter(counts))) if len(counts) == 1 else 5
    return (cluster, sum(counts.values()), unit)


def cores_of(unit: str) -> dict[str, int]:
    """``1large2med`` as ``{"large": 1, "med": 2}``."""
    return {name: int(count) for count, name in re.findall(r"(\d+)(large|med|small)", unit)}


def read_published(folder: Path, *, networks: bool = True, watch: Callable[[str], None] = lambda name: None) -> PublishedNetworks:
    """Read the dataset's folder.

    Args:
        networks: Whether to find the nodes that each recorded kernel computes, for which the networks are built.

    Raises:
        DatasetError: The folder does not hold the dataset, or a file is not as expected.
    """
    from latcast.datasets.importers.usc import IMPORTER

    watch(f"reading {folder}")
    found = IMPORTER.read(folder)
    if networks:
        watch("building the networks")
        found = IMPORTER.complete(found, lambda name: None)
    absent = [f"{name} is not in the folder" for name in found.absent]
    return PublishedNetworks.of(found.measurements, (*found.notes, *absent))
