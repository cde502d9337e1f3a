"""How far processes that measured the same networks lie apart."""

import numpy as np
import pytest

from benchmarks.levels import deviation_between_processes


def test_a_process_that_is_slower_throughout_shows_in_its_level_and_in_every_network() -> None:
    """Logarithms 0 and 0.02 of both networks: a standard deviation of 0.02 / sqrt(2)."""
    latency_ms = np.array([[1.0, 10.0], [np.exp(0.02), 10 * np.exp(0.02)]])

    assert deviation_between_processes(latency_ms) == pytest.approx((2 / np.sqrt(2), 2 / np.sqrt(2)))


def test_what_differs_by_network_is_no_level() -> None:
    latency_ms = np.array([[1.0, 10 * np.exp(0.02)], [np.exp(0.02), 10.0]])

    of_network, of_level = deviation_between_processes(latency_ms)

    assert of_network == pytest.approx(2 / np.sqrt(2))
    assert of_level == pytest.approx(0.0, abs=1e-9)
