"""Energy of an inference, from the counters that x86 processors keep of themselves (RAPL, ``/sys/class/powercap`` in Linux).

A counter is of a whole package: cores that idle, caches, other processes and, on some, the memory controller are in it; memory,
storage and the power supply are not. So a figure compares networks on one machine at rest, and is no bill of the device.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latcast.errors import MeasurementError
from latcast.runtimes.protocol import Clock

POWERCAP = Path("/sys/class/powercap")

LEAST_MS = 1000.0
"""Counters move once in a millisecond; so long the error of the two readings is below 0.2 %."""

LEAST_RUNS = 3


@dataclass(frozen=True)
class EnergyCounter:
    """One package's: microjoules since an arbitrary moment, which begin again after ``range_uj``."""

    name: str
    file: Path
    range_uj: int

    def read_uj(self) -> int:
        """The counter now.

        Raises:
            MeasurementError: It cannot be read.
        """
        return _number(self.file)

    def between_uj(self, before_uj: int, after_uj: int) -> int:
        """What was used between two readings, at most one turn of the counter apart."""
        return after_uj - before_uj if after_uj >= before_uj else after_uj + self.range_uj - before_uj


def energy_counters(root: Path = POWERCAP) -> tuple[EnergyCounter, ...]:
    """Those of the machine's packages.

    Raises:
        MeasurementError: There are none, or this user may not read them.
    """
    folders = sorted(folder for folder in root.glob("*-rapl:*") if re.fullmatch(r"[a-z]+-rapl:\d+", folder.name))
    found = []
    for folder in folders:
        name = _text(folder / "name")
        if name.startswith("package"):
            found.append(EnergyCounter(name, folder / "energy_uj", _number(folder / "max_energy_range_uj")))
            found[-1].read_uj()
    if not found:
        raise MeasurementError(
            f"this machine counts no energy: {root} has no RAPL package, as on ARM and in most virtual machines; measure without "
            "--energy"
        )
    return tuple(found)


def energy_of(
    run: Callable[[], None], counters: tuple[EnergyCounter, ...], clock: Clock, least_ms: float = LEAST_MS
) -> dict[str, Any]:
    """Runs something back to back and says what its packages used, as JSON values.

    Args:
        run: One inference.
        counters: From :func:`energy_counters`.
        clock: Tells how long it takes.
        least_ms: How long at least.

    Returns:
        ``energy_mj`` of one run, with the packages' mean power in milliwatts, the runs and the packages behind it.
    """
    before = [counter.read_uj() for counter in counters]
    start_ms = now_ms = clock.now_ms()
    runs = 0
    while runs < LEAST_RUNS or now_ms - start_ms < least_ms:
        run()
        runs += 1
        now_ms = clock.now_ms()
    used_uj = sum(counter.between_uj(first_uj, counter.read_uj()) for counter, first_uj in zip(counters, before, strict=True))
    if used_uj <= 0:
        raise MeasurementError("the energy counters stand still: the system shows them and does not count")
    return {
        "energy_mj": used_uj / runs / 1e3,
        "power_mw": used_uj / (now_ms - start_ms),
        "energy_runs": runs,
        "energy_of": [counter.name for counter in counters],
    }


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace").strip()
    except PermissionError as problem:
        raise MeasurementError(
            f"this user may not read {file}, as Linux leaves it to root; measure as root, or let it be read: chmod o+r {file}"
        ) from problem
    except OSError:
        return ""


def _number(file: Path) -> int:
    text = _text(file)
    if not text.isdecimal():
        raise MeasurementError(f"{file} holds '{text[:40]}', no number of microjoules")
    return int(text)
