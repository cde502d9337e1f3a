"""The examples of the names that users meet run, and those of the documents."""

from __future__ import annotations

import doctest
import inspect
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import latcast
from latcast.graph.writers.onnx import to_onnx

ROOT = Path(__file__).resolve().parents[1]

TORCH = {"from_torch"}

WITH_PYTHON = ["README.md", "docs/python.md", "docs/check.md", "docs/choose.md", "docs/search.md"]

LONG = {"from_torch", "profile", "train"}
"""Whose examples take more than a few seconds."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, and nothing of the user's."""
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in latcast.__all__ if name != "__version__"],
)
def test_the_example_of_a_name_runs(name: str) -> None:
    if name in TORCH:
        pytest.importorskip("torch")
    finder = doctest.DocTestFinder(recurse=False)
    [found] = finder.find(getattr(latcast, name), f"latcast.{name}", globs={})
    assert found.examples or inspect.isclass(getattr(latcast, name)), f"latcast.{name} has no example"

    report: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(found, out=report.append)

    assert not failed, "".join(report)


def test_the_example_of_the_package_runs() -> None:
    failed, tried = doctest.testmod(latcast, optionflags=doctest.ELLIPSIS)

    assert (failed, tried > 0) == (0, True)


@pytest.mark.slow
@pytest.mark.parametrize("document", WITH_PYTHON)
def test_the_python_of_a_document_runs(document: str, home: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnxruntime")
    (home / "mobilenet_v2.onnx").write_bytes(to_onnx(latcast.build(latcast.model("mobilenet_v2"))))
    text = (ROOT / document).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    assert blocks

    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, document, "exec"), names)


@pytest.mark.slow
@pytest.mark.parametrize("notebook", sorted((ROOT / "docs" / "notebooks").glob("*.py")), ids=lambda path: path.stem)
def test_a_notebook_runs_on_what_is_shipped(notebook: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("torch")

    assert runpy.run_path(str(notebook))["latcast"] is latcast
