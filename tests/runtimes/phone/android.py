"""A double of a phone: ``adb`` and the tools for Android as programs, whose work is done by runtimes of this machine.

``adb`` is a program of its own that asks a server, as the real one does. The server runs the commands of ``shell`` with a real
shell in a folder that stands for the phone's file system; of Android's own commands it has those that latcast calls. A tool, once
it was pushed there and made executable, asks the same server to run its network, and prints what the real tool prints.
"""

from __future__ import annotations

import marshal
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.runtimes.phone.tools import ToolFailed, run_tool

SERIAL = "0123456789ABCDEF"

PROGRAMS = ("benchmark_model", "benchncnn", "MNNV2Basic.out", "onnxruntime_perf_test")

CAPACITIES = (230, 230, 230, 230, 801, 801, 801, 1024)
CLOCKS_KHZ = (1766400, 1766400, 1766400, 1766400, 2419200, 2419200, 2419200, 2841600)

PROPERTIES = {
    "ro.product.manufacturer": "Google", "ro.product.model": "Pixel 4", "ro.soc.model": "SM8150", "ro.board.platform": "msmnile",
    "ro.hardware.egl": "adreno", "ro.build.version.release": "13", "ro.product.cpu.abi": "arm64-v8a",
    "ro.serialno": SERIAL, "gsm.operator.alpha": "Operator",
}  # fmt: skip

_CLIENT = """#!{python} -ISE
import _socket, marshal, posix, sys
link = _socket.socket(_socket.AF_UNIX)
link.connect({address!r})
variables = [each.decode() for pair in posix.environ.items() for each in pair]
link.sendall(marshal.dumps([{role!r}, sys.argv, posix.getcwd(), variables]))
link.shutdown(_socket.SHUT_WR)
answer = b""
while part := link.recv(65536):
    answer += part
printed, said, status = marshal.loads(answer)
sys.stdout.write(printed)
sys.stderr.write(said)
sys.stdout.flush()
sys.stderr.flush()
posix._exit(status)
"""
"""Starts in a hundredth of a second, as it imports what is built in alone."""


@dataclass
class Android:
    """A phone that is plugged in. A context manager.

    Attributes:
        folder: Holds everything.
        slowdown: What tools' times are multiplied by.
        status: Android's thermal status; None where the phone has no such service.
        calls: What adb was asked, in order.
        cores: Masks that ``taskset`` was given.
        gone: How many further calls of adb find no phone.
        break_after: The link breaks during the call of ``shell`` after so many.
        modern: Whether ``shell`` hands the command's status on, as it does since Android 7.
    """

    folder: Path
    slowdown: float = 1.0
    status: int | None = 0
    calls: list[tuple[str, ...]] = field(default_factory=list)
    cores: list[str] = field(default_factory=list)
    gone: int = 0
    break_after: int | None = None
    modern: bool = True
    overrides: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Android:
        self.root = self.folder / "phone"
        self.bin = self.folder / "bin"
        self.tools = self.folder / "tools"
        for place in (self.root / "data/local/tmp", self.bin, self.tools, self.root / "system/bin"):
            place.mkdir(parents=True)
        self.address = str(self.folder / "s")
        self._client(self.bin / "adb", "adb")
        for name in ("getprop", "dumpsys", "taskset"):
            self._client(self.root / "system/bin" / name, name)
        for name in PROGRAMS:
            self._client(self.tools / name, name)
            (self.tools / name).chmod(0o644)  # as a browser saves it; pushed files are made executable on the phone
        (self.tools / "versions.txt").write_text(
            "benchmark_model 2.17.0\nbenchncnn 20261020\nMNNV2Basic.out 3.6.1\nonnxruntime_perf_test 1.31.1\n"
        )
        for number, (capacity, clock) in enumerate(zip(CAPACITIES, CLOCKS_KHZ, strict=True)):
            cpu = self.root / f"sys/devices/system/cpu/cpu{number}"
            (cpu / "cpufreq").mkdir(parents=True)
            (cpu / "cpu_capacity").write_text(f"{capacity}\n")
            for name in ("scaling_cur_freq", "scaling_max_freq", "cpuinfo_max_freq"):
                (cpu / "cpufreq" / name).write_text(f"{clock}\n")
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(self.address)
        self._server.listen()
        self._serving = threading.Thread(target=self._serve, daemon=True)
        self._serving.start()
        return self

    def __exit__(self, *of: object) -> None:
        # A thread that still accepts would do so for the next double, whose socket may get the number of this one.
        self._server.shutdown(socket.SHUT_RDWR)
        self._serving.join()
        self._server.close()

    def limit_clocks(self, share: float) -> None:
        """What the phone's thermal engine does to the CPUs."""
        for number, clock in enumerate(CLOCKS_KHZ):
            for name in ("scaling_cur_freq", "scaling_max_freq"):
                (self.root / f"sys/devices/system/cpu/cpu{number}/cpufreq" / name).write_text(f"{int(share * clock)}\n")

    def _client(self, path: Path, role: str) -> None:
        path.write_text(_CLIENT.format(python=sys.executable, address=self.address, role=role))
        path.chmod(0o755)

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(link,), daemon=True).start()

    def _answer(self, link: socket.socket) -> None:
        with link:
            asked = b""
            while part := link.recv(65536):
                asked += part
            role, arguments, folder, told = marshal.loads(asked)
            variables = dict(zip(told[::2], told[1::2], strict=True))
            try:
                answer = self._do(role, arguments[1:], Path(folder), variables)
            except Exception as problem:
                answer = ("", f"the double failed: {problem!r}\n", 70)
            link.sendall(marshal.dumps(answer))

    def _do(self, role: str, words: Sequence[str], folder: Path, variables: Mapping[str, str]) -> tuple[str, str, int]:
        if role == "adb":
            return self._adb(words)
        if role == "getprop":
            return "".join(f"[{name}]: [{value}]\n" for name, value in PROPERTIES.items()), "", 0
        if role == "dumpsys":
            return self._dumpsys(words[0])
        if role == "taskset":
            cpus = [number for number in range(len(CAPACITIES)) if int(words[0], 16) >> number & 1]
            if not cpus or int(words[0], 16) >> len(CAPACITIES):
                return "", f"taskset: failed to set pid's affinity: Invalid argument ({words[0]})\n", 1
            self.cores.append(words[0])
            done = subprocess.run(list(words[1:]), cwd=folder, env=dict(variables), capture_output=True, text=True)
            return done.stdout, done.stderr, done.returncode
        try:
            return self.overrides.get(role) or run_tool(role, words, folder, self.slowdown), "", 0
        except ToolFailed as problem:
            return problem.printed, f"{problem}\n", 1

    def _dumpsys(self, service: str) -> tuple[str, str, int]:
        if service == "SurfaceFlinger":
            return "Build configuration: [sf]\nGLES: Qualcomm, Adreno (TM) 640, OpenGL ES 3.2 V@0502.0\n", "", 0
        if service == "thermalservice" and self.status is not None:
            shown = f"IsStatusOverride: false\nThermal Status: {self.status}\nCached temperatures:\n"
            return shown + "\tTemperature{mValue=31.2, mType=3, mName=skin, mStatus=0}\n", "", 0
        return "", f"Can't find service: {service}\n", 0

    def _adb(self, words: Sequence[str]) -> tuple[str, str, int]:
        words = list(words)
        serial = ""
        if words[:1] == ["-s"]:
            serial, words = words[1], words[2:]
        self.calls.append(tuple(words))
        if words == ["devices"]:
            return f"List of devices attached\n{SERIAL}\tdevice\n\n", "", 0
        if self.gone > 0 or serial not in ("", SERIAL):
            self.gone -= 1
            return "", f"error: device '{serial}' not found\n", 1
        if words == ["get-state"]:
            return "device\n", "", 0
        if words[0] == "shell":
            if self.break_after is not None:
                self.break_after -= 1
                if self.break_after < 0:
                    self.break_after, self.gone = None, 2
                    return "INFO: STARTING!\n", "", 255
            return self._shell(" ".join(words[1:]))
        if words[0] == "push":
            return self._push(words[1:-1], words[-1])
        if words[0] == "pull":
            source = self._inside(words[1])
            if not source.is_file():
                return "", f"adb: error: failed to stat remote object '{words[1]}': No such file or directory\n", 1
            shutil.copyfile(source, words[2])
            return f"{words[1]}: 1 file pulled, 0 skipped. 21.0 MB/s ({source.stat().st_size} bytes in 0.001s)\n", "", 0
        return "", f"adb: unknown command {words[0]}\n", 1

    def _inside(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def _push(self, sources: Sequence[str], target: str) -> tuple[str, str, int]:
        place = self._inside(target)
        if target.endswith("/") and not place.is_dir():
            return "", f"adb: error: target '{target}' is not a directory\n", 1
        if not target.startswith("/data/local/tmp/") or not place.parent.is_dir():
            return "", f"adb: error: failed to copy: remote couldn't create file: Permission denied ({target})\n", 1
        for source in sources:
            copied = place / Path(source).name if target.endswith("/") else place
            shutil.copyfile(source, copied)
            copied.chmod(0o644)
        return f"{len(sources)} file{'s' * (len(sources) > 1)} pushed, 0 skipped. 30.1 MB/s (1 bytes in 0.001s)\n", "", 0

    def _shell(self, command: str) -> tuple[str, str, int]:
        moved = re.sub(r"(?<![\w/])/(data/local/tmp|sys/devices)", lambda found: f"{self.root}/{found[1]}", command)
        path = os.pathsep.join([str(self.root / "system/bin"), "/bin", "/usr/bin"])
        done = subprocess.run(["/bin/sh", "-c", moved], capture_output=True, text=True, env={"PATH": path}, cwd=self.root)
        printed = done.stdout.replace(str(self.root), "")
        return printed, done.stderr.replace(str(self.root), ""), done.returncode if self.modern else 0


def settings(android: Android) -> dict[str, Any]:
    """Environment variables with which latcast finds the double."""
    return {"ADB": str(android.bin / "adb"), "LATCAST_ANDROID_TOOLS": str(android.tools), "LATCAST_DEVICE": f"adb:{SERIAL}"}
