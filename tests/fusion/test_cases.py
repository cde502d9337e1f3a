"""Test cases: the networks of each question, and that the sums are 0 without fusion and the saved time with it."""

from __future__ import annotations

from itertools import product

import pytest

from latcast.fusion.decision import decide
from latcast.fusion.test_cases import (
    OPERATORS,
    PATTERNS,
    ChainSetting,
    TestCase,
    connectable,
    distinct_networks,
    forms,
    in_batches,
    inbound_case,
    outbound_case,
    own_time,
    pair_case,
    pattern_case,
    view_time,
)
from latcast.kernels import FusionRules
from latcast.spaces.operator_pairs import MAP, ROWS, TOKENS
from tests.fusion.made_up_runtime import MadeUpStopwatch

SETTING = ChainSetting(wall="softmax")
NOTHING = FusionRules("made-up")


def saved_share(case: TestCase, rules: FusionRules) -> float:
    """What an exact clock says is saved, as a share of what one kernel would save."""
    batch = MadeUpStopwatch(rules, noise=0.0, drift=0.0).time(case.networks)
    answer = decide(case, [batch])
    assert answer is not None
    return answer.saved.value / answer.share.value


@pytest.mark.parametrize(("first", "second"), [("conv", "relu"), ("relu", "concat"), ("concat", "relu"), ("add", "add"),
                                               ("pad", "conv"), ("split", "slice"), ("resize", "add")])  # fmt: skip
def test_a_pair_that_is_not_fused_saves_no_time(first: str, second: str) -> None:
    assert saved_share(pair_case(first, second, SETTING), NOTHING) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(("first", "second"), [("conv", "relu"), ("concat", "relu"), ("add", "add"), ("slice", "tanh")])
def test_a_pair_saves_the_shorter_operator_where_it_is_fused(first: str, second: str) -> None:
    rules = FusionRules("made-up", pairs={first: frozenset({second})}, multi_inbound=4)

    assert saved_share(pair_case(first, second, SETTING), rules) > 0.7


def test_a_pair_needs_one_network_of_its_own_and_singles_that_others_share() -> None:
    case = pair_case("conv", "relu", SETTING)

    assert {reference.name for reference in case.networks} == {"conv wall", "relu wall", "conv relu wall", "wall"}


def test_operators_with_two_inputs_are_compared_with_a_network_that_has_two() -> None:
    case = pair_case("add", "mul", SETTING)

    assert [r.parameters.get("operand") for r, c in case.saved.terms if r.name == "wall"] == [True]


@pytest.mark.parametrize("spelling", sorted(set(PATTERNS.values())))
def test_a_pattern_whose_operators_run_apart_saves_no_time(spelling: str) -> None:
    if spelling in ("layer_norm", "channel_shuffle", "unscaled_attention"):
        pytest.skip("its members are not the very operators that it is spelled with")
    assert saved_share(pattern_case(spelling, spelling, SETTING), NOTHING) == pytest.approx(0.0, abs=0.1)


def test_a_pattern_saves_most_of_its_operators_where_it_is_one_kernel() -> None:
    rules = FusionRules("made-up", patterns=("gelu",))

    assert saved_share(pattern_case("gelu", "gelu", SETTING), rules) > 0.8


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    ("multi_inbound", "fused"), [(0, (False, False)), (1, (True, False)), (2, (False, True)), (4, (True, True))]
)
def test_inbound_cases_tell_into_which_input_a_join_is_fused(multi_inbound: int, fused: tuple[bool, bool], side: int) -> None:
    rules = FusionRules("made-up", pairs={"conv": frozenset({"add"})}, multi_inbound=multi_inbound)

    share = saved_share(inbound_case("conv", "add", side, SETTING), rules)

    assert share == pytest.approx(1.0 if fused[side] else 0.0, abs=0.3)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(("multi_outbound", "fused"), [(0, (False, False)), (1, (True, False)), (2, (False, True))])
def test_outbound_cases_tell_which_reader_is_fused(multi_outbound: int, fused: tuple[bool, bool], side: int) -> None:
    rules = FusionRules("made-up", pairs={"conv": frozenset({"relu"})}, multi_outbound=multi_outbound)

    share = saved_share(outbound_case("conv", "relu", side, SETTING), rules)

    assert share == pytest.approx(1.0 if fused[side] else 0.0, abs=0.3)


@pytest.mark.parametrize("name", ["reshape", "flatten", "squeeze", "identity", "dropout"])
def test_a_view_costs_a_kernel_or_zero(name: str) -> None:
    free = FusionRules("made-up", free=frozenset({"reshape", "flatten", "squeeze", "unsqueeze", "identity", "dropout"}))
    times = []
    for rules in (NOTHING, free):
        combination = view_time(name, SETTING)
        batch = MadeUpStopwatch(rules, noise=0.0, drift=0.0).time(combination.networks)
        times.append(combination.value(batch.costs).mean())

    assert times[0] > 1e-3
    assert times[1] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("name", ["conv", "add", "concat", "resize"])
def test_an_operator_takes_about_one_kernel_by_itself(name: str) -> None:
    combination = own_time(name, SETTING)
    batch = MadeUpStopwatch(NOTHING, noise=0.0, drift=0.0, kernel_us=100.0).time(combination.networks)

    # What changes the shape is timed with what restores it: one operator more, two for a map of another height and width.
    most = {"conv": 1, "add": 1, "concat": 2, "resize": 3}[name]
    assert 0.1 <= combination.value(batch.costs).mean() <= 0.11 * most


def test_batches_hold_whole_cases_of_one_setting() -> None:
    cases = [pair_case(*pair, setting) for setting in (SETTING, ChainSetting()) for pair in product(OPERATORS[:6], OPERATORS[:6])]
    batches = in_batches(cases, 30)

    assert sorted(case.question for batch in batches for case in batch) == sorted(case.question for case in cases)
    assert all(len({case.setting for case in batch}) == 1 for batch in batches)
    assert all(len(distinct_networks(batch)) <= 30 for batch in batches)


def test_a_case_larger_than_a_batch_is_a_batch_by_itself() -> None:
    cases = [pair_case("conv", "relu", SETTING), pair_case("conv", "tanh", SETTING)]

    assert [len(batch) for batch in in_batches(cases, 2)] == [1, 1]


def test_there_are_at_least_twenty_operators_and_nearly_all_their_pairs() -> None:
    pairs = [pair for pair in product(OPERATORS, OPERATORS) if connectable(*pair)]

    assert len(OPERATORS) >= 20
    assert len(pairs) > 0.95 * len(OPERATORS) ** 2


def test_forms_of_pairs() -> None:
    assert forms("conv", "relu") == (MAP,)
    assert forms("linear", "relu") == (ROWS, TOKENS)
    assert forms("linear", "bias_add") == (TOKENS,)
    assert forms("linear", "max_pool") == ()
    assert not connectable("reduce_mean", "matmul")
