from __future__ import annotations

import numpy as np
import pytest

from latcast.predictors.card import TRAINING_KEYS
from latcast.records import Measurement
from latcast.spaces.catalogue import model
from shipping.arbitration import NEW_LINEAGES, NEW_NETWORKS, NOTHING
from shipping.known_forecasts import about_platforms, apart_from, held_out, repeat_percent, try_known
from tests.devices.made_up_devices import fitted, networks
from tests.devices.other_answers import largest_change, small_pool, with_other_answers
from tests.shipping.known_pool import LICENCE, WANTED, members, pool, tried

ID = "phone/tflite-2.14/cpu1/int8"


def measurement(name: str, runs_ms: tuple[float, ...], **environment: object) -> tuple[str, Measurement]:
    dataset = {"name": "set", "licence": "MIT", "source": "someone/measurements", "commit": "1234"}
    found = Measurement(ID, model(name), runs_ms=runs_ms, latency_ms=1.0, environment={"dataset": dataset, **environment})
    return "set", found


def test_a_platform_is_not_likened_to_itself() -> None:
    name = fitted().platforms[3].name

    apart = apart_from(fitted(), name)

    assert name not in {each.name for each in apart.platforms}
    assert len(apart.platforms) == len(apart.states) == len(fitted().platforms) - 1


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_held_out_network_is_forecast_without_its_answer(everywhere: bool) -> None:
    """Other answers on the platform itself, and on all platforms where none ran the network, change no forecast of it."""
    network, name = 4, "d2/tflite-2.14/cpu1/fp32"
    other = with_other_answers(small_pool(), network, lambda each: everywhere or each.name == name)

    count, change = largest_change(
        try_known(small_pool(), {name}), try_known(other, {name}), network,
        lambda one: not everywhere or one.trial.held_out != NOTHING,
    )  # fmt: skip
    assert count
    assert change == 0.0


def test_two_runs_differ_by_what_one_factor_does_not_explain() -> None:
    # Twice as slow the second time, and two of five networks 10 % and 4 % beside that.
    halves = np.array([[10.0, 20.0], [5.0, 10.0], [1.0, 2.0], [10.0, 22.0], [10.0, 20.8]])

    assert repeat_percent(halves) == pytest.approx(0.0)
    assert repeat_percent(halves[[2, 3, 4]]) == pytest.approx(100 * (1 - 1 / 1.04), rel=1e-3)


def test_a_card_names_source_and_licence_and_half_the_difference_of_runs() -> None:
    steady = about_platforms([measurement("resnet18", (1.0,) * 10), measurement("alexnet", (2.0,) * 5 + (2.04,) * 5)])[ID]
    stated = about_platforms([measurement("resnet18", (), repeat_percent=6.0)])[ID]
    once = about_platforms([measurement("resnet18", (1.0,))])[ID]

    assert steady.card["source"] == "set"
    assert steady.card["licence"] == LICENCE
    assert steady.card["label_error"] == pytest.approx(0.5, abs=0.01)  # 0 and 2 % apart, each 1 % from the middle
    assert not steady.unstable
    assert stated.card["label_error"] == 3.0
    assert stated.unstable
    assert "label_error" not in once.card
    assert not once.unstable


def test_no_network_is_tested_that_the_platform_was_measured_with() -> None:
    cases = {one.trial.held_out for one in tried()}

    assert cases == {NOTHING, NEW_NETWORKS, NEW_LINEAGES}
    for one in tried():
        assert not set(one.trial.measured) & set(one.trial.tested)
        assert one.trial.platform.name in WANTED


def test_the_residual_that_a_tested_network_takes_over_is_of_a_measured_one() -> None:
    for one in tried():
        assert one.nearest is not None
        assert len(one.nearest.trial.tested) == len(one.trial.tested)
        assert set(one.nearest.trial.tested) <= set(one.trial.measured)


def test_a_network_of_an_unseen_lineage_is_one_of_whose_lineage_nothing_was_measured() -> None:
    lineages = pool().lineages
    for one in tried():
        measured = {lineages[row] for row in one.trial.measured}
        tested = {lineages[row] for row in one.trial.tested}
        if one.trial.held_out == NEW_LINEAGES:
            assert not measured & tested


def test_every_network_is_of_an_unseen_lineage_once() -> None:
    found = held_out(tried())

    for name in WANTED:
        assert sorted(found[name, NEW_LINEAGES].networks) == list(range(len(networks())))


def test_members_come_from_all_networks_and_their_cards_from_those_held_out() -> None:
    for each in members():
        card = each.predictor.card
        assert len(card[TRAINING_KEYS]) == card["measurements"] == len(networks())
        assert card["held_out_by"] == "lineage"
        assert card["networks"] == len(networks())
        assert 0 < card["networks_of_others"]["mape"] < 25  # latencies are made from the terms, with 2 % of noise
        assert card["licence"] == LICENCE
        assert card["unit_kind"] == "cpu"
