"""``latcast check``, and the files by which CI systems call it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Latcast
from tests.cli.dataset import PLATFORM

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def budget(bundle: Path, tmp_path: Path) -> Path:
    path = tmp_path / "work" / "latcast.toml"
    path.write_text(f'[tiers.here]\nplatforms = "{PLATFORM}"\nmodels = "*.onnx"\nmax_ms = 0.001\n')
    return path


def test_a_check_that_fails_exits_with_3_and_one_that_passes_with_0(latcast: Latcast, budget: Path, model_file: Path) -> None:
    failed = latcast("check", model_file, "--budget", budget)
    budget.write_text(budget.read_text().replace("0.001", "100000"))
    passed = latcast("check", model_file, "--budget", budget, "--json")

    assert failed.code == 3
    assert failed.out.splitlines()[1].split()[0] == "FAIL"
    assert passed.code == 0
    assert (passed.json["passed"], passed.json["checks"][0]["limit"]) == (True, 100000)


def test_all_models_are_checked_and_one_that_cannot_be_read_exits_with_1(
    latcast: Latcast, budget: Path, model_file: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")

    found = latcast("check", broken, model_file, "--budget", budget)

    assert found.code == 1
    assert [line.split()[:2] for line in found.out.splitlines()[1:]] == [["FAIL", str(model_file)]]
    assert "broken.onnx" in found.err
    assert str(model_file) not in found.err


def test_growth_against_a_base_fails_where_it_is_more_than_allowed(latcast: Latcast, bundle: Path, model_file: Path) -> None:
    same = latcast("check", model_file, "--against", "squeezenet1_1", "--on", PLATFORM, "--max-growth", "0%")
    larger = latcast("check", "squeezenet1_0", "--against", model_file, "--on", PLATFORM, "--format", "github")

    assert same.code == 0
    assert larger.code == 3
    assert larger.out.startswith("::error file=squeezenet1_0,")


def test_a_report_is_written_to_a_file(latcast: Latcast, budget: Path, model_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "found.xml"

    found = latcast("check", model_file, "--budget", budget, "--format", "junit", "-o", path)

    assert (found.code, found.out) == (3, "")
    assert 'failures="1"' in path.read_text()


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--budget", "b.toml", "--on", PLATFORM],
        ["--against", "resnet18", "--on", PLATFORM, "--max-growth", "much"],
        ["--budget", "b.toml", "--fail-above", "101"],
        ["--budget", "b.toml", "--format", "pdf"],
    ],
)
@pytest.mark.usefixtures("home")
def test_a_wrong_call_exits_with_2(latcast: Latcast, options: list[str]) -> None:
    assert latcast("check", "resnet18", *options).code == 2


@pytest.fixture
def command_on_path(tmp_path: Path) -> dict[str, str]:
    """An environment in which ``latcast`` is this one."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "latcast"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m latcast "$@"\n')
    script.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")}


@pytest.mark.parametrize(("models", "code"), [("--*.onnx", 3), ("*.onnx", 1)])
def test_the_action_annotates_summarises_and_fails_as_the_command_does(
    budget: Path, model_file: Path, command_on_path: dict[str, str], tmp_path: Path, models: str, code: int
) -> None:
    shutil.copy(model_file, budget.parent / "--on.onnx")
    (budget.parent / "broken.onnx").write_bytes(b"no model")
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = action["runs"]["steps"][-1]
    given = {"models": models, "budget": str(budget), "junit": "found.xml"}
    values = {name: given.get(name, each.get("default", "")) for name, each in action["inputs"].items()}
    environment = {name: values[text.removeprefix("${{ inputs.").removesuffix(" }}")] for name, text in step["env"].items()}
    summary = tmp_path / "summary.md"

    found = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step["run"]], cwd=budget.parent, capture_output=True, text=True, check=False,
        env={**command_on_path, **environment, "GITHUB_STEP_SUMMARY": str(summary)},
    )  # fmt: skip

    assert found.returncode == code, found.stderr
    assert found.stdout.startswith("::error file=")
    assert summary.read_text().startswith("**latcast: 1 of 1 checks failed")
    assert "<failure" in (budget.parent / "found.xml").read_text()


def test_the_hook_checks_the_files_that_it_is_given(budget: Path, model_file: Path, command_on_path: dict[str, str]) -> None:
    shutil.copy(model_file, budget.parent / "--on.onnx")
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())

    found = subprocess.run(
        [*shlex.split(hook["entry"]), *hook["args"], "--on.onnx"], cwd=budget.parent, capture_output=True, text=True, check=False,
        env=command_on_path,
    )  # fmt: skip

    assert hook["language"] == "python"
    assert found.returncode == 3, found.stderr
