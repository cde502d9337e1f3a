"""The environment of a measurement: the machine, its software, the settings, and the moment.

The first three stay the same for a whole campaign and have an id, a hash of their content; the moment (time, load,
frequency, process) belongs to one measurement.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from latcast.records import device_name
from latcast.version import VERSION

SYS = Path("/sys")
PROCESSORS = Path("/proc/cpuinfo")

MOMENT = "moment"
"""Key of the part of an environment that differs from one measurement to the next."""

_REPORTED_PACKAGES = ("numpy", "onnx")
_REPORTED_VARIABLES = re.compile(
    r"^(OMP_|KMP_|GOMP_|OPENBLAS_|MKL_|ONEDNN_|DNNL_|OV_|ORT_|XNNPACK_|NCNN_|LD_PRELOAD$|MALLOC_|GLIBC_TUNABLES$)"
)


def _read(path: str | Path) -> str | None:
    """Read a small system file; None where it does not exist or cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def package_version(name: str) -> str | None:
    """Return the version of an installed distribution, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def affinity() -> tuple[int, ...]:
    """Return the numbers of the CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def siblings(cpu: int) -> str:
    """Return the CPUs that share a core with one, as Linux lists them; where it does not say, that one."""
    return _read(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") or str(cpu)


@cache
def cpu_description() -> Mapping[str, Any]:
    """Return the model and instruction sets of the CPU, as the kernel reports them.

    ARM kernels print numbers instead of a name: ``model`` then has the implementer and one part for each kind of core.
    """
    text = _read("/proc/cpuinfo") or ""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            values = found.setdefault(key.strip(), [])
            if value.strip() not in values:
                values.append(value.strip())
    names = found.get("model name") or found.get("Hardware")
    if not names and "CPU part" in found:
        names = [f"implementer {'/'.join(found.get('CPU implementer', ['?']))} part {'/'.join(found['CPU part'])}"]
    if not names:
        names = [platform.processor() or platform.machine()]
    flags = found.get("flags") or found.get("Features") or [""]
    return {
        "model": names[0],
        "flags": flags[0],
        "microcode": found["microcode"][0] if "microcode" in found else None,
        "caches_bytes": _caches(),
    }


def _caches() -> dict[str, int]:
    """Return the data caches of CPU 0 in bytes, by level ("L1d", "L2", "L3")."""
    sizes: dict[str, int] = {}
    for index in range(8):
        folder = f"/sys/devices/system/cpu/cpu0/cache/index{index}"
        level, kind, size = (_read(f"{folder}/{name}") for name in ("level", "type", "size"))
        if level is None or kind is None or size is None or kind == "Instruction":
            continue
        found = re.match(r"(\d+)([KMG]?)", size)
        if found:
            unit = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[found.group(2)]
            sizes[f"L{level}{'d' if kind == 'Data' else ''}"] = int(found.group(1)) * unit
    return sizes


def _cpu_quota() -> float | None:
    """Return the CPUs that a container may use at once by its cgroup's quota, or None without a limit."""
    modern = (_read("/sys/fs/cgroup/cpu.max") or "").split()
    if len(modern) == 2 and modern[0] != "max":
        return int(modern[0]) / int(modern[1])
    quota = _read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
    period = _read("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
    if quota and period and int(quota) > 0:
        return int(quota) / int(period)
    return None


def own_device_name(model_file: str = "/proc/device-tree/model", host: str = "") -> str:
    """Return this machine's name in shared platform ids: a board's model (``raspberry-pi-5-model-b``), else the host name."""
    model = (_read(model_file) or "").strip("\0")
    text = re.sub(r" rev\b.*", "", model.lower()) or (host or platform.node()).lower().partition(".")[0]
    return device_name(text) or "device"


def host_environment() -> dict[str, Any]:
    """Return the machine and its operating system; nothing in it names the machine or its user."""
    system = platform.uname()
    memory_kb = re.search(r"^MemTotal:\s+(\d+) kB", _read("/proc/meminfo") or "", re.MULTILINE)
    huge_pages = re.search(r"\[(.+?)\]", _read("/sys/kernel/mm/transparent_hugepage/enabled") or "")  # always [madvise] never
    virtual = []
    if " hypervisor " in f" {cpu_description()['flags']} ":
        virtual.append("hypervisor")
    product = _read("/sys/class/dmi/id/product_name")
    if product:
        virtual.append(product)
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        virtual.append("container")
    return {
        "cpu": dict(cpu_description()),
        "cpus": os.cpu_count(),
        "cpu_quota": _cpu_quota(),
        "memory_bytes": int(memory_kb[1]) * 1024 if memory_kb else None,
        "system": system.system,
        "kernel": system.release,
        "machine": system.machine,
        "virtualisation": virtual,
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "turbo_off": _read("/sys/devices/system/cpu/intel_pstate/no_turbo"),
        "transparent_hugepages": huge_pages[1] if huge_pages else None,
    }


def describe_environment(
    *, threads: int, cpus: Sequence[int] | None, packages: Sequence[str] = (), **settings: Any
) -> dict[str, Any]:
    """Return machine, software and settings of this process, as JSON values.

    Args:
        threads: Threads the runtime was asked for.
        cpus: CPUs the process was pinned to, or None where it was not.
        packages: Distributions to report the version of, besides latcast's own.
        settings: Further settings of the runs.
    """
    versions = {name: package_version(name) for name in (*_REPORTED_PACKAGES, *packages)}
    variables = {
        # Files without their folders, which say nothing about speed and may name a person.
        name: os.path.basename(value) if os.sep in value else value
        for name, value in sorted(os.environ.items())
        if _REPORTED_VARIABLES.match(name)
    }
    return {
        "host": host_environment(),
        "software": {
            "python": platform.python_version(),
            "latcast": VERSION,
            **{k: v for k, v in versions.items() if v is not None},
        },
        "settings": {
            "threads": threads,
            "cpus": None if cpus is None else list(cpus),
            "affinity": list(affinity()),
            "variables": variables,
            **settings,
        },
    }


def fixed_khz(cpus: Sequence[int], root: Path = SYS) -> int | None:
    """Return the one frequency that an administrator fixed all of these CPUs to; else None."""
    fixed = set()
    for cpu in cpus:
        folder = root / f"devices/system/cpu/cpu{cpu}/cpufreq"
        least, most, hardware_least, hardware_most = (
            _number(folder / name) for name in ("scaling_min_freq", "scaling_max_freq", "cpuinfo_min_freq", "cpuinfo_max_freq")
        )
        fixed.add(most if least == most and hardware_least != hardware_most else None)
    return fixed.pop() if len(fixed) == 1 else None


def frequency_mhz(cpus: Sequence[int], root: Path = SYS) -> float | None:
    """Return the mean frequency of some CPUs now, read from the system's frequency scaling; None where it has none."""
    readings = [_number(root / f"devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq") for cpu in cpus]
    known = [khz for khz in readings if khz]
    return sum(known) / len(known) / 1e3 if known else None


def stated_mhz(cpus: Sequence[int], processors: Path = PROCESSORS) -> float | None:
    """Return the mean frequency of some CPUs in the list of processors; all that a virtual machine shows."""
    found: dict[int, float] = {}
    number = -1
    for line in (_read(processors) or "").splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        if key == "processor" and value.isdigit():
            number = int(value)
        elif key == "cpu MHz" and re.fullmatch(r"\d+(\.\d+)?", value):
            found[number] = float(value)
    known = [found[cpu] for cpu in cpus if cpu in found]
    return sum(known) / len(known) if known else None


def _number(path: Path) -> int | None:
    text = _read(path) or ""
    return int(text) if text.isdecimal() else None


def describe_moment(cpus: Sequence[int] = (), frequencies_mhz: Sequence[float] = ()) -> dict[str, Any]:
    """Return load now, and the clock frequency of the CPUs: the given readings, or without any one taken now."""
    known = frequencies_mhz or [each for each in (frequency_mhz(cpus or (0,)) or stated_mhz(cpus or (0,)),) if each]
    return {
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "frequency_mhz": round(median(known), 3) if known else None,
        "frequency_range_mhz": [round(min(known), 3), round(max(known), 3)] if known else None,
        "process": os.getpid(),
    }


def utc_now() -> str:
    """Time of day in ISO 8601, UTC, to the millisecond; such texts sort as the times do."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def shifted(time_of_day: str, milliseconds: float) -> str:
    """Return a time of :func:`utc_now` so much later; any other text unchanged."""
    try:
        moment = datetime.fromisoformat(time_of_day.replace("Z", "+00:00")) + timedelta(milliseconds=milliseconds)
    except (ValueError, OverflowError):
        return time_of_day
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def environment_id(environment: Mapping[str, Any]) -> str:
    """Return a hash (16 hex digits) of an environment without its moment."""
    lasting = {key: value for key, value in environment.items() if key != MOMENT}
    text = json.dumps(lasting, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def resident_bytes() -> int:
    """Return the memory of this process in bytes; 0 where the system does not report it."""
    fields = (_read("/proc/self/statm") or "").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 else 0
