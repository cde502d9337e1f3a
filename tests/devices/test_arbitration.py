from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latcast.devices.arbitration import (
    NEW_LINEAGES,
    NEW_NETWORKS,
    NOTHING,
    Trial,
    Tried,
    fit_calibrated,
    learn_arbitration,
    mixed,
)
from tests.devices.made_up_devices import features, platforms, true_ms

DEVIATION = 0.1
TESTED = 20


def tried(held_out: str, member_bias: tuple[float, float], seed: int, measured: int = 3) -> list[Tried]:
    """Trials on thirty chips, whose two members err by a bias and noise of :data:`DEVIATION`; both say so of their noise."""
    rng = np.random.default_rng(seed)
    found = []
    for index, platform in enumerate(platforms()):
        networks = np.arange(measured)
        log_ms = rng.normal(0.0, 1.0, TESTED)
        alone = replace(platform, silicon=f"chip{index}")
        trial = Trial(alone, networks, np.arange(TESTED), log_ms[:measured], log_ms, held_out, index % 4)
        said = np.array([log_ms + bias + rng.normal(0.0, DEVIATION, TESTED) for bias in member_bias])
        variance = np.full((2, TESTED), DEVIATION**2)
        known = np.full(TESTED, float(held_out == NOTHING))
        found.append(Tried(trial, ("right", "wrong"), np.zeros(2), said, 0 * variance, variance, known))
    return found


def test_the_member_that_errs_less_on_chips_left_out_weighs_most() -> None:
    found = learn_arbitration([*tried(NEW_NETWORKS, (0.0, 0.7), 1), *tried(NOTHING, (0.7, 0.0), 2)])

    (given,) = found["cpu"]
    assert given.measured == 3
    assert given.new.weights["right"] > 0.8
    assert given.known.weights["wrong"] > 0.8


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
