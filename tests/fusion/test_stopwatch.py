"""Timing test networks in a worker, with a store that remembers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from latcast.datasets.store import Store
from latcast.fusion.decision import decide
from latcast.fusion.quantities import LATENCY, TIMED_KERNELS
from latcast.fusion.stopwatch import WorkerStopwatch
from latcast.fusion.test_cases import ChainSetting, pair_case
from latcast.measure.client import MeasuringClient
from latcast.measure.settings import MeasurePlan
from latcast.records import Measurement
from latcast.spaces.catalogue import model
from tests.fusion.made_up_worker import settings

SETTING = ChainSetting(wall="softmax")
QUICK = replace(LATENCY, plan=MeasurePlan(rounds=8, runs_per_round=2, warmup_runs=0, batch_size=50, burst_runs=2))
FUSED, APART = pair_case("conv", "relu", SETTING), pair_case("relu", "relu", SETTING)


def test_networks_are_timed_side_by_side_and_remembered(tmp_path: Path) -> None:
    networks = list({r.key: r for case in (FUSED, APART) for r in case.networks}.values())
    refused = SETTING.network("conv_transpose", "wall")

    with Store(tmp_path / "s.sqlite") as store, MeasuringClient(settings(), store) as client:
        timing = WorkerStopwatch(client, store, quantity=QUICK).time([*networks, refused])
        records = list(store.measurements(platform=client.platform.id))
        again = WorkerStopwatch(client, store, records, QUICK).remembered()

    assert {len(rounds) for rounds in timing.costs.values()} == {8}
    assert timing.failures == {refused.key: "no kernel for ConvTranspose"}
    assert len(records) == len(networks)
    [kept] = again
    for batch in (timing, kept):
        assert decide(FUSED, [batch]).yes is True  # type: ignore[union-attr]
        assert decide(APART, [batch]).yes is False  # type: ignore[union-attr]
    assert kept.worker == timing.worker != ""


def test_networks_timed_in_different_calls_are_different_batches(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store, MeasuringClient(settings(), store) as client:
        stopwatch = WorkerStopwatch(client, store, quantity=QUICK)
        first = stopwatch.time(FUSED.networks)
        stopwatch.renew()
        second = stopwatch.time(FUSED.networks)
        remembered = WorkerStopwatch(client, store, store.measurements()).remembered()

    assert len(remembered) == 2
    assert first.worker != second.worker


def test_executed_kernels_are_asked_once(tmp_path: Path) -> None:
    network = SETTING.network("conv", "relu", "wall")
    refused = SETTING.network("conv_transpose", "wall")

    with Store(tmp_path / "s.sqlite") as store, MeasuringClient(settings(), store) as client:
        told = WorkerStopwatch(client, store).executed([network, refused])
        count = len(store)
        again = WorkerStopwatch(client, store, store.measurements()).executed([network])

        assert len(store) == count
    # Four blocks of a convolution with its ReLU and a wall, behind one wall.
    assert [len(kernel.nodes) for kernel in told.kernels[network.key]] == [1, 2, 1, 2, 1, 2, 1, 2, 1]
    assert again.kernels.keys() == {network.key}
    assert "ConvTranspose" in told.failures[refused.key]


def test_executed_kernels_are_not_a_batch(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store, MeasuringClient(settings(), store) as client:
        WorkerStopwatch(client, store).executed([SETTING.network("wall")])

        assert WorkerStopwatch(client, store, store.measurements()).remembered() == []


def test_kernels_that_take_time_are_counted_and_remembered_apart_from_latencies(tmp_path: Path) -> None:
    refused = SETTING.network("conv_transpose", "wall")

    with Store(tmp_path / "s.sqlite") as store, MeasuringClient(settings(), store) as client:
        counted = WorkerStopwatch(client, store, quantity=TIMED_KERNELS).time([*FUSED.networks, refused])
        WorkerStopwatch(client, store, quantity=QUICK).time(FUSED.networks)
        [kernels] = WorkerStopwatch(client, store, store.measurements(), TIMED_KERNELS).remembered()
        [latencies] = WorkerStopwatch(client, store, store.measurements(), QUICK).remembered()

    # Four blocks of a convolution with its ReLU and a wall, behind one wall.
    assert counted.costs[FUSED.together.key].tolist() == kernels.costs[FUSED.together.key].tolist() == [9.0]
    assert len(latencies.costs[FUSED.together.key]) == 8
    assert "ConvTranspose" in counted.failures[refused.key]


def test_a_network_whose_kernels_take_no_time_is_a_failure(tmp_path: Path) -> None:
    network = SETTING.network("wall")
    nothing = replace(TIMED_KERNELS, costs=lambda measurement: np.zeros(1))

    with Store(tmp_path / "s.sqlite") as store, MeasuringClient(settings(), store) as client:
        batch = WorkerStopwatch(client, store, quantity=nothing).time([network])

    assert batch.costs == {}
    assert batch.failures == {network.key: "none of its kernels takes time by the runtime's profiler"}


def test_other_networks_in_the_store_are_left_alone(tmp_path: Path) -> None:
    record = Measurement("local/madeup-1.0/cpu1/fp32", model("resnet18"), latency_ms=1.0)

    with Store(tmp_path / "s.sqlite") as store, MeasuringClient(settings(), store) as client:
        assert WorkerStopwatch(client, store, [record]).remembered() == []
