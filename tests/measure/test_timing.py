"""The measuring loop, on recorded runs and a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from latcast.errors import RuntimeFailure
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.measure.settings import MeasurePlan
from latcast.measure.timing import Instruments, RunLog, Subject, time_batch, time_round, warm_up
from latcast.runtimes.protocol import Clock, StandingClock
from tests.measure.replay import Recording, ReplayRuntime


class SteppingProbe:
    """Readings 1, 2, 3...: each says how many came before it."""

    parts: tuple[str, ...] = ("compute",)
    key = "stepping"

    def __init__(self) -> None:
        self.readings = 0

    def read_ms(self) -> tuple[float, ...]:
        self.readings += 1
        return (float(self.readings),)


class CountedSession:
    """Each run takes the next of some latencies, over and over, and is counted."""

    def __init__(self, clock: StandingClock, *latencies_ms: float) -> None:
        self._clock = clock
        self._latencies_ms = latencies_ms
        self.runs = 0

    def run(self) -> None:
        self._clock.advance(self._latencies_ms[self.runs % len(self._latencies_ms)])
        self.runs += 1


def counting_up(*values: int) -> Callable[[], int]:
    """A pre-emption counter with these readings, then the last one for ever."""
    left = list(values)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def network(channels: int) -> Graph:
    builder = GraphBuilder(f"net{channels}")
    return builder.finish(builder.conv(builder.input((1, 3, 8, 8)), channels, 3))


def test_recorded_runs_are_measured_as_recorded() -> None:
    runtime = ReplayRuntime({network(4).structure_key: Recording((5.0, 7.0))})
    log = RunLog()
    time_round(runtime.load(network(4)), 0, MeasurePlan(runs_per_round=4), Instruments(runtime.clock), log)
    # The round's first run is untimed.
    assert log.runs_ms == [7.0, 5.0, 7.0, 5.0]
    assert log.rounds == [0] * 4
    assert log.readings_ms == []


def test_a_long_run_stands_between_two_readings_of_the_probe() -> None:
    clock = StandingClock()
    session, log = CountedSession(clock, 5.0), RunLog()
    time_round(session, 0, MeasurePlan(runs_per_round=3), Instruments(clock, SteppingProbe()), log)
    # Readings 1 2 3 4; each run has the mean of the two around it.
    assert log.readings_ms == [(1.5,), (2.5,), (3.5,)]
    assert session.runs == 1 + 3


def test_short_runs_come_in_bursts_that_share_their_readings() -> None:
    clock = StandingClock()
    session, log = CountedSession(clock, 0.1), RunLog()
    plan = MeasurePlan(runs_per_round=6, burst_runs=4, burst_ms=1.5)
    time_round(session, 0, plan, Instruments(clock, SteppingProbe()), log)
    assert log.readings_ms == [(1.5,)] * 4 + [(2.5,)] * 2
    # One run opens the round, one untimed run opens each burst.
    assert session.runs == 1 + (1 + 4) + (1 + 2)


def test_a_burst_ends_when_its_time_is_over() -> None:
    clock = StandingClock()
    log = RunLog()
    plan = MeasurePlan(runs_per_round=4, burst_runs=4, burst_ms=1.5)
    time_round(CountedSession(clock, 1.0), 0, plan, Instruments(clock, SteppingProbe()), log)
    assert log.readings_ms == [(1.5,)] * 2 + [(2.5,)] * 2


def test_a_round_ends_at_its_time_limit_with_one_run_at_least() -> None:
    clock = StandingClock()
    log = RunLog()
    time_round(CountedSession(clock, 80.0), 0, MeasurePlan(max_ms_per_round=200), Instruments(clock), log)
    assert log.runs_ms == [80.0, 80.0]
    log = RunLog()
    time_round(CountedSession(clock, 900.0), 0, MeasurePlan(max_ms_per_round=200), Instruments(clock), log)
    assert log.runs_ms == [900.0]


def test_warm_ups_end_by_number_or_by_time() -> None:
    clock = StandingClock()
    assert warm_up(CountedSession(clock, 1.0), MeasurePlan(warmup_runs=5), clock) == 5  # type: ignore[arg-type]
    plan = MeasurePlan(warmup_runs=5, max_ms_per_round=100)
    assert warm_up(CountedSession(clock, 60.0), plan, clock) == 2  # type: ignore[arg-type]
    assert warm_up(CountedSession(clock, 60.0), MeasurePlan(warmup_runs=0), clock) == 0  # type: ignore[arg-type]


def test_a_burst_in_which_another_process_ran_is_taken_again() -> None:
    clock = StandingClock()
    session, log = CountedSession(clock, 1.0, 1.0, 9.0, 1.0, 1.0), RunLog()
    # The counter is read before and after each burst: the second burst sees it move.
    plan = MeasurePlan(runs_per_round=3, burst_runs=1)
    instruments = Instruments(clock, preemptions=counting_up(0, 0, 0, 1, 1))
    time_round(session, 0, plan, instruments, log)
    assert log.runs_ms == [1.0, 1.0, 1.0]
    assert log.preempted_runs == 1


def test_where_no_burst_is_undisturbed_the_disturbed_ones_are_kept() -> None:
    clock = StandingClock()
    log = RunLog()
    readings = iter(range(1000))
    plan = MeasurePlan(runs_per_round=4, burst_runs=2)
    time_round(CountedSession(clock, 1.0), 0, plan, Instruments(clock, preemptions=lambda: next(readings)), log)
    assert log.runs_ms == [1.0] * 4
    # Two bursts were taken again, then two kept.
    assert log.preempted_runs == 8


def test_rounds_of_a_batch_are_interleaved() -> None:
    runtime = ReplayRuntime({network(n).structure_key: Recording((float(n),)) for n in (1, 2, 3)})
    subjects = [Subject(runtime.load(network(n))) for n in (1, 2, 3)]
    order: list[int] = []
    time_batch(subjects, MeasurePlan(rounds=2, runs_per_round=2), Instruments(runtime.clock), order.append)
    assert order == [0, 1, 2, 0, 1, 2]
    assert [subject.log.runs_ms for subject in subjects] == [[1.0] * 4, [2.0] * 4, [3.0] * 4]
    assert subjects[0].log.rounds == [0, 0, 1, 1]
    assert subjects[0].log.warmup_runs == 5


def test_a_run_that_fails_ends_its_subject_and_no_other() -> None:
    clock = StandingClock()

    class FailingSession(CountedSession):
        def run(self) -> None:
            super().run()
            if self.runs == 8:
                raise RuntimeFailure("out of memory")

    subjects = [Subject(FailingSession(clock, 1.0)), Subject(CountedSession(clock, 2.0))]  # type: ignore[arg-type]
    time_batch(subjects, MeasurePlan(rounds=3, runs_per_round=2), Instruments(clock))
    assert str(subjects[0].failure) == "out of memory"
    assert subjects[1].failure is None
    assert subjects[1].log.runs_ms == [2.0] * 6


def priorities_of_two_rounds(run_ms: float) -> list[str]:
    """When a priority was taken and let go while two subjects had two rounds each."""
    clock = StandingClock()
    seen: list[str] = []

    @contextmanager
    def priority() -> Iterator[None]:
        seen.append("begin")
        yield
        seen.append("end")

    subjects = [Subject(CountedSession(clock, run_ms)) for _ in range(2)]  # type: ignore[arg-type]
    time_batch(subjects, MeasurePlan(rounds=2), Instruments(clock), lambda index: seen.append(str(index)), priority)
    return seen


def test_a_long_round_holds_the_priority_alone() -> None:
    assert priorities_of_two_rounds(10.0) == ["0", "begin", "end", "1", "begin", "end"] * 2


def test_short_rounds_share_a_priority_once_every_subject_has_warmed_up() -> None:
    # A first round's warm-up is not under it, for it may start threads.
    assert priorities_of_two_rounds(0.1) == ["0", "begin", "1", "end", "begin", "0", "1", "end"]


def test_a_failing_run_lets_the_priority_go() -> None:
    held = 0

    @contextmanager
    def priority() -> Iterator[None]:
        nonlocal held
        held += 1
        try:
            yield
        finally:
            held -= 1

    class BrokenSession(CountedSession):
        def run(self) -> None:
            super().run()
            if self.runs > 6:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        time_batch([Subject(BrokenSession(StandingClock(), 1.0))], MeasurePlan(), Instruments(StandingClock()), priority=priority)  # type: ignore[arg-type]
    assert held == 0


@pytest.mark.parametrize("rounds", [1, 3])
def test_every_run_has_a_round_and_a_reading(rounds: int) -> None:
    clock = StandingClock()
    subject = Subject(CountedSession(clock, 0.3, 0.7))  # type: ignore[arg-type]
    time_batch([subject], MeasurePlan(rounds=rounds), Instruments(clock, SteppingProbe()))
    log = subject.log
    assert len(log.runs_ms) == len(log.rounds) == len(log.readings_ms) == 12 * rounds


def test_a_standing_clock_moves_only_when_told() -> None:
    clock = StandingClock()
    assert isinstance(clock, Clock)
    assert clock.now_ms() == clock.now_ms() == 0.0
    clock.advance(2.5)
    assert clock.now_ms() == 2.5
    for wrong in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="cannot advance"):
            clock.advance(wrong)
