"""``python -m papers litepred``."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Latcast


def test_it_asks_for_something_to_reproduce_from(papers: Latcast) -> None:
    found = papers("litepred")

    assert found.code == 2
    assert "--store for figures 6 to 8" in found.err


def test_table_8_without_measurements_has_the_papers_figures(papers: Latcast, bundle: Path) -> None:
    [found] = papers("litepred", "--on", bundle, "--only", "table 8", "--json").json["comparisons"]

    assert found["rows"][0]["±10 %"] == 100.0
    assert found["rows"][-1]["networks"] == 0


def test_a_budget_needs_a_store_to_measure_into(papers: Latcast, bundle: Path) -> None:
    found = papers("litepred", "--on", bundle, "--budget", 1)

    assert found.code == 2
    assert "name it with --measured" in found.err
