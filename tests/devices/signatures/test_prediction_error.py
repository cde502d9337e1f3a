"""The selection that predicts the others best."""

from __future__ import annotations

import numpy as np

from latcast.devices.signatures.prediction_error import select
from latcast.devices.signatures.random import select as at_random
from latcast.testing.selection_contract import made_up_latencies

GROUP = np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0])


def two_groups() -> np.ndarray:
    """Devices are fast or slow, and like one group of networks better than the other: what group a network is of decides."""
    rng = np.random.default_rng(3)
    speed, taste = rng.normal(0, 1, (40, 1)), rng.normal(0, 0.1, (40, 1))
    latency_ms: np.ndarray = np.exp(speed + taste * GROUP + rng.normal(0, 0.002, (40, 6)))
    return latency_ms


def test_one_network_of_each_group_is_chosen() -> None:
    assert {GROUP[index] for index in select(two_groups(), 2)} == {1.0, -1.0}


def test_devices_that_throttled_do_not_decide() -> None:
    table = two_groups()
    # Three of forty: networks 0 and 1 are something else there. Least squares would measure one of them to know which.
    table[:3, :2] *= 20

    assert {GROUP[index] for index in select(table, 2)} == {1.0, -1.0}


def test_a_network_of_its_own_tells_nothing_of_the_others() -> None:
    rng = np.random.default_rng(4)
    table = made_up_latencies(30, 8)
    table[:, 5] *= np.exp(rng.normal(0, 1, 30))  # measured so badly that it could be anything

    assert 5 not in select(table, 3)


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

    by_chance = [left(at_random(table, 3, seed)) for seed in range(20)]

    assert left(select(table, 3)) < np.median(by_chance)
