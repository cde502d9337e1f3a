"""Tables of a paper beside ours."""

from __future__ import annotations

import pytest

from papers.comparison import Comparison, mean


def test_rows_become_objects_by_column() -> None:
    found = Comparison("table 1", "Sizes", ("what", "ms"), (("a", 1.5), ("b", None)), ("a note",))
    assert found.to_json()["rows"] == [{"what": "a", "ms": 1.5}, {"what": "b", "ms": None}]
    assert found.to_json()["notes"] == ["a note"]
    assert found.column("ms") == [1.5, None]


def test_a_row_of_another_length_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="a row of 1 cells under 2 columns"):
        Comparison("table 1", "Sizes", ("what", "ms"), (("a",),))


def test_a_mean_is_of_the_numbers_there_are() -> None:
    assert mean([1, None, 2.0]) == 1.5
    assert mean([None, "-"]) is None
