"""A phone reached by ``adb``: commands, files, hardware facts, and its state.

Nothing is installed on the phone and nothing needs root: all happens in one folder of ``/data/local/tmp``, which is emptied when
the runtime is done.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from latcast.errors import RuntimeFailure
from latcast.runtimes.cores import Cores

SCHEME = "adb:"
"""Beginning of a phone's address."""

FOLDER = "/data/local/tmp/latcast"
"""The one place where the shell's user may write and start programs."""

COMMAND_TIMEOUT_S = 90.0
"""Longest command: a burst of a slow network, its loading included."""

RETURN_TIMEOUT_S = 30.0
"""Longest wait for a phone that went away."""

_ENDED = re.compile(r"^latcast-status=(\d+)\s*\Z", re.MULTILINE)

_GONE = re.compile(
    r"device '.*' not found|no devices/emulators found|device offline|device still |error: closed|protocol fault"
    r"|cannot connect to daemon|connection reset|device not found"
)
"""adb's messages about a phone that it cannot reach, or no longer."""

_UNTOLD = re.compile(r"unauthorized|no permissions|more than one device")

_CPU_FILES = "/sys/devices/system/cpu/cpu[0-9]*/"

PROPERTIES = (
    "ro.product.manufacturer", "ro.product.model", "ro.soc.model", "ro.board.platform", "ro.hardware.egl",
    "ro.build.version.release", "ro.product.cpu.abi",
)  # fmt: skip
"""Android's properties that describe the hardware, not the owner."""

_FACTS = f"""getprop
echo "kernel $(uname -r)"
dumpsys SurfaceFlinger 2>/dev/null | grep -m 1 GLES:
grep -H '' {_CPU_FILES}cpu_capacity {_CPU_FILES}cpufreq/cpuinfo_max_freq 2>/dev/null
true"""

_STATE = f"""grep -H '' {_CPU_FILES}cpufreq/scaling_cur_freq {_CPU_FILES}cpufreq/scaling_max_freq \
{_CPU_FILES}cpufreq/cpuinfo_max_freq 2>/dev/null
dumpsys thermalservice 2>/dev/null | grep -m 1 'Thermal Status:'
true"""
"""Read after a burst, in the same command: the governor keeps the clock for some milliseconds."""

_PROPERTY = re.compile(r"\[(\S+)\]: \[(.*)\]")
_OF_CPU = re.compile(r".*/cpu(\d+)/(?:cpufreq/)?(\w+):(\d+)")


class PhoneGone(RuntimeFailure):
    """The phone cannot be reached, or not any more."""


@dataclass(frozen=True)
class PhoneFacts:
    """The hardware facts of a phone.

    Attributes:
        properties: Android's, by name.
        kernel: Version.
        gles: OpenGL ES's name of the GPU: "Qualcomm, Adreno (TM) 640, OpenGL ES 3.2 V@0502.0"; empty where hidden.
        cores: Its CPUs by kind.
    """

    properties: Mapping[str, str]
    kernel: str
    gles: str
    cores: Cores

    @property
    def model(self) -> str:
        return self.properties.get("ro.product.model", "")

    def to_json(self) -> dict[str, object]:
        """Return the facts for a record's environment, without serial number or anything of the user."""
        known = {name.removeprefix("ro."): value for name, value in self.properties.items()}
        return {**known, "kernel": self.kernel, "gpu": self.gles, "cores": str(self.cores)}


@dataclass(frozen=True)
class PhoneState:
    """The heat and the clocks of a phone at a moment; None where it does not report them.

    Attributes:
        thermal_status: Android's, from 0 (none) over 1 (light) to 6 (shutdown).
        clocks_mhz: CPU to its clock now.
        limits: CPU to the share of its highest clock that it may have now.
    """

    thermal_status: int | None = None
    clocks_mhz: Mapping[int, float] = field(default_factory=dict)
    limits: Mapping[int, float] = field(default_factory=dict)

    def clock_mhz(self, cpus: Sequence[int]) -> float | None:
        """Return the mean clock of some CPUs, of all where none is named."""
        known = [clock for cpu, clock in self.clocks_mhz.items() if not cpus or cpu in cpus]
        return sum(known) / len(known) if known else None

    def limit(self, cpus: Sequence[int]) -> float | None:
        """Return the smallest share of their highest clock that some CPUs may have, all where none is named."""
        return min((limit for cpu, limit in self.limits.items() if not cpus or cpu in cpus), default=None)


class Adb:
    """One phone, by its serial number in ``adb devices`` (empty for the only one); the variable ``ADB`` names another adb."""

    def __init__(self, serial: str = "", executable: str = "") -> None:
        self.serial = serial
        self._adb = [executable or os.environ.get("ADB", "adb"), *(["-s", serial] if serial else [])]

    def check(self) -> None:
        """Raise a RuntimeFailure, with what to do, if the phone is not there or takes no commands."""
        state = self._call("get-state", timeout_s=COMMAND_TIMEOUT_S).strip()
        if state != "device":
            raise PhoneGone(f"the phone {self.serial} is in the state '{state}'; expected 'device': restart it as usual")

    def shell(self, command: str, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
        """Run a command on the phone; return what it prints, errors included.

        Raises:
            PhoneGone: The phone went away meanwhile.
            RuntimeFailure: The command failed or took too long; the message ends with what it printed last.
        """
        # Phones before Android 7 do not hand the status on, and a link that breaks leaves none.
        printed = self._call("shell", f"( {command}\n) 2>&1 < /dev/null; echo latcast-status=$?", timeout_s=timeout_s)
        printed = printed.replace("\r\n", "\n")
        ended = _ENDED.search(printed)
        if ended is None:
            raise PhoneGone(f"the link to the phone {self.serial} broke while it ran a command")
        output = printed[: ended.start()]
        if ended[1] != "0":
            raise RuntimeFailure(f"the phone's command ended with status {ended[1]}: {_last_words(output)}")
        return output

    def push(self, files: Mapping[str, bytes], folder: str) -> None:
        """Write files into a folder of the phone; raises as :meth:`shell` does."""
        with tempfile.TemporaryDirectory(prefix="latcast-adb-") as place:
            for name, data in files.items():
                Path(place, name).write_bytes(data)
            self.push_files([Path(place, name) for name in files], folder)

    def push_files(self, files: Sequence[Path], folder: str) -> None:
        """Copy files of this machine into a folder of the phone."""
        self._call("push", *(str(file) for file in files), f"{folder}/")

    def pull(self, path: str) -> bytes:
        """Return the content of one of the phone's files."""
        with tempfile.TemporaryDirectory(prefix="latcast-adb-") as place:
            self._call("pull", path, str(Path(place, "file")))
            return Path(place, "file").read_bytes()

    def wait(self) -> bool:
        """Wait for a phone that went away; return whether it came back."""
        deadline = time.monotonic() + RETURN_TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                self.check()
                return True
            except PhoneGone:
                time.sleep(0.5)
        return False

    def facts(self) -> PhoneFacts:
        """Read the phone's hardware facts."""
        return read_facts(self.shell(_FACTS))

    def state(self) -> PhoneState:
        """Read the phone's state."""
        return read_state(self.shell(_STATE))

    def run(self, command: str, timeout_s: float = COMMAND_TIMEOUT_S) -> tuple[str, PhoneState]:
        """Run a command; return what it prints, and the phone's state right after it."""
        marker = "latcast-state"
        output = self.shell(f"{command} || exit $?\necho {marker}\n{_STATE}", timeout_s)
        printed, _, state = output.rpartition(f"{marker}\n")
        return printed, read_state(state)

    def _call(self, *arguments: str, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
        try:
            done = subprocess.run([*self._adb, *arguments], capture_output=True, timeout=timeout_s, stdin=subprocess.DEVNULL)
        except FileNotFoundError:
            raise RuntimeFailure(missing_adb(self._adb[0])) from None
        except subprocess.TimeoutExpired:
            raise RuntimeFailure(f"the phone took more than {timeout_s:g} s for: adb {arguments[0]}") from None
        printed = done.stdout.decode("utf-8", errors="replace")
        said = done.stderr.decode("utf-8", errors="replace").strip()
        if done.returncode == 0:
            return printed
        if _GONE.search(said):
            raise PhoneGone(
                f"no phone '{self.serial}' answers ({_last_words(said)}); connect it with USB debugging on: adb devices lists it"
            )
        if _UNTOLD.search(said):
            raise RuntimeFailure(
                f"adb may not use the phone: {_last_words(said)}; allow USB debugging on its screen, or name one: {SCHEME}SERIAL"
            )
        if arguments[0] == "shell" and not said:
            return printed
        raise RuntimeFailure(f"adb {arguments[0]} failed: {_last_words(said or printed)}")


def missing_adb(executable: str) -> str:
    """Return the message for a machine without adb."""
    return (
        f"'{executable}' is not installed here; it is part of the Android SDK Platform-Tools "
        "(Debian: apt install adb), or the variable ADB names it"
    )


def folder_name() -> str:
    """Return a folder of the phone that no other run uses; its name holds machine and process."""
    return f"{FOLDER}-{_machine()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


def left_behind(folders: Sequence[str]) -> list[str]:
    """Return the folders of this machine's processes that ended without removing them."""
    found = []
    for folder in folders:
        owner = re.fullmatch(rf"{re.escape(FOLDER)}-{_machine()}-(\d+)-[0-9a-f]{{8}}", folder)
        if owner is not None:
            try:
                os.kill(int(owner[1]), 0)
            except ProcessLookupError:
                found.append(folder)
            except OSError:
                continue  # another user's process
    return found


def _machine() -> str:
    return hashlib.sha256(str(uuid.getnode()).encode()).hexdigest()[:8]


def quoted(*words: str) -> str:
    """Return words as the phone's shell takes them."""
    return " ".join(shlex.quote(word) for word in words)


def read_facts(printed: str) -> PhoneFacts:
    """Parse what :meth:`Adb.facts` asks a phone for."""
    lines = [line.strip() for line in printed.splitlines()]
    said = {found[1]: found[2] for line in lines if (found := _PROPERTY.fullmatch(line))}
    figures = _of_cpus(lines)
    capacities, clocks = figures.get("cpu_capacity", {}), figures.get("cpuinfo_max_freq", {})
    return PhoneFacts(
        {name: said[name] for name in PROPERTIES if said.get(name)},
        next((line.partition(" ")[2] for line in lines if line.startswith("kernel ")), ""),
        next((line.partition("GLES:")[2].strip() for line in lines if line.startswith("GLES:")), ""),
        # A CPU that is off may hide its capacity, so the figure that more of them report counts.
        Cores.of_speeds(capacities if len(capacities) >= len(clocks) else clocks),
    )


def read_state(printed: str) -> PhoneState:
    """Parse what :meth:`Adb.state` asks a phone for."""
    lines = [line.strip() for line in printed.splitlines()]
    figures = _of_cpus(lines)
    most = figures.get("cpuinfo_max_freq", {})
    limits = {cpu: limit / most[cpu] for cpu, limit in figures.get("scaling_max_freq", {}).items() if most.get(cpu)}
    status = next((int(found[1]) for line in lines if (found := re.fullmatch(r"Thermal Status: (\d+)", line))), None)
    return PhoneState(status, {cpu: khz / 1e3 for cpu, khz in figures.get("scaling_cur_freq", {}).items()}, limits)


def _of_cpus(lines: Sequence[str]) -> dict[str, dict[int, float]]:
    """Parse lines of ``/sys`` files: the file's name to its figure for each CPU."""
    found: dict[str, dict[int, float]] = {}
    for line in lines:
        if told := _OF_CPU.fullmatch(line):
            found.setdefault(told[2], {})[int(told[1])] = float(told[3])
    return found


def _last_words(text: str) -> str:
    """Return the last two lines that say something, on one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines[-2:])[-300:] or "it printed nothing"
