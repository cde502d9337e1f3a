"""The files of whole networks: one row a network, a mean and a standard deviation for each scenario."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from latcast.datasets.importers import Refusals
from latcast.datasets.importers.table import NO_VALUE, Malformed, Parsed, Row, Table, number, published
from latcast.records import Measurement, Platform, Reference
from latcast.spaces.pytorchcv import reference_of


@dataclass(frozen=True)
class PhoneHardware:
    """A phone of the dataset (Li et al., Table 1)."""

    soc: str
    gpu: str


PHONES: Mapping[str, PhoneHardware] = MappingProxyType(
    {
        "pixel4": PhoneHardware("Snapdragon 855", "Adreno 640"),
        "s10": PhoneHardware("Exynos 9820", "Mali G76"),
        "mi8se": PhoneHardware("Snapdragon 710", "Adreno 616"),
        "onefusion": PhoneHardware("Snapdragon 710", "Adreno 616"),
        "a03s": PhoneHardware("Helio P35", "PowerVR GE8320"),
        "iphone7": PhoneHardware("A10 Fusion", "PowerVR GT7600 Plus (custom)"),
        "iphonexs": PhoneHardware("A12 Bionic", "Apple G11P"),
    }
)
"""Devices as the columns call them. ``mi8se`` and ``onefusion`` are one system on chip in two phones."""

RUNTIMES: Mapping[str, tuple[str, str]] = MappingProxyType({"tflite": ("tflite", "2.10"), "torch": ("pytorch", "2.0")})
"""First word of a file's name to runtime and version."""

TRANSFORMER_RUNTIMES: Mapping[str, tuple[str, str]] = MappingProxyType({**RUNTIMES, "tflite": ("tflite", "2.15")})
"""The same for transformers, which were measured later (the origin's ``website/collect.py``)."""

_CORES = re.compile(r"gpu|(?:[1-9](?:large|med|small))+")


def scenario_platform(
    framework: str, device: str, cores: str, precision: str, runtimes: Mapping[str, tuple[str, str]] = RUNTIMES
) -> str:
    """Return a scenario's platform id; ``quant`` is int8 on CPUs, ``float`` is fp32 there and fp16 on GPUs (Li et al. §4.3.1).

    Raises:
        Malformed: A part that the dataset does not have.
    """
    if device not in PHONES:
        raise Malformed(f"the device '{device}' is unknown; expected one of {', '.join(PHONES)}")
    if not _CORES.fullmatch(cores):
        raise Malformed(f"'{cores}' is not a set of cores; expected gpu or numbers of large, med and small cores (1large1med)")
    names = {"float": "fp16" if cores == "gpu" else "fp32", "quant": "" if cores == "gpu" else "int8"}
    if not names.get(precision):
        raise Malformed(f"'{precision}' is not a precision of {cores}; expected float{'' if cores == 'gpu' else ' or quant'}")
    runtime, version = runtimes[framework]
    return Platform(device, runtime, version, cores, names[precision]).id


@dataclass(frozen=True)
class Scenario:
    """A platform with the positions of its columns."""

    platform: str
    mean: int
    deviation: int


def read_scenarios(
    header: Sequence[str], framework: str, skip: int, runtimes: Mapping[str, tuple[str, str]] = RUNTIMES
) -> list[Scenario]:
    """Return the scenarios of a header, which begin after ``skip`` columns; raise :class:`Malformed` for any other column."""
    places: dict[tuple[str, str], int] = {}
    for index, column in enumerate(header[skip:], start=skip):
        parts = column.split("|")
        if len(parts) != 4 or parts[3] not in ("mean", "std"):
            raise Malformed(f"the column '{column}' is not of the form device|cores|precision|mean or |std")
        key = (scenario_platform(framework, parts[0], parts[1], parts[2], runtimes), parts[3])
        if key in places:
            raise Malformed(f"the column '{column}' stands there twice")
        places[key] = index
    platforms = [platform for platform, statistic in places if statistic == "mean"]
    alone = {platform for platform, _ in places} - {p for p in platforms if (p, "std") in places}
    if alone:
        raise Malformed(f"{min(alone)} has a column of means or of standard deviations only; expected both")
    return [Scenario(platform, places[platform, "mean"], places[platform, "std"]) for platform in platforms]


SOURCE: Mapping[str, str] = {
    "name": "usc",
    "source": "qed-usc/mobile-ml-benchmark, commit 40ba833",
    "licence": "MIT",
    "paper": "Li et al., Inference latency prediction for CNNs on heterogeneous mobile devices and ML frameworks, PEVA 2024",
}

STATISTIC = "mean of the published runs (variation: standard deviation over mean)"

_COLUMNS = ("model", "flops", "size")


REFERENCES: Mapping[str, Callable[[str], Reference]] = {
    "cnn": reference_of,
    "transformer": lambda name: Reference("huggingface", {"name": name}, name),
    "nas": lambda name: Reference("usc_nas", {"name": name}, name),
    "transformer_nas": lambda name: Reference("usc_nas", {"name": name, "kind": "vit"}, name),
}
"""Kind of networks to the function from a name to its reference."""

RUNTIMES_OF: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "cnn": RUNTIMES, "nas": RUNTIMES, "transformer": TRANSFORMER_RUNTIMES, "transformer_nas": TRANSFORMER_RUNTIMES,
}  # fmt: skip
"""Kind of networks to their runtimes by framework."""


def read_networks(file: Path, framework: str, kind: str, refusals: Refusals, source: str = SOURCE["source"]) -> Parsed:
    """Read a file of whole networks of a kind (a key of :data:`REFERENCES`); ``source`` is the repository and commit."""
    table = Table(file, _COLUMNS, refusals)
    try:
        scenarios = read_scenarios(table.header, framework, len(_COLUMNS), RUNTIMES_OF[kind])
    except Malformed as problem:
        raise table.bad_header(problem) from problem
    environments: dict[str, dict[str, Any]] = {
        each.platform: {
            "dataset": {**SOURCE, "source": source},
            "device": dict(vars(PHONES[Platform.parse(each.platform).device])),
        }
        for each in scenarios
    }
    lines: dict[str, int] = {}

    def measurements_of(row: Row) -> list[Measurement]:
        name = row.cells[0]
        if not name or name in lines:
            raise Malformed(f"the network '{name}' stands in line {lines[name]} already" if name else "the network has no name")
        flops, size_bytes = (number(row.cells[index], _COLUMNS[index]) for index in (1, 2))
        moment = {"row": f"{file.name}:{row.line}", "flops": flops, "size_bytes": size_bytes}
        found = []
        for scenario in scenarios:
            mean, deviation = row.cells[scenario.mean], row.cells[scenario.deviation]
            if mean in NO_VALUE:
                if deviation not in NO_VALUE:
                    raise Malformed(f"{scenario.platform} has a standard deviation without a mean")
                continue
            mean_us = number(mean, f"the mean on {scenario.platform}")
            variation = None
            if deviation not in NO_VALUE:
                variation = number(deviation, f"the standard deviation on {scenario.platform}", least=0) / mean_us
            environment, reference = environments[scenario.platform], REFERENCES[kind](name)
            found.append(
                published(scenario.platform, reference, mean_us / 1000, STATISTIC, environment, moment, variation=variation)
            )
        lines[name] = row.line
        return found

    rows = list(table.parsed(measurements_of))
    missing = sum(len(scenarios) - len(measurements) for measurements in rows)
    return Parsed([each for measurements in rows for each in measurements], len(table), missing)
