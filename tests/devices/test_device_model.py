from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latcast.devices.device_model import HARDLY_APART, INTERCEPT, TERM_COUNT, Arbitration, KnownPlatform, Weighing
from latcast.predictors.network_memory import WEIGHTS
from shipping.arbitration import (
    NEW_LINEAGES,
    NEW_NETWORKS,
    NOTHING,
    chip_folds,
    held_out_networks,
    trials_of_fold,
    without,
)  # fmt: skip
from shipping.device_model_fit import FEWEST_NETWORKS, MOST_OF_A_CHIP, fit_device_model, platform_weights
from tests.devices.made_up_devices import PLATFORMS, features, fitted, platforms, true_ms

NEW = platforms()[0]


def forecast_ms(measured: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Latencies of all networks on the first platform, whose chip the model never saw, and their deviations."""
    model = fitted()
    described = model.described(features())
    chosen = np.array(measured, dtype=int)
    found = model.forecast("cpu", NEW.covariates, described.rows(chosen), NEW.log_ms[chosen], NEW.silicon)
    log_ms, deviation = described.log_ms(found)
    return np.exp(log_ms), deviation


def test_a_device_of_a_chip_that_was_left_out_is_recovered_from_ten_networks() -> None:
    measured = list(range(0, 20, 2))
    rest = np.setdiff1d(np.arange(20), measured)

    latency_ms, deviation = forecast_ms(measured)

    error = np.log(latency_ms / true_ms()[0])[rest]
    assert np.abs(error).mean() < 0.08
    assert (np.abs(error) < 1.645 * deviation[rest]).mean() >= 0.7


def test_more_measured_networks_leave_less_open() -> None:
    widths = [float(forecast_ms(measured)[1].mean()) for measured in ([], [0], [0, 4, 9, 13])]

    assert widths[0] > widths[1] > widths[2]


def test_nothing_measured_is_what_the_pool_is_like() -> None:
    latency_ms, _ = forecast_ms([])

    typical = np.median(true_ms()[2:], axis=0)
    assert np.abs(np.log(latency_ms / typical)).max() < 1.0


def test_of_a_chip_that_is_not_known_the_facts_are_those_of_the_pool_s_chips_on_average() -> None:
    model = fitted()
    pool = tuple(
        replace(each, covariates={"kind cpu": 1.0, "cpu threads": 2.0, "cpu log2_ghz": ghz}, silicon=chip)
        for each, ghz, chip in zip(model.platforms, (1.0, 1.0, 4.0), "aab", strict=False)
    )
    effects = np.array([[3.0], [10.0], [1.0]])
    model = replace(model, platforms=pool, covariates=("kind cpu", "cpu threads", "cpu log2_ghz"), effects=effects)

    assert model.mean({"kind cpu": 1.0, "cpu threads": 1.0}) == pytest.approx([3.0 + 10.0 + (1.0 + 4.0) / 2])
    assert model.mean({"kind cpu": 1.0, "cpu log2_ghz": 0.5}) == pytest.approx([3.5])


def test_weights_between_known_numbers_of_networks_lie_between() -> None:
    first, last = Weighing({"learned": 1.0}, 0.5, 2.0, 1.0), Weighing({"tied": 1.0}, 0.5, 4.0, 1.0)
    known = (Arbitration(1, first, last), Arbitration(7, last, first))
    model = replace(fitted(), arbitration={"cpu": known})

    # 1.5 · (7.5 / 1.5)^½ = 3.35: halfway by the logarithm at 2.85 networks.
    found = model.arbitration_of("cpu", 3)
    part = np.log(3.5 / 1.5) / np.log(5)
    assert found.new.weights == pytest.approx({"learned": 1 - part, "tied": part})
    assert found.new.open_factor == pytest.approx(2 + 2 * part)
    assert found.known.open_factor == pytest.approx(4 - 2 * part)
    assert model.arbitration_of("cpu", 0).new.weights == {"learned": 1.0}
    assert model.arbitration_of("cpu", 50).new.weights == {"tied": 1.0}
    assert model.arbitration_of("gpu", 3).new.weights == {}


def test_unknown_covariates_are_ignored() -> None:
    model = fitted()

    known = model.mean({INTERCEPT: 1.0})
    assert model.mean({INTERCEPT: 1.0, "runtime of tomorrow": 1.0}) == pytest.approx(known)
    assert len(known) == TERM_COUNT + model.basis.size


def test_twins_of_silicon_are_held_out_together() -> None:
    fold_of = chip_folds(platforms(), 4)

    assert set(fold_of) == {f"chip{index}" for index in range(PLATFORMS // 2)}
    for fold in range(4):
        inside = {each.silicon for each in platforms() if fold_of[each.silicon] != fold}
        outside = {each.silicon for each in platforms() if fold_of[each.silicon] == fold}
        assert not inside & outside
        assert outside


def test_platforms_of_one_chip_weigh_together_as_at_most_some() -> None:
    eight = [replace(NEW, name=f"n{index}") for index in range(8)]

    weights = platform_weights([*eight, platforms()[4]])

    assert weights == pytest.approx([MOST_OF_A_CHIP / 8] * 8 + [1.0])


def test_networks_that_are_held_out_are_in_no_platform_of_the_pool() -> None:
    # Memory of networks flatters: what a trial tests, the pool that is fitted must never have run.
    lineages = ["" if index % 2 else f"lineage{index // 4}" for index in range(20)]
    for fold in range(4):
        out = held_out_networks(lineages, fold)
        known = without(platforms(), out)
        assert not any(out[each.networks].any() for each in known)
        assert all(len(each.log_ms) == len(each.networks) >= FEWEST_NETWORKS for each in known)
        for trial in trials_of_fold(platforms()[:4], out, fold, (0, 3)):
            assert out[trial.tested].all() if trial.held_out != NOTHING else not out[trial.tested].any()
            assert not set(trial.tested) & set(trial.measured)
            if trial.held_out == NEW_LINEAGES:
                assert not out[trial.measured].any()


def test_lineages_are_held_out_as_a_whole_and_each_once_in_three_folds() -> None:
    lineages = [f"lineage{index // 2}" for index in range(20)]

    out = np.array([held_out_networks(lineages, fold) for fold in range(3)])

    assert out.sum(axis=0).tolist() == [1] * 20
    assert (out[:, ::2] == out[:, 1::2]).all()


def test_two_trials_of_a_chip_say_enough() -> None:
    many = [replace(NEW, name=f"n{index}") for index in range(9)]
    every = np.ones(20, dtype=bool)

    trials = list(trials_of_fold(many, every, 0, (3,), draws=1))

    assert len({trial.platform.name for trial in trials}) == 2
    assert {trial.held_out for trial in trials} == {NEW_NETWORKS}


def test_one_platform_alone_does_not_say_what_a_network_takes_beside_its_terms() -> None:
    """Networks 4 and 5 take half as long again as their terms say; all platforms ran network 5, and one network 4."""
    slower = np.isin(np.arange(20), [4, 5]) * np.log(1.5)
    kept = [replace(each, log_ms=each.log_ms + slower) for each in platforms()[2:8]]
    others = np.delete(np.arange(20), 4)
    pool = [kept[0], *(replace(each, networks=each.networks[others], log_ms=each.log_ms[others]) for each in kept[1:])]

    offsets = fit_device_model(pool, features()).known_offsets["cpu"]

    assert offsets[4] == 0.0
    assert offsets[5] > 0.0


@pytest.mark.parametrize("ran_by", [0, 1])
def test_a_network_is_known_where_one_platform_alone_ran_it(ran_by: int) -> None:
    def without_the_last(row: int, each: KnownPlatform) -> KnownPlatform:
        return each if row < ran_by else replace(each, networks=each.networks[:-1], log_ms=each.log_ms[:-1])

    model = replace(fitted(), platforms=tuple(without_the_last(row, each) for row, each in enumerate(fitted().platforms)))
    memory = model.memory("cpu", NEW.covariates)

    assert memory.known(*memory.nearest(features().place[-2:])).tolist() == [1.0, float(ran_by)]


@pytest.mark.parametrize(("apart", "known"), [(0.5, 1.0), (1.5, 0.0)])
def test_a_network_is_known_where_one_that_hardly_differs_was_run(apart: float, known: float) -> None:
    """No platform ran the last network, which is now beside the first one, and has other weights."""
    places = features().place.copy()
    places[-1] = places[0]
    places[-1, :2] += np.array([apart * HARDLY_APART, 0.0])
    places[-1, WEIGHTS] += 0.7
    never_last = [replace(each, networks=each.networks[:-1], log_ms=each.log_ms[:-1]) for each in fitted().platforms]
    offsets = np.where(np.arange(20) == 0, 0.2, 0.0)
    model = replace(fitted(), platforms=tuple(never_last), known_places=places, known_offsets={"cpu": offsets})

    memory = model.memory("cpu", NEW.covariates)

    assert memory.known(*memory.nearest(places[-1:])) == pytest.approx(known)
    assert memory.recalled(places[-1:])[0] == pytest.approx(0.2 * known)


@pytest.mark.parametrize(("design", "known"), [("hexagon", 1.0), ("hailo", 0.0)])
def test_a_network_that_npus_of_another_design_alone_ran_is_not_known(design: str, known: float) -> None:
    def of_a_design(row: int, each: KnownPlatform) -> KnownPlatform:
        name = "hexagon" if row else "hailo"
        each = replace(each, covariates={**each.covariates, f"npu npu={name}": 1.0})
        return each if row else replace(each, networks=each.networks[:-1], log_ms=each.log_ms[:-1])

    model = replace(fitted(), platforms=tuple(of_a_design(row, each) for row, each in enumerate(fitted().platforms)))
    memory = model.memory("cpu", {**NEW.covariates, f"npu npu={design}": 1.0})

    assert memory.known(*memory.nearest(features().place[-2:])).tolist() == [1.0, known]
