"""The conditions that a latency is asked for under."""

from __future__ import annotations

from typing import Any

import pytest

from latcast.errors import LatcastError
from latcast.predictors.conditions import Conditions


def test_programs_may_be_given_as_a_text_like_that_of_the_command_line() -> None:
    assert Conditions(beside="memory, compute+compute:same").beside == ("memory", "compute+compute:same")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"minutes": 0}, "found minutes = 0"),
        ({"minutes": 5, "fps": -1}, "found fps = -1"),
        ({"fps": 30}, "without minutes"),
        ({"beside": "memry"}, "found the program 'memry'"),
    ],
)
def test_conditions_that_cannot_be_are_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(LatcastError, match=reason):
        Conditions(**given)
