"""``import latcast`` costs next to nothing: frameworks and servers are imported when they are used."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import latcast
from latcast.extras import PACKAGES

HEAVY = {*PACKAGES, "onnx", "sklearn", "tflite", "typer"}


def modules_added_by(statement: str) -> set[str]:
    """Top-level modules that a statement brings into a fresh interpreter."""
    script = (
        "import json, sys; before = set(sys.modules)\n"
        f"{statement}\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in set(sys.modules) - before})))"
    )
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return set(json.loads(finished.stdout))


def test_importing_latcast_pulls_in_no_framework() -> None:
    added = modules_added_by("import latcast")

    assert "latcast" in added
    assert not added.intersection(HEAVY)


def test_the_shared_ground_pulls_in_no_framework() -> None:
    assert not modules_added_by("import latcast.errors, latcast.registry, latcast.records").intersection(HEAVY)


def test_a_framework_that_is_imported_is_seen() -> None:
    assert "typer" in modules_added_by("import typer")


def test_every_public_name_is_what_the_stub_imports() -> None:
    stub = ast.parse(Path(latcast.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imported = {
        alias.asname: statement.module
        for statement in stub.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }

    assert "from_torch" in imported
    found = {name: getattr(importlib.import_module(str(module)), str(name)) for name, module in imported.items()}
    assert imported == {name: each.__module__ for name, each in found.items()}
    assert {"__version__", *imported} == set(latcast.__all__)
    assert found == {name: getattr(latcast, str(name)) for name in imported}


@pytest.mark.parametrize("name", ["hub", "measure", "report", "search"])
def test_a_function_stays_one_when_the_room_of_its_name_is_imported(name: str) -> None:
    function = getattr(latcast, name)

    room = importlib.reload(importlib.import_module(f"latcast.{name}"))

    assert isinstance(room, ModuleType)
    assert getattr(latcast, name) is function
    assert inspect.isfunction(function)


def test_a_name_that_the_package_has_not_is_an_error() -> None:
    with pytest.raises(AttributeError, match="module 'latcast' has no attribute 'nonsense'"):
        latcast.nonsense  # type: ignore[attr-defined]  # noqa: B018
