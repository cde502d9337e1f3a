"""Trust in a sweep."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.errors import MeasurementError
from latcast.workgroups.sizes import Grid, WorkGroup
from latcast.workgroups.sweep import SizeSweep
from latcast.workgroups.workloads import CONV
from tests.workgroups.made_up_sweep import DEVICE, sweep_of

SIZES = [WorkGroup(x, 1, 1) for x in (1, 2, 3, 4, 5, 6)]


def sweep(times: list[list[float]], *, interleaved: bool = True) -> SizeSweep:
    return SizeSweep(DEVICE, "conv", CONV, Grid(8, 8, 8), tuple(SIZES[: len(times)]), np.array(times), interleaved=interleaved)


def test_latency_is_the_least_run_and_competitive_is_within_15_percent() -> None:
    found = sweep([[2.0, 1.0], [1.15, 3.0], [1.16, 1.2], [4.0, 8.0]])

    assert found.latency_ms.tolist() == [1.0, 1.15, 1.16, 4.0]
    assert found.relative.max() == 4.0
    assert found.competitive_share == 0.5


def test_repeatability_is_the_rank_correlation_of_every_other_round() -> None:
    # Even rounds order the sizes 1, 2, 3, 4; odd ones 2, 1, 3, 4: rho = 1 - 6 · 2 / (4 · 15).
    found = sweep([[1, 2, 9, 9], [2, 1, 9, 9], [3, 3, 9, 9], [4, 4, 9, 9]])

    assert found.repeatability == pytest.approx(0.8)
    assert found.rankable


def test_runs_that_followed_each_other_are_halved_in_the_middle() -> None:
    found = sweep([[1, 1, 4, 4], [2, 2, 3, 3], [3, 3, 2, 2], [4, 4, 1, 1]], interleaved=False)

    assert found.repeatability == pytest.approx(-1.0)
    assert not found.rankable
    assert "split-half rank correlation -1.00" in found.why_not_rankable()
    assert "measure more interleaved rounds" in found.why_not_rankable()


def test_sizes_that_ran_once_are_not_ranked() -> None:
    found = sweep([[1.0], [2.0], [3.0], [4.0]])

    assert np.isnan(found.repeatability)
    assert "each size ran once" in found.why_not_rankable()


def test_noise_as_large_as_the_differences_is_refused() -> None:
    noisy = sweep_of(lambda size: 1.0, [WorkGroup(x, y) for x in range(1, 13) for y in range(1, 6)], noise=0.3, seed=1)

    assert not noisy.rankable


@pytest.mark.parametrize("times", [[[1.0], [0.0]], [[1.0], [float("nan")]], [[1.0]], [[], []]])
def test_times_of_the_wrong_shape_or_not_positive_are_refused(times: list[list[float]]) -> None:
    with pytest.raises(MeasurementError):
        SizeSweep(DEVICE, "conv", CONV, Grid(8), (WorkGroup(1), WorkGroup(2)), np.array(times))
