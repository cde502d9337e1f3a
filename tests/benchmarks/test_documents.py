"""README.md and docs/ show what was measured and what the commands print."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest

from benchmarks import documents
from benchmarks.__main__ import COMMANDS
from latcast.errors import LatcastError

SHOWN = [pytest.param(path, id=str(path.relative_to(documents.ROOT))) for path in documents.all_documents()]


@pytest.mark.parametrize("path", SHOWN)
def test_tables_are_those_that_the_results_give(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert documents.with_tables(text) == text, "python -m benchmarks documents writes it anew"


NOT_MEASURED = {
    "docs/accuracy.md": ("| what | where |", "| constant | seen when it was chosen |"),
    "docs/architecture.md": ("| in `src/latcast/` |", "| question | file |"),
    "docs/choose.md": ("| runtime | how activations are laid out |",),
    "docs/commands.md": (
        "| command | what it does |",
        "| option | the same in every command |",
        "| kind of file | at most |",
        "| dataset | what |",
    ),
    "docs/delegates.md": ("| delegate | platforms |",),
    "docs/explain.md": ("| the model was written by |", "| limit | terms |", "| kind | the change |"),
    "docs/how_to/phone_over_adb.md": ("| `--runtime` | tool |",),
    "docs/how_to/public_hub.md": ("| file | what it is |", "| what | how much | where |"),
    "docs/how_to/ssh.md": ("| the board |", "| latcast says | do |"),
    "docs/iiswc20.md": ("| item | what it shows |",),
    "docs/index.md": ("| you want to | read |",),
    "docs/new_device.md": ("| your runtime | `--formats` |",),
    "docs/phones.md": ("| of the paper | missing |",),
    "docs/reference/extension_points.md": ("| what | entry-point group |",),
    "docs/research.md": ("| paper | what it is about |",),
    "docs/search.md": ("| objective | what it is |",),
    "docs/variants.md": ("| column | type | what |",),
    "docs/workgroups.md": ("| rule | passes where | needs |",),
}
"""Beginnings of the tables by hand, which hold no figure that was measured."""


@pytest.mark.parametrize("path", SHOWN)
def test_every_table_with_a_measured_figure_is_made(path: Path) -> None:
    by_hand = re.sub(r"<!-- table: .*?<!-- end -->", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    by_hand = re.sub(r"^```.*?^```$", "", by_hand, flags=re.DOTALL | re.MULTILINE)
    heads = [found[1].strip() for found in re.finditer(r"^([ ]*\|.*)\n[ ]*\|[-| :]+\|$", by_hand, re.MULTILINE)]
    allowed = NOT_MEASURED.get(path.relative_to(documents.ROOT).as_posix(), ())

    assert len(heads) == len(allowed)
    assert all(head.startswith(begin) for head, begin in zip(heads, allowed, strict=True)), heads


def test_a_figure_in_a_sentence_is_made_anew() -> None:
    text = "It is <!-- figure: transfer-mape -->0.0<!-- end --> % off."

    assert documents.with_tables(text) == (
        f"It is <!-- figure: transfer-mape -->{documents.MADE['transfer-mape']()}<!-- end --> % off."
    )


def test_a_table_that_was_made_once_says_when_and_by_what(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(documents, "RESULTS", tmp_path)
    (tmp_path / "printed").mkdir()
    data = {"head": ["a"], "rows": [["c|d"]]}
    document = {"commit": "0123456789", "date": "2026-11-22T10:00:00+00:00", "command": "python -m papers x", "data": data}
    (tmp_path / "printed" / "x.json").write_text(json.dumps(document))

    assert documents.printed_table("printed/x").splitlines() == [
        "| a |", "|---|", "| c\\|d |", "", "As of 2026-11-22, made with `python -m papers x` (commit 0123456).",
    ]  # fmt: skip


def test_a_table_is_made_anew_between_its_marks() -> None:
    text = "before\n<!-- table: speed -->\n| old |\n<!-- end -->\nafter\n"

    assert documents.with_tables(text) == f"before\n<!-- table: speed -->\n{documents.MADE['speed']()}\n<!-- end -->\nafter\n"


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


def test_commands_of_benchmarks_that_documents_name_exist() -> None:
    paths = [*documents.all_documents(), documents.ROOT / "CONTRIBUTING.md", *(documents.ROOT / "src").rglob("*.py")]
    # A table that is kept as it was names the command of its time.
    lines = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("As of ")]
    named = {name for line in lines for name in re.findall(r"python -m benchmarks ([a-z][a-z-]*)", line)}

    assert named <= {*COMMANDS, "platforms"}


@pytest.mark.slow
@pytest.mark.parametrize("path", [each for each in SHOWN if "```console" in each.values[0].read_text(encoding="utf-8")])  # type: ignore[union-attr]
def test_commands_print_what_is_shown(path: Path, tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert documents.with_output(text, tmp_path) == text, "python -m benchmarks documents writes it anew"
