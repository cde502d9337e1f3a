"""The frequency that CPUs run at: read it, fix it, put it back as it was; Linux alone shows it (``cpufreq`` in /sys).

A fixed frequency makes latencies of a board repeat, and is part of its platform's id (``cpu1@1.5GHz``), for it is another
platform than the one whose governor chooses. What was set before is written to a file first, so that whatever interrupts the
setting, or the machine's user, :func:`release` puts it back.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from latcast.errors import LatcastError, MeasurementError
from latcast.folders import data_folder, made, replacing
from latcast.reading import read_json

SYS = Path("/sys")

PROCESSORS = Path("/proc/cpuinfo")

STEADY_GOVERNOR = "performance"
"""Stays at the upper limit, which is the lower one too where the frequency is fixed."""

_GOVERNOR, _LEAST, _MOST = "scaling_governor", "scaling_min_freq", "scaling_max_freq"
_SET = (_GOVERNOR, _LEAST, _MOST)

Write = Callable[[Path, str], None]


@dataclass(frozen=True)
class Clock:
    """What the system says of one CPU's clock; CPUs that change it together share one folder.

    Attributes:
        cpu: Its number.
        folder: Where its files are.
        governor: What chooses the frequency.
        khz: Frequency now; None where it is not shown.
        least_khz, most_khz: Limits that are set.
        hardware_khz: Limits of the hardware.
        listed_khz: Frequencies that there are; empty where any between the limits is.
        governors: Those that can be set.
    """

    cpu: int
    folder: Path
    governor: str
    khz: int | None
    least_khz: int
    most_khz: int
    hardware_khz: tuple[int, int]
    listed_khz: tuple[int, ...]
    governors: tuple[str, ...]

    @property
    def fixed_khz(self) -> int | None:
        """The frequency that somebody fixed it to; None where it may change, or never could."""
        least, most = self.hardware_khz
        return self.most_khz if self.least_khz == self.most_khz and least != most else None


def clocks(root: Path = SYS) -> tuple[Clock, ...]:
    """Those of the CPUs whose frequency the system can set, by number; none where it cannot."""
    folders = {
        int(folder.parent.name.removeprefix("cpu")): folder for folder in root.glob("devices/system/cpu/cpu[0-9]*/cpufreq")
    }
    found = (_clock(cpu, folder.resolve()) for cpu, folder in sorted(folders.items()))
    return tuple(clock for clock in found if clock is not None)


def _clock(cpu: int, folder: Path) -> Clock | None:
    least, most, hardware_least, hardware_most = (
        _number(folder / name) for name in (_LEAST, _MOST, "cpuinfo_min_freq", "cpuinfo_max_freq")
    )
    if least is None or most is None:
        return None
    listed = sorted(int(text) for text in _text(folder / "scaling_available_frequencies").split() if text.isdigit())
    return Clock(
        cpu,
        folder,
        _text(folder / _GOVERNOR),
        _number(folder / "scaling_cur_freq"),
        least,
        most,
        (hardware_least or least, hardware_most or most),
        tuple(listed),
        tuple(_text(folder / "scaling_available_governors").split()),
    )


def fixed_khz(cpus: Sequence[int], root: Path = SYS) -> int | None:
    """The one frequency that all of these CPUs are fixed to; None where they are not."""
    found = {clock.cpu: clock.fixed_khz for clock in clocks(root)}
    fixed = {found.get(cpu) for cpu in cpus}
    return fixed.pop() if len(fixed) == 1 else None


def frequency_mhz(cpus: Sequence[int], root: Path = SYS) -> float | None:
    """Mean frequency of some CPUs now, as the system's frequency scaling tells it; None where it does not."""
    readings = [_number(root / f"devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq") for cpu in cpus]
    known = [khz for khz in readings if khz]
    return sum(known) / len(known) / 1e3 if known else None


def stated_mhz(cpus: Sequence[int], processors: Path = PROCESSORS) -> float | None:
    """Mean frequency of some CPUs as the list of processors states it: all that a virtual machine tells."""
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
    """As platform ids have it: ``1.5GHz``."""
    return f"{round(khz / 1e6, 3):g}GHz"


def parse_frequency(text: str) -> int:
    """``1.5GHz``, ``1500MHz`` or ``1500000`` (kHz) in kHz.

    Raises:
        MeasurementError: It is none of these.
    """
    found = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)\s*(ghz|mhz|khz)?", text.strip().lower())
    khz = round(float(found[1]) * {"ghz": 1e6, "mhz": 1e3}.get(found[2] or "", 1.0)) if found else 0
    if not 10_000 <= khz <= 20_000_000:
        raise MeasurementError(f"'{text}' is no frequency of a CPU; expected 1.5GHz, 1500MHz or 1500000 (kHz)")
    return khz


def kept_file() -> Path:
    """Where what was set before is kept until it is put back."""
    return data_folder() / "clocks.json"


def write_directly(path: Path, text: str) -> None:
    """Writes a system file as this user."""
    path.write_text(text, encoding="ascii")


def write_by_sudo(path: Path, text: str) -> None:
    """Writes a system file through ``sudo``, which must not ask for a password.

    Raises:
        PermissionError: It asks, or is not there.
    """
    try:
        done = subprocess.run(["sudo", "-n", "tee", str(path)], input=text.encode(), capture_output=True, check=False)
    except OSError as problem:
        raise PermissionError(f"sudo: {problem.strerror}") from problem
    if done.returncode != 0:
        raise PermissionError(" ".join(done.stderr.decode(errors="replace").split()))


def pin(
    khz: int | None = None,
    cpus: Sequence[int] | None = None,
    *,
    root: Path = SYS,
    kept: Path | None = None,
    write: Write = write_directly,
) -> tuple[Clock, ...]:
    """Fixes the frequency of some CPUs, and of those that change it together with them.

    Where it fails half-way, or is interrupted, everything is put back.

    Args:
        khz: None for the highest that they have in common.
        cpus: Their numbers; None for all.
        root: What stands for /sys.
        kept: The file for what was set before; a second call leaves what the first wrote there.
        write: How system files are written.

    Returns:
        The clocks as they are then.

    Raises:
        MeasurementError: The system sets no frequencies, there is no such CPU or frequency, or it does not take it.
        LatcastError: This user may not set it.
    """
    chosen = _chosen(cpus, root)
    if khz is None:
        khz = min(clock.hardware_khz[1] for clock in chosen)
    for clock in chosen:
        least, most = clock.hardware_khz
        if not least <= khz <= most or (clock.listed_khz and khz not in clock.listed_khz):
            there = ", ".join(map(gigahertz, clock.listed_khz)) or f"{gigahertz(least)} to {gigahertz(most)}"
            raise MeasurementError(f"CPU {clock.cpu} does not run at {gigahertz(khz)}; it has {there}")
    kept = kept or kept_file()
    folders = {clock.folder: clock for clock in chosen}
    before = {
        str(folder): {_GOVERNOR: clock.governor, _LEAST: str(clock.least_khz), _MOST: str(clock.most_khz)}
        for folder, clock in folders.items()
    }
    _keep(kept, {**before, **_kept(kept)})
    try:
        for folder, clock in folders.items():
            if STEADY_GOVERNOR in clock.governors and clock.governor != STEADY_GOVERNOR:
                _set(folder / _GOVERNOR, STEADY_GOVERNOR, write)
            _set_limits(folder, khz, khz, write)
        done = _chosen(cpus, root)
        for clock in done:
            if (clock.least_khz, clock.most_khz) != (khz, khz):
                raise MeasurementError(
                    f"CPU {clock.cpu} was set to {gigahertz(khz)} and stays between {gigahertz(clock.least_khz)} and "
                    f"{gigahertz(clock.most_khz)}; its old setting was put back"
                )
    except BaseException:
        release(kept=kept, write=write)
        raise
    return done


def release(*, kept: Path | None = None, write: Write = write_directly) -> int:
    """Puts back what :func:`pin` changed; returns how many clocks that were, 0 where none is pinned.

    Raises:
        LatcastError: This user may not set it; it can be tried again.
    """
    kept = kept or kept_file()
    before = _kept(kept)
    for name, old in before.items():
        folder = Path(name)
        if folder.is_dir():
            _set_limits(folder, int(old[_LEAST]), int(old[_MOST]), write)
            _set(folder / _GOVERNOR, old[_GOVERNOR], write)
    kept.unlink(missing_ok=True)
    return len(before)


def _chosen(cpus: Sequence[int] | None, root: Path) -> tuple[Clock, ...]:
    found = clocks(root)
    if not found:
        raise MeasurementError("this machine has no frequency to set: its system shows no cpufreq, as most virtual machines do")
    known = {clock.cpu: clock for clock in found}
    for cpu in cpus or ():
        if cpu not in known:
            raise MeasurementError(f"there is no clock of a CPU {cpu}; there are those of {', '.join(map(str, known))}")
    return tuple(known[cpu] for cpu in cpus) if cpus else found


def _set_limits(folder: Path, least_khz: int, most_khz: int, write: Write) -> None:
    """Sets both limits in the order in which the lower never is above the upper, which the system refuses."""
    limits = [(_MOST, most_khz), (_LEAST, least_khz)]
    if most_khz < (_number(folder / _LEAST) or 0):
        limits.reverse()
    for name, khz in limits:
        _set(folder / name, str(khz), write)


def _set(path: Path, text: str, write: Write) -> None:
    if _text(path) == text:
        return
    try:
        write(path, text)
    except PermissionError as problem:
        said = str(problem) if problem.errno is None else "permission denied"
        raise LatcastError(
            f"cannot set {path} ({said}); do it as root, or with --sudo where sudo asks for no password"
        ) from problem
    except OSError as problem:
        raise MeasurementError(f"the system does not take '{text}' for {path}: {problem.strerror}") from problem


def _kept(file: Path) -> dict[str, dict[str, str]]:
    if not file.exists():
        return {}
    found = read_json(file, error=MeasurementError)
    try:
        before = {str(Path(folder)): {name: str(old[name]) for name in _SET} for folder, old in found["before"].items()}
        if all(int(old[_LEAST]) <= int(old[_MOST]) for old in before.values()):
            return before
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    raise MeasurementError(f"{file} is not what latcast wrote; set the governor by hand and remove it")


def _keep(file: Path, before: Mapping[str, Mapping[str, str]]) -> None:
    made(file.parent)
    with replacing(file) as draft:
        draft.write_text(json.dumps({"schema": 1, "before": before}, indent=1), encoding="utf-8")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isdecimal() else None
