"""Type checkers know what the package gives: no name of it is ``Any``, and a user's mistakes are found."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "tests" / "users_script.py"

IGNORED = re.compile(r"  # type: ignore\[([a-z-]+)\]")


def mypy(script: Path, *options: str) -> tuple[int, str]:
    """What mypy says of a script, as strictly as the project is checked (and with its cache)."""
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context", "--no-pretty", *options, str(script)]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return finished.returncode, finished.stdout + finished.stderr


@pytest.mark.slow
def test_a_users_script_is_checked_and_nothing_in_it_is_any() -> None:
    assert mypy(SCRIPT) == (0, "")
    _, said = mypy(SCRIPT, "--disallow-any-expr")
    # Arrays have elements of any type.
    assert [line for line in said.splitlines() if "ndarray" not in line] == []


@pytest.mark.slow
def test_each_mistake_in_it_is_found_and_nothing_else(tmp_path: Path) -> None:
    text = SCRIPT.read_text(encoding="utf-8")
    planted = {number: found[1] for number, line in enumerate(text.splitlines(), 1) if (found := IGNORED.search(line))}
    script = tmp_path / "script.py"
    script.write_text(IGNORED.sub("", text), encoding="utf-8")

    code, said = mypy(script)

    errors = re.findall(r"script\.py:(\d+): error: .*\[([a-z-]+)\]$", said, flags=re.MULTILINE)
    assert code == 1
    assert len(planted) >= 15
    assert {int(number): kind for number, kind in errors} == planted
