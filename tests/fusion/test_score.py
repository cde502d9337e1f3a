"""Scoring detected rules by what was executed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from latcast.fusion.detection import Detection, Detector
from latcast.fusion.score import executed_truth, score
from latcast.fusion.stopwatch import Execution
from latcast.fusion.test_cases import ChainSetting, TestCase, inbound_case, pair_case, pattern_case
from latcast.kernels import FusionRules, find_kernels
from latcast.records import ExecutedKernel, Reference
from latcast.spaces.catalogue import build
from tests.fusion.made_up_runtime import MadeUpStopwatch

RULES = FusionRules("made-up", pairs={"conv": frozenset({"relu", "tanh"})}, patterns=("silu",))
OPERATORS = ("conv", "relu", "tanh")


@pytest.fixture(scope="module")
def found() -> Detection:
    stopwatch = MadeUpStopwatch(RULES)
    return Detector(stopwatch, budget_s=600.0, operators=OPERATORS, clock=stopwatch.clock).run()


def test_answers_that_match_the_executed_kernels_agree_fully(found: Detection) -> None:
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
    assert "separate kernels that cost as much as one" in said["conv", "tanh"].explanation
    assert "one kernel that costs as much as separate ones" in said["relu", "relu"].explanation
    assert said["conv", "tanh"].to_json()["detected"] is True
    assert said["conv", "tanh"].to_json()["executed"] is False


def test_without_executed_kernels_there_is_no_agreement(found: Detection) -> None:
    class Silent(MadeUpStopwatch):
        def executed(self, networks: Sequence[Reference]) -> Execution:
            return Execution({}, {reference.key: "cannot tell" for reference in networks})

    result = score(found, Silent(RULES))

    assert (result.judged, result.agreement, result.precision) == (0, None, None)
    assert "conv relu" in result.untold


def test_the_finished_share_is_reported(found: Detection) -> None:
    shares: list[float] = []

    score(found, MadeUpStopwatch(RULES), shares.append)

    assert shares[0] == 0.0
    assert all(0 <= share < 1 for share in shares)


SETTING = ChainSetting(blocks=1)
CASE = pair_case("conv", "relu", SETTING)


def by_rules(networks: Sequence[Reference], rules: FusionRules) -> dict[str, tuple[ExecutedKernel, ...]]:
    return {
        reference.key: tuple(
            ExecutedKernel(kernel.name, kernel.kernel_type, kernel.nodes, 0.1) for kernel in find_kernels(build(reference), rules)
        )
        for reference in networks
    }


def truth(case: TestCase, rules: FusionRules) -> bool | None:
    return executed_truth(case, by_rules((case.together, *case.saved.networks), rules)).fused


SILU_BEHIND_CONV = FusionRules("x", pairs={"conv": frozenset({"silu"})}, patterns=("silu",))
INTO_FIRST = FusionRules("x", pairs={"conv": frozenset({"add"})}, multi_inbound=1)


@pytest.mark.parametrize(
    ("case", "rules", "fused"),
    [
        (CASE, FusionRules("x", pairs={"conv": frozenset({"relu"})}), True),
        (CASE, FusionRules("x"), False),
        (pair_case("conv", "silu", SETTING), SILU_BEHIND_CONV, True),
        (pair_case("conv", "silu", SETTING), FusionRules("x", patterns=("silu",)), False),
        (pattern_case("gelu", "gelu", SETTING), FusionRules("x", patterns=("gelu",)), True),
        (pattern_case("gelu", "gelu", SETTING), FusionRules("x"), False),
        (pair_case("relu", "relu", SETTING), FusionRules("x", pairs={"relu": frozenset({"relu"})}), True),
        (pair_case("relu", "relu", SETTING), FusionRules("x"), False),
        (inbound_case("conv", "add", 0, SETTING), INTO_FIRST, True),
        (inbound_case("conv", "add", 1, SETTING), INTO_FIRST, False),
    ],
)
def test_operators_in_one_kernel_are_fused(case: TestCase, rules: FusionRules, fused: bool) -> None:
    assert truth(case, rules) is fused


def test_names_that_contradict_the_number_of_kernels_give_no_answer() -> None:
    # The runtime splits the ReLU in two kernels that it does not name, and names the ReLU in the convolution's.
    kernels = by_rules((CASE.together, *CASE.saved.networks), FusionRules("x", pairs={"conv": frozenset({"relu"})}))
    extra = ExecutedKernel("part", "Relu", (), 0.1)
    kernels[CASE.together.key] = (*kernels[CASE.together.key], extra)

    found = executed_truth(CASE, kernels)

    assert found.fused is None
    assert "names say fused and their number says apart" in found.reason


def test_kernels_that_change_a_layout_are_not_counted() -> None:
    kernels = by_rules((CASE.together, *CASE.saved.networks), FusionRules("x", pairs={"conv": frozenset({"relu"})}))
    inserted = ExecutedKernel("r", "nchwc.ReorderInput", (), 0.1)
    kernels[CASE.together.key] = (inserted, *kernels[CASE.together.key], inserted)

    assert executed_truth(CASE, kernels).fused is True


def test_an_operator_without_a_kernel_leaves_it_open() -> None:
    kernels = by_rules((CASE.together, *CASE.saved.networks), FusionRules("x"))
    kernels[CASE.together.key] = kernels[CASE.together.key][:2]

    assert executed_truth(CASE, kernels).fused is None
