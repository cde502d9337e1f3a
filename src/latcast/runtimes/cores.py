"""The kinds of CPUs of a device, and the CPUs that a unit of a platform id means.

Phones, and many boards, have cores of two or three kinds, and the platform id names those that ran (``2large``). Threads on
cores of different kinds wait for the slowest, so a measurement mixes them only where the unit says so (``1large1med``). Where all
cores are equal the id has their number (``cpu2``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from latcast.errors import RuntimeFailure
from latcast.records import CORE_SIZES, Unit

_ALIKE = 0.1
"""Relative difference of speeds up to which cores are of one kind: some computers clock a few cores a little higher."""


@dataclass(frozen=True)
class Cores:
    """The CPUs of a device by kind.

    Example:
        >>> from latcast.runtimes.cores import Cores
        >>> Cores.of_speeds({0: 250, 1: 250, 2: 1024}).unit("cpu1")
        ('1large', (2,))

    Attributes:
        kinds: Numbers of the CPUs of each kind, the slowest kind first.
    """

    kinds: tuple[tuple[int, ...], ...]

    @classmethod
    def of_speeds(cls, speeds: Mapping[int, float]) -> Cores:
        """Return the kinds, from a figure of each CPU that grows with its speed: ``cpu_capacity``, or its highest frequency."""
        kinds: list[list[int]] = []
        last = 0.0
        for cpu in sorted(speeds, key=lambda cpu: (speeds[cpu], cpu)):
            if not kinds or speeds[cpu] > (1 + _ALIKE) * last:
                kinds.append([])
                last = speeds[cpu]
            kinds[-1].append(cpu)
        return cls(tuple(tuple(sorted(kind)) for kind in kinds))

    @property
    def alike(self) -> bool:
        """True if there is one kind only, or none is known."""
        return len(self.kinds) < 2

    def named(self) -> dict[str, tuple[int, ...]]:
        """Return the kinds by size: ``small``, ``large``, of three kinds also ``med``; of four those between have no name."""
        if self.alike:
            return {}
        found = {CORE_SIZES[0]: self.kinds[0], CORE_SIZES[-1]: self.kinds[-1]}
        return {**found, CORE_SIZES[1]: self.kinds[1]} if len(self.kinds) == len(CORE_SIZES) else found

    def __str__(self) -> str:
        if self.alike:
            count = sum(len(kind) for kind in self.kinds)
            return f"{count} CPUs of one kind" if count else "CPUs of which nothing is known"
        sizes = {kind: size for size, kind in self.named().items()}
        return ", ".join(f"{len(kind)} {sizes.get(kind, 'between')}" for kind in reversed(self.kinds))

    def unit(self, text: str, allowed: Collection[int] | None = None) -> tuple[str, tuple[int, ...]]:
        """Return a unit's name on this device, and the CPUs to run on.

        ``cpuN`` on a device with kinds of cores is a set of N of the fastest kind that has as many.

        Args:
            text: The third part of a platform id: ``cpu2``, ``2large``, ``gpu``.
            allowed: The CPUs that may be used; all where None.

        Returns:
            The unit's name in the platform id, and its CPUs; none for other units, or where the CPUs are unknown.

        Raises:
            RuntimeFailure: The device has no such cores, or those of ``cpuN`` would be of different kinds.
        """
        unit = Unit.parse(text)
        if unit.kind != "cpu":
            return text, ()
        usable = {kind: tuple(cpu for cpu in kind if allowed is None or cpu in allowed) for kind in self.kinds}
        if unit.cores:
            if self.alike:
                raise RuntimeFailure(f"'{text}' names kinds of cores; the device has {self}: say cpu{unit.threads}")
            counts = {size: count for count, size in unit.cores}
            kinds = {size: usable.get(self.named().get(size, ()), ()) for size in counts}
            if len(counts) < len(unit.cores) or not all(1 <= count <= len(kinds[size]) for size, count in counts.items()):
                raise RuntimeFailure(f"the device has no {text}: it has {self}")
            return _set_name(counts, unit), tuple(sorted(cpu for size, count in counts.items() for cpu in kinds[size][-count:]))
        fitting = [kind for kind in self.kinds if len(usable[kind]) >= unit.threads]
        if self.alike:
            if self.kinds and not fitting:
                raise RuntimeFailure(f"{text} needs {unit.threads} CPUs; the device has {self}")
            # Systems tend to serve interrupts on the first ones.
            return text, usable[fitting[-1]][-unit.threads :] if fitting else ()
        if not fitting:
            raise RuntimeFailure(
                f"{text} would mix cores of different kinds, whose slowest decides: the device has {self}; "
                f"name some of {', '.join(f'{len(kind)}{size}' for size, kind in self.named().items())}, such as 1large1small"
            )
        sizes = {kind: size for size, kind in self.named().items()}
        chosen = next((kind for kind in reversed(fitting) if kind in sizes), None)
        if chosen is None:
            raise RuntimeFailure(f"{text} fits no kind of cores with a name: the device has {self}")
        return _set_name({sizes[chosen]: unit.threads}, unit), usable[chosen][-unit.threads :]

    def named_by(self, text: str, cpus: Collection[int]) -> str:
        """Return the name of a unit that runs on CPUs which the user chose.

        Raises:
            RuntimeFailure: Their kind has no name, or they are not as many, or not of the kinds, as the unit says.
        """
        if not cpus:
            return text
        unit, numbers = Unit.parse(text), ", ".join(map(str, sorted(cpus)))
        found = {size: len(set(kind) & set(cpus)) for size, kind in self.named().items()}
        if sum(found.values()) < len(set(cpus)):
            raise RuntimeFailure(f"the CPUs {numbers} are of a kind without a name: the device has {self}")
        counts = {size: count for size, count in found.items() if count}
        # Of one kind there may be more CPUs than threads.
        counts = counts if len(counts) > 1 else dict.fromkeys(counts, unit.threads)
        name, named = _set_name(counts, unit), {size: count for count, size in unit.cores}
        if sum(counts.values()) != unit.threads or named not in ({}, counts):
            raise RuntimeFailure(f"the CPUs {numbers} are not those of {text}: the device has {self}")
        return name


def _set_name(counts: Mapping[str, int], unit: Unit) -> str:
    """Return the name of a set of cores, the largest first, with the unit's qualifiers."""
    sizes = "".join(f"{counts[size]}{size}" for size in reversed(CORE_SIZES) if size in counts)
    return "+".join([sizes, *unit.qualifiers])


def mask(cpus: tuple[int, ...]) -> str:
    """Return CPUs as ``taskset`` takes them, in hexadecimal."""
    return f"{sum(1 << cpu for cpu in cpus):x}"


def local_cores(folder: Path = Path("/sys/devices/system/cpu")) -> Cores:
    """Return the CPUs of this machine, as Linux describes them in a folder with ``cpu0``, ``cpu1``...; else none."""
    numbers = sorted(int(each.name[3:]) for each in folder.glob("cpu[0-9]*") if each.name[3:].isdigit())
    for file in ("cpu_capacity", "cpufreq/cpuinfo_max_freq"):
        speeds = {}
        for number in numbers:
            try:
                speeds[number] = float((folder / f"cpu{number}" / file).read_text())
            except (OSError, ValueError):
                break
        if numbers and len(speeds) == len(numbers):
            return Cores.of_speeds(speeds)
    return Cores((tuple(numbers),) if numbers else ())
