"""An environment for workers on a machine that ssh reaches: a virtual environment with latcast as it is here, and runtimes.

latcast itself is carried: a wheel is made of the running package, without the shipped predictors. Its dependencies come from the
index that pip there uses, or are carried too, for a device without network.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from latcast.errors import MeasurementError, RuntimeFailure
from latcast.folders import cache_folder, made
from latcast.measure import messages
from latcast.measure.ssh import ENVIRONMENT, SshHost, last_error
from latcast.registry import nearest_names
from latcast.runtimes import RUNTIMES

LEAST_PYTHON = (3, 10)

MOST_GLIBC, LEAST_GLIBC = 60, 17
"""Minor versions of the GNU C library that wheels are named after (PEP 600)."""

_LEFT_OUT = ("devices/shipped/", "predictors/shipped/", "hub/static/", "spaces/graphs/kernels/", "spaces/nas/tables/")

_ASK = """
import json, os, platform, sys, sysconfig
try:
    import ensurepip, venv
    venv_there = True
except ImportError:
    venv_there = False
print(json.dumps({
    "version": list(sys.version_info[:3]), "machine": platform.machine(), "libc": list(platform.libc_ver()),
    "venv": venv_there, "implementation": sys.implementation.name,
}))
"""

_VERIFY = """
import json, sys
from latcast.measure.messages import code_id
from latcast.runtimes import get_runtime
found = {}
for name in sys.argv[1:]:
    runtime = get_runtime(name)
    reason = runtime.available()
    found[name] = {"version": None if reason else runtime.version(), "reason": reason}
print(json.dumps({"latcast": code_id(), "runtimes": found}))
"""


@dataclass(frozen=True)
class Prepared:
    """A device on which workers can run.

    Attributes:
        python: Version of the Python there.
        latcast: Its code: :func:`latcast.measure.messages.code_id`.
        runtimes: Runtime to the version of its library there.
        carried_bytes: Bytes that were sent.
    """

    address: str
    python: str
    latcast: str
    runtimes: Mapping[str, str]
    carried_bytes: int

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


def prepare(
    address: str,
    runtimes: Sequence[str] = ("onnxruntime",),
    *,
    python: str = "",
    carry: bool = False,
    wheels: Path | None = None,
    system_packages: bool = False,
    watch: Callable[[str, float], None] = lambda name, share: None,
) -> Prepared:
    """Make the environment on a device, or bring it up to date; after an interruption, it continues.

    Args:
        address: ``ssh://user@host``.
        runtimes: Names of the runtimes to install there.
        python: The interpreter there for the environment; empty for the ``python3`` on its path.
        carry: Whether to fetch the wheels here, by pip for the Python there, and carry them: for a device without network.
        wheels: A folder of wheels to carry instead of fetching any; other packages must be installed there.
        system_packages: Whether the environment sees packages of that Python (``apt install python3-numpy``).
        watch: Called at every step, with the share done from 0 to 1.

    Raises:
        UnknownNameError: No such runtime.
        MeasurementError: The address is malformed, the device has no fitting Python, or pip fails.
        RuntimeFailure: The device cannot be reached.
    """
    wanted = requirements(runtimes)
    host = SshHost.parse(address)
    if host.python:
        raise MeasurementError(
            f"'{address}' names a Python of your own, which is left alone; prepare {address.partition('?')[0]}"
        )
    host = replace(host, python=python)
    watch(f"asking {host.target}", 0.0)
    there = json.loads(_run(host, ["-c", _ASK], base=True))
    version = tuple(there["version"])
    if version < LEAST_PYTHON or there["implementation"] != "cpython":
        raise MeasurementError(
            f"{host.target} has {there['implementation']} {'.'.join(map(str, version))}; latcast needs CPython "
            f"{'.'.join(map(str, LEAST_PYTHON))} or later: name another with --python PATH"
        )
    if not there["venv"]:
        raise MeasurementError(f"the Python of {host.target} makes no environments; install there: apt install python3-venv")
    watch("making wheels", 0.1)
    name, wheel = latcast_wheel()
    files = {name: wheel}
    if carry and wheels is None:
        wheels = made(cache_folder() / "wheels" / f"{there['machine']}-cp{version[0]}{version[1]}")
        _fetch(wanted, wheels, version, there["machine"], there["libc"], host)
    if wheels is not None:
        found = sorted(wheels.glob("*.whl"))
        if not found:
            raise MeasurementError(f"found no wheels in {wheels}")
        files |= {file.name: file.read_bytes() for file in found}
    watch(f"carrying {sum(map(len, files.values())) / 1e6:.1f} MB", 0.3)
    _send(host, files)
    watch("making the environment", 0.5)
    # One process after the other: a board has little memory.
    options = ["--system-site-packages"] if system_packages else []
    _run(host, ["-m", "venv", *options, f"~/{ENVIRONMENT}"], base=True)
    folder = f"~/{ENVIRONMENT}/wheels"
    source = ["--no-index", "--find-links", folder] if wheels is not None else []
    pip = ["-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet", "--no-warn-script-location"]
    watch("installing latcast", 0.6)
    _run(host, [*pip, "--no-index", "--no-deps", "--force-reinstall", f"{folder}/{name}"])
    watch(f"installing {', '.join(runtimes)}", 0.7)
    _run(host, [*pip, *source, *wanted])
    watch("trying it", 0.95)
    tried = json.loads(_run(host, ["-c", _VERIFY, *runtimes]).splitlines()[-1])
    for runtime, state in tried["runtimes"].items():
        if state["reason"]:
            raise RuntimeFailure(f"{runtime} does not work on {host.target}: {state['reason']}")
    if tried["latcast"] != messages.code_id():
        raise RuntimeFailure(
            f"{host.target} has latcast {tried['latcast']} after {messages.code_id()} was installed; what is on its PYTHONPATH?"
        )
    return Prepared(
        address,
        ".".join(map(str, version)),
        tried["latcast"],
        {runtime: state["version"] for runtime, state in tried["runtimes"].items()},
        sum(map(len, files.values())),
    )


def requirements(runtimes: Sequence[str]) -> list[str]:
    """Return the packages that pip must install beside latcast for a worker of these runtimes.

    Raises:
        UnknownNameError: No such runtime.
        MeasurementError: latcast's own metadata are not here, or name no package for a runtime.
    """
    for runtime in runtimes:
        RUNTIMES.get(runtime)
    needed: list[str] = []
    optional: dict[str, list[tuple[str, str]]] = {}
    for line in _own_distribution().requires or ():
        requirement, _, marker = (part.strip() for part in line.partition(";"))
        extra = re.search(r"extra == ['\"]([^'\"]+)['\"]", marker)
        rest = re.sub(r"\s*(and\s+)?extra == ['\"][^'\"]+['\"]\s*", "", marker)
        text = f"{requirement} ; {rest}" if rest else requirement
        if extra is None:
            needed.append(text)
        elif not requirement.startswith("latcast"):
            package = re.split(r"[^A-Za-z0-9._-]", requirement)[0].lower()
            for key in {extra.group(1), package}:
                optional.setdefault(key, []).append((package, text))
    for runtime in runtimes:
        found = optional.get(runtime)
        if not found:
            near = nearest_names(runtime, sorted(optional))
            raise MeasurementError(f"no package is known for the runtime '{runtime}' (near: {', '.join(near)}); install it there")
        own = [text for package, text in found if package == runtime] or [text for _, text in found]
        needed += own
    return list(dict.fromkeys(needed))


def _own_distribution() -> Distribution:
    try:
        return distribution("latcast")
    except PackageNotFoundError as problem:
        raise MeasurementError("latcast is not installed here, so what it needs is not known; pip install it first") from problem


def latcast_wheel() -> tuple[str, bytes]:
    """Return a wheel of the running package without what only predicting needs: its file name and its content."""
    about = _own_distribution()
    version = about.version
    package = Path(__file__).resolve().parents[1]
    inside = f"latcast-{version}.dist-info"
    listed: list[str] = []
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as wheel:

        def add(name: str, data: bytes) -> None:
            wheel.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            listed.append(f"{name},sha256={digest},{len(data)}")

        for file in sorted(package.rglob("*")):
            name = file.relative_to(package).as_posix()
            if file.is_file() and "__pycache__" not in file.parts and not name.startswith(_LEFT_OUT):
                add(f"latcast/{name}", file.read_bytes())
        add(
            f"{inside}/METADATA",
            (about.read_text("METADATA") or f"Metadata-Version: 2.1\nName: latcast\nVersion: {version}\n").encode(),
        )
        add(f"{inside}/WHEEL", b"Wheel-Version: 1.0\nGenerator: latcast\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        add(f"{inside}/entry_points.txt", b"[console_scripts]\nlatcast = latcast.__main__:main\n")
        wheel.writestr(zipfile.ZipInfo(f"{inside}/RECORD"), "\n".join([*listed, f"{inside}/RECORD,,", ""]))
    return f"latcast-{version}-py3-none-any.whl", content.getvalue()


def wheel_platforms(machine: str, libc: Sequence[str]) -> list[str]:
    """Return the platform tags of wheels that fit a Linux machine, the newest first."""
    minor = re.fullmatch(r"2\.(\d+).*", libc[1]) if len(libc) > 1 and libc[0] == "glibc" else None
    if minor is None:
        return [f"musllinux_1_{level}_{machine}" for level in (2, 1)]
    newest = min(int(minor.group(1)), MOST_GLIBC)
    return [f"manylinux_2_{level}_{machine}" for level in range(newest, LEAST_GLIBC - 1, -1)] + [f"manylinux2014_{machine}"]


def _fetch(wanted: Sequence[str], folder: Path, version: Sequence[int], machine: str, libc: Sequence[str], host: SshHost) -> None:
    platforms = [part for tag in wheel_platforms(machine, libc) for part in ("--platform", tag)]
    command = [
        sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--dest", str(folder),
        "--find-links", str(folder), "--only-binary", ":all:", "--implementation", "cp",
        "--python-version", f"{version[0]}.{version[1]}", *platforms, *wanted,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MeasurementError(
            f"cannot fetch wheels for {host.target} ({machine}, Python {version[0]}.{version[1]}): {last_error(done.stderr)}"
        )


def _send(host: SshHost, files: Mapping[str, bytes]) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    folder = f'"$HOME/{ENVIRONMENT}/wheels"'
    host.run(f"rm -rf {folder} && mkdir -p {folder} && tar -xf - -C {folder}", packed.getvalue())


def _run(host: SshHost, arguments: Sequence[str], *, base: bool = False) -> str:
    """Run a script in a Python of the device, the prepared one or the one it is made from; return what it prints."""
    return host.run(host.python_script(arguments, prepared=not base))
