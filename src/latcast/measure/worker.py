"""The process in which things run: ``python -m latcast.measure.worker``.

It owns one runtime at one setting, takes requests from its standard input and answers on what was its standard output (see
:mod:`latcast.measure.messages`). Native libraries print when they like, so before a runtime is imported the answers move
to another descriptor and standard output is joined with standard error, which the client writes to a log. When the
client goes away the worker does too.
"""

from __future__ import annotations

import base64
import ctypes
import gc
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from latcast import environment as env
from latcast.errors import LatcastError, MeasurementError
from latcast.graph.compact import unpack
from latcast.graph.ir import Graph
from latcast.measure import messages
from latcast.measure.opened_runtime import OpenedRuntime, open_runtime, working_set_bytes
from latcast.measure.probe import calibrate_probe
from latcast.measure.record import failed, finished, profile_kernels, seen_by, with_moment
from latcast.measure.settings import MeasurePlan
from latcast.measure.timing import Subject, time_batch
from latcast.records import Measurement, Reference
from latcast.spaces import build


@dataclass(frozen=True)
class _Job:
    """One subject as requested: ``number`` is the client's name for it, ``packed`` the graph of a file of the client's."""

    number: int
    reference: Reference
    role: str
    packed: bytes | None = None

    @classmethod
    def from_json(cls, item: Mapping[str, Any]) -> _Job:
        packed = None if item.get("graph") is None else base64.b64decode(item["graph"])
        return cls(int(item["number"]), Reference.from_json(item["reference"]), str(item["role"]), packed)

    def graph(self, *, trust: bool) -> Graph:
        return build(self.reference, trust=trust) if self.packed is None else unpack(self.packed, self.reference.name)


@dataclass(frozen=True)
class _Loaded:
    """A subject of the batch under way, with the data for its record."""

    job: _Job
    subject: Subject
    weights: tuple[float, ...]
    moment: Mapping[str, Any]


class Worker:
    """Serves one client: ``send`` takes each answer; ``process_key`` is unique among the processes that measure for a store."""

    def __init__(self, send: Callable[[messages.Message], None], process_key: str) -> None:
        self._send = send
        self._process_key = process_key
        self._opened: OpenedRuntime | None = None
        self._trust = False
        self._quiet_ms: tuple[float, ...] = ()

    def answer(self, request: Mapping[str, Any]) -> bool:
        """Carry out one request; return False when it was the last."""
        kind = request.get("request")
        try:
            if kind == "close":
                return False
            if kind == "hello":
                self._send({"event": "hello", "latcast": messages.code_id(), "utc_s": time.time()})
            elif kind == "open":
                self._open(request["settings"])
            elif self._opened is None:
                raise MeasurementError(f"a worker must be opened before it can '{kind}'")
            elif kind == "calibrate":
                self._calibrate(self._opened)
            elif kind == "measure":
                self._measure(self._opened, request)
            else:
                raise MeasurementError(f"a worker cannot '{kind}'; client and worker differ in version")
        except LatcastError as problem:
            self._send({"event": "refused", "error": str(problem)})
        else:
            self._send({"event": "idle"})
        return True

    def _open(self, settings: Mapping[str, Any]) -> None:
        self._trust = bool(settings.get("trust"))
        self._opened = open_runtime(**{name: value for name, value in settings.items() if name != "trust"})
        probe = self._opened.instruments.probe
        key = None if probe is None else probe.key
        self._send({"event": "opened", "platform": self._opened.platform.id, "probe": key})

    def _calibrate(self, opened: OpenedRuntime) -> None:
        if opened.instruments.probe is None:
            raise MeasurementError("this worker measures without a probe, there is nothing to calibrate")
        self._send({"event": "calibrated", "quiet_ms": list(calibrate_probe(opened.instruments.probe))})

    def _measure(self, opened: OpenedRuntime, request: Mapping[str, Any]) -> None:
        plan = MeasurePlan.from_json(request["plan"])
        self._quiet_ms = tuple(request["quiet_ms"])
        waiting = deque(_Job.from_json(item) for item in request["subjects"])
        while waiting:
            batch = self._load_batch(opened, waiting, plan)
            time_batch(
                [loaded.subject for loaded in batch],
                plan,
                opened.instruments,
                announce=lambda index, batch=batch: self._announce(batch[index].job, "running"),  # type: ignore[misc]
                priority=opened.priority,
            )
            while batch:
                self._finish(opened, batch.pop(0), plan)
            # Freed memory goes back to the system, so that the next batch's growth is seen.
            gc.collect()
            with suppress(OSError, AttributeError):  # only the GNU C library has it
                ctypes.CDLL(None).malloc_trim(0)

    def _announce(self, job: _Job, stage: str) -> None:
        self._send({"event": "started", "number": job.number, "stage": stage})

    def _load_batch(self, opened: OpenedRuntime, waiting: deque[_Job], plan: MeasurePlan) -> list[_Loaded]:
        """Take subjects from the queue until the batch is full by number or by memory; failures are reported at once."""
        batch: list[_Loaded] = []
        before_bytes = env.resident_bytes()
        clock = opened.instruments.clock
        while waiting and len(batch) < plan.batch_size:
            job = waiting.popleft()
            self._announce(job, "loading")
            try:
                start_ms = clock.now_ms()
                graph = job.graph(trust=self._trust)
                build_ms = clock.now_ms() - start_ms
                session = opened.load(graph, profile=plan.profile)
                load_ms = clock.now_ms() - start_ms - build_ms
            except Exception as problem:  # one subject's failure, of whatever kind, must not end the others
                self._report_failure(opened, job, problem)
                continue
            moment = {
                "build_ms": round(build_ms, 3),
                "load_ms": round(load_ms, 3),
                "working_set_bytes": working_set_bytes(graph),
            }
            batch.append(_Loaded(job, Subject(session), opened.probe_weights(graph), moment))
            if env.resident_bytes() - before_bytes >= plan.batch_bytes:
                break
        return batch

    def _finish(self, opened: OpenedRuntime, loaded: _Loaded, plan: MeasurePlan) -> None:
        """Free a subject, profile it where asked, and report its record."""
        job, subject = loaded.job, loaded.subject
        self._announce(job, "closing")
        try:
            if subject.failure is not None:
                subject.session.close()
                raise subject.failure
            measurement = finished(
                subject.log,
                platform=opened.platform.id,
                reference=job.reference,
                role=job.role,
                parts=opened.probe_parts,
                quiet_ms=self._quiet_ms,
                weights=loaded.weights,
                environment=self._environment(
                    opened,
                    **loaded.moment,
                    probe_weights=list(loaded.weights),
                    frequencies_mhz=subject.log.frequencies_mhz,
                    preempted_runs=subject.log.preempted_runs,
                ),
            )
            if plan.profile and measurement.ok:
                self._announce(job, "profiling")
                with opened.priority():
                    measurement = profile_kernels(
                        subject.session, measurement, plan.profiled_runs, opened.instruments, self._quiet_ms, loaded.weights
                    )
            measurement = with_moment(measurement, seen_by(subject.session))
            subject.session.close()
        except Exception as problem:  # as in loading
            self._report_failure(opened, job, problem)
            return
        self._report(job, measurement)

    def _environment(self, opened: OpenedRuntime, frequencies_mhz: Sequence[float] = (), **moment: Any) -> dict[str, Any]:
        environment = dict(opened.environment)
        probe = environment["settings"]["probe"]
        if probe is not None:
            probe = {**probe, "quiet_ms": list(self._quiet_ms)}
        now = env.describe_moment(opened.cpus, frequencies_mhz)
        return {
            **environment,
            "settings": {**environment["settings"], "probe": probe},
            env.MOMENT: {**now, "worker": self._process_key, **moment},
        }

    def _report_failure(self, opened: OpenedRuntime, job: _Job, problem: Exception) -> None:
        text = str(problem) if isinstance(problem, LatcastError) else f"unexpected {type(problem).__name__}: {problem}"
        self._report(job, failed(text, opened.platform.id, job.reference, job.role, self._environment(opened)))

    def _report(self, job: _Job, measurement: Measurement) -> None:
        self._send({"event": "measured", "number": job.number, "measurement": measurement.to_json()})


def _listen(requests: queue.SimpleQueue[dict[str, Any]]) -> None:
    """Pass requests on until the client is gone, then end the process, whatever it is doing."""
    reader = messages.LineReader(0)
    patience_s: float | None = None
    try:
        while reader.receive(patience_s):
            while (line := reader.take_line()) is not None:
                if line:
                    request = messages.decode(line)
                    patience_s = request.get("silence_s", patience_s)
                    requests.put(request)
    except TimeoutError:
        os._exit(messages.SILENCE_STATUS)
    finally:
        os._exit(0)


def main() -> None:
    """Serve requests from standard input until ``close`` or the end of the stream."""
    # From now on prints, native ones too, go to standard error.
    answers = os.dup(1)
    os.dup2(2, 1)
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    # A thread asleep in a read notices that the client is gone while the main thread measures.
    threading.Thread(target=_listen, args=(requests,), name="requests", daemon=True).start()
    worker = Worker(lambda message: messages.send(answers, message), f"{env.utc_now()}-{os.getpid()}")
    while worker.answer(requests.get()):
        pass
    # Without clean-up: native libraries may crash at exit, which would look like a failure.
    os._exit(0)


if __name__ == "__main__":
    main()
