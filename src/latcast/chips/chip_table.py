"""The table of chips and the devices they are in: what is publicly known of them.

``chips.json`` holds it, a line an entry, sorted: CPU clusters, GPU, NPU, memory. The facts are those of vendors' specification
pages, product briefs and datasheets, named in ``source``; what is not known is absent, never guessed. Clocks are the highest that
the vendor states. ``npu_tops`` is the vendor's own figure for int8, which is no measure across vendors. ``fma_bits`` of a core
follow from the vendor's optimisation guide, or from published measurements of its peak where there is none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, TypeVar

Entry = TypeVar("Entry")


@dataclass(frozen=True)
class CpuCluster:
    """Cores of one kind. What is not known is None.

    Attributes:
        core: Name of the core as the vendor gives it, "kryo-485-gold".
        design: The core it is made from, "cortex-a76"; the same name where that is of nobody else's design.
        cores: How many.
        ghz: Highest clock.
        in_order: Whether it executes in program order.
        simd_bits: Width of a vector register.
        fma_bits: Bits of an operand that fused multiply-adds take in a cycle, over all pipes.
        features: Instructions that matter here: neon, fp16, dotprod, i8mm, bf16, sve, avx2, avx512, vnni, amx...
    """

    core: str
    design: str
    cores: int | None = None
    ghz: float | None = None
    in_order: bool | None = None
    simd_bits: int | None = None
    fma_bits: int | None = None
    features: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The core, and the one that it is made from in parentheses."""
        return self.core if self.core == self.design else f"{self.core} ({self.design})"

    def __str__(self) -> str:
        return f"{f'{self.cores} x ' if self.cores else ''}{self.name}{f' {self.ghz:g} GHz' if self.ghz else ''}"


@dataclass(frozen=True)
class Chip:
    """A system on chip, a CPU, a GPU with its own memory, or an accelerator. What is not known is None.

    Attributes:
        id: Short and unique, the vendor's part number where there is one: "sm8150".
        name: For people: "Snapdragon 855".
        vendor: Who sells it.
        die: Id of the chip whose silicon it is: the Snapdragon 855+ is "sm8150" at a higher clock.
        aliases: Other names.
        year: Of its announcement.
        process_nm: Of the process, as the vendor calls it.
        cpu: Clusters, the fastest first; none for a GPU or an accelerator.
        memory: Kind.
        bandwidth_gb_s: Peak of the memory.
        gpu: Name.
        gpu_family: GPUs of one architecture, "adreno6xx".
        gpu_cores: As the vendor counts them: shader cores, compute units, CUDA cores.
        gpu_mhz: Highest clock.
        gpu_gflops: Peak in fp32.
        npu: Class, "hexagon-v66"; the family where no more is known.
        npu_family: "hexagon".
        npu_tops: Peak in int8.
        source: Where the facts are from.
    """

    id: str
    name: str
    vendor: str
    die: str
    aliases: tuple[str, ...] = ()
    year: int | None = None
    process_nm: float | None = None
    cpu: tuple[CpuCluster, ...] = ()
    memory: str | None = None
    bandwidth_gb_s: float | None = None
    gpu: str | None = None
    gpu_family: str | None = None
    gpu_cores: int | None = None
    gpu_mhz: float | None = None
    gpu_gflops: float | None = None
    npu: str | None = None
    npu_family: str | None = None
    npu_tops: float | None = None
    source: str = ""

    def has(self, unit_kind: str) -> bool:
        """Return whether it has a unit of a kind, ``cpu``, ``gpu`` or ``npu``."""
        return bool({"cpu": self.cpu, "gpu": self.gpu, "npu": self.npu}[unit_kind])

    def cluster(self, unit: str = "") -> CpuCluster | None:
        """Return the cores that a platform's unit runs on (``1small``, ``cpu4+little``); the fastest where it does not say."""
        if not self.cpu:
            return None
        if "large" not in unit and "med" in unit:
            return self.cpu[min(1, len(self.cpu) - 1)]
        return self.cpu[-1 if "large" not in unit and re.search("small|little", unit) else 0]


@dataclass(frozen=True)
class Device:
    """What is sold: a phone, a board, a computer, an instance in a cloud.

    Attributes:
        name: "Redmi Note 8".
        chips: Ids of its chips, the one with the CPU first.
        aliases: Other names, model numbers among them.
        year: Of its release.
        source: Where this is from.
    """

    name: str
    chips: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    year: int | None = None
    source: str = ""


class _Made(Mapping[str, Entry]):
    """Entries of the data file by their name, each made when it is first asked for: there are a thousand."""

    def __init__(self, raw: Mapping[str, dict[str, Any]], make: Callable[[str, dict[str, Any]], Entry]) -> None:
        self.raw = raw
        self._make = make
        self._made: dict[str, Entry] = {}

    def __getitem__(self, name: str) -> Entry:
        if name not in self._made:
            self._made[name] = self._make(name, self.raw[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.raw)

    def __len__(self) -> int:
        return len(self.raw)


@cache
def _data() -> dict[str, Any]:
    return json.loads(resources.files("latcast.chips").joinpath("chips.json").read_text(encoding="utf-8"))


@cache
def chips() -> Mapping[str, Chip]:
    """Return every chip by its id."""
    data = _data()
    cores, gpus, npus = data["cores"], data["gpus"], data["npus"]

    def cluster(count: int | None, core: str, ghz: float | None) -> CpuCluster:
        known = {"design": core, **cores[core], "features": frozenset(cores[core].get("features", ()))}
        return CpuCluster(core, cores=count, ghz=ghz, **known)

    def chip(name: str, known: dict[str, Any]) -> Chip:
        cpu = tuple(cluster(*each) for each in known.get("cpu", ()))
        families = {"gpu_family": gpus.get(known.get("gpu")), "npu_family": npus.get(known.get("npu"))}
        return Chip(name, **{"die": name, **known, **families, "cpu": cpu, "aliases": tuple(known.get("aliases", ()))})

    return _Made(data["chips"], chip)


@cache
def devices() -> Mapping[str, Device]:
    """Return every device by its name."""

    def device(name: str, known: dict[str, Any]) -> Device:
        return Device(name, **{**known, "chips": tuple(known["chips"]), "aliases": tuple(known.get("aliases", ()))})

    return _Made(_data()["devices"], device)


@cache
def spellings() -> tuple[tuple[str, str, bool], ...]:
    """Return (spelling, id of a chip or name of a device, whether it is a device) of all names."""
    data = _data()
    return (
        *(
            (text, name, False)
            for name, known in data["chips"].items()
            for text in (name, known["name"], *known.get("aliases", ()))
        ),
        *((text, name, True) for name, known in data["devices"].items() for text in (name, *known.get("aliases", ()))),
    )
