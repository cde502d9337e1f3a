"""Workers that take the CPU for an older one: one machine as several.

For benchmarks alone. Runtimes choose kernels by what the CPUID instruction says, so a process that sees an older CPU runs other
kernels: another platform, on the same machine. It needs Linux on x86-64, a C compiler, and a CPU with the flag ``cpuid_fault``.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.native import compiled
from latcast.errors import MeasurementError

CAPS = ("sse42", "avx", "avx2", "avx512")
"""Newest instruction set that a capped worker sees, oldest first; ``avx512`` is without VNNI, bfloat16 and AMX."""

SOURCE = Path(__file__).parent / "cpuid_cap.c"

BUILT = Path(".latcast/bench/isa_caps/cpuid_cap.so")


def capped_variables(cap: str) -> dict[str, str]:
    """Return environment variables of a worker that sees no newer instruction set, for ``WorkerSettings.variables``.

    Raises:
        MeasurementError: No such cap, or this machine cannot be capped.
    """
    if cap not in CAPS:
        raise MeasurementError(f"found the cap '{cap}', expected one of {', '.join(CAPS)}")
    return {"LD_PRELOAD": str(built_library()), "CPUID_CAP": cap}


def built_library(path: Path = BUILT) -> Path:
    """Return the shared library that caps, compiled where its source is newer.

    Raises:
        MeasurementError: No compiler, or one that fails, or a CPU without ``cpuid_fault``.
    """
    if not can_cap():
        raise MeasurementError("this machine's CPU has no flag cpuid_fault, so that no process of it can be capped")
    return compiled(SOURCE, path)


def can_cap() -> bool:
    """Return whether this machine's CPU lets CPUID fault."""
    try:
        return "cpuid_fault" in Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    except OSError:
        return False
