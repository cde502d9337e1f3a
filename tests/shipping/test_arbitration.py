from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from latcast.devices.device_model import arbitration_at
from latcast.predictors.network_memory import NEAR_SHARE
from shipping.arbitration import (
    NEW_LINEAGES,
    NEW_NETWORKS,
    NOTHING,
    DeviceTrial,
    MemberForecasts,
    chip_folds,
    fit_calibrated,
    learn_arbitration,
    mixed,
    mixed_by_others,
    try_fold,
)
from shipping.known_platforms import KnownPlatforms
from tests.devices.made_up_devices import features, platforms, true_ms
from tests.devices.other_answers import largest_change, small_pool, with_other_answers

DEVIATION = 0.1
TESTED = 20


def tried(held_out: str, member_bias: tuple[float, float], seed: int, measured: int = 3) -> list[MemberForecasts]:
    """Trials on thirty chips, whose two members err by a bias and noise of :data:`DEVIATION`; both say so of their noise."""
    rng = np.random.default_rng(seed)
    found = []
    for index, platform in enumerate(platforms()):
        networks = np.arange(measured)
        log_ms = rng.normal(0.0, 1.0, TESTED)
        alone = replace(platform, silicon=f"chip{index}")
        trial = DeviceTrial(alone, networks, np.arange(TESTED), log_ms[:measured], log_ms, held_out, index % 4)
        said = np.array([log_ms + bias + rng.normal(0.0, DEVIATION, TESTED) for bias in member_bias])
        variance = np.full((2, TESTED), DEVIATION**2)
        known = np.full(TESTED, float(held_out == NOTHING))
        found.append(
            MemberForecasts(trial, ("right", "wrong"), np.zeros(2), said, 0 * variance, variance, known, np.zeros(TESTED))
        )
    return found


def test_the_member_that_errs_less_on_chips_left_out_weighs_most() -> None:
    found = learn_arbitration([*tried(NEW_NETWORKS, (0.0, 0.7), 1), *tried(NOTHING, (0.7, 0.0), 2)])

    (given,) = found["cpu"]
    assert given.measured == 3
    assert given.new.weights["right"] > 0.8
    assert given.known.weights["wrong"] > 0.8


def test_many_chips_of_another_kind_of_unit_do_not_outvote_a_few_of_the_own() -> None:
    def on_npu(one: MemberForecasts) -> MemberForecasts:
        platform = one.trial.platform
        return replace(
            one, trial=replace(one.trial, platform=replace(platform, kind="npu", silicon=f"npu of {platform.silicon}"))
        )

    few = [on_npu(one) for one in tried(NEW_NETWORKS, (0.0, 0.7), 1)[:2]]
    thirty = tried(NEW_NETWORKS, (0.7, 0.0), 2)
    (given,) = learn_arbitration([*few, *thirty])["npu"]

    assert given.new.weights["right"] > 0.5


def test_ninety_percent_of_networks_lie_inside_what_was_learned() -> None:
    both = [*tried(NEW_NETWORKS, (0.0, 0.0), 1), *tried(NEW_LINEAGES, (0.0, 0.0), 2), *tried(NOTHING, (0.0, 0.0), 3)]
    (given,) = learn_arbitration(both)["cpu"]

    later = [*tried(NEW_NETWORKS, (0.0, 0.0), 4), *tried(NEW_LINEAGES, (0.0, 0.0), 5)]

    inside = []
    for one in later:
        mean, variance = mixed(one, given)
        inside.append(np.abs(mean - one.trial.log_ms) <= 1.645 * np.sqrt(variance))
    # 1,200 networks: a standard deviation of 0.9 %, and as much again of what was learned from as many.
    assert np.mean(inside) == pytest.approx(0.9, abs=0.04)


def test_a_member_that_knows_its_own_noise_is_taken_at_its_word() -> None:
    """Alone it has nothing to disagree with; the factors that are tried lie a quarter apart."""
    alone = [
        replace(
            one, names=("right",), scores=one.scores[:1], log_ms=one.log_ms[:1], open_variance=one.open_variance[:1],
            noise_variance=one.noise_variance[:1],
        )
        for one in tried(NEW_NETWORKS, (0.0, 0.0), 1)
    ]  # fmt: skip

    (given,) = learn_arbitration(alone)["cpu"]

    assert 0.75 < given.new.noise_factor < 1.25


@pytest.mark.parametrize("held_out", [NOTHING, NEW_LINEAGES])
def test_what_was_not_tried_is_weighed_as_what_was(held_out: str) -> None:
    (given,) = learn_arbitration(tried(held_out, (0.0, 0.7), 1))["cpu"]

    assert given.new.weights == given.known.weights
    assert given.new.weights["right"] > 0.8


def test_a_calibrated_model_covers_a_chip_that_it_never_saw() -> None:
    model = fit_calibrated(platforms()[2:18], features(), [f"lineage {index // 3}" for index in range(20)])
    described = model.described(features())
    new = platforms()[0]

    forecast = model.forecast(new.kind, new.covariates, described.rows(np.arange(10)), new.log_ms[:10])
    log_ms, deviation = described.log_ms(forecast)

    assert [each.measured for each in model.arbitration["cpu"]] == [0, 1, 3, 10]
    error = np.abs(log_ms - np.log(true_ms()[0]))[10:]
    assert np.mean(error) < 0.1
    assert np.mean(error <= 1.645 * deviation[10:]) >= 0.8


NETWORK, CHIP = 4, "chip1"


def trials(pool: KnownPlatforms) -> list[MemberForecasts]:
    asked = {"folds": 3, "measured": (0, 3), "draws": 1}
    return [one for fold in range(3) for one in try_fold(pool.platforms, pool.features, pool.lineages, fold, **asked)[2]]


@cache
def usual_trials() -> list[MemberForecasts]:
    return trials(small_pool())


def of_the_chip(one: MemberForecasts) -> bool:
    return one.trial.platform.silicon == CHIP


def that_no_platform_ran(one: MemberForecasts) -> bool:
    return one.trial.held_out != NOTHING


def test_a_forecast_on_a_held_out_chip_is_made_without_its_answers() -> None:
    other = with_other_answers(small_pool(), NETWORK, lambda each: each.silicon == CHIP)

    count, change = largest_change(usual_trials(), trials(other), NETWORK, of_the_chip)
    assert count
    assert change == 0.0


def test_a_forecast_of_a_held_out_network_is_made_without_any_platform_s_answers() -> None:
    other = with_other_answers(small_pool(), NETWORK, lambda each: True)

    count, change = largest_change(usual_trials(), trials(other), NETWORK, that_no_platform_ran)
    assert count
    assert change == 0.0


def test_an_answer_that_the_pool_holds_under_another_chip_s_name_is_noticed() -> None:
    """What the two tests above compare does change where there is a leak."""
    fold = chip_folds(small_pool().platforms, 3)
    known = next(chip for chip in fold if fold[chip] != fold[CHIP])

    def with_a_copy(pool: KnownPlatforms) -> KnownPlatforms:
        copied = next(each for each in pool.platforms if each.silicon == CHIP)
        return replace(pool, platforms=(*pool.platforms, replace(copied, name="copy/tflite-2.14/cpu1/fp32", silicon=known)))

    other = with_other_answers(small_pool(), NETWORK, lambda each: each.silicon == CHIP)

    count, change = largest_change(trials(with_a_copy(small_pool())), trials(with_a_copy(other)), NETWORK, of_the_chip)
    assert count
    assert change > 0.0


def test_a_chip_is_judged_by_what_was_learned_on_other_chips() -> None:
    """Other answers on the chips of one fold leave their forecasts and intervals, and change those of other folds."""
    known = [one for one in tried(NEW_NETWORKS, (0.0, 0.3), 1) if one.trial.fold < 2]
    other = [replace(one, trial=replace(one.trial, log_ms=one.trial.log_ms + (one.trial.fold == 1))) for one in known]

    changes: dict[bool, float] = {True: 0.0, False: 0.0}
    for (one, *before), (_, *after) in zip(mixed_by_others(known, 2), mixed_by_others(other, 2), strict=True):
        own = one.trial.fold == 1
        changes[own] = max(changes[own], *(float(np.abs(a - b).max()) for a, b in zip(before, after, strict=True)))

    assert changes[True] == 0.0
    assert changes[False] > 0.0


def test_a_trial_takes_over_the_residual_of_the_nearest_measured_network() -> None:
    one = tried(NEW_NETWORKS, (0.0, 0.0), 1)[0]
    given = arbitration_at((), 3)
    near = np.linspace(0.0, 1.0, TESTED)
    # Of each nearest network a quarter more was measured than forecast.
    beside = replace(one, trial=replace(one.trial, log_ms=mixed(one, given)[0] + 0.25))

    mean = mixed(replace(one, near=near, nearest=beside), given)[0]

    assert mean - mixed(one, given)[0] == pytest.approx(0.25 * NEAR_SHARE * near)
    part = np.array([3, 5])
    some = replace(one, near=near, nearest=beside).of(part, NEW_LINEAGES)
    assert some.trial.held_out == NEW_LINEAGES
    assert mixed(some, given)[0] == pytest.approx(mean[part])
