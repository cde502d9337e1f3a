"""Tables of published measurements, row by row."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.datasets.importers import Refusal, Refusals
from latcast.datasets.importers.table import Malformed, Table, number
from latcast.errors import DatasetError


def table(tmp_path: Path, text: str, *, strict: bool = False) -> Table:
    file = tmp_path / "t.csv"
    file.write_text(text, encoding="latin-1")
    return Table(file, ("model", "size"), Refusals(strict=strict))


def test_rows_know_their_line_also_behind_cells_of_several_lines(tmp_path: Path) -> None:
    found = table(tmp_path, 'Model,SIZE,x\na,1,"two\nlines"\nb,2,3\n')
    assert [(row.line, row.cells[0]) for row in found.rows()] == [(3, "a"), (4, "b")]


def test_a_row_of_another_width_is_refused_with_its_line(tmp_path: Path) -> None:
    found = table(tmp_path, "model,size,x\na,1,2\nb,2\n\nc,3,4,5\n")

    assert [row.cells[0] for row in found.rows()] == ["a"]
    assert found.refusals.found == [
        Refusal("t.csv", 3, "2 cells where the header has 3"),
        Refusal("t.csv", 5, "4 cells where the header has 3"),
    ]


def test_a_strict_reader_stops_at_the_first_malformed_row(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"t\.csv:2: 1 cells where the header has 2$"):
        list(table(tmp_path, "model,size\na\nb,1\n", strict=True).rows())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", r"t\.csv:1: the header begins with nothing"),
        ("network,size\n", r"t\.csv:1: the header begins with network, size; expected model, size"),
        ("model\n", r"t\.csv:1: the header begins with model;"),
        ("model,size\n\xff\xfe\n", r"cannot read .*t\.csv"),
        ('model,size\n"a,1\n', r"cannot read .*t\.csv"),
    ],
)
def test_another_header_and_what_is_no_csv_are_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(DatasetError, match=reason):
        table(tmp_path, text)


@pytest.mark.parametrize(("text", "least"), [("nan", None), ("0", None), ("fast", None), ("-0.1", 0)])
def test_a_text_that_is_not_a_number_in_the_range_is_refused(text: str, least: float | None) -> None:
    assert number("0", "the deviation", least=0) == 0
    with pytest.raises(Malformed, match=f"the mean is '?{text}'?; expected a"):
        number(text, "the mean", least=least)
