"""A worker that answers requests in this process, on recorded runs."""

from __future__ import annotations

import os
from functools import partial
from threading import Thread
from typing import Any

import pytest

from latcast.errors import MeasurementError
from latcast.measure import messages
from latcast.measure.settings import MeasurePlan
from latcast.measure.worker import Worker
from latcast.records import ExecutedKernel, Measurement
from latcast.runtimes import RUNTIMES
from latcast.spaces import build
from tests.measure.behaving import reference
from tests.measure.replay import Recording, ReplayRuntime

PLAN = MeasurePlan(rounds=3, runs_per_round=2, warmup_runs=1)
KERNELS = (ExecutedKernel("relu", "Relu", ("relu_0",), 1.25),)


class Conversation:
    """A worker with its answers."""

    def __init__(self) -> None:
        self.answers: list[messages.Message] = []
        self.worker = Worker(self.answers.append, "this process")

    def ask(self, **request: Any) -> list[messages.Message]:
        """The answers to one request."""
        self.answers.clear()
        assert self.worker.answer(request)
        return list(self.answers)

    def measure(self, *numbers: int, plan: MeasurePlan = PLAN) -> list[Measurement]:
        """Records of some networks, by number."""
        subjects = [{"number": number, "reference": reference(number=number).to_json(), "role": "network"} for number in numbers]
        answers = self.ask(request="measure", plan=plan.to_json(), quiet_ms=[], subjects=subjects)
        assert answers[-1] == {"event": "idle"}
        return [Measurement.from_json(a["measurement"]) for a in answers if a["event"] == "measured"]


@pytest.fixture
def conversation() -> Conversation:
    """A worker that plays recordings of three networks back."""
    recorded = {0: (4.0, 6.0, 5.0), 1: (1.0,), 2: (0.0,)}
    recordings = {build(reference(number=number)).structure_key: Recording(runs, KERNELS) for number, runs in recorded.items()}
    RUNTIMES.register("played", partial(ReplayRuntime, recordings, name="played", version="2.5.1"))  # type: ignore[arg-type]
    opened = Conversation()
    answers = opened.ask(request="open", settings={"runtime": "played", "cpus": ()})
    assert answers == [
        {"event": "opened", "platform": "local/played-2.5/cpu1/fp32", "probe": None}, {"event": "idle"},
    ]  # fmt: skip
    return opened


def test_recorded_runs_come_out_as_recorded(conversation: Conversation) -> None:
    (found,) = conversation.measure(0)
    # One warm-up, then in each of three rounds one untimed and two timed runs of 4, 6, 5, 4, 6, 5...
    assert found.runs_ms == (5.0, 4.0, 5.0, 4.0, 5.0, 4.0)
    assert found.rounds == (0, 0, 1, 1, 2, 2)
    assert found.latency_ms == found.raw_latency_ms == 4.5
    assert found.warmup_runs == 1
    assert found.statistic == "median of runs"
    assert found.environment["moment"]["worker"] == "this process"


def test_subjects_are_announced_before_each_thing_done_with_them(conversation: Conversation) -> None:
    conversation.measure(1, plan=MeasurePlan(rounds=2, profile=True))
    stages = [answer["stage"] for answer in conversation.answers if answer["event"] == "started"]
    assert stages == ["loading", "running", "running", "closing", "profiling"]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system pins no process")
@pytest.mark.parametrize("cpus", ["all of its own", "none"])
def test_networks_on_several_pinned_threads_are_loaded_and_timed_one_by_one(conversation: Conversation, cpus: str) -> None:
    before = os.sched_getaffinity(0)
    pinned = sorted(before)[-2:] if cpus == "all of its own" else []
    try:
        conversation.ask(request="open", settings={"runtime": "played", "threads": 2, "cpus": pinned})
        found = conversation.measure(0, 1, plan=MeasurePlan(rounds=2, runs_per_round=2, warmup_runs=0))
    finally:
        os.sched_setaffinity(0, before)

    stages = [(answer["number"], answer["stage"]) for answer in conversation.answers if answer["event"] == "started"]
    if pinned:
        # The pool of the other one would spin on the CPUs that it needs.
        assert stages == [(number, stage) for number in (0, 1) for stage in ("loading", "running", "running", "closing")]
    else:
        assert [number for number, stage in stages if stage in ("loading", "running")] == [0, 1, 0, 1, 0, 1]
    # One untimed and two timed runs a round, of 4, 6, 5, 4, 6, 5... and of 1.
    assert [each.runs_ms for each in found] == [(6.0, 5.0, 6.0, 5.0), (1.0, 1.0, 1.0, 1.0)]
    assert {each.platform for each in found} == {"local/played-2.5/cpu2/fp32"}


def test_a_network_that_takes_no_time_is_a_failure(conversation: Conversation) -> None:
    (found,) = conversation.measure(2)
    assert not found.ok
    assert "the runtime returned without running the network" in str(found.error)


def test_a_network_without_a_recording_fails_alone(conversation: Conversation) -> None:
    unknown, known = conversation.measure(7, 1)
    assert "no run of" in str(unknown.error)
    assert known.latency_ms == 1.0


def test_executed_kernels_are_kept_with_the_measurement(conversation: Conversation) -> None:
    (found,) = conversation.measure(0, plan=MeasurePlan(rounds=1, profile=True))
    assert found.executed == KERNELS


def test_a_replayed_runtime_cannot_be_calibrated(conversation: Conversation) -> None:
    (answer,) = conversation.ask(request="calibrate")
    assert answer["event"] == "refused"
    assert "without a probe" in answer["error"]


def test_requests_before_opening_and_unknown_ones_are_refused(conversation: Conversation) -> None:
    (answer,) = Conversation().ask(request="measure")
    assert answer["error"] == "a worker must be opened before it can 'measure'"
    (answer,) = conversation.ask(request="dance")
    assert "cannot 'dance'" in answer["error"]


def test_messages_of_any_length_arrive_whole_and_in_order() -> None:
    reading, writing = os.pipe()
    sent = [{"number": 1}, {"text": "ü" * 20_000}, {"number": 2}]

    def send_all() -> None:
        # The second message is longer than a pipe holds, so it is read while it is written.
        for message in sent:
            messages.send(writing, message)
        os.close(writing)

    sender = Thread(target=send_all)
    sender.start()
    reader = messages.LineReader(reading)
    arrived = []
    while reader.receive():
        while (line := reader.take_line()) is not None:
            arrived.append(messages.decode(line))
    sender.join()
    os.close(reading)
    assert arrived == sent


@pytest.mark.parametrize("line", [b"hello", b"[1]", b'{"a": '])
def test_a_malformed_message_is_quoted(line: bytes) -> None:
    with pytest.raises(MeasurementError, match="a message is not"):
        messages.decode(line)
