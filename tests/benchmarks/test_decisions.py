"""Judging of decisions between platforms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import decisions
from benchmarks.decisions import (
    KNOWN,
    NEW,
    SHIPPED,
    Decisions,
    Forecasts,
    decide,
    figures,
    judged,
    learn_shared,
    pairs_of,
    phone_rows,
    question_of,
    regret,
    reliability,
    student_probability,
    widths,
)
from latcast.devices.device_model import KnownPlatform
from latcast.predictors.joint_platforms import LEVEL_QUANTILE, OWN, PARTS, SharedByPlatforms, Traits
from latcast.records import Platform
from shipping.arbitration import chip_folds
from shipping.known_platforms import KnownPlatforms
from tests.devices.other_answers import small_pool, with_other_answers


def traits(name: str) -> Traits:
    return Traits.of(Platform.parse(name))


@pytest.mark.parametrize(
    ("second", "question"),
    [
        ("a/tflite-1/cpu4+ruy/int8", "precision"),
        ("a/tflite-1/cpu1+ruy/fp32", "threads"),
        ("a/tflite-2/cpu4+ruy/fp32", "runtime"),
        ("a/armnn-2/cpu4+neon/fp32", "runtime"),
        ("a/armnn-2/gpu+opencl/fp32", "unit"),
        ("a/tflite-1/gpu/fp16", "unit"),
        ("a/armnn-2/gpu+opencl/int8", "several"),
        ("b/tflite-1/cpu4+ruy/fp32", "device"),
        ("a/tflite-2/cpu4+ruy/int8", "several"),
    ],
)
def test_what_is_decided_is_what_differs(second: str, question: str) -> None:
    assert question_of(traits("a/tflite-1/cpu4+ruy/fp32"), traits(second)) == question


def forecasts(name: str, log_ms: np.ndarray, mean: np.ndarray, deviation: float = 0.1, chip: str = "") -> Forecasts:
    networks = np.arange(len(log_ms))
    platform = KnownPlatform(name, "cpu", chip or name.split("/")[0], {}, networks, log_ms, "data")
    return Forecasts(
        KNOWN, 0, platform, traits(name), networks, log_ms, mean, np.full(len(log_ms), deviation), mean, {100: 0.0, 101: 1.0}
    )  # fmt: skip


def test_regret_is_how_much_longer_the_choice_takes_than_the_better_one() -> None:
    ratio, expected = np.log([2.0, 0.5, 0.5, 2.0]), np.array([1.0, -1.0, 1.0, -1.0])

    # The first two are right; then the one that takes twice as long is chosen.
    assert regret(ratio, expected) == pytest.approx([0.0, 0.0, 100.0, 100.0])


def test_student_s_distribution_has_the_quantile_of_the_level() -> None:
    assert student_probability(np.array([-LEVEL_QUANTILE, 0.0, LEVEL_QUANTILE])) == pytest.approx([0.05, 0.5, 0.95], abs=1e-4)


def test_the_second_of_a_pair_is_the_quantised_one_whatever_the_order() -> None:
    zero = np.zeros(2)
    fp32, int8 = forecasts("a/r-1/cpu4/fp32", zero, zero), forecasts("a/r-1/cpu4/int8", zero - 1, zero - 0.8)

    for listed in ([fp32, int8], [int8, fp32]):
        [pair] = pairs_of(listed, {"a": 0})
        assert (pair.second, pair.question) == (int8, "precision")
        assert pair.ratio.tolist() == [-1.0, -1.0]
        assert pair.expected == pytest.approx([-0.8, -0.8])
        assert pair.mean_ratio == 0.0


def test_two_devices_are_compared_only_if_what_is_learned_is_learned_without_both() -> None:
    zero = np.zeros(2)
    listed = [forecasts("a/r-1/cpu4/fp32", zero, zero), forecasts("b/r-1/cpu4/fp32", zero, zero)]

    assert [pair.question for pair in pairs_of(listed, {"a": 1, "b": 1})] == ["device"]
    assert pairs_of(listed, {"a": 1, "b": 2}) == []


def test_widths_are_those_with_which_nine_in_ten_lie_inside() -> None:
    error = np.arange(1, 101) / 100
    found = forecasts("a/r-1/cpu4/fp32", error, np.zeros(100), deviation=0.5)

    # Nine tenths are at most 0.9, which is 1.8 deviations, where 1.645 are expected.
    assert widths([found]) == {(KNOWN, 0): pytest.approx(1.8 / 1.645, rel=0.02)}


def test_shares_are_found_again_in_made_up_errors() -> None:
    rng = np.random.default_rng(0)
    listed = []
    for number in range(60):
        device = rng.standard_t(4, 40)
        for precision in ("fp32", "int8"):
            own = rng.standard_t(4, 40)
            error = 0.1 * (np.sqrt(0.8) * device + np.sqrt(0.2) * own)
            name = f"d{number}/r-1/cpu4/{precision}"
            listed.append(forecasts(name, error, np.zeros(40), 0.1 * LEVEL_QUANTILE / 1.645))
    pairs = pairs_of(listed, {f"d{number}": number for number in range(60)})

    found = learn_shared(pairs, {})

    # Only what the two precisions of a device do not share shows in a ratio, together with the scale: 2 · 0.2.
    apart = 1 - found.correlation([pairs[0].first.traits], [pairs[0].second.traits])[0]
    assert found.widening**2 * 2 * apart == pytest.approx(0.4, rel=0.15)
    assert set(found.share) == {*PARTS, OWN}
    assert sum(found.share.values()) == pytest.approx(1.0)


def test_figures_count_what_is_sure_and_right() -> None:
    ratio = np.array([-0.5, 0.5, 0.1, -0.1])
    expected = np.array([-0.4, -0.4, 0.01, 0.01])
    ones = np.ones(4)
    found = figures(Decisions(np.zeros(4), ratio, expected, 0.1 * ones, 0.3 * ones, -ones, ones))

    # 0.4 is four units of 0.1: sure; one of these two is right. Of the other two, one is.
    assert (found["decisions"], found["right"], found["sure"]) == (4, 50.0, 50.0)
    assert (found["right_when_sure"], found["right_when_unknown"]) == (50.0, 50.0)
    assert found["independent_sure"] == 0.0
    assert (found["always_second"], found["mean_ratio"]) == (50.0, 50.0)
    assert found["regret_mean"] == pytest.approx(100 * (np.expm1(0.5) + np.expm1(0.1)) / 4)


def test_reliability_puts_stated_beside_right() -> None:
    ones = np.ones(4)
    found = reliability(Decisions(0 * ones, np.array([1, 1, 1, -1.0]), ones * 0.0527, 0.1 * ones, ones, ones, ones))

    # 0.527 units: a probability of 0.686; three of four are right.
    assert found == [{"from": 0.6, "to": 0.7, "decisions": 4, "stated": pytest.approx(68.7, abs=0.3), "right": 75.0}]


def test_correlated_errors_make_the_ratio_s_deviation_smaller() -> None:
    zero = np.zeros(2)
    pairs = pairs_of([forecasts("a/r-1/cpu4/fp32", zero, zero), forecasts("a/r-1/cpu4/int8", zero, zero)], {"a": 0})

    found = decide(pairs, [0], {}, SharedByPlatforms({"device": 0.75, "own": 0.25}, 2.0))

    unit = 0.1 * 1.645 / LEVEL_QUANTILE
    assert found.alone == pytest.approx([unit * 2**0.5] * 2)
    assert found.deviation == pytest.approx([2 * unit * (2 * 0.25) ** 0.5] * 2, rel=1e-3)


def test_shipped_phones_have_rows_of_their_own_without_baselines() -> None:
    zero = np.zeros(2)
    found = [
        replace(forecasts("a/r-1/cpu4/fp32", zero, zero), setting=SHIPPED),
        replace(forecasts("a/r-1/cpu4/int8", zero - 1, zero - 1), setting=SHIPPED),
    ]

    rows = phone_rows(found)

    assert [(row["setting"], row["dataset"], row["question"]) for row in rows] == [
        (SHIPPED, "data", "precision"), (SHIPPED, "data", "all"),
    ]  # fmt: skip
    assert (rows[0]["decisions"], rows[0]["right_when_sure"]) == (2, 100.0)
    assert rows[0]["mean_ratio"] is None


def test_decisions_on_a_chip_are_as_sure_as_other_chips_say() -> None:
    """Errors three times as large on the chips of one fold leave their own deviations, and widen those of the others."""
    errors = np.random.default_rng(0).normal(0, 0.1, (16, 20))
    names = [f"d{row // 2}/r-1/cpu4/{('fp32', 'int8')[row % 2]}" for row in range(16)]

    def found(chips: set[str]) -> list[Forecasts]:
        return [
            forecasts(name, error * (3 if name.partition("/")[0] in chips else 1), np.zeros(20))
            for name, error in zip(names, errors, strict=True)
        ]

    pool = replace(small_pool(), platforms=tuple(each.platform for each in found(set())))
    fold = chip_folds(pool.platforms, 4)
    own = {chip for chip in fold if fold[chip] == 0}

    (pairs, before), (_, after) = (judged(pool, found(chips)) for chips in (set(), own))

    on_own = np.array([pairs[int(row)].first.platform.silicon in own for row in before.pair])
    assert before.pair.tolist() == after.pair.tolist()
    assert after.deviation[on_own].tolist() == before.deviation[on_own].tolist()
    assert (after.deviation[~on_own] > before.deviation[~on_own]).all()


@pytest.mark.slow
@pytest.mark.parametrize("setting", [KNOWN, NEW])
def test_a_platform_is_forecast_without_the_answers_of_the_held_out_lineages(setting: str) -> None:
    """Nor, where the device is new, with any answer of its chip but those of the networks that were measured on it.

    How members of known devices weigh is learned on the chips of other folds, whose forecasts of other lineages may rest on the
    answers.
    """
    chips = small_pool().platforms[:8]
    named = tuple(
        replace(each, name=f"d{row // 2}/tflite-2.14/cpu{1 + 3 * (row % 2)}/fp32", source="data")
        for row, each in enumerate(chips)
    )
    network = 4
    fold = chip_folds(named, 3)

    def by_name(pool: KnownPlatforms) -> dict[str, Forecasts]:
        return {
            each.platform.name: each for each in decisions.forecasts(pool)
            if each.setting == setting and network in each.networks.tolist()
        }  # fmt: skip

    def changed(each: KnownPlatform) -> bool:
        return setting == NEW or fold[each.silicon] == 0

    pool = replace(small_pool(), platforms=named)
    before, after = (by_name(each) for each in (pool, with_other_answers(pool, network, changed)))

    # The answers are three times as long, log 3 = 1.1.
    within = {"abs": 0.02} if setting == KNOWN else {}
    assert before.keys() == {each.name for each in named}
    for name in [each.name for each in named if changed(each)]:
        assert after[name].mean == pytest.approx(before[name].mean, **within)
        assert after[name].deviation == pytest.approx(before[name].deviation, **within)
        assert after[name].simple == pytest.approx(before[name].simple)
