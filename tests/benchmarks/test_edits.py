"""Edits of real networks, and how alarms are judged."""

from __future__ import annotations

import pytest

from benchmarks.edits import edits, judge


def row(growth: float, probability: float) -> dict[str, float]:
    return {"growth": growth, "probability": probability, "low": growth - 1, "high": growth + 1, "error": 1.0}


def test_found_growths_and_false_alarms_are_counted_by_what_was_measured() -> None:
    rows = [row(12, 0.9), row(30, 0.6), row(11, 0.2), row(10, 1.0), row(7, 1.0), row(1, 0.7), row(-5, 0.0)]

    found = judge(rows)

    # Three of the four of at least 10 %; one of the two below 5 %; that of 7 % is neither.
    assert (found["edits"], found["grown"], found["found"]) == (7, 4, 75.0)
    assert (found["allowed"], found["false_alarms"]) == (2, 50.0)
    assert judge(rows, 95)["found"] == 25.0
    assert found["interval_coverage"] == pytest.approx(100.0)


def test_edits_are_drawn_again_alike_of_all_kinds_and_can_be_built() -> None:
    drawn = list(edits(60))

    assert [each.key for each in drawn] == [each.key for each in edits(60)]
    assert {each.kind for each in drawn} == {"channels", "resolution", "kernel", "activation", "block"}
    for kind in ("channels", "resolution", "kernel", "activation", "block"):
        assert next(each for each in drawn if each.kind == kind).graph().nodes
