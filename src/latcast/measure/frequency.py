"""Frequencies that CPUs run at, as Linux shows them (``cpufreq`` in /sys, ``/proc/cpuinfo``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

SYS = Path("/sys")

PROCESSORS = Path("/proc/cpuinfo")


def fixed_khz(cpus: Sequence[int], root: Path = SYS) -> int | None:
    """Return the one frequency that an administrator fixed all of these CPUs to; None where there is none."""
    fixed = set()
    for cpu in cpus:
        folder = root / f"devices/system/cpu/cpu{cpu}/cpufreq"
        least, most, hardware_least, hardware_most = (
            _number(folder / name) for name in ("scaling_min_freq", "scaling_max_freq", "cpuinfo_min_freq", "cpuinfo_max_freq")
        )
        fixed.add(most if least == most and hardware_least != hardware_most else None)
    return fixed.pop() if len(fixed) == 1 else None


def frequency_mhz(cpus: Sequence[int], root: Path = SYS) -> float | None:
    """Return the mean frequency of some CPUs now, read from the system's frequency scaling; None where it does not."""
    readings = [_number(root / f"devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq") for cpu in cpus]
    known = [khz for khz in readings if khz]
    return sum(known) / len(known) / 1e3 if known else None


def stated_mhz(cpus: Sequence[int], processors: Path = PROCESSORS) -> float | None:
    """Return the mean frequency of some CPUs as the list of processors states it; all that a virtual machine shows."""
    found: dict[int, float] = {}
    number = -1
    for line in _text(processors).splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        if key == "processor" and value.isdigit():
            number = int(value)
        elif key == "cpu MHz" and re.fullmatch(r"\d+(\.\d+)?", value):
            found[number] = float(value)
    known = [found[cpu] for cpu in cpus if cpu in found]
    return sum(known) / len(known) if known else None


def gigahertz(khz: int) -> str:
    """Format a frequency as platform ids do: ``1.5GHz``."""
    return f"{round(khz / 1e6, 3):g}GHz"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isdecimal() else None
