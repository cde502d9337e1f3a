"""Judging of the errors that grades state."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import grades
from benchmarks.grades import Trial, is_off, missed, rows_of, stated
from latcast.predictors.card import ERROR_OF_WIDTH
from shipping.arbitration import NEW_LINEAGES, NEW_NETWORKS


def trial(error: list[float], width: float, groups: list[str], novelty: str = NEW_NETWORKS, platform: str = "p") -> Trial:
    return Trial(platform, f"chip of {platform}", novelty, np.array(error), np.full(len(error), width), np.array(groups))


def test_a_network_is_stated_by_the_others_alone() -> None:
    found = stated(trial([2.0, 40.0], 0.2, ["a", "b"]), None)

    assert found["width"] == pytest.approx(ERROR_OF_WIDTH * 0.2)
    # The first knows of the error of the second, and the other way round.
    assert found["grade"][0] > found["width"][0] > found["grade"][1]


def test_without_another_group_the_width_alone_decides() -> None:
    found = stated(trial([2.0, 40.0], 0.2, ["a", "a"], NEW_LINEAGES), None)

    assert found["grade"] == pytest.approx(found["width"])


def test_a_platform_far_off_on_new_lineages_is_rough_for_known_ones() -> None:
    assert min(stated(trial([2.0] * 9, 0.2, list("abcdefghi")), 200.0)["grade"]) > 25


def test_rows_compare_the_error_stated_with_that_found_by_half_and_grade() -> None:
    near, far = (trial([4.8] * 8, 0.2, list("abcdefgh"), platform=name) for name in ("p", "q"))
    rows = rows_of("pool", [near, far])

    assert [(row["half"], row["rule"], row["word"]) for row in rows] == [
        (half, rule, "good") for half in ("tuned", "reported") for rule in ("width", "grade")
    ]
    assert {row["predictions"] for row in rows} == {8}
    assert all(row["stated"] == pytest.approx(4.8) and row["found"] == pytest.approx(4.8) for row in rows)
    assert missed(rows) == []


def test_a_grade_that_states_a_quarter_less_than_is_found_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"source": "pool", "half": "reported", "rule": "grade", "word": "good", "predictions": 9, "stated": 4.0, "found": 5.1}

    assert is_off(row)
    assert not is_off({**row, "found": 4.9})
    assert missed([row, {**row, "rule": "width"}, {**row, "half": "tuned"}]) == ["pool, good: 4.0 % stated, 5.1 % found"]

    monkeypatch.setattr(grades, "kept_parts", lambda _: {"pool": {"rows": [row]}})
    assert grades.grades_table().splitlines()[-1] == "| pool | good | 9 | 4.0 | 5.1 | 1.27, missed | - |"
