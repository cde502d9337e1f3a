"""The files of ``benchmarks/results``: what a benchmark found, with the commit, the date, the command and the machine.

One file is one run: ``{"commit", "date", "command", "machine": {"model", "flags"}, "data"}``. A benchmark that is run in parts,
such as a platform at a time, has a folder with a file for each part.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from latcast.environment import cpu_description

RESULTS = Path(__file__).parent / "results"

NOT_RECORDED = "not recorded"
"""Machine of results that were written before their files named it."""


def keep(name: str, data: Any, cpu: Mapping[str, Any] | None = None) -> Path:
    """Write what a benchmark found, in place of what the file held.

    Args:
        name: Of the file under :data:`RESULTS`, without suffix; a part of a benchmark is "benchmark/part".
        data: What it found.
        cpu: The processor that it measured on, where it is not this one's.
    """
    path = RESULTS / f"{name}.json"
    cpu = cpu or cpu_description()
    document = {
        "commit": _commit(), "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": shlex.join(["python", "-m", *_module_and_arguments()]),
        "machine": {"model": cpu["model"], "flags": cpu["flags"]}, "data": data,
    }  # fmt: skip
    return write_json(path, document)


def write_json(path: Path, document: Any) -> Path:
    """Write a JSON file in place of the one there, which stays whole if this is cut off."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    draft.replace(path)
    return path


def kept(name: str) -> Any:
    """Read what a benchmark found last.

    Raises:
        FileNotFoundError: It was not run yet.
    """
    return read_document(RESULTS / f"{name}.json")["data"]


def kept_parts(folder: str) -> dict[str, Any]:
    """Read what a benchmark found by part, in the order of their names; empty if none was run yet."""
    return {
        path.stem: read_document(path)["data"] for path in sorted((RESULTS / folder).glob("*.json"), key=lambda path: path.stem)
    }


def kept_runs(folder: str) -> dict[str, Any]:
    """Read what a benchmark found by part as :func:`kept_parts` does, each with its ``run``: machine, date and commit.

    A machine that the part itself names stands in place of the processor's own name, which says less.
    """
    found = {}
    for name, data in kept_parts(folder).items():
        document = read_document(RESULTS / folder / f"{name}.json")
        machine = data.get("machine", document["machine"]["model"])
        found[name] = {**data, "run": (machine, document["date"][:10], document["commit"][:7])}
    return found


def read_document(path: Path) -> dict[str, Any]:
    """Read a file of results with its commit, date, command and machine."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def _module_and_arguments() -> list[str]:
    """Return the module that was started, such as ``benchmarks`` or ``benchmarks.peer``, and what it was given."""
    started = sys.modules["__main__"].__spec__
    name = Path(sys.argv[0]).name if started is None else started.name.removesuffix(".__main__")
    return [name, *sys.argv[1:]]


def _commit() -> str:
    """Return the commit that is checked out, with "+" where files of the project differ from it."""
    head = _git("rev-parse", "HEAD")
    return head + ("+" if _git("status", "--porcelain", "--untracked-files=no", "--", ":!benchmarks/results") else "")


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(RESULTS.parents[1]), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
