"""Selections against their contract and on tables worked out by hand, and signatures chosen from tables with gaps."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.devices import signature_selection
from latcast.devices.latency_table import LatencyTable
from latcast.devices.signature_selection import (
    SELECTIONS,
    choose_signature,
    distinct,
    entropy,
    rank_correlations,
    select_by_mutual_information,
    select_by_prediction_error,
    select_by_spearman,
    select_random,
)
from latcast.errors import TrainingError, UnknownNameError
from latcast.records import Reference
from latcast.spaces import build
from latcast.testing.contracts.learning import SelectionContract, made_up_latencies
from tests.devices.runtimes import made_up_devices


class TestRandom(SelectionContract):
    selection_name = "random"


class TestMutualInformation(SelectionContract):
    selection_name = "mutual_information"


class TestSpearman(SelectionContract):
    selection_name = "spearman"


class TestPredictionError(SelectionContract):
    selection_name = "prediction_error"


def test_every_selection_is_tested() -> None:
    tested = {case.selection_name for case in (TestRandom, TestMutualInformation, TestSpearman, TestPredictionError)}

    assert set(SELECTIONS.names()) == tested


SIX_DEVICES = np.array(
    [
        # 0 and 1 order the devices alike, 2 crosses them, 3 is alike everywhere.
        [1.0, 10.0, 1.0, 5.0],
        [2.0, 20.0, 3.0, 5.0],
        [3.0, 30.0, 5.0, 5.0],
        [4.0, 40.0, 2.0, 5.0],
        [5.0, 50.0, 4.0, 5.0],
        [6.0, 60.0, 6.0, 5.0],
    ]
)


def starting_with(network: int, networks: int = 4) -> int:
    """A seed whose first network is this one."""
    return next(seed for seed in range(100) if np.random.default_rng(seed).integers(networks) == network)


def test_the_network_that_repeats_least_of_the_chosen_one_is_added() -> None:
    # With network 0 chosen, H(chosen, new) - H(new) is 0 for its double (log 3 - log 3), log 6 - log 3 = log 2 for network 2,
    # and log 3 - 0 for the network that is alike everywhere, which shares nothing with it.
    assert select_by_mutual_information(SIX_DEVICES, 3, starting_with(0)) == (0, 3, 2)


def test_of_equal_networks_the_last_is_taken() -> None:
    table = np.hstack([SIX_DEVICES[:, [0]], SIX_DEVICES[:, [2]], SIX_DEVICES[:, [2]]])

    assert select_by_mutual_information(table, 2, starting_with(0, 3)) == (0, 2)


def test_codes_stay_small_however_many_networks_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    largest: list[int] = []
    real = entropy

    def watching(codes: np.ndarray) -> float:
        largest.append(int(codes.max()))
        return real(codes)

    monkeypatch.setattr(signature_selection, "entropy", watching)
    table = np.random.default_rng(0).uniform(1, 2, (5, 60))

    select_by_mutual_information(table, 60)

    # 5 devices have at most 5 joint codes, so a joined code is below 3 x 5; unnumbered, 60 networks would need 3**60.
    assert max(largest) < 15


TWO_GROUPS = np.array(
    [
        # Networks 1, 2, 3 are alike, 0 and 4 are alike; 3 lies nearest to the other group.
        [1.00, 0.50, 0.50, 0.70, 0.99],
        [0.50, 1.00, 0.99, 0.99, 0.40],
        [0.50, 0.99, 1.00, 0.99, 0.40],
        [0.70, 0.99, 0.99, 1.00, 0.60],
        [0.99, 0.40, 0.40, 0.60, 1.00],
    ]
)


def test_correlations_are_of_ranks() -> None:
    latency_ms = np.array([[1.0, 10.0, 3.0, 7.0], [2.0, 1000.0, 2.0, 7.0], [3.0, 1001.0, 1.0, 7.0]])

    found = rank_correlations(latency_ms)

    assert found[0] == pytest.approx([1, 1, -1, 0])
    assert found[3, 3] == 0  # a network that is alike on all devices correlates with nothing


def test_the_network_that_most_correlate_with_is_taken_and_they_are_removed() -> None:
    assert distinct(TWO_GROUPS, 2, 0.98) == [1, 0]


def test_a_correlation_of_just_the_threshold_counts() -> None:
    assert distinct(TWO_GROUPS, 2, 0.99) == [1, 0]
    assert distinct(TWO_GROUPS, 2, 0.995) == [0, 1]


def test_the_algorithm_runs_out_of_networks() -> None:
    assert distinct(TWO_GROUPS, 4, 0.98) == [1, 0]


def test_having_run_out_it_goes_on_with_what_the_chosen_ones_say_least_of() -> None:
    rng = np.random.default_rng(1)
    speed = rng.normal(0, 1, 30)
    # Three copies of one network, then one that differs a little and one that differs more.
    noise = np.array([0.0, 0.0, 0.0, 0.05, 0.3])
    latency_ms = np.exp(speed[:, None] + noise * rng.normal(0, 1, (30, 5)))

    found = select_by_spearman(latency_ms, 5, threshold=-1.0)

    # At a threshold of -1 all networks are alike: one is taken, and then there are none.
    assert len(distinct(rank_correlations(latency_ms), 5, -1.0)) == 1
    assert found[0] == 0
    assert found[1] == 4
    assert found[2] == 3
    assert sorted(found) == [0, 1, 2, 3, 4]


GROUP = np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0])


def two_groups() -> np.ndarray:
    """Devices are fast or slow, and like one group of networks better than the other: what group a network is of decides."""
    rng = np.random.default_rng(3)
    speed, taste = rng.normal(0, 1, (40, 1)), rng.normal(0, 0.1, (40, 1))
    latency_ms: np.ndarray = np.exp(speed + taste * GROUP + rng.normal(0, 0.002, (40, 6)))
    return latency_ms


def test_one_network_of_each_group_is_chosen() -> None:
    assert {GROUP[index] for index in select_by_prediction_error(two_groups(), 2)} == {1.0, -1.0}


def test_devices_that_throttled_do_not_decide() -> None:
    table = two_groups()
    # Three of forty: networks 0 and 1 are something else there. Least squares would measure one of them to know which.
    table[:3, :2] *= 20

    assert {GROUP[index] for index in select_by_prediction_error(table, 2)} == {1.0, -1.0}


def test_an_uncorrelated_network_is_not_chosen() -> None:
    rng = np.random.default_rng(4)
    table = made_up_latencies(30, 8)
    table[:, 5] *= np.exp(rng.normal(0, 1, 30))  # measured so badly that it could be anything

    assert 5 not in select_by_prediction_error(table, 3)


def test_it_leaves_less_error_than_networks_at_random() -> None:
    table = made_up_latencies(40, 20, seed=5)

    def left(chosen: tuple[int, ...]) -> float:
        """Mean absolute error of least squares from the chosen networks, held out by halves."""
        log_ms = np.log(table)
        errors = []
        for train, test in ((log_ms[:20], log_ms[20:]), (log_ms[20:], log_ms[:20])):
            seen, wanted = (np.hstack([part[:, chosen], np.ones((len(part), 1))]) for part in (train, test))
            weights = np.linalg.lstsq(seen, train, rcond=None)[0]
            errors.append(np.abs(wanted @ weights - test).mean())
        return float(np.mean(errors))

    by_chance = [left(select_random(table, 3, seed)) for seed in range(20)]

    assert left(select_by_prediction_error(table, 3)) < np.median(by_chance)


MYSTERY = Reference("usc_nas", {"name": "net7"}, "net7")


def with_mystery() -> LatencyTable:
    """Five networks that can be built here, and one of which only the name is known."""
    table = made_up_devices().columns(range(5))
    return LatencyTable(table.platforms, (*table.networks, MYSTERY), np.hstack([table.latency_ms, np.full((16, 1), 3.0)]))


def test_networks_come_with_their_typical_latency() -> None:
    table = made_up_devices()

    found = choose_signature(table, 3)

    for network, typical_ms in zip(found.networks, found.typical_ms, strict=True):
        assert typical_ms == np.median(table.latency_ms[:, table.networks.index(network)])


def test_what_was_not_measured_everywhere_is_left_out() -> None:
    table = made_up_devices()
    table = LatencyTable(table.platforms, table.networks, table.latency_ms.copy())
    table.latency_ms[:9, 4] = np.nan

    found = choose_signature(table, 14)

    assert len(found.table.platforms) == 16
    assert table.networks[4] not in found.networks


def test_only_networks_that_can_be_built_where_they_are_to_be_run() -> None:
    assert MYSTERY in choose_signature(with_mystery(), 6).networks
    assert MYSTERY not in choose_signature(with_mystery(), 5, buildable=True).networks
    with pytest.raises(
        TrainingError, match="5 networks were measured on every one of 16 platforms, too few for a signature of 6"
    ):
        choose_signature(with_mystery(), 6, buildable=True)


def test_only_networks_that_are_small_to_carry() -> None:
    sizes = {network: build(network).parameter_count for network in with_mystery().networks if network != MYSTERY}
    third = sorted(sizes.values())[2]

    found = choose_signature(with_mystery(), 3, most_parameters=third)

    assert set(found.networks) == {network for network, size in sizes.items() if size <= third}
    with pytest.raises(TrainingError, match="3 networks were measured on every one"):
        choose_signature(with_mystery(), 4, most_parameters=third)


def test_networks_known_by_name_alone_are_refused() -> None:
    with pytest.raises(TrainingError, match="none of the 1 known networks can be built here"):
        choose_signature(with_mystery().columns([5]), 1, buildable=True)


def test_of_many_networks_some_are_drawn_that_most_platforms_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signature_selection, "MOST_CANDIDATES", 6)
    table = made_up_devices()
    table = LatencyTable(table.platforms, table.networks, table.latency_ms.copy())
    table.latency_ms[0, :9] = np.nan

    found = choose_signature(table, 3)

    assert found.table.networks == table.networks[9:]


def test_another_seed_draws_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signature_selection, "MOST_CANDIDATES", 6)

    drawn = {choose_signature(made_up_devices(), 2, seed=seed).table.networks for seed in range(5)}

    assert len(drawn) > 1


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="no signature selection is called 'magic'"):
        choose_signature(made_up_devices(), 3, method="magic")
