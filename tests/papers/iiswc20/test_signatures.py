"""Selections of signatures: what holds of each, and tables worked out by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from papers.iiswc20 import signatures
from papers.iiswc20.signatures import (
    SELECTIONS,
    distinct,
    entropy,
    rank_correlations,
    select_by_mutual_information,
    select_by_prediction_error,
    select_by_spearman,
    select_random,
)

Selection = Callable[[np.ndarray, int, int], tuple[int, ...]]


def made_up_latencies(devices: int = 12, networks: int = 9, seed: int = 0) -> np.ndarray:
    """Return (devices, networks) milliseconds: speeds of devices times sizes of networks, with individual deviations."""
    rng = np.random.default_rng(seed)
    speed, size = rng.normal(0, 0.7, devices), rng.normal(2, 1, networks)
    taste = rng.normal(0, 0.3, (devices, 2)) @ rng.normal(0, 1, (2, networks))
    latency_ms: np.ndarray = np.exp(speed[:, None] + size + taste + rng.normal(0, 0.05, (devices, networks)))
    return latency_ms


@pytest.fixture(params=sorted(SELECTIONS))
def select(request: pytest.FixtureRequest) -> Selection:
    return SELECTIONS[request.param]


@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_as_many_different_networks_as_asked_for(select: Selection, size: int) -> None:
    chosen = select(made_up_latencies(), size, 0)

    assert len(chosen) == len(set(chosen)) == size
    assert all(type(index) is int and 0 <= index < 9 for index in chosen)


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_the_same_seed_chooses_the_same_networks(select: Selection, seed: int) -> None:
    table = made_up_latencies()

    assert select(table, 4, seed) == select(table.copy(), 4, seed)


def test_a_longer_signature_begins_with_the_shorter_one(select: Selection) -> None:
    table = made_up_latencies()

    assert select(table, 6, 0)[:3] == select(table, 3, 0)


def test_the_unit_of_time_does_not_matter(select: Selection) -> None:
    table = made_up_latencies()

    assert select(1024 * table, 5, 0) == select(table, 5, 0)


def test_the_table_is_left_as_it_is(select: Selection) -> None:
    table = made_up_latencies()
    before = table.copy()

    select(table, 5, 0)

    assert np.array_equal(table, before)


@pytest.mark.parametrize("devices", [1, 2])
def test_a_device_or_two_are_enough(select: Selection, devices: int) -> None:
    assert len(set(select(made_up_latencies(devices), 4, 0))) == 4


def test_equal_networks_can_all_be_chosen(select: Selection) -> None:
    table = np.repeat(made_up_latencies()[:, :1], 6, axis=1)

    assert sorted(select(table, 6, 0)) == [0, 1, 2, 3, 4, 5]


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

    monkeypatch.setattr(signatures, "entropy", watching)
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
