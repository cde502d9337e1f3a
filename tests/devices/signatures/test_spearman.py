"""Algorithm 2 of Ganesan et al. on correlations worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.devices.signatures.spearman import distinct, rank_correlations, select

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

    found = select(latency_ms, 5, threshold=-1.0)

    # At a threshold of -1 all networks are alike: one is taken, and then there are none.
    assert len(distinct(rank_correlations(latency_ms), 5, -1.0)) == 1
    assert found[0] == 0
    assert found[1] == 4
    assert found[2] == 3
    assert sorted(found) == [0, 1, 2, 3, 4]
