"""Learning from a few measurements on made-up devices whose latencies are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latcast.errors import TrainingError
from latcast.workgroups.cost_model import (
    SIZE_FEATURES,
    CostModel,
    Weights,
    expected_improvement,
    fit_weights,
    points_of,
    size_features,
    tune,
)
from latcast.workgroups.sizes import Grid, WorkGroup
from latcast.workgroups.strategies import measure_at_random
from latcast.workgroups.sweep import SizeSweep
from tests.workgroups.made_up_sweep import DEVICE, smooth_sweep, sweep_of


@pytest.fixture(scope="module")
def sweeps() -> list[SizeSweep]:
    return [smooth_sweep(level, tile, seed=tile) for level, tile in ((1.0, 1), (5.0, 2), (0.3, 3), (2.0, 4))]


def test_features_by_hand() -> None:
    made = sweep_of(lambda size: 1.0, [WorkGroup(6, 2, 1), WorkGroup(8, 4, 2)], grid=Grid(8, 16, 8))
    found = dict(zip(SIZE_FEATURES, size_features(made).T, strict=True))

    assert found["log2_items"].tolist() == pytest.approx([np.log2(12), 6])
    # 12 columns are launched for 8; 12 items take a whole 16 lanes; 2 · 8 · 8 groups are 32 rounds of 4 cores.
    assert found["padding"].tolist() == pytest.approx([np.log2(12 / 8), 0])
    assert found["idle_lanes"].tolist() == pytest.approx([np.log2(16 / 12), 0])
    assert found["idle_cores"].tolist() == [0, 0]
    # 8 numbers of 4 bytes an item: 192 and 256 bytes are whole lines of 64.
    assert found["unused_line"].tolist() == [0, 0]
    # Two columns an item and a 3x3 filter: (12 + 2) · (2 + 2) inputs for 24 outputs.
    assert found["loads_per_output"][0] == pytest.approx(np.log2(14 * 4 / 24))
    assert found["accesses_per_item"][0] == pytest.approx(np.log2((2 * 12 + 4) / 12))
    assert (found["padded_x"].tolist(), found["padded_y"].tolist()) == ([1, 0], [0, 0])


def test_features_of_unknown_numbers_of_a_device_are_zero() -> None:
    unknown = replace(DEVICE, compute_units=None, simultaneous_items=None, cache_line_bytes=None)
    made = sweep_of(lambda size: 1.0, [WorkGroup(5, 3, 1), WorkGroup(7, 1, 1)], device=unknown)

    found = dict(zip(SIZE_FEATURES, size_features(made).T, strict=True))

    assert [found[name].tolist() for name in ("idle_lanes", "idle_cores", "unused_line")] == [[0, 0]] * 3


def test_predictions_go_through_the_measurements_with_the_least_deviation(sweeps: list[SizeSweep]) -> None:
    points = points_of(sweeps[:1])
    logs = np.log(sweeps[0].latency_ms)
    measured = np.arange(0, 60, 6)
    model = CostModel(Weights(), points.only(measured), logs[measured])

    mean, deviation = model.predict(points)

    assert mean[measured] == pytest.approx(logs[measured], abs=0.02)
    unseen = np.setdiff1d(np.arange(60), measured)
    assert deviation[measured].max() < deviation[unseen].min()
    assert np.corrcoef(mean[unseen], logs[unseen])[0, 1] > 0.7


def test_fitted_weights_explain_the_measurements_better(sweeps: list[SizeSweep]) -> None:
    points, logs = points_of(sweeps[:1]), np.log(sweeps[0].latency_ms)
    seen, unseen = np.arange(0, 60, 2), np.arange(1, 60, 2)

    def error(weights: Weights) -> float:
        mean, _ = CostModel(weights, points.only(seen), logs[seen]).predict(points.only(unseen))
        return float(np.abs(mean - logs[unseen]).mean())

    assert error(fit_weights(points.only(seen), logs[seen])) <= error(Weights())


def test_without_measurements_the_prediction_is_the_waste(sweeps: list[SizeSweep]) -> None:
    points = points_of(sweeps[:1])
    nothing = CostModel(Weights(), points.only(np.zeros(0, dtype=np.int64)), np.zeros(0))

    mean, _ = nothing.predict(points)

    assert mean.tolist() == points.waste.tolist()


def test_improvement_is_expected_below_the_best_and_where_little_is_known() -> None:
    gain = expected_improvement(np.array([0.0, 1.0, 1.0, 0.0]), np.array([1e-9, 1e-9, 2.0, 1.0]), best=0.5)

    assert gain[0] == pytest.approx(0.5)
    assert gain[1] == pytest.approx(0.0)
    assert gain[2] > 0.4
    # E[max(0.5 - N(0, 1), 0)] = 0.5 · Phi(0.5) + phi(0.5)
    assert gain[3] == pytest.approx(0.5 * 0.691462 + 0.352065, abs=1e-5)


def test_six_of_sixty_measured_come_closer_than_chance(sweeps: list[SizeSweep]) -> None:
    found = tune(sweeps, [0, 1, 2, 3])

    assert all(len(set(rows)) == 6 for rows in found.measured)
    by_chance = np.mean([measure_at_random(sweep, 6).relative for sweep in sweeps])
    assert found.regrets(sweeps, 6).mean() < by_chance
    assert (found.regrets(sweeps, 6) <= found.regrets(sweeps, 2)).all()


def test_a_similar_device_helps_before_the_first_measurement(sweeps: list[SizeSweep]) -> None:
    other = replace(DEVICE, name="other", title="Another GPU")
    known = [replace(sweep, device=other) for sweep in sweeps[1:]]
    both = [sweeps[0], *known]

    with_it = tune(both, [0], known=[1, 2, 3], carry=False).regrets(both, 1)

    assert with_it[0] < sweeps[0].relative.mean()


def test_latencies_of_sizes_that_were_not_measured_change_nothing(sweeps: list[SizeSweep]) -> None:
    first = tune(sweeps[:1], [0])
    others = np.setdiff1d(np.arange(60), first.measured[0])
    times = sweeps[0].times_ms.copy()
    times[others] = times[others][::-1] * 3

    second = tune([replace(sweeps[0], times_ms=times)], [0])

    assert second.measured == first.measured


def test_the_same_seed_measures_the_same_sizes(sweeps: list[SizeSweep]) -> None:
    assert tune(sweeps, [2, 0], seed=3).measured == tune(sweeps, [2, 0], seed=3).measured


def test_kernels_with_different_settings_are_not_learned_together(sweeps: list[SizeSweep]) -> None:
    with pytest.raises(TrainingError, match="different settings"):
        points_of([sweeps[0], replace(sweeps[1], variant={"other": 1})])
