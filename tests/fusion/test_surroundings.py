"""Choosing tensors and walls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from latcast.errors import MeasurementError
from latcast.fusion.decision import Estimate, TimedBatch
from latcast.fusion.quantities import LATENCY
from latcast.fusion.surroundings import Surroundings, choose_surroundings
from latcast.fusion.test_cases import ChainSetting
from latcast.kernels import FusionRules
from latcast.records import Reference
from latcast.spaces.operator_pairs import MAP, ROWS, TOKENS
from tests.fusion.made_up_runtime import MadeUpStopwatch

NOTHING = FusionRules("made-up")
POOL, SOFTMAX, TRANSPOSE = (ChainSetting(wall=wall) for wall in ("average_pool", "softmax", "transpose"))


def surroundings(own_us: dict[tuple[ChainSetting, str], float], walls_us: dict[ChainSetting, float]) -> Surroundings:
    ordered = tuple(sorted(walls_us, key=walls_us.__getitem__))
    return Surroundings({MAP: ordered}, {key: Estimate(value, 0.05, 20) for key, value in own_us.items()})


def test_healthy_walls_are_ordered_by_their_time() -> None:
    found, batches = choose_surroundings(MadeUpStopwatch(NOTHING, noise=0.005), ("conv", "relu", "linear"))

    assert [setting.wall for setting in found.settings[MAP]][-1] == "softmax"
    assert {setting.wall for setting in found.settings[MAP]} == {"average_pool", "max_pool", "softmax", "transpose", "p_relu"}
    assert {setting.wall for setting in found.settings[ROWS]} == {"softmax", "transpose", "hard_swish"}
    assert len(batches) == 5 + 3 + 3


def test_the_cost_of_an_operator_alone_is_that_of_its_kernel() -> None:
    found, _ = choose_surroundings(MadeUpStopwatch(NOTHING, noise=0.002, kernel_us=3.0), ("relu", "softmax", "add"))
    [setting] = [setting for setting in found.settings[MAP] if setting.wall == "average_pool"]

    relu = found.own_cost[setting, "relu"].value
    assert relu == pytest.approx(0.003, rel=0.2)
    assert found.own_cost[setting, "add"].value == pytest.approx(relu, rel=0.2)
    assert found.own_cost[setting, "softmax"].value > relu


def test_an_operator_that_fuses_with_itself_is_not_a_wall() -> None:
    rules = FusionRules("made-up", pairs={"transpose": frozenset({"transpose"})})

    found, _ = choose_surroundings(MadeUpStopwatch(rules, noise=0.005), ("conv", "relu"))

    assert {setting.wall for setting in found.settings[MAP]} == {"average_pool", "max_pool", "softmax", "p_relu"}


@pytest.mark.parametrize(("kernel_us", "rung"), [(20.0, 0), (0.05, 1)])
def test_networks_are_as_small_as_the_clock_allows(kernel_us: float, rung: int) -> None:
    stopwatch = MadeUpStopwatch(NOTHING, kernel_us=kernel_us, call_us=0.0)

    setting = choose_surroundings(stopwatch, ("relu",))[0].settings[MAP][0]

    assert (setting.size, setting.blocks) == LATENCY.sizes[rung]


def test_a_setting_that_was_timed_is_not_timed_again() -> None:
    first = MadeUpStopwatch(NOTHING)
    _, batches = choose_surroundings(first, ("conv", "relu"))
    again = MadeUpStopwatch(NOTHING)

    choose_surroundings(again, ("conv", "relu"), batches)

    assert again.timed == 0 < first.timed


def test_operators_that_run_between_no_walls_are_failures() -> None:
    found, _ = choose_surroundings(MadeUpStopwatch(NOTHING, cannot_run=frozenset({"Tanh"})), ("conv", "tanh"))

    assert list(found.failures) == ["tanh"]
    assert found.choices("conv", "tanh") == ()


def test_a_runtime_without_walls_is_an_error() -> None:
    class Mute(MadeUpStopwatch):
        def time(self, networks: Sequence[Reference]) -> TimedBatch:
            return TimedBatch({}, failures={reference.key: "no" for reference in networks})

    with pytest.raises(MeasurementError, match="no wall works"):
        choose_surroundings(Mute(NOTHING), ("conv",))


def test_a_wall_fused_with_an_operator_hides_it_and_is_passed_over() -> None:
    rules = FusionRules("made-up", pairs={"average_pool": frozenset({"relu"}), "max_pool": frozenset({"relu"})})

    found, _ = choose_surroundings(MadeUpStopwatch(rules, noise=0.005), ("conv", "relu"))

    assert found.choices("conv", "relu")[0].wall not in ("average_pool", "max_pool")
    assert found.choices("conv", "conv")[0].wall == "average_pool"


def test_a_wall_that_is_dear_in_one_layout_alone_is_still_a_wall() -> None:
    class InLayouts(MadeUpStopwatch):
        """Between softmaxes, whatever else there is pays two changes of layout."""

        def _extra_us(self, types: list[str]) -> float:
            plain = [kind == "Softmax" for kind in types]
            return 4.0 * sum(a != b for a, b in pairwise(plain))

    found, _ = choose_surroundings(InLayouts(NOTHING, noise=0.005), ("conv", "relu"))

    assert "p_relu" in {setting.wall for setting in found.settings[MAP]}


def test_where_short_operators_drown_in_the_call_networks_have_more_blocks() -> None:
    # A call of 40 µs that varies by 0.4 µs; a ReLU takes 0.55 µs.
    stopwatch = MadeUpStopwatch(NOTHING, kernel_us=0.5, call_us=40.0, noise=0.01)

    setting = choose_surroundings(stopwatch, ("relu",))[0].settings[MAP][0]

    assert setting.blocks > LATENCY.sizes[0][1]


def test_a_pooling_is_the_preferred_wall() -> None:
    own = {(setting, name): 1.0 for setting in (POOL, SOFTMAX) for name in ("conv", "relu")}

    assert surroundings(own, {POOL: 2.0, SOFTMAX: 5.0}).choices("conv", "relu") == (POOL, SOFTMAX)


def test_walls_behind_which_an_operator_disappears_come_last() -> None:
    own = {(POOL, "conv"): 1.0, (POOL, "relu"): 0.0, (SOFTMAX, "conv"): 1.0, (SOFTMAX, "relu"): 1.0}

    assert surroundings(own, {POOL: 2.0, SOFTMAX: 5.0}).choices("conv", "relu") == (SOFTMAX, POOL)


def test_walls_whose_layout_suits_neither_operator_are_avoided() -> None:
    # Between pools a softmax and a transposition take 2 longer each: two changes of layout, of which neighbours share one.
    own = {
        (POOL, "softmax"): 5.0, (POOL, "transpose"): 3.0, (SOFTMAX, "softmax"): 3.0, (SOFTMAX, "transpose"): 1.0,
        (POOL, "conv"): 1.0, (SOFTMAX, "conv"): 3.0,
    }  # fmt: skip
    found = surroundings(own, {POOL: 2.0, SOFTMAX: 5.0})

    assert found.choices("softmax", "transpose")[0] == SOFTMAX
    # One of a kind has no neighbour to share with.
    assert found.choices("conv", "softmax")[0] == POOL
    assert found.choices("conv", "conv")[0] == POOL
    # The least that it was seen to take, with its error.
    assert found.intrinsic_cost("transpose", MAP) == pytest.approx(1.05)


def test_a_transposition_may_be_one_with_a_neighbours_change_of_layout() -> None:
    # Between pools a softmax costs two changes of layout more; the transposition, which costs the same everywhere, is one itself.
    own = {(POOL, "softmax"): 3.0, (SOFTMAX, "softmax"): 1.0, (POOL, "transpose"): 1.0, (SOFTMAX, "transpose"): 1.0}
    found = replace(surroundings(own, {POOL: 1.0, SOFTMAX: 1.0}), kernel=1.0)

    assert found.hidden_cost(POOL, "softmax", "transpose") == pytest.approx(1.0)
    assert found.hidden_cost(SOFTMAX, "softmax", "transpose") == pytest.approx(0.0)


def test_walls_suit_operators_that_need_no_more_kernels_there_than_elsewhere() -> None:
    own = {(POOL, "conv"): 1.0, (SOFTMAX, "conv"): 3.0, (POOL, "add"): 1.0, (SOFTMAX, "add"): 1.0}
    found = replace(surroundings(own, {POOL: 1.0, SOFTMAX: 1.0}), kernel=1.0)

    assert found.suits(POOL, ("conv", "add")) is True
    assert found.suits(SOFTMAX, ("conv", "add")) is False
    assert found.suits(SOFTMAX, ("add",)) is True


def test_a_wall_that_hides_an_operator_does_not_count_for_its_layout() -> None:
    own = {(POOL, "conv"): 3.0, (POOL, "relu"): 0.0, (SOFTMAX, "conv"): 4.0, (SOFTMAX, "relu"): 1.0}
    found = surroundings(own, {POOL: 2.0, SOFTMAX: 5.0})

    assert found.intrinsic_cost("relu", MAP) == pytest.approx(1.05)
    assert found.misleads(SOFTMAX, "conv", "relu") is False


def test_an_operator_that_takes_longer_on_a_shrunken_tensor_pays_for_something_else() -> None:
    # An addition takes 1 on the whole tensor, 1.05 with its error: 1.2 is within a quarter of that, 3 is not.
    found = surroundings({(POOL, "add"): 1.0}, {POOL: 2.0})

    assert found.shrinking_cost(POOL, "add", 1.2) == 0.0
    assert found.shrinking_cost(POOL, "add", 3.0) == pytest.approx(1.95)


def test_pairs_on_rows_take_tokens_where_rows_cannot_run() -> None:
    rows, tokens = (replace(SOFTMAX, form=form) for form in (ROWS, TOKENS))
    own = {(tokens, name): Estimate(1.0, 0.01, 20) for name in ("linear", "relu")}
    found = Surroundings({MAP: (), ROWS: (rows,), TOKENS: (tokens,)}, own)

    assert found.choices("linear", "relu") == (tokens,)
