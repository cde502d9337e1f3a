"""README.md and docs/ show what was measured and what the commands print."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from benchmarks import documents
from latcast.errors import LatcastError

SHOWN = [pytest.param(path, id=str(path.relative_to(documents.ROOT))) for path in documents.documents()]


@pytest.mark.parametrize("path", SHOWN)
def test_tables_are_those_that_the_results_give(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert documents.with_tables(text) == text, "python -m benchmarks documents writes it anew"


def test_a_table_is_made_anew_between_its_marks() -> None:
    text = "before\n<!-- table: speed -->\n| old |\n<!-- end -->\nafter\n"

    assert documents.with_tables(text) == f"before\n<!-- table: speed -->\n{documents.speed_table()}\n<!-- end -->\nafter\n"


def test_commands_of_a_document_run_in_order_in_its_folder(tmp_path: Path) -> None:
    text = (
        "```console\n$ echo 3 > a\n```\nand\n```console\n$ cat \\\n  a\nold\n$ false; echo no >&2\n```\n```\n$ untouched\n```\n"
    )

    printed = documents.with_output(text, tmp_path)

    assert printed == (
        "```console\n$ echo 3 > a\n```\nand\n```console\n$ cat \\\n  a\n3\n$ false; echo no >&2\nno\n```\n```\n$ untouched\n```\n"
    )


def test_a_command_that_fails_is_no_example(tmp_path: Path) -> None:
    with pytest.raises(LatcastError, match="exit code 3"):
        documents.with_output("```console\n$ exit 3\n```\n", tmp_path)


def test_constants_named_beside_the_figures_are_those_of_the_code() -> None:
    text = (documents.ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    section = text.partition("## Chosen in sight of judged networks")[2].partition("\n## ")[0]
    named = re.findall(r"`(latcast[\w.]+)\.(\w+)`((?:, `\w+`)*)", section)

    assert len(named) == 9
    for module, first, others in named:
        for constant in (first, *re.findall(r"\w+", others)):
            assert hasattr(importlib.import_module(module), constant), f"{module}.{constant}"


@pytest.mark.slow
@pytest.mark.parametrize("path", [each for each in SHOWN if "```console" in each.values[0].read_text(encoding="utf-8")])  # type: ignore[union-attr]
def test_commands_print_what_is_shown(path: Path, tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert documents.with_output(text, tmp_path) == text, "python -m benchmarks documents writes it anew"
