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

HEAVY = (
    "MNN",
    "ai_edge_litert",
    "lightgbm",
    "matplotlib",
    "ncnn",
    "onnx",
    "onnxruntime",
    "openvino",
    "scipy",
    "sklearn",
    "sqlalchemy",
    "tflite",
    "torch",
    "typer",
)


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


@pytest.mark.parametrize("module", ["errors", "registry", "records"])
def test_the_shared_ground_pulls_in_no_framework(module: str) -> None:
    assert not modules_added_by(f"import latcast.{module}").intersection(HEAVY)


def test_a_framework_that_is_imported_is_seen() -> None:
    assert "typer" in modules_added_by("import typer")


def test_type_checkers_see_every_name_of_the_package() -> None:
    tree = ast.parse(Path(latcast.__file__).read_text(encoding="utf-8"))
    [typed] = [node for node in tree.body if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"]
    imported = {name.asname: statement.module for statement in typed.body for name in statement.names}  # type: ignore[attr-defined]

    assert "from_torch" in imported
    found = {name: getattr(importlib.import_module(module), name) for name, module in imported.items()}
    assert imported == {name: each.__module__ for name, each in found.items()}
    assert {"__version__", *imported} == set(latcast.__all__)
    rooms = [name for name in imported if isinstance(getattr(latcast, name), ModuleType)]
    assert {name: getattr(latcast, name) for name in imported if name not in rooms} == {
        name: each for name, each in found.items() if name not in rooms
    }
    assert {name: inspect.signature(getattr(latcast, name)) for name in rooms} == {
        name: inspect.signature(found[name]) for name in rooms
    }


def test_a_room_that_is_called_is_the_function_of_its_name() -> None:
    from latcast import measure
    from latcast.measure.single import measure as function

    with pytest.raises(latcast.LatcastError, match="there is no file 'resnet51'"):
        latcast.measure("resnet51")
    assert callable(measure)
    assert measure.single.measure is function  # type: ignore[attr-defined]


def test_a_name_that_the_package_has_not_is_an_error() -> None:
    with pytest.raises(AttributeError, match="module 'latcast' has no attribute 'nonsense'"):
        latcast.nonsense  # type: ignore[attr-defined]  # noqa: B018
