"""Scoring detected rules by what was executed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from latcast.fusion.detection import Detection, Detector
from latcast.fusion.score import score
from latcast.fusion.stopwatch import Execution
from latcast.kernels import FusionRules
from latcast.records import Reference
from tests.fusion.made_up_runtime import MadeUpStopwatch

RULES = FusionRules("made-up", pairs={"conv": frozenset({"relu", "tanh"})}, patterns=("silu",))
OPERATORS = ("conv", "relu", "tanh")


@pytest.fixture(scope="module")
def found() -> Detection:
    stopwatch = MadeUpStopwatch(RULES)
    return Detector(stopwatch, budget_s=600.0, operators=OPERATORS, clock=stopwatch.clock).run()


def test_a_runtime_that_executes_what_it_seems_to(found: Detection) -> None:
    result = score(found, MadeUpStopwatch(RULES))

    assert (result.judged, result.agreement, result.precision, result.recall) == (9, 1.0, 1.0, 1.0)
    assert result.disagreements == ()
    assert result.untold == {}


def test_disagreements_are_listed_and_explained(found: Detection) -> None:
    # It says that it fused conv + sigmoid's place-holder tanh no longer, and relu + relu in one kernel.
    other = FusionRules("made-up", pairs={"conv": frozenset({"relu"}), "relu": frozenset({"relu"})}, patterns=("silu",))

    result = score(found, MadeUpStopwatch(other))

    assert (result.judged, result.agreement) == (9, pytest.approx(7 / 9))
    assert (result.precision, result.recall) == (0.5, 0.5)
    said = {item.question: item for item in result.disagreements}
    assert set(said) == {("conv", "tanh"), ("relu", "relu")}
    assert "separate kernels that take as long as one" in said["conv", "tanh"].explanation
    assert "one kernel that takes as long as separate ones" in said["relu", "relu"].explanation
    assert said["conv", "tanh"].to_json()["detected"] is True
    assert said["conv", "tanh"].to_json()["executed"] is False


def test_a_runtime_that_tells_nothing_gives_no_agreement(found: Detection) -> None:
    class Silent(MadeUpStopwatch):
        def executed(self, networks: Sequence[Reference]) -> Execution:
            return Execution({}, {reference.key: "cannot tell" for reference in networks})

    result = score(found, Silent(RULES))

    assert (result.judged, result.agreement, result.precision) == (0, None, None)
    assert "conv relu" in result.untold


def test_whoever_watches_is_told_the_share(found: Detection) -> None:
    shares: list[float] = []

    score(found, MadeUpStopwatch(RULES), shares.append)

    assert shares[0] == 0.0
    assert all(0 <= share < 1 for share in shares)
