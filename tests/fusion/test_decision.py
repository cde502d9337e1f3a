"""From rounds to answers: numbers worked out by hand, and how often the answers are right when the truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.fusion import decision
from latcast.fusion.decision import Estimate, TimedBatch, aligned, decide, estimate
from latcast.fusion.quantities import LATENCY
from latcast.fusion.test_cases import ChainSetting, Combination, pair_case

SETTING = ChainSetting(blocks=2)
CASE = pair_case("conv", "relu", SETTING)
FIRST = SETTING.network("conv", "wall").key
SECOND = SETTING.network("relu", "wall").key
TOGETHER = SETTING.network("conv", "relu", "wall").key
BASE = SETTING.network("wall").key


def batch(first: float, second: float, together: float, base: float = 10.0, *, noise: float = 0.0, seed: int = 0) -> TimedBatch:
    """Forty rounds of the four networks, in milliseconds."""
    rng = np.random.default_rng(seed)
    levels = {FIRST: first, SECOND: second, TOGETHER: together, BASE: base}
    return TimedBatch({key: level * np.exp(noise * rng.standard_normal(40)) for key, level in levels.items()})


def test_inequation_1_by_hand() -> None:
    # Two blocks: conv takes 6 / 2 = 3, relu 2 / 2 = 1; together they take 8 / 2 - 2 = 3.5 instead of 4: 0.5 is saved.
    batches = [batch(16.0, 12.0, 17.0) for _ in range(60)]
    answer = decide(CASE, batches, alpha=0.3)

    assert answer is not None
    assert (answer.saved.value, answer.share.value) == pytest.approx((0.5, 1.0))
    assert answer.yes is True
    assert decide(CASE, batches, alpha=0.6).yes is False  # type: ignore[union-attr]


@pytest.mark.parametrize(("together", "yes"), [(16.9, None), (16.7, True), (17.1, False)])
def test_little_more_than_alpha_is_not_a_fusion(together: float, yes: bool | None) -> None:
    # conv takes 3, relu 1, and 0.55, 0.65 or 0.45 of it are saved: 0.55 is surely more than α, but not by a tenth of relu's time.
    answer = decide(CASE, [batch(16.0, 12.0, together) for _ in range(600)])

    assert answer is not None
    assert answer.yes is yes


def test_the_margin_is_a_share_of_the_shorter_operator() -> None:
    answer = decide(CASE, [batch(16.0, 12.0, 16.0)])

    assert answer is not None
    data = answer.to_json(LATENCY)
    assert (data["fused"], data["saved_us"], data["own_us"], data["margin"]) == (True, 1000.0, 1000.0, 0.5)
    # Nothing varies from round to round; 0.6 % of each network from loading to loading, over two blocks.
    assert data["saved_error_us"] == pytest.approx(1000 * 0.006 / 2 * (16**2 + 12**2 + 16**2 + 10**2) ** 0.5, rel=1e-3)
    assert data["rounds"] == 40


@pytest.mark.parametrize(
    ("first", "second", "together", "yes"),
    [
        # Kernels in two blocks between two walls: three of conv, one of relu, and one less or as many together.
        (16.0, 12.0, 16.0, True),
        (16.0, 12.0, 18.0, False),
        # Three of either, of which two are changes of layout: one less than those of both is a fusion by the kernel saved,
        # though only a third of the shorter one.
        (16.0, 16.0, 20.0, True),
        # A kernel that takes time in one block of two is not visible.
        (16.0, 11.0, 16.0, None),
    ],
)
def test_where_kernels_are_counted_a_fusion_saves_one(first: float, second: float, together: float, yes: bool | None) -> None:
    answer = decide(CASE, [batch(first, second, together)], kernel=1.0)

    assert answer is not None
    assert answer.yes is yes


def test_with_kernels_counted_a_shared_change_of_layout_is_not_a_fusion() -> None:
    # Three kernels each, of which two are changes of layout; two of the four together are shared, and nothing is fused.
    shared, fused = batch(16.0, 16.0, 18.0), batch(16.0, 16.0, 16.0)

    assert decide(CASE, [shared], kernel=1.0, hidden_cost=2.0).yes is None  # type: ignore[union-attr]
    assert decide(CASE, [fused], kernel=1.0, hidden_cost=2.0).yes is True  # type: ignore[union-attr]


def test_the_common_part_of_a_round_is_the_hosts_state() -> None:
    still = batch(16.0, 12.0, 16.0, noise=0.01)
    host = np.exp(0.3 * np.random.default_rng(5).standard_normal(40))
    moved = TimedBatch({key: rounds * host for key, rounds in still.costs.items()})

    # Thirty per cent of the host's doing are gone, one per cent of each network's own is left.
    assert 0.003 < moved.noise < 0.02
    for key in still.costs:
        assert np.std(moved.steady[key]) / moved.levels[key] < 0.03


def test_noise_that_hides_the_difference_leaves_it_undecided() -> None:
    answer = decide(CASE, [batch(160.0, 152.0, 161.0, base=150.0, noise=0.2)])

    assert answer is not None
    assert answer.yes is None
    assert answer.confidence < 0.975 or not answer.visible


def test_an_operator_that_cannot_be_seen_leaves_it_undecided_however_sure_the_sum() -> None:
    # The wall takes the relu in: behind it, relu costs nothing, and nothing can be saved.
    answer = decide(CASE, [batch(16.0, 10.0, 16.0, noise=0.001)])

    assert answer is not None
    assert (answer.yes, answer.visible) == (None, False)


def test_several_batches_make_an_answer_surer() -> None:
    batches = [batch(16.0, 12.0, 16.0, noise=0.05, seed=seed) for seed in range(6)]
    one, all_of_them = estimate(CASE.saved, batches[:1]), estimate(CASE.saved, batches)

    assert one is not None
    assert all_of_them is not None
    assert all_of_them.error < 0.7 * one.error
    assert decide(CASE, batches).rounds == 240  # type: ignore[union-attr]


def test_batches_that_disagree_make_it_less_sure() -> None:
    alike = estimate(CASE.saved, [batch(16.0, 12.0, 16.0, noise=0.002, seed=seed) for seed in (1, 2)])
    apart = estimate(CASE.saved, [batch(16.0, 12.0, 16.0, noise=0.002, seed=1), batch(16.0, 12.0, 18.0, noise=0.002, seed=2)])

    assert alike is not None
    assert apart is not None
    assert apart.error > 4 * alike.error


def test_batches_without_all_networks_do_not_count() -> None:
    lacking = TimedBatch({FIRST: np.ones(5)})

    assert decide(CASE, [lacking]) is None
    assert estimate(CASE.saved, [lacking]) is None


def test_an_exact_estimate_is_above_a_limit_or_not() -> None:
    assert Estimate(1.0, 0.0, 10).probability_above(0.5) == 1.0
    assert Estimate(1.0, 0.0, 10).probability_above(1.5) == 0.0
    assert Estimate(1.0, 0.5, 10).probability_above(1.0) == pytest.approx(0.5)


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.1])
def test_errors_are_as_large_as_they_say(noise: float, monkeypatch: pytest.MonkeyPatch) -> None:
    # The true value lies within two standard errors in about 95 % of repetitions, whatever the noise between rounds.
    monkeypatch.setattr(decision, "SESSION_NOISE", 0.0)
    truth = 1.0
    within = [
        abs(found.value - truth) < 2 * found.error
        for seed in range(300)
        if (found := estimate(CASE.saved, [batch(16.0, 12.0, 16.0, noise=noise, seed=seed)])) is not None
    ]

    assert 0.9 <= np.mean(within) <= 0.99


def test_an_implausible_saving_gives_no_answer() -> None:
    # Three times what the shorter operator takes is saved: two changes of layout, perhaps.
    answer = decide(CASE, [batch(16.0, 12.0, 12.0, noise=0.001)])

    assert answer is not None
    assert (answer.yes, answer.plausible, answer.visible) == (None, False, True)


def test_a_saving_by_a_shared_layout_is_not_a_fusion() -> None:
    # 1 of 1 is saved. If 0.2 of it may be a layout's, 0.8 is left and enough; if 0.6 may be, 0.4 is left and is not.
    batches = [batch(16.0, 12.0, 16.0) for _ in range(20)]

    assert decide(CASE, batches, hidden_cost=0.2).yes is True  # type: ignore[union-attr]
    doubtful = decide(CASE, batches, hidden_cost=0.6)
    assert doubtful is not None
    assert (doubtful.yes, doubtful.plausible) == (None, False)


def test_a_shared_layout_does_not_prevent_the_answer_apart() -> None:
    batches = [batch(16.0, 12.0, 18.0) for _ in range(20)]

    assert decide(CASE, batches, hidden_cost=0.6).yes is False  # type: ignore[union-attr]


def test_a_host_that_was_slower_meanwhile_is_divided_out_of_a_batch() -> None:
    first = batch(16.0, 12.0, 16.0)
    later = TimedBatch({key: 1.5 * rounds for key, rounds in first.costs.items()}, "another")

    found = aligned(later, first.levels)

    assert found.levels == pytest.approx(first.levels)
    assert found.worker == "another"
    assert aligned(later, {}) is later


@pytest.mark.parametrize("together", [16.0, 18.0])
def test_decided_answers_are_right(together: float) -> None:
    answers = [decide(CASE, [batch(16.0, 12.0, together, noise=0.03, seed=seed)]) for seed in range(300)]
    decided = [answer.yes for answer in answers if answer is not None and answer.yes is not None]

    assert len(decided) > 200
    assert np.mean([yes == (together == 16.0) for yes in decided]) > 0.97


def test_sums_of_latencies_add_up_and_cancel() -> None:
    a, b = SETTING.network("conv"), SETTING.network("relu")
    total = Combination.of(2, (1, a), (1, b)) - Combination.of(2, (1, b)) + Combination.of(1, (3, a)) * 2.0

    assert [(reference.key, coefficient) for reference, coefficient in total.terms] == [(a.key, 6.5)]
    assert total.value({a.key: np.array([1.0, 2.0])}).tolist() == [6.5, 13.0]
    assert total.standard_deviation({a.key: 2.0}, 0.1) == pytest.approx(1.3)
