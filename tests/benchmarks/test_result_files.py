"""A file of results says where, when and by what it was made."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks import result_files
from latcast.environment import cpu_description


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_file_names_its_commit_date_command_and_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "commit", "-q", "--allow-empty", "-m", "a")
    monkeypatch.setattr(result_files, "RESULTS", tmp_path / "benchmarks" / "results")
    monkeypatch.setattr("sys.argv", ["benchmarks/__main__.py", "levels", "ncnn", "--seed", "1"])

    document = result_files.read_document(result_files.keep("levels/ncnn-fp32", {"mape": 1.5}))

    assert document["commit"] == _git(tmp_path, "rev-parse", "HEAD")
    assert document["date"][:2] == "20"
    assert document["command"].endswith(" levels ncnn --seed 1")
    assert document["machine"] == {name: cpu_description()[name] for name in ("model", "flags")}
    assert result_files.kept("levels/ncnn-fp32") == {"mape": 1.5}
    assert result_files.kept_parts("levels") == {"ncnn-fp32": {"mape": 1.5}}
    assert result_files.kept_parts("budgets") == {}
    run = (cpu_description()["model"], document["date"][:10], document["commit"][:7])
    assert result_files.kept_runs("levels") == {"ncnn-fp32": {"mape": 1.5, "run": run}}


def test_a_tree_with_changes_is_no_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("1\n")
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "-q", "-m", "a")
    monkeypatch.setattr(result_files, "RESULTS", tmp_path / "benchmarks" / "results")

    (tmp_path / "code.py").write_text("2\n")
    document = result_files.read_document(result_files.keep("speed", {}))

    assert document["commit"] == f"{_git(tmp_path, 'rev-parse', 'HEAD')}+"


@pytest.mark.parametrize("path", sorted(result_files.RESULTS.rglob("*.json")), ids=lambda path: path.stem)
def test_every_file_of_results_is_of_the_one_format(path: Path) -> None:
    document = result_files.read_document(path)

    assert set(document) == {"commit", "date", "command", "machine", "data"}
    assert set(document["machine"]) == {"model", "flags"}
    assert len(document["commit"].removesuffix("+")) == 40
    assert document["date"][:2] == "20"
    assert document["command"].startswith(("python -m ", "latcast ")) or document["command"] == result_files.NOT_RECORDED


def test_no_other_module_of_the_benchmarks_knows_where_results_lie() -> None:
    modules = [path for path in Path(result_files.__file__).parent.rglob("*.py") if path.name != "result_files.py"]

    assert [path.name for path in modules if '"results"' in path.read_text(encoding="utf-8")] == []
