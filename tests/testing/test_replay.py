"""Recorded runs played back, and the clocks."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from latcast.errors import RuntimeFailure
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.records import ExecutedKernel, Measurement, Reference
from latcast.runtimes import RUNTIMES, get_runtime
from latcast.runtimes.protocol import Clock, Runtime, Session, StandingClock, SystemClock
from latcast.testing.replay import Recording, ReplayRuntime, recordings_of


def network(channels: int = 8, *, name: str = "net") -> Graph:
    b = GraphBuilder(name)
    return b.finish(b.conv(b.input((1, 3, 8, 8)), channels, 3))


def replay(*runs_ms: float, executed: tuple[ExecutedKernel, ...] = ()) -> ReplayRuntime:
    return ReplayRuntime({network().structure_key: Recording(runs_ms, executed)})


def test_it_is_a_runtime_with_sessions() -> None:
    runtime = replay(1.0)
    assert isinstance(runtime, Runtime)
    assert isinstance(runtime.load(network()), Session)
    assert runtime.available() is None


def test_its_clock_shows_exactly_the_recorded_latencies() -> None:
    runtime = replay(1.5, 2.25, 0.5)
    session, clock = runtime.load(network()), runtime.clock
    measured = []
    for _ in range(3):
        start = clock.now_ms()
        session.run()
        measured.append(clock.now_ms() - start)
    assert measured == [1.5, 2.25, 0.5]


def test_after_the_last_recorded_run_the_first_follows() -> None:
    runtime = replay(1.0, 4.0)
    session = runtime.load(network())
    for _ in range(5):
        session.run()
    assert runtime.clock.now_ms() == 1.0 + 4.0 + 1.0 + 4.0 + 1.0


def test_a_network_is_found_by_its_structure_not_by_its_name() -> None:
    runtime = replay(3.0)
    runtime.load(network(name="another")).run()
    assert runtime.clock.now_ms() == 3.0
    with pytest.raises(RuntimeFailure, match="record it"):
        runtime.load(network(16))


def test_each_session_starts_at_the_first_recorded_run() -> None:
    runtime = replay(1.0, 10.0)
    runtime.load(network()).run()
    runtime.load(network()).run()
    assert runtime.clock.now_ms() == 2.0


def test_a_recorded_failure_fails_again() -> None:
    runtime = ReplayRuntime({network().structure_key: Recording(error="out of memory")})
    with pytest.raises(RuntimeFailure, match="out of memory"):
        runtime.load(network())


def test_a_recording_without_runs_is_refused() -> None:
    with pytest.raises(RuntimeFailure, match="no runs"):
        replay().load(network())


def test_recorded_kernels_are_told_where_profiling_was_asked_for() -> None:
    kernel = ExecutedKernel("conv_0", "Conv", ("conv_0",), 0.75)
    runtime = replay(1.0, executed=(kernel,))
    assert runtime.load(network(), profile=True).executed_kernels() == (kernel,)
    with pytest.raises(RuntimeFailure, match="profile"):
        runtime.load(network()).executed_kernels()
    with pytest.raises(RuntimeFailure, match="not recorded"):
        replay(1.0).load(network(), profile=True).executed_kernels()


def test_it_has_no_outputs_and_says_so() -> None:
    session = replay(1.0).load(network())
    session.set_inputs([np.zeros((1, 3, 8, 8), np.float32)])
    with pytest.raises(RuntimeFailure, match="no outputs"):
        session.outputs()
    with pytest.raises(RuntimeFailure, match="input"):
        session.set_inputs([np.zeros((1, 3, 4, 4), np.float32)])


def test_precision_and_threads_are_checked_as_elsewhere() -> None:
    with pytest.raises(RuntimeFailure, match="int8"):
        replay(1.0).load(network(), precision="int8")
    with pytest.raises(RuntimeFailure, match="thread"):
        replay(1.0).load(network(), threads=0)


def test_a_registered_maker_is_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RUNTIMES, "_targets", dict(RUNTIMES._targets))
    monkeypatch.setattr(RUNTIMES, "_loaded", dict(RUNTIMES._loaded))
    recordings = {network().structure_key: Recording((2.0,))}
    RUNTIMES.register("replay", partial(ReplayRuntime, recordings, version="3.2"))  # type: ignore[arg-type]
    runtime = get_runtime("replay")
    assert runtime.version() == "3.2"
    runtime.load(network()).run()


def test_measurements_become_recordings() -> None:
    kernel = ExecutedKernel("conv_0", "Conv", ("conv_0",), 0.75)
    wide, narrow = Reference("net", {"channels": 16}), Reference("net", {"channels": 8})
    measurements = [
        Measurement("p", narrow, runs_ms=(1.0, 2.0)),
        Measurement("p", wide, error="crashed"),
        Measurement("p", narrow, runs_ms=(3.0,), executed=(kernel,)),
    ]
    recordings = recordings_of(measurements, lambda reference: network(reference.parameters["channels"]))
    assert recordings == {
        network(8).structure_key: Recording((1.0, 2.0, 3.0), (kernel,)),
        network(16).structure_key: Recording(error="crashed"),
    }


def test_a_failure_among_recorded_runs_does_not_hide_them() -> None:
    reference = Reference("net")
    good, bad = Measurement("p", reference, runs_ms=(1.0,)), Measurement("p", reference, error="crashed")
    for order in ([good, bad], [bad, good]):
        assert list(recordings_of(order, lambda _: network()).values()) == [Recording((1.0,))]


def test_the_system_clock_never_goes_back() -> None:
    clock = SystemClock()
    readings = [clock.now_ms() for _ in range(100)]
    assert readings == sorted(readings)
    assert isinstance(clock, Clock)


def test_a_replay_clock_moves_only_when_told() -> None:
    clock = StandingClock()
    assert isinstance(clock, Clock)
    assert clock.now_ms() == clock.now_ms() == 0.0
    clock.advance(2.5)
    assert clock.now_ms() == 2.5
    for wrong in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="cannot advance"):
            clock.advance(wrong)
