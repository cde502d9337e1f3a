"""Intervals from errors on networks left out, and which of these are left out together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.predictors.intervals import (
    RANGE,
    VARIANCE,
    HeldOut,
    Interval,
    Length,
    conformal_interval,
    conformal_quantile,
    group_folds,
    held_out_by,
    interval_with_relatives,
    learned_growth,
    unseen_bounds_ms,
)
from latcast.records import Reference
from latcast.spaces.catalogue import model
from latcast.training.samples import NetworkSample, calibration_networks, lineages_of


def test_small_groups_stay_whole_and_folds_are_even() -> None:
    groups = [name for name in "abcdefghij" for _ in range(3)]

    fold = group_folds(groups, 5, seed=0)

    assert all(len({part for part, group in zip(fold, groups, strict=True) if group == name}) == 1 for name in "abcdefghij")
    assert np.bincount(fold).tolist() == [6, 6, 6, 6, 6]


def test_a_lineage_larger_than_a_fold_stays_whole() -> None:
    groups = ["residual"] * 12 + ["small"] * 10 + ["tiny"] * 8

    fold = group_folds(groups, 5, seed=0)

    assert [len(set(part)) for part in (fold[:12], fold[12:22], fold[22:])] == [1, 1, 1]
    assert len(set(fold)) == 3


def test_more_than_half_of_all_is_spread_over_all_folds() -> None:
    groups = ["large"] * 20 + ["small"] * 4 + ["tiny"] * 1

    fold = group_folds(groups, 5, seed=0)

    assert np.bincount(fold[:20]).tolist() == [4, 4, 4, 4, 4]
    assert len(set(fold[20:24])) == 1
    assert fold[24] != fold[20]


def test_a_synthetic_space_is_spread_however_small() -> None:
    groups = ["random_mixed"] * 10 + ["random_small"] * 5 + [f"lineage {index}" for index in range(20)]

    fold = group_folds(groups, 5, seed=0)

    assert np.bincount(fold[:10]).tolist() == [2, 2, 2, 2, 2]
    assert sorted(fold[10:15].tolist()) == [0, 1, 2, 3, 4]


def test_a_seed_gives_the_same_folds_and_another_other_ones() -> None:
    groups = ["large"] * 40

    assert group_folds(groups, 5, 1).tolist() == group_folds(groups, 5, 1).tolist()
    assert group_folds(groups, 5, 1).tolist() != group_folds(groups, 5, 2).tolist()


def test_groups_split_over_folds_are_named() -> None:
    assert held_out_by(["residual"] * 12 + ["shuffle"] * 8, 5, seed=0) == "lineage (residual by network)"
    assert held_out_by(["random_mixed"] * 8 + list("abcdefghij"), 5, seed=0) == "lineage (random_mixed by network)"
    assert held_out_by(["fire"] * 5 + ["shuffle"] * 5, 5, seed=0) == "lineage"


@pytest.mark.parametrize(
    ("count", "level", "rank"),
    [(19, 0.95, 19), (39, 0.95, 38), (100, 0.95, 96), (9, 0.9, 9), (10, 0.9, 10), (5, 0.95, 5), (1, 0.5, 1)],
)
def test_the_quantile_is_the_score_of_the_rank_by_hand(count: int, level: float, rank: int) -> None:
    """⌈(n + 1) · level⌉, at most n."""
    scores = np.random.default_rng(0).permutation(np.arange(1.0, count + 1))

    assert conformal_quantile(scores, level) == rank


def inside(predicted_ms: np.ndarray) -> HeldOut:
    """Predictions of which nothing lies outside the training range."""
    return HeldOut(predicted_ms, np.zeros(len(predicted_ms)))


def test_each_side_gets_half_of_what_may_miss() -> None:
    # Predictions from 20 % too high to 60 % too low, in equal steps of the logarithm.
    errors = np.linspace(np.log(0.8), np.log(1.6), 199)

    interval = conformal_interval(np.exp(errors), inside(np.ones(199)))

    # The 190th of 199 on either side: nine errors lie further out on each.
    assert interval.high == pytest.approx(np.exp(errors[189]))
    assert interval.low == pytest.approx(np.exp(errors[9]))
    assert interval.networks == 199


def test_an_interval_is_never_narrower_than_one_percent() -> None:
    interval = conformal_interval(np.full(50, 2.0), inside(np.full(50, 2.0)))

    assert (interval.low, interval.high) == pytest.approx((np.exp(-0.01), np.exp(0.01)))


def test_a_biased_predictor_gets_a_lopsided_interval_that_holds_its_prediction() -> None:
    actual = np.random.default_rng(0).lognormal(0.5, 0.05, 300)

    interval = conformal_interval(actual, inside(np.ones(300)))

    assert interval.low < 1 < interval.high
    assert interval.high > 1.6


def test_a_heavy_score_counts_for_many_light_ones() -> None:
    # 0.5, 0.25 and 0.25 of a weight of 1, and a third for the network to come: up to 1, 2 and 3 lie 3/8, 9/16 and 3/4.
    scores, weights = np.array([3.0, 1.0, 2.0]), np.array([0.25, 0.5, 0.25])

    assert [conformal_quantile(scores, level, weights) for level in (0.37, 0.38, 0.56, 0.57, 0.99)] == [1, 2, 2, 3, 3]


def test_a_larger_growth_leaves_networks_inside_narrower_intervals() -> None:
    # Ninety inside err by 5 %, ten of which half lies outside by 15 %: half of a growth of 4 makes three times as wide.
    error = np.concatenate([np.tile([0.05, -0.05], 45), np.tile([0.15, -0.15], 5)])
    held_out = HeldOut(np.ones(100), np.concatenate([np.zeros(90), np.full(10, 0.5)]))

    found = conformal_interval(np.exp(error), held_out, outside_growth=4.0)

    assert found.outside_growth == 4.0
    assert np.log([found.low, found.high]) == pytest.approx([-0.05, 0.05])
    low, high = found.bounds_ms(np.ones(2), np.array([0.0, 0.5]))
    assert np.log(high / low) == pytest.approx([0.1, 0.3])
    assert np.log(conformal_interval(np.exp(error), held_out).high) == pytest.approx(0.15 / 1.5)


TEN_EACH = ["a"] * 10 + ["b"] * 10
SCORES = np.concatenate([np.tile([0.1, -0.1], 5), np.tile([0.2, -0.2], 5)])


def test_an_interval_reaches_as_far_as_a_lineage_did_beyond_the_others() -> None:
    scores = np.concatenate([np.tile([0.1, -0.1], 50), [-0.2] * 48, [0.2] * 49, [0.5] * 3])

    interval = conformal_interval(np.exp(scores), inside(np.ones(200)), ["a"] * 100 + ["b"] * 100)

    # Of all together the 191st of 200 is 0.2 on either side. 97 of b lie twice as far out as the interval of a, 0.1, reaches; 181
    # of 200 are to be inside, so that the whole is doubled.
    assert np.log([interval.low, interval.high]) == pytest.approx([-0.4, 0.4])
    assert np.log(conformal_interval(np.exp(scores), inside(np.ones(200))).high) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("of_b", "expected"),
    [
        ([-0.2] * 10 + [0.2] * 87 + [0.5] * 3, [-0.5, 0.4]),
        ([-0.5] * 3 + [-0.2] * 87 + [0.2] * 10, [-0.45, 0.3]),
    ],
)
def test_each_side_of_a_lineage_is_held_against_the_same_side_of_the_others(of_b: list[float], expected: list[float]) -> None:
    """a reaches from -0.3 to 0.1, b from -0.2 to 0.2, all together from -0.3 to 0.2; 181 of 200 are to be inside.

    50 of a lie 1.5 times as far out as b reaches. Of the first b 90 lie at least twice as far out as a: the whole is doubled, the
    lower side up to the largest error. Of the second b 10 do: the whole is made half as wide again.
    """
    scores = np.array([-0.3] * 50 + [0.1] * 50 + of_b)

    interval = conformal_interval(np.exp(scores), inside(np.ones(200)), ["a"] * 100 + ["b"] * 100)

    assert np.log([interval.low, interval.high]) == pytest.approx(expected)


def test_every_lineage_has_equal_influence_on_the_width() -> None:
    scores = np.array([0.1, -0.1] * 49 + [0.1, 0.5] + [0.2, -0.2] * 4)

    interval = conformal_interval(np.exp(scores), inside(np.ones(108)), ["a"] * 100 + ["b"] * 8)

    # All of b lies twice as far out as a reaches, 0.1, and b is half of all, which reaches to 0.2.
    assert np.log([interval.low, interval.high]) == pytest.approx([-0.4, 0.4])


def test_an_interval_is_not_made_wider_than_the_largest_error() -> None:
    interval = conformal_interval(np.exp(SCORES), inside(np.ones(20)), TEN_EACH)

    # b lies twice as far out as the interval of a, but nothing is off by more than 0.2.
    assert np.log([interval.low, interval.high]) == pytest.approx([-0.2, 0.2])


def test_coverage_is_judged_by_the_interval_of_the_other_lineages() -> None:
    found = unseen_bounds_ms(np.exp(SCORES), inside(np.ones(20)), TEN_EACH)

    assert found is not None
    assert np.log(found[0]) == pytest.approx([-0.2] * 10 + [-0.1] * 10)
    assert np.log(found[1]) == pytest.approx([0.2] * 10 + [0.1] * 10)


def test_one_lineage_alone_gives_no_bounds() -> None:
    assert unseen_bounds_ms(np.exp(SCORES), inside(np.ones(20)), ["a"] * 20) is None
    assert conformal_interval(np.exp(SCORES), inside(np.ones(20)), ["a"] * 20) == conformal_interval(
        np.exp(SCORES), inside(np.ones(20))
    )


def test_ninety_percent_of_networks_of_new_lineages_lie_inside() -> None:
    """Lineages as uneven as the phones': 29 and 24 of 79 networks are of the two largest. An interval of networks holds 80 %."""
    sizes = (29, 24, 11, 8, 3, 2, 1, 1)
    lineages = [str(index) for index, size in enumerate(sizes) for _ in range(size)]
    shares: dict[bool, list[float]] = {True: [], False: []}
    for seed in range(100):
        rng = np.random.default_rng(seed)
        score = np.concatenate([rng.normal() * 0.08 + rng.normal(size=size) * 0.05 for size in sizes])
        new = rng.normal(size=(200, 1)) * 0.08 + rng.normal(size=(200, 10)) * 0.05
        for by_lineage, found in shares.items():
            interval = conformal_interval(np.exp(score), inside(np.ones(len(score))), lineages if by_lineage else None)
            found.append(float(np.mean((np.log(interval.low) <= new) & (new <= np.log(interval.high)))))

    assert np.mean(shares[False]) < 0.82
    assert 0.88 < np.mean(shares[True]) < 0.92


def test_a_network_of_a_synthetic_space_is_a_lineage_of_its_own() -> None:
    samples = networks("random_mixed", 2) + [NetworkSample(model(name), (), 1.0) for name in ("resnet50", "se_resnet50")]

    assert [lineages_of(samples)[index] for index in (2, 3)] == ["1x1 + 1x1 + wide"] * 2
    assert len(set(lineages_of(samples))) == 3


def networks(space: str, count: int) -> list[NetworkSample]:
    return [NetworkSample(Reference(space, {"seed": seed}), (), 1.0) for seed in range(count)]


def test_whole_networks_are_calibrated_on_where_there_are_twenty() -> None:
    samples = networks("published_segments", 30) + networks("resnet", 10) + networks("random_mixed", 10)

    assert calibration_networks(samples).nonzero()[0].tolist() == list(range(30, 50))
    assert calibration_networks(samples[:-1]).all()


def test_without_networks_the_interval_is_wide() -> None:
    interval = conformal_interval(np.zeros(0), inside(np.zeros(0)))

    assert (interval.low, interval.high, interval.networks) == (0.5, 2.0, 0)


@pytest.mark.parametrize("seed", range(3))
def test_ninety_percent_of_new_networks_lie_inside(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth, predicted = np.exp(rng.normal(size=(2, 400)) * 0.1 + 2)
    interval = conformal_interval(truth, inside(predicted))
    new_truth, new_predicted = np.exp(rng.normal(size=(2, 4000)) * 0.1 + 2)

    low, high = interval.bounds_ms(new_predicted, np.zeros(4000))

    # 400 calibration networks let the coverage itself vary by about ± 3 %.
    assert 0.86 <= np.mean((low <= new_truth) & (new_truth <= high)) <= 0.94


def test_calibration_knows_that_what_lies_outside_will_be_widened() -> None:
    # A hundred networks inside the range are off by up to 10 %, a hundred outside by up to 20 % (in logarithms).
    errors = np.linspace(-0.1, 0.1, 99)
    outside = np.repeat([0.0, 1.0], 99)
    held_out = HeldOut(np.ones(198), outside)
    actual = np.exp(np.concatenate([errors, 2 * errors]))

    interval = conformal_interval(actual, held_out)

    # Twice as wide for the second half: each half alone would give the same interval, the 190th of 199 ranks of its errors.
    assert np.log(interval.high) == pytest.approx(0.09, abs=0.003)
    assert np.log(interval.low) == pytest.approx(-0.09, abs=0.003)
    low, high = interval.bounds_ms(held_out.latency_ms, outside)
    covered = (low <= actual) & (actual <= high)
    assert [covered[:99].mean(), covered[99:].mean()] == pytest.approx([0.9, 0.9], abs=0.02)


def test_coverage_is_judged_with_the_widening_that_a_prediction_gets() -> None:
    held_out = HeldOut(np.ones(20), np.repeat([1.0, 0.0], 10))

    found = unseen_bounds_ms(np.exp(SCORES), held_out, TEN_EACH)

    # Of a (all outside) 0.1 counts for half, 0.05, which is the interval for b; b's 0.2 is doubled for a.
    assert found is not None
    assert np.log(found[0]) == pytest.approx([-0.4] * 10 + [-0.05] * 10)
    assert np.log(found[1]) == pytest.approx([0.4] * 10 + [0.05] * 10)


def test_what_lies_outside_the_training_range_widens_in_proportion() -> None:
    interval = Interval(low=0.5, high=2.0, networks=10, outside_growth=1.0)

    low, high = interval.bounds_ms(np.full(3, 8.0), np.array([0.0, 0.5, 1.0]))

    assert low == pytest.approx([4.0, 8 * 0.5**1.5, 2.0])
    assert high == pytest.approx([16.0, 8 * 2**1.5, 32.0])


@given(st.floats(0.1, 1), st.floats(1, 10), st.integers(0, 1000), st.floats(0, 3))
def test_an_interval_comes_back_from_json(low: float, high: float, networks: int, growth: float) -> None:
    interval = Interval(low, high, networks, growth)

    assert Interval.from_json(interval.to_json()) == interval


class TestLearnedGrowth:
    """Ten networks of each of two lineages, 30 % off without their lineage and 10 % with relatives, in both directions."""

    lineages = ["a"] * 10 + ["b"] * 10
    signs = np.tile([1.0, -1.0], 10)
    actual = np.ones(20)

    def off(self, error: float, novelty: float) -> HeldOut:
        return HeldOut(np.exp(error * self.signs), np.full(20, novelty))

    def test_an_unseen_lineage_gets_a_wider_interval_by_as_much_as_it_errs_more(self) -> None:
        growth = learned_growth(self.actual, self.off(0.3, 0.5), self.off(0.1, 0.0))

        # With u = 1 + growth / 2, ln(u) / 2 + ln(0.3 / u + 0.1) is least at u = 3.
        assert growth == 4.0
        interval = conformal_interval(self.actual, self.off(0.3, 0.5), self.lineages, outside_growth=growth)
        low, high = interval.bounds_ms(np.ones(2), np.array([0.0, 0.5]))
        assert np.log(high / low) == pytest.approx([0.2, 0.6])

    def test_equal_errors_on_unseen_lineages_learn_no_growth(self) -> None:
        assert learned_growth(self.actual, self.off(0.1, 0.5), self.off(0.1, 0.0)) == 0

    def test_uninformative_novelty_learns_no_growth(self) -> None:
        assert learned_growth(self.actual, self.off(0.3, 0.0), self.off(0.1, 0.0)) == 0

    def test_a_lineage_of_one_network_does_not_widen_the_interval_of_a_hundred_others(self) -> None:
        # One network errs by 50 % without its lineage, a hundred by 10 %; counted by lineage it would be half of all.
        lineages, error = ["a"] * 50 + ["b"] * 50 + ["c"], np.append(np.tile([0.1, -0.1], 50), 0.5)
        held_out, with_relatives = (HeldOut(np.exp(-each), np.zeros(101)) for each in (error, np.append(error[:-1], 0.1)))

        interval = interval_with_relatives(np.ones(101), held_out, with_relatives, lineages)

        assert np.log([interval.low, interval.high]) == pytest.approx([-0.1, 0.1])

    def test_errors_are_at_least_half_the_least_reach(self) -> None:
        # 0.005 in place of 0: 1 + growth is to be 0.165 / 0.005, 33.
        assert learned_growth(self.actual, self.off(0.165, 1.0), self.off(0.0, 0.0)) == 32


def test_the_root_of_the_variance_is_what_an_interval_grows_with() -> None:
    shares = np.array([0.0, 0.04, 0.25, -1e-17])

    assert Interval(novelty=VARIANCE).outside_share(shares) == pytest.approx([0, 0.2, 0.5, 0])
    assert Interval(novelty=RANGE).outside_share(shares) is shares


def test_an_interval_that_grows_by_something_else_is_refused() -> None:
    written = Interval(0.9, 1.1, 30, 2.0, VARIANCE).to_json()

    assert Interval.from_json(written).novelty == VARIANCE
    with pytest.raises(ValueError, match="grows by 'taste', expected range or variance"):
        Interval.from_json({**written, "novelty": "taste"})


def test_an_interval_narrows_with_the_length_as_errors_do() -> None:
    # Errors of 40 % at 1 ms that halve with each four times the length: a power of -0.5. The middle of 1 to 256 ms is 16 ms.
    latency_ms = np.repeat(4.0 ** np.arange(5), 40)
    error = np.tile([0.4, -0.4], 100) * latency_ms**-0.5
    held_out = HeldOut(latency_ms, np.zeros(200))

    found = conformal_interval(latency_ms * np.exp(error), held_out, by_length=True)

    assert found.length == Length(pytest.approx(0.5), 1.0, 256.0)
    assert np.log([found.low, found.high]) == pytest.approx([-0.1, 0.1])
    low_ms, high_ms = found.bounds_ms(np.array([0.1, 1.0, 16.0, 256.0, 9999.0]), np.zeros(5))
    assert np.log(high_ms / low_ms) == pytest.approx([0.8, 0.8, 0.2, 0.05, 0.05])
    assert found.in_words() == (
        "0.670 to 1.492 times the prediction up to 1 ms, narrowing to 0.975 to 1.025 times the prediction from 256 ms on"
    )
    assert Interval.from_json(found.to_json()) == found


def test_longer_networks_never_get_wider_intervals() -> None:
    latency_ms = np.repeat(4.0 ** np.arange(5), 40)
    error = np.tile([0.01, -0.01], 100) * latency_ms**0.5

    found = conformal_interval(latency_ms * np.exp(error), HeldOut(latency_ms, np.zeros(200)), by_length=True)

    assert found.length == Length()


@pytest.mark.parametrize("length", [{"exponent": 0.9}, {"exponent": -0.1}, {"exponent": 0.2, "shortest_ms": 0.0}])
def test_a_length_that_no_fit_gives_is_refused(length: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="changes with the length"):
        Interval.from_json({**Interval(0.9, 1.1, 3).to_json(), "length": length})
