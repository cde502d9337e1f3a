"""README.md and docs/ show what was measured and what the commands print."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest

from benchmarks import documents, result_files
from benchmarks.__main__ import COMMANDS
from latcast.errors import LatcastError
from latcast.platforms import load
from latcast.predictors.card import TRAINING_KEYS
from latcast.spaces.catalogue import model

SHOWN = [pytest.param(path, id=str(path.relative_to(documents.ROOT))) for path in documents.all_documents()]


@pytest.mark.parametrize("path", SHOWN)
def test_tables_are_those_that_the_results_give(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert documents.with_tables(text) == text, "python -m benchmarks documents writes it again"


def by_hand(path: Path) -> str:
    """Return what of a document is typed: neither tables, figures and output that are made, nor blocks of code."""
    text = re.sub(r"<!-- (table|figure): .*?<!-- end -->", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"^    .*$", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("path", SHOWN)
def test_no_table_by_hand_has_a_column_of_figures(path: Path) -> None:
    cells = [cell.strip() for line in re.findall(r"^ *\|(.*)\|$", by_hand(path), re.MULTILINE) for cell in line.split("|")]

    assert [cell for cell in cells if re.fullmatch(r"[-+±]?\d[\d.,]*(?: ?%)?(?: \(.*\)| / .*)?", cell)] == []


FIGURE = re.compile(r"\d[\d.,]*(?:\s+(?:to|and|or)\s+\d[\d.,]*)?\s(?:%|ms\b|[µn]s\b|times\b|points\b|GB/s)|\b\d[\d.]*x(?=\s|$)")
SETTINGS = ("90 % interval", "90 % of networks", "90 % of the networks", "±5 %", "±10 %")
TYPED = {
    "README.md": ("±25 %",),
    "docs/accuracy.md": (
        "at most 2 points", "85 to 95 %", "85 % of the networks", "at most 2 %", "above 2 %",
        "7.4 %", "7.7 %",
    ),
    "docs/adapt.md": ("95 % of the networks", "within 2 points", "above the 2 %"),
    "docs/advise.md": ("at least 95 %", "95 % right", "at most 2 %", "below 85 %"),
    "docs/choose.md": ("90 % or more", "90 % of its latency", "35, 50, 65 and 80 %"),
    "docs/commands.md": ("4 times the FLOPs",),
    "docs/decisions/015-never-silently-zero.md": ("90 % coverage",),
    "docs/delegates.md": ("20 times",),
    "docs/explain.md": ("at least 0.5 %",),
    "docs/fusion.md": ("gives it 99 %", "90 % decided and 95 % agreement"),
    "docs/public_hub.md": ("100 times",),
    "docs/how_sure.md": ("±25 %", "±6 %"),
    "docs/iiswc20.md": ("30 % of the phones",),
    "docs/language_models.md": ("60 % of the memory",),
    "docs/new_device.md": ("11 and 7 %", "22 and 16 %", "85 to 95 %", "1.1 times"),
    "docs/nn_meter.md": ("at most 2 points", "95 % of the"),
    "docs/platforms.md": ("15 % of each", "more than 5 %", "85 to 95 %"),
    "docs/search.md": ("50 and\n75 %",),
    "docs/variants.md": ("0.2 to 1.8 times",),
    "docs/workgroups.md": ("within 25 %", "takes 3 %"),
}  # fmt: skip
"""Numbers that were not measured here: targets, thresholds, limits, splits, and what an outside user found (accuracy.md)."""


@pytest.mark.parametrize("path", SHOWN)
def test_no_measured_figure_is_typed(path: Path) -> None:
    text = by_hand(path)
    for setting in SETTINGS:
        text = re.sub(setting.replace(" ", r"\s"), "", text)
    for typed in TYPED.get(path.relative_to(documents.ROOT).as_posix(), ()):
        assert typed in text, f"'{typed}' is no longer in the text: take it out of TYPED"
        text = text.replace(typed, "")

    found = [each[0] for each in FIGURE.finditer(text)]

    assert found == [], "a measured figure is made by a table or MADE of benchmarks/documents.py"


def test_the_readme_is_short_and_shows_networks_that_its_platforms_did_not_learn_from() -> None:
    text = (documents.ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^(?:pass +|FAIL +)?(timm/\S+) +(\S+/\S+/\S+/\S+) ", text, re.MULTILINE)

    assert len(text.split()) < 1500
    assert len(rows) == 7
    for network, platform in rows:
        assert model(network).key not in load(platform).card[TRAINING_KEYS]


def heads_of(path: Path) -> set[str]:
    """Return the anchors of a document's headings, as code hosts and the site make them."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


LINKING = [*SHOWN, *(pytest.param(documents.ROOT / name, id=name) for name in ("CONTRIBUTING.md", "CHANGELOG.md"))]


@pytest.mark.parametrize("path", LINKING)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" not in target:
            name, _, anchor = target.partition("#")
            linked = (path.parent / name).resolve() if name else path
            assert linked.exists(), target
            assert not anchor or anchor in heads_of(linked), target


def test_every_page_stands_in_the_navigation() -> None:
    listed = (documents.ROOT / "mkdocs.yml").read_text(encoding="utf-8")

    for path in (documents.ROOT / "docs").rglob("*.md"):
        assert path.relative_to(documents.ROOT / "docs").as_posix() in listed


@pytest.mark.parametrize("path", SHOWN)
def test_no_line_begins_with_a_figure(path: Path) -> None:
    # A comment at its beginning ends a paragraph.
    assert re.findall(r"^ *<!-- figure.*", path.read_text(encoding="utf-8"), re.MULTILINE) == []


def test_every_printed_table_is_shown() -> None:
    texts = "".join(path.read_text(encoding="utf-8") for path in documents.all_documents())

    shown = set(re.findall(r"table: printed/([\w-]+)", texts))
    assert {path.stem for path in (result_files.RESULTS / "printed").iterdir()} == shown


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

    assert len(named) == section.count("\n| ") - 1  # a line a constant, below the header
    for module, first, others in named:
        for constant in (first, *re.findall(r"\w+", others)):
            assert hasattr(importlib.import_module(module), constant), f"{module}.{constant}"


def test_commands_of_benchmarks_that_documents_name_exist() -> None:
    paths = [*documents.all_documents(), documents.ROOT / "CONTRIBUTING.md", *(documents.ROOT / "src").rglob("*.py")]
    # A table that is kept as it was names the command of its time.
    lines = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("As of ")]
    named = {name for line in lines for name in re.findall(r"python -m benchmarks ([a-z][a-z-]*)", line)}

    assert named <= {*COMMANDS, "platforms"}


def test_files_and_constants_that_contributors_are_sent_to_exist() -> None:
    text = (documents.ROOT / "docs" / "adding.md").read_text(encoding="utf-8")
    named = re.findall(r"`([^`\n]+)`", text)
    files = {name for name in named if re.fullmatch(r"\w+/[\w./]*(?:/|\.\w+)", name) and "NAME" not in name}
    constants = {name for name in named if re.fullmatch(r"_?[A-Z]+(?:_[A-Z]+)*", name)} - {"UNARY", "BINARY"}
    folders = [documents.ROOT / name for name in ("src/latcast", "src", "tests", "benchmarks", "shipping")]
    code = "".join(path.read_text(encoding="utf-8") for folder in folders for path in folder.rglob("*.py"))

    assert len(files) > 50
    assert {name for name in files if not any((folder / name).exists() for folder in (documents.ROOT, *folders))} == set()
    assert constants - set(re.findall(r"^(_?[A-Z][A-Z_]+)\b", code, re.MULTILINE)) == set()


@pytest.mark.slow
@pytest.mark.parametrize("path", [each for each in SHOWN if "```console" in each.values[0].read_text(encoding="utf-8")])  # type: ignore[union-attr]
def test_commands_print_what_is_shown(path: Path, tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert documents.with_output(text, tmp_path) == text, "python -m benchmarks documents writes it again"
