"""Learning from further stores of the same platform."""

from __future__ import annotations

from dataclasses import replace

from latcast.datasets.store import Store
from latcast.measure.statistics import renormalised
from latcast.records import Measurement
from papers.nn_meter.measured import on_the_scale_of, read_benchmark
from tests.papers.nn_meter.made_up_benchmark import PLATFORM, made_up_store

KEY = "a probe"


def probed(measurement: Measurement, quiet_ms: float) -> Measurement:
    """The same, with a probe that read 2 ms beside every run and is quiet at this time."""
    settings = {"probe": {"key": KEY, "parts": ["compute"], "quiet_ms": [quiet_ms]}}
    whole = measurement.latency_ms or 0.0
    return replace(
        measurement,
        probe_ms=(2.0, 2.0),
        probe_parts_ms={"compute": (2.0, 2.0)},
        latency_ms=whole * quiet_ms / 2,
        environment={"settings": settings, "moment": {"probe_weights": [1.0]}},
    )


def test_further_networks_are_learned_from_and_not_tested() -> None:
    with made_up_store(count=2) as store, made_up_store(count=4) as further:
        alone = read_benchmark(store, PLATFORM)
        found = read_benchmark(store, PLATFORM, learn_from=[further])
    assert (len(alone.data.networks), len(found.data.networks)) == (8, 16)
    assert len(found.data.profiled) > len(alone.data.profiled)
    assert [len(samples) for samples in found.tests.values()] == [2] * 4
    assert found.records == 8


def test_further_measurements_come_on_the_scale_of_the_store() -> None:
    with made_up_store(count=1) as made:
        [first, *_] = made.measurements(platform=PLATFORM.id)
    with Store(":memory:") as store:
        store.keep_quiet_ms(KEY, (1.0,))
        taken = probed(first, 0.8)
        [found] = on_the_scale_of(store, [taken])
        assert found == renormalised(taken, (1.0,))
        # A probe that is quiet at 1 ms, not 0.8, was less disturbed when it read 2.
        assert (found.latency_ms or 0) > (taken.latency_ms or 0)
        [same] = on_the_scale_of(store, [first])
        assert same == first
