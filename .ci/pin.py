"""Turns pip's resolution report (standard input) into the lines of constraints.txt (standard output)."""

from __future__ import annotations

import json
import sys
from typing import Any

OLDEST_PYTHON = (3, 10)

HEADER = """\
# The versions latcast is tested with, on Python {python}. Every install of the Makefile keeps to them.
# Written by `make constraints`, not by hand. A marker stands where a version is for newer Pythons only.
"""


def marker(requires_python: str) -> str:
    """Return the environment marker of a version that the oldest supported Python cannot install, or nothing."""
    for clause in requires_python.split(","):
        if clause.strip().startswith(">="):
            lowest = clause.strip()[2:].strip()
            if tuple(int(part) for part in lowest.split(".")[:2]) > OLDEST_PYTHON:
                return f' ; python_version >= "{lowest}"'
    return ""


def pins(report: dict[str, Any]) -> list[str]:
    """One line a package, sorted by name; the project itself is left out, and so are local version labels."""
    lines = {}
    for item in report["install"]:
        metadata = item["metadata"]
        if metadata["name"] != "latcast":
            public_version = metadata["version"].partition("+")[0]
            line = f"{metadata['name']}=={public_version}{marker(metadata.get('requires_python', ''))}"
            lines[metadata["name"].lower().replace("_", "-")] = line
    return [lines[name] for name in sorted(lines)]


if __name__ == "__main__":
    resolved = json.load(sys.stdin)
    python = resolved["environment"]["python_version"]
    sys.stdout.write(HEADER.format(python=python) + "".join(f"{line}\n" for line in pins(resolved)))
