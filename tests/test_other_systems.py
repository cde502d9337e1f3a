"""Windows and macOS, as far as Linux can stand for them: everything is imported, and what predicts works.

A process loads the libraries first, whose own code for another system is not what is tested; then what only POSIX, or only Linux,
has is taken away, latcast is imported anew, and its commands run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = r"""
import importlib, json, os, pkgutil, signal, sys

system, folder, *commands = sys.argv[1:]
os.environ.update(LATCAST_HOME=folder, XDG_CACHE_HOME=folder)
os.chdir(folder)
commands = [json.loads(each) for each in commands]

def run_all():
    from latcast.cli.main import run
    return [run(each) for each in commands]

def every_module():
    import latcast
    for found in pkgutil.walk_packages(latcast.__path__, "latcast."):
        if not found.name.endswith(("__main__", ".env")) and ".migrations" not in found.name:
            yield found.name

def imported(names):
    problems = {}
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as problem:
            problems[name] = f"{type(problem).__name__}: {problem}"
    return problems

here = imported(every_module())
run_all()
for name in [name for name in sys.modules if name.partition(".")[0] == "latcast"]:
    del sys.modules[name]

LINUX_ALONE = {"sched_setaffinity", "sched_getaffinity", "sched_setscheduler", "sched_param", "sched_getparam", "SCHED_FIFO",
               "SCHED_OTHER", "pipe2", "memfd_create", "posix_fadvise"}
POSIX_ALONE = {"fork", "forkpty", "getuid", "geteuid", "getgid", "getegid", "getpgid", "setsid", "setpgid", "killpg",
               "getloadavg", "sysconf", "uname", "mkfifo", "chown", "fchown", "fchmod", "nice", "getpriority", "wait3", "wait4",
               "sync",
               "get_blocking", "set_blocking", "openpty", "statvfs", "O_NONBLOCK", "O_CLOEXEC", "WNOHANG"}
KEPT_SIGNALS = {"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM"}
for name in LINUX_ALONE | (POSIX_ALONE if system == "win32" else set()):
    if hasattr(os, name):
        delattr(os, name)
if system == "win32":
    for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "posix"):
        sys.modules[name] = None
    for name in [name for name in vars(signal) if name.startswith("SIG") and "_" not in name]:
        if name not in KEPT_SIGNALS:
            delattr(signal, name)
real_open = open
def without_proc(file, *arguments, **options):
    if str(file).startswith(("/proc/", "/sys/")):
        raise FileNotFoundError(2, "No such file or directory", str(file))
    return real_open(file, *arguments, **options)
import builtins, io
builtins.open = io.open = without_proc
sys.platform = system

there = imported(every_module())
print(json.dumps({"problems": {name: problem for name, problem in there.items() if name not in here}, "count": len(there),
                  "codes": run_all()}), file=sys.stderr)
"""

ON = ("--on", "pixel4/tflite-2.10/gpu/fp16")


PREDICTING = (
    ("predict", "squeezenet1_1", *ON, "--json"),
    ("compare", "squeezenet1_1", "squeezenet1_0", *ON),
    ("check", "squeezenet1_1", "--against", "squeezenet1_0", *ON),
    ("choose", *ON, "--max-ms", "20"),
)

MEASURING = ("measure", "squeezenet1_1", "--rounds", "1", "--runs-per-round", "1", "--warmup-runs", "0", "--json")


def on(system: str, folder: Path, *commands: tuple[str, ...]) -> tuple[dict[str, Any], str, str]:
    """What the script found, and what it printed."""
    arguments = [system, str(folder), *(json.dumps(command) for command in commands)]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *others, found = done.stderr.splitlines()
    return json.loads(found), done.stdout, "\n".join(others)


@pytest.mark.slow
def test_on_macos_predicting_needs_nothing_that_linux_alone_has(tmp_path: Path) -> None:
    found, printed, said = on("darwin", tmp_path, *PREDICTING)
    assert found["problems"] == {}
    assert found["codes"] == [0, 0, 0, 0], said
    assert printed[: len(printed) // 2] == printed[len(printed) // 2 :], "the same answers as here"


def test_on_windows_predicting_works_and_measuring_is_refused_with_the_reason(tmp_path: Path) -> None:
    found, printed, said = on("win32", tmp_path, *PREDICTING[:3], MEASURING)
    assert found["problems"] == {}
    assert found["codes"] == [0, 0, 0, 1], said
    here = printed[: printed.index('"measurements"')]
    assert printed.endswith(here[: here.rindex("{")]), "the same answers as here"
    refusal = said.splitlines()[-1]
    assert refusal.startswith("latcast: measuring does not work on Windows")
    assert "WSL" in refusal
