"""Shared libraries in C that benchmarks load into the processes that they measure."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from latcast.errors import MeasurementError


def compiled(source: Path, path: Path) -> Path:
    """Compile a C file to a shared library, unless the library is newer; return the library's absolute path.

    Raises:
        MeasurementError: No compiler, or one that fails.
    """
    path = path.resolve()
    if path.exists() and path.stat().st_mtime >= source.stat().st_mtime:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    command = [os.environ.get("CC", "cc"), "-O2", "-Wall", "-shared", "-fPIC", "-o", str(draft), str(source)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise MeasurementError(f"found no C compiler '{command[0]}'; install one, or name it by the variable CC") from None
    except subprocess.CalledProcessError as problem:
        raise MeasurementError(f"{source.name} could not be compiled: {problem.stderr.strip()}") from problem
    draft.replace(path)
    return path
