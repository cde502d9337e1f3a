"""``python -m papers``: the list of papers, and how cells are printed."""

from __future__ import annotations

import pytest

from papers.command import cell_text
from tests.cli.conftest import Latcast


def test_papers_are_listed_without_being_imported(papers: Latcast) -> None:
    found = papers("--help").out
    assert all(name in found for name in ("nn-meter", "peva", "litepred", "iiswc20", "workgroups"))
    assert papers("another-paper").code == 2


@pytest.mark.parametrize(
    ("cell", "column", "text"),
    [
        (None, "ms", "-"),
        (12, "networks", "12"),
        (12.345, "MAPE %", "12.3"),
        (12.345, "RMSE ms", "12.3"),
        (0.98765, "Spearman", "0.988"),
        (28421.6, "mean MMACs", "28422"),
        ("AlexNets", "family", "AlexNets"),
    ],
)
def test_a_cell_has_the_digits_of_its_unit(cell: object, column: str, text: str) -> None:
    assert cell_text(cell, column) == text  # type: ignore[arg-type]
