"""Detection on runtimes whose rules are known: with noise, it finds them; what it cannot see stays undecided."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from latcast.errors import MeasurementError
from latcast.fusion.decision import TimedBatch
from latcast.fusion.detection import Detection, DetectionProgress, Detector
from latcast.fusion.test_cases import ChainSetting, pair_case
from latcast.kernels import FusionRules
from latcast.kernels.rules import load_rules
from latcast.records import Reference
from tests.fusion.made_up_runtime import MadeUpStopwatch

FEW = ("conv", "relu", "add", "tanh", "average_pool", "concat")

RULES = FusionRules(
    "made-up",
    pairs={"conv": frozenset({"relu", "add"}), "add": frozenset({"relu"}), "relu": frozenset({"tanh"})},
    patterns=("silu", "gelu"),
    free=frozenset({"reshape", "flatten"}),
    multi_inbound=4,
)


def detected(stopwatch: MadeUpStopwatch, *, budget_s: float = 600.0, operators: tuple[str, ...] = FEW) -> Detection:
    return Detector(stopwatch, budget_s=budget_s, operators=operators, clock=stopwatch.clock).run()


@pytest.fixture(scope="module")
def found() -> Detection:
    return detected(MadeUpStopwatch(RULES, noise=0.02))


def test_every_ordered_pair_is_decided(found: Detection) -> None:
    assert set(found.pairs) == set(product(FEW, FEW))
    assert found.decided == 1.0


def test_the_rules_are_found(found: Detection) -> None:
    rules = found.rules()

    assert rules.pairs == RULES.pairs
    assert set(rules.patterns) == {"silu", "gelu"}
    assert rules.free == RULES.free
    assert (rules.multi_inbound, rules.multi_outbound) == (4, 0)
    assert (rules.runtime, rules.version) == ("made-up", "1.0")


def test_evidence_stands_beside_every_rule_and_survives_its_file(found: Detection) -> None:
    rules = found.rules()
    evidence = FusionRules.from_json(rules.to_json()).evidence

    assert set(evidence["pairs"]) == {f"{first} {second}" for first, second in product(FEW, FEW)}
    conv_relu = evidence["pairs"]["conv relu"]
    assert conv_relu["fused"] is True
    assert conv_relu["confidence"] >= 0.975
    assert conv_relu["saved_us"] == pytest.approx(conv_relu["own_us"], rel=0.2)
    assert set(evidence["free"]) == {"reshape", "flatten", "squeeze", "identity", "dropout"}


@given(
    pairs=st.sets(
        st.sampled_from([(a, b) for a, b in product(FEW, FEW) if "concat" not in (a, b) and a != "average_pool"]), max_size=8
    ),
    noise=st.sampled_from([0.002, 0.01, 0.03]),
    kernel_us=st.sampled_from([0.3, 1.0, 5.0]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_the_rules_decided_pairs_are_right(
    pairs: set[tuple[str, str]], noise: float, kernel_us: float, seed: int
) -> None:
    # A pool is one of the walls, so what it fuses with is another matter; see below.
    pairs = {(first, second) for first, second in pairs if second != "average_pool"}
    rules = FusionRules(
        "made-up",
        pairs={first: frozenset(b for a, b in pairs if a == first) for first, _ in pairs},
        multi_inbound=4,
    )

    answers = detected(MadeUpStopwatch(rules, noise=noise, kernel_us=kernel_us, seed=seed)).pairs

    decided = {pair: answer.fused for pair, answer in answers.items() if answer.fused is not None}
    assert len(decided) >= 0.9 * len(answers)
    wrong = [pair for pair, fused in decided.items() if fused != (pair in pairs)]
    assert len(wrong) <= 0.03 * len(decided), wrong


def test_an_operator_fused_into_a_wall_is_seen_between_other_walls() -> None:
    rules = FusionRules("made-up", pairs={"average_pool": frozenset({"relu"}), "conv": frozenset({"relu"})})

    answers = detected(MadeUpStopwatch(rules, noise=0.01)).pairs

    assert answers["conv", "relu"].fused is True
    assert answers["average_pool", "relu"].fused is True
    assert answers["add", "relu"].fused is False


@pytest.mark.parametrize(("between_pools_us", "fused"), [(13.0, None), (12.0, True)])
def test_opposite_answers_between_two_sorts_of_walls_are_undecided(between_pools_us: float, fused: bool | None) -> None:
    # conv takes 2, relu 1. Between softmaxes they take 2 together; between poolings 3, as apart, or 2.
    cases = [pair_case("conv", "relu", ChainSetting(wall, blocks=1)) for wall in ("softmax", "average_pool")]
    batches = []
    for case, together_us in zip(cases, (12.0, between_pools_us), strict=True):
        chains = {("wall",): 10.0, ("conv", "wall"): 12.0, ("relu", "wall"): 11.0, ("conv", "relu", "wall"): together_us}
        batches.append(TimedBatch({case.setting.network(*chain).key: np.full(20, us / 1e3) for chain, us in chains.items()}))

    class Remembering(MadeUpStopwatch):
        def remembered(self) -> list[TimedBatch]:
            return batches * 3

    found = Detector(Remembering(RULES), budget_s=1.0)._answer(cases)

    assert found.case == cases[0]
    assert (found.fused, found.problem) == (fused, "" if fused else "other walls give the opposite answer")


def test_a_layout_that_neighbours_share_is_not_a_fusion() -> None:
    class InLayouts(MadeUpStopwatch):
        """Pools and convolutions work in a layout of their own; changing it, or back, takes two kernels' time."""

        def _extra_us(self, types: list[str]) -> float:
            blocked = [kind in ("Conv", "AveragePool") for kind in types if kind in ("Conv", "AveragePool", "Softmax", "Tanh")]
            return 2.0 * sum(a != b for a, b in zip([False, *blocked], [*blocked, False], strict=True))

    answers = detected(InLayouts(RULES, noise=0.01), operators=("conv", "softmax", "tanh", "relu")).pairs

    assert answers["softmax", "tanh"].fused is False
    assert answers["tanh", "softmax"].fused is False
    assert answers["conv", "softmax"].fused is False
    assert answers["conv", "relu"].fused is True


def test_noisy_pairs_are_timed_again_in_other_processes_until_decided() -> None:
    noisy, quiet = MadeUpStopwatch(RULES, noise=0.25), MadeUpStopwatch(RULES, noise=0.005)

    answers = detected(noisy, operators=("conv", "relu", "tanh"), budget_s=1e6)
    detected(quiet, operators=("conv", "relu", "tanh"), budget_s=1e6)

    assert noisy.timed > quiet.timed
    assert noisy.renewed > quiet.renewed
    assert answers.decided > 0.7


def test_a_budget_that_ends_early_leaves_pairs_undecided_and_says_so() -> None:
    stopwatch = MadeUpStopwatch(RULES)

    found = detected(stopwatch, budget_s=1.0)

    assert stopwatch.seconds < 15.0
    assert found.decided < 1.0
    open_pairs = [answer for answer in found.pairs.values() if answer.fused is None]
    assert any("budget" in answer.problem for answer in open_pairs)
    assert found.rules().evidence["pairs"]["concat concat"]["problem"]


def test_operators_that_the_runtime_cannot_run_are_left_out_with_the_reason() -> None:
    found = detected(MadeUpStopwatch(RULES, cannot_run=frozenset({"Tanh"})))

    assert "Tanh" in found.failures["tanh"]
    assert not any("tanh" in pair for pair in found.pairs)
    assert found.pairs["conv", "relu"].fused is True


def test_a_runtime_that_runs_no_wall_is_an_error() -> None:
    with pytest.raises(MeasurementError, match="no wall"):
        detected(MadeUpStopwatch(RULES, cannot_run=frozenset({"AveragePool", "MaxPool", "Softmax", "Transpose", "PRelu"})))


def test_earlier_timings_are_not_repeated() -> None:
    kept: list[TimedBatch] = []

    class Remembering(MadeUpStopwatch):
        def time(self, networks: Sequence[Reference]) -> TimedBatch:
            timing = super().time(networks)
            kept.append(timing)
            return timing

        def remembered(self) -> list[TimedBatch]:
            return list(kept)

    first = Remembering(RULES, noise=0.01)
    detected(first)
    again = Remembering(RULES, noise=0.01, seed=1)
    found = detected(again)

    assert found.decided == 1.0
    # Only how large tensors must be is asked anew, and the views, which rest on no earlier answer.
    assert again.timed < 0.25 * first.timed


def test_every_stage_is_reported() -> None:
    steps: list[DetectionProgress] = []
    stopwatch = MadeUpStopwatch(RULES)
    Detector(stopwatch, budget_s=600.0, operators=("conv", "relu"), clock=stopwatch.clock, watch=steps.append).run()

    assert list(dict.fromkeys(step.name for step in steps)) == [
        "timing operators alone", "timing pairs", "patterns", "connections", "views",
    ]  # fmt: skip
    assert all(0.0 <= step.share <= 1.0 for step in steps)


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["onnxruntime", "litert", "ncnn"])
def test_the_shipped_rules_of_a_runtime_are_recovered(runtime: str) -> None:
    shipped = load_rules(runtime)
    stopwatch = MadeUpStopwatch(shipped, noise=0.02)

    found = Detector(stopwatch, budget_s=1e4, clock=stopwatch.clock).run()

    right = [answer.fused == shipped.fuses(*pair) for pair, answer in found.pairs.items() if answer.fused is not None]
    assert found.decided > 0.97
    assert sum(right) > 0.98 * len(right)
