"""``latcast check``, and the files by which CI systems call it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from latcast.graph.writers.onnx import to_onnx
from latcast.spaces.catalogue import build, model
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


ACTION = yaml.safe_load((ROOT / "action.yml").read_text())


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def checkout(bundle: Path, tmp_path: Path) -> tuple[Path, str]:
    """A checkout of depth 1 of a head commit, as the runners make it, and its base: one file grew, one moved, one is new."""
    origin, small, large = tmp_path / "origin", *(to_onnx(build(model(f"squeezenet1_{place}"))) for place in (1, 0))
    origin.mkdir()
    git(origin, "init", "--quiet")
    for name, content in {"--grown.onnx": small, "old.onnx": small, "same.onnx": large, "notes.txt": b"no model"}.items():
        (origin / name).write_bytes(content)
    git(origin, "add", ".")
    git(origin, "commit", "--quiet", "-m", "base")
    base = git(origin, "rev-parse", "HEAD")
    (origin / "--grown.onnx").write_bytes(large)
    (origin / "old.onnx").rename(origin / "moved.onnx")
    (origin / "new.onnx").write_bytes(to_onnx(build(model("mobilenet_v1_0_25"))))
    git(origin, "add", ".")
    git(origin, "commit", "--quiet", "-m", "head")
    git(tmp_path, "clone", "--quiet", "--depth=1", origin.as_uri(), "checkout")
    return tmp_path / "checkout", base


@pytest.fixture
def run_action(checkout: tuple[Path, str], tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the last step of the action in the checkout, where its first one has installed this latcast."""
    python = tmp_path / "latcast" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)

    def run(**given: str) -> subprocess.CompletedProcess[str]:
        step = ACTION["runs"]["steps"][-1]
        inputs = {name: given.get(name, each.get("default", "")) for name, each in ACTION["inputs"].items()}
        environment = {name: inputs[text.removeprefix("${{ inputs.").removesuffix(" }}")] for name, text in step["env"].items()}
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", step["run"]], cwd=checkout[0], capture_output=True, text=True, check=False,
            env={
                **os.environ, **environment, "RUNNER_TEMP": str(tmp_path), "GITHUB_ACTION_PATH": str(ROOT),
                "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), "PYTHONPATH": str(ROOT / "src"),
            },
        )  # fmt: skip

    return run


def test_the_action_compares_each_changed_file_with_its_version_on_the_base(
    checkout: tuple[Path, str], run_action: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    found = run_action(models="*.onnx", on=PLATFORM, base=checkout[1], junit="found.xml")

    assert found.returncode == 3, found.stdout + found.stderr
    new, grown, moved = found.stdout.splitlines()
    assert new.startswith("::notice file=new.onnx,title=latcast::a new file")
    assert grown.startswith("::error file=--grown.onnx,title=latcast growth on ")
    assert f"against its version at {checkout[1][:7]}" in grown
    assert moved.startswith("::notice file=moved.onnx,title=latcast growth on ")
    assert "+0.0 %" in moved
    assert (tmp_path / "summary.md").read_text().startswith("**latcast: 1 of 2 checks failed")
    assert 'failures="1"' in (checkout[0] / "found.xml").read_text()


def test_a_changed_file_that_cannot_be_read_is_an_error_of_its_own(
    checkout: tuple[Path, str], run_action: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    folder, before = checkout[0], git(checkout[0], "rev-parse", "HEAD")
    (folder / "new.onnx").write_bytes(b"no model")
    git(folder, "commit", "--quiet", "-a", "-m", "broken")

    found = run_action(models="*.onnx", on=PLATFORM, base=before)

    assert found.returncode == 1, found.stderr
    assert found.stdout.startswith("::error file=new.onnx,title=latcast could not check::")


def test_the_action_holds_every_file_to_a_budget(
    budget: Path, checkout: tuple[Path, str], run_action: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    found = run_action(models="*.onnx", budget=str(budget))

    assert found.returncode == 3, found.stdout + found.stderr
    assert found.stdout.count("::error file=") == 4


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"models": "*.onnx"}, "found neither budget nor on"),
        ({"models": "*.tflite", "budget": "b.toml"}, "found no tracked file that *.tflite matches"),
        ({"models": "*.onnx", "on": PLATFORM, "base": "f" * 40}, "git fetch failed"),
        ({"models": "*.onnx", "on": "no such phone", "base": "HEAD"}, "no such phone"),
        ({"models": "*.onnx", "on": PLATFORM, "max-growth": "five"}, "max-growth 'five', expected a percentage such as 5%"),
        ({"models": "*.onnx", "on": PLATFORM, "fail-above": "often"}, "fail-above 'often', expected a percentage"),
    ],
)
def test_the_action_says_in_one_line_what_it_cannot_do(
    run_action: Callable[..., subprocess.CompletedProcess[str]], given: dict[str, str], said: str
) -> None:
    found = run_action(**given)

    assert (found.returncode, found.stdout.count("\n")) == (1, 1)
    assert found.stdout.startswith("::error title=latcast::")
    assert said in found.stdout


def test_the_action_compares_nothing_on_the_first_push_of_a_branch_and_takes_no_python_of_its_own(
    run_action: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    found = run_action(models="*.onnx", on=PLATFORM, base="0" * 40)

    assert found.returncode == 0, found.stdout + found.stderr
    assert "no base commit" in found.stdout
    assert not any("uses" in step for step in ACTION["runs"]["steps"])


def test_the_hook_checks_the_files_that_it_is_given(budget: Path, model_file: Path, command_on_path: dict[str, str]) -> None:
    shutil.copy(model_file, budget.parent / "--on.onnx")
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())

    found = subprocess.run(
        [*shlex.split(hook["entry"]), *hook["args"], "--on.onnx"], cwd=budget.parent, capture_output=True, text=True, check=False,
        env=command_on_path,
    )  # fmt: skip

    assert hook["language"] == "python"
    assert found.returncode == 3, found.stderr


def test_limits_of_a_device_hold_for_each_of_its_units_and_that_is_said(latcast: Latcast) -> None:
    both = latcast("check", "resnet18", "--max-ms", "1000", "--on", "raspberry pi 5")
    one = latcast("check", "resnet18", "--max-ms", "1000", "--on", "raspberry pi 5 cpu")

    assert "limits hold for each of the 2 units that 'raspberry pi 5' means" in both.err
    assert "limits hold" not in one.err


@pytest.mark.parametrize("value", ["nan", "inf"])
@pytest.mark.parametrize("option", ["--max-ms", "--min-fps", "--max-memory-mb"])
def test_a_limit_that_is_not_finite_is_a_wrong_call(latcast: Latcast, option: str, value: str) -> None:
    found = latcast("check", "resnet18", option, value, "--on", "raspberry pi 5 cpu")

    assert (found.code, found.out) == (2, "")
    assert f"found {value}, expected a finite number" in found.err


def test_a_dash_is_a_model_that_is_not_there(latcast: Latcast) -> None:
    assert "there is no file '-'" in latcast("predict", "-", "--on", "raspberry pi 5 cpu").reason
