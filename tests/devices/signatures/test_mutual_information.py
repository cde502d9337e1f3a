"""Algorithm 1 of Ganesan et al. on tables worked out by hand."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from latcast.devices.signatures import mutual_information
from latcast.devices.signatures.mutual_information import entropy, levels, select

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


def test_levels_are_terciles_of_each_network() -> None:
    found = levels(SIX_DEVICES)

    assert found[:, 0].tolist() == [0, 0, 1, 1, 2, 2]
    assert found[:, 1].tolist() == [0, 0, 1, 1, 2, 2]
    assert found[:, 2].tolist() == [0, 1, 2, 0, 1, 2]
    assert found[:, 3].tolist() == [2, 2, 2, 2, 2, 2]


@pytest.mark.parametrize(
    ("codes", "expected"),
    [([0, 0, 1, 1, 2, 2], log(3)), ([4, 4, 4], 0.0), ([0, 1, 1, 1], -0.25 * log(0.25) - 0.75 * log(0.75))],
)
def test_entropy_is_that_of_the_shares_of_devices(codes: list[int], expected: float) -> None:
    assert entropy(np.array(codes)) == pytest.approx(expected)


def test_the_network_that_repeats_least_of_the_chosen_one_is_added() -> None:
    # With network 0 chosen, H(chosen, new) - H(new) is 0 for its double (log 3 - log 3), log 6 - log 3 = log 2 for network 2,
    # and log 3 - 0 for the network that is alike everywhere, which shares nothing with it.
    assert select(SIX_DEVICES, 3, starting_with(0)) == (0, 3, 2)


def test_of_equal_networks_the_last_is_taken() -> None:
    table = np.hstack([SIX_DEVICES[:, [0]], SIX_DEVICES[:, [2]], SIX_DEVICES[:, [2]]])

    assert select(table, 2, starting_with(0, 3)) == (0, 2)


def test_codes_stay_small_however_many_networks_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    largest: list[int] = []
    real = entropy

    def watching(codes: np.ndarray) -> float:
        largest.append(int(codes.max()))
        return real(codes)

    monkeypatch.setattr(mutual_information, "entropy", watching)
    table = np.random.default_rng(0).uniform(1, 2, (5, 60))

    select(table, 60)

    # 5 devices have at most 5 joint codes, so a joined code is below 3 x 5; unnumbered, 60 networks would need 3**60.
    assert max(largest) < 15
