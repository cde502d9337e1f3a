"""The scenarios of the dataset: a column ``device|cores|precision|statistic`` names a platform."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from latcast.datasets.importers.table import Malformed
from latcast.records import Platform


@dataclass(frozen=True)
class Phone:
    """A phone of the dataset (Li et al., Table 1)."""

    soc: str
    gpu: str


PHONES: Mapping[str, Phone] = MappingProxyType(
    {
        "pixel4": Phone("Snapdragon 855", "Adreno 640"),
        "s10": Phone("Exynos 9820", "Mali G76"),
        "mi8se": Phone("Snapdragon 710", "Adreno 616"),
        "onefusion": Phone("Snapdragon 710", "Adreno 616"),
        "a03s": Phone("Helio P35", "PowerVR GE8320"),
        "iphone7": Phone("A10 Fusion", "PowerVR GT7600 Plus (custom)"),
        "iphonexs": Phone("A12 Bionic", "Apple G11P"),
    }
)
"""Devices as the columns call them. ``mi8se`` and ``onefusion`` are one system on chip in two phones."""

RUNTIMES: Mapping[str, tuple[str, str]] = MappingProxyType({"tflite": ("tflite", "2.10"), "torch": ("pytorch", "2.0")})
"""First word of a file's name to runtime and version."""

TRANSFORMER_RUNTIMES: Mapping[str, tuple[str, str]] = MappingProxyType({**RUNTIMES, "tflite": ("tflite", "2.15")})
"""Of transformers, which were measured later (the origin's ``website/collect.py`` tells the versions apart)."""

_CORES = re.compile(r"gpu|(?:[1-9](?:large|med|small))+")


def platform_of(
    framework: str, device: str, cores: str, precision: str, runtimes: Mapping[str, tuple[str, str]] = RUNTIMES
) -> str:
    """The platform id of a scenario; ``runtimes`` has the framework's runtime and version.

    ``quant`` is int8 on CPUs. ``float`` is fp32 on CPUs and fp16 on GPUs: TFLite's benchmark tool and PyTorch's Vulkan
    backend were run so (Li et al. §4.3.1), and PyTorch's Metal backend keeps activations in 16-bit images.

    Raises:
        Malformed: A part that the dataset does not have.
    """
    if device not in PHONES:
        raise Malformed(f"the device '{device}' is unknown; expected one of {', '.join(PHONES)}")
    if not _CORES.fullmatch(cores):
        raise Malformed(f"'{cores}' is no set of cores; expected gpu or numbers of large, med and small cores such as 1large1med")
    names = {"float": "fp16" if cores == "gpu" else "fp32", "quant": "" if cores == "gpu" else "int8"}
    if not names.get(precision):
        raise Malformed(f"'{precision}' is no precision of {cores}; expected float{'' if cores == 'gpu' else ' or quant'}")
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
    """The scenarios of a table of whole networks.

    Args:
        header: Names of all columns.
        framework: "tflite" or "torch".
        skip: Number of columns before the scenarios.
        runtimes: Framework to runtime and version.

    Raises:
        Malformed: A column is no scenario, stands there twice, or lacks its standard deviation.
    """
    places: dict[tuple[str, str], int] = {}
    for index, column in enumerate(header[skip:], start=skip):
        parts = column.split("|")
        if len(parts) != 4 or parts[3] not in ("mean", "std"):
            raise Malformed(f"the column '{column}' is not of the form device|cores|precision|mean or |std")
        key = (platform_of(framework, parts[0], parts[1], parts[2], runtimes), parts[3])
        if key in places:
            raise Malformed(f"the column '{column}' stands there twice")
        places[key] = index
    platforms = [platform for platform, statistic in places if statistic == "mean"]
    alone = {platform for platform, _ in places} - {p for p in platforms if (p, "std") in places}
    if alone:
        raise Malformed(f"{min(alone)} has a column of means or of standard deviations only; expected both")
    return [Scenario(platform, places[platform, "mean"], places[platform, "std"]) for platform in platforms]
