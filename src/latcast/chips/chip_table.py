"""The table of chips and their devices, from public facts.

``chips.json`` holds it, a line an entry, sorted: CPU clusters, GPU, NPU, memory. The facts are those of vendors' specification
pages, product briefs and datasheets, named in ``source``; unknown ones are absent, never guessed. Clocks are the highest that the
vendor states. ``npu_tops`` is the vendor's own figure for int8, not comparable across vendors. ``fma_bits`` of a core follow from
the vendor's optimisation guide, or else from published measurements of its peak; ``fma_per_core`` of Apple's GPUs from published
counts of their arithmetic units.
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
    """Cores of one kind; unknown facts are None.

    Attributes:
        core: The vendor's name of the core, "kryo-485-gold".
        design: The core it is derived from, "cortex-a76"; else the same name.
        cores: Their number.
        ghz: Highest clock.
        in_order: Whether it executes in program order.
        simd_bits: Width of a vector register.
        fma_bits: Bits of an operand that fused multiply-adds take in a cycle, over all pipes.
        features: Instruction sets: neon, fp16, dotprod, i8mm, bf16, sve, avx2, avx512, vnni, amx...
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
        """The core, and the one that it is derived from in parentheses."""
        return self.core if self.core == self.design else f"{self.core} ({self.design})"

    def __str__(self) -> str:
        return f"{f'{self.cores} x ' if self.cores else ''}{self.name}{f' {self.ghz:g} GHz' if self.ghz else ''}"


@dataclass(frozen=True)
class Chip:
    """A system on chip, a CPU, a GPU with its own memory, or an accelerator; unknown facts are None.

    Attributes:
        id: Short and unique, the vendor's part number where there is one: "sm8150".
        name: Usual name: "Snapdragon 855".
        die: Id of the chip with the same silicon: the Snapdragon 855+ is "sm8150" at a higher clock.
        aliases: Other names.
        year: Year of its announcement.
        process_nm: The vendor's name of the process.
        cpu: Clusters, the fastest first; none for a GPU or an accelerator.
        memory, bandwidth_gb_s: Kind and peak bandwidth of the memory.
        ram_gb: Sizes of memory that a graphics card, or a computer of Apple's with this chip, is sold with.
        gpu, gpu_family: Name, and its architecture, "adreno6xx".
        gpu_cores: The vendor's count: shader cores, compute units, CUDA cores.
        gpu_mhz, gpu_fma, gpu_gflops: Highest clock, fused multiply-adds a cycle, and peak in fp32; of the last two one follows
            from the other and the clock, or the arithmetic from the cores and ``fma_per_core`` of the file.
        npu, npu_family: Class, "hexagon-v66" (or the family), and family, "hexagon".
        npu_tops: Peak in int8.
        npu_cores: Cores that run one network each or one network together; None where there is one, or it is not known.
        source: Source of the facts.
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
    ram_gb: tuple[float, ...] = ()
    gpu: str | None = None
    gpu_family: str | None = None
    gpu_cores: int | None = None
    gpu_mhz: float | None = None
    gpu_fma: float | None = None
    gpu_gflops: float | None = None
    npu: str | None = None
    npu_family: str | None = None
    npu_tops: float | None = None
    npu_cores: int | None = None
    source: str = ""

    @property
    def cores(self) -> int | None:
        """The number of its CPU cores; None where it is not known."""
        counts = [each.cores for each in self.cpu]
        return None if None in counts else sum(each or 0 for each in counts)

    @property
    def is_microcontroller(self) -> bool:
        """Whether its CPU runs programs from on-chip memory, without an operating system."""
        return bool(self.cpu) and all(_MICROCONTROLLER.match(each.design) for each in self.cpu)

    def has(self, unit_kind: str) -> bool:
        """Return whether it has a unit of a kind, ``cpu``, ``gpu`` or ``npu``, that can run networks."""
        gpu = self.gpu_family not in _DRAWING_ONLY and self.gpu
        return bool({"cpu": self.cpu, "gpu": gpu, "npu": self.npu}[unit_kind])

    def cluster(self, unit: str = "") -> CpuCluster | None:
        """Return the cores that a platform's unit runs on (``1small``, ``cpu4+little``); the fastest where it does not say."""
        if not self.cpu:
            return None
        if "large" not in unit and "med" in unit:
            return self.cpu[min(1, len(self.cpu) - 1)]
        return self.cpu[-1 if "large" not in unit and re.search("small|little", unit) else 0]


_MICROCONTROLLER = re.compile(r"cortex-m\d|xtensa-|rv32|rv64gc")
"""Cores of microcontrollers: Arm's M profile, Cadence's Xtensa, RISC-V without vectors."""

_DRAWING_ONLY = frozenset({"mali-utgard", "videocore-iv"})
"""Families of GPUs for which the vendor has no driver of OpenCL, Vulkan or OpenGL ES 3.1: they draw, and compute no networks."""


@dataclass(frozen=True)
class Device:
    """A product: a phone, a board, a computer, a cloud instance.

    Attributes:
        chips: Ids of its chips, the one with the CPU first.
        aliases: Other names, model numbers among them.
        year: Year of its release.
        ram_gb: Sizes of memory that it is sold with, under any of its names; empty where they are not known.
        source: Source of the facts.
    """

    name: str
    chips: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    year: int | None = None
    ram_gb: tuple[float, ...] = ()
    source: str = ""


class _Made(Mapping[str, Entry]):
    """Entries of the data file by their name, each made on first access: there are a thousand."""

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


def _listed(known: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return an entry whose lists of these names are tuples."""
    return {key: tuple(value) if key in names else value for key, value in known.items()}


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
        gpu = gpus.get(known.get("gpu"), {})
        derived = {"gpu_family": gpu.get("family"), "npu_family": npus.get(known.get("npu"))}
        mhz, gflops = known.get("gpu_mhz"), known.get("gpu_gflops")
        fma = gpu["fma_per_core"] * known["gpu_cores"] if "fma_per_core" in gpu and "gpu_cores" in known else None
        derived["gpu_fma"] = fma or (gflops and mhz and gflops / mhz / 2e-3)
        derived["gpu_gflops"] = fma and mhz and 2e-3 * fma * mhz
        return Chip(name, **{"die": name, **derived, **_listed(known, "aliases", "ram_gb"), "cpu": cpu})

    return _Made(data["chips"], chip)


@cache
def chip_of_die(die: str) -> Chip | None:
    """Return the chip that a silicon is named after, else one that has it; None where none has."""
    having = (name for name, known in _data()["chips"].items() if die in (name, known.get("die")))
    return chips().get(die) or next(map(chips().get, having), None)


@cache
def devices() -> Mapping[str, Device]:
    """Return every device by its name."""

    def device(name: str, known: dict[str, Any]) -> Device:
        return Device(name, **_listed(known, "chips", "aliases", "ram_gb"))

    return _Made(_data()["devices"], device)


@cache
def spellings() -> tuple[tuple[str, str, bool], ...]:
    """Return (spelling, id of a chip or name of a device, whether it is a device) of all names.

    A device's name without what stands in parentheses means it too: "Galaxy S24" those with either chip.
    """
    data = _data()
    return (
        *(
            (text, name, False)
            for name, known in data["chips"].items()
            for text in (name, known["name"], *known.get("aliases", ()))
        ),
        *(
            (text, name, True)
            for name, known in data["devices"].items()
            for text in dict.fromkeys((name, *known.get("aliases", ()), name.partition(" (")[0]))
        ),
    )
