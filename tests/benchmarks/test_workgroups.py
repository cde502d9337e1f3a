"""What other work-group sizes bring to whole networks: gains of paired rounds, and their table."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.workgroups import NETWORKS, ROUNDS, _check, gain, workgroups_table
from latcast.errors import MeasurementError


def test_a_gain_is_the_median_of_each_round_s_own_whatever_the_machine_s_state() -> None:
    own = np.array([100.0, 200.0, 150.0, 120.0])

    middle, low, high = gain(own, 0.9 * own)

    assert (middle, low, high) == pytest.approx((10.0, 10.0, 10.0))


def test_a_gain_s_interval_holds_what_rounds_differ_by() -> None:
    own = np.full(9, 100.0)

    middle, low, high = gain(own, np.array([98.0, 98, 99, 99, 100, 101, 101, 102, 102]))

    # Medians of nine rounds drawn anew: most are -1, 0 or 1.
    assert middle == pytest.approx(0.0)
    assert -2.0 <= low <= -1.0
    assert 1.0 <= high <= 2.0


def test_sizes_that_change_a_network_s_result_are_an_error() -> None:
    own = np.array([1.0, 2.0])

    _check("net", {"own": own, "rules": own + 1e-4})
    with pytest.raises(MeasurementError, match=r"net with the sizes of 'rules' computes another result, off by 5.0e-01"):
        _check("net", {"own": own, "rules": own + 1.0})


NETWORK = next(iter(NETWORKS))


def test_the_table_has_a_row_for_each_network() -> None:
    found = {
        NETWORK: {
            "own_ms": 812.4, "free_kernels": 27, "kernels": 29, "changed": {"tuning": 12}, "rounds": 20,
            "sweeps": [{"repeatability": 0.9}, {"repeatability": 0.8}],
            "gains": {
                "again": (0.0, -1.0, 1.0), "rules": (-3.0, -4.0, -2.0), "kfast": (4.84, 3.2, 7.8), "tuning": (1.2, -0.3, 3.3),
            },
        }
    }  # fmt: skip

    row = workgroups_table(found).splitlines()[-1]

    assert [cell.strip() for cell in row.split("|")[1:-1]] == [
        NETWORK, "812", "27 of 29", "12", "0.85 (0.80)", "20", "+0.0 (-1.0 to +1.0)", "-3.0 (-4.0 to -2.0)",
        "+4.8 (+3.2 to +7.8)", "+1.2 (-0.3 to +3.3)",
    ]  # fmt: skip


def test_every_network_has_its_rounds() -> None:
    assert set(ROUNDS) == set(NETWORKS)
