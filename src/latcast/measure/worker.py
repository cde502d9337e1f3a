"""The process in which things run: ``python -m latcast.measure.worker``.

It owns one runtime at one setting, takes requests from its standard input and answers on what was its standard output (see
:mod:`latcast.measure.messages`). Native libraries print when they like, so before a runtime is imported the answers move
to another descriptor and standard output is joined with standard error, which the client writes to a log. When the
client goes away the worker does too.
"""

from __future__ import annotations

import base64
import os
import queue
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from latcast import environment as env
from latcast.errors import DynamicShapeError, LatcastError, MeasurementError, RuntimeFailure, UnsupportedOperatorError
from latcast.graph.compact import unpack
from latcast.graph.input_values import fitted, unpack_values
from latcast.graph.ir import Graph, Values, check_input_names, shapes_by_input
from latcast.measure import messages
from latcast.measure.conditions import release_memory, start_log, time_beside
from latcast.measure.opened_runtime import OpenedRuntime, open_runtime, working_set_bytes
from latcast.measure.probe import calibrate_probe
from latcast.measure.record import failed, finished, profile_kernels, seen_by, with_moment
from latcast.measure.settings import MeasurePlan
from latcast.measure.timing import Subject, time_batch, warm_up
from latcast.records import Measurement, Reference
from latcast.runtimes.model_file import ModelFile, files_of
from latcast.runtimes.protocol import Session
from latcast.runtimes.session import random_inputs
from latcast.spaces import build
from latcast.spaces.catalogue import file_of


@dataclass(frozen=True)
class _Job:
    """One subject as requested.

    Attributes:
        number: The client's name for it.
        packed: The graph of a file of the client's.
        files: Or that file itself, by name, with those of its weights after it.
        values: Values of inputs.
    """

    number: int
    reference: Reference
    role: str
    packed: bytes | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    values: Values = field(default_factory=dict)

    @classmethod
    def from_json(cls, item: Mapping[str, Any]) -> _Job:
        packed = None if item.get("graph") is None else base64.b64decode(item["graph"])
        files = {str(name): base64.b64decode(content) for name, content in item.get("files", {}).items()}
        values = unpack_values(base64.b64decode(item["values"])) if "values" in item else {}
        return cls(int(item["number"]), Reference.from_json(item["reference"]), str(item["role"]), packed, files, values)

    def graph(self, *, trust: bool) -> Graph:
        return build(self.reference, trust=trust) if self.packed is None else unpack(self.packed, self.reference.name)

    def unpacked(self, folder: Path) -> _Job:
        """Return the same with the file that was sent lying in a folder."""
        for name, content in self.files.items():
            place = (folder / name).resolve()
            if folder.resolve() not in place.parents:
                raise MeasurementError(f"the file '{name}' would lie outside the folder of its model")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        parameters = {**self.reference.parameters, "path": str(folder / next(iter(self.files)))}
        return replace(self, reference=replace(self.reference, parameters=parameters))


@dataclass(frozen=True)
class _Loaded:
    """A subject of the batch under way, with the data for its record."""

    job: _Job
    subject: Subject
    weights: tuple[float, ...]
    moment: Mapping[str, Any]
    platform: str
    folder: tempfile.TemporaryDirectory[str] | None


class Worker:
    """Serves one client: ``send`` takes each answer; ``process_key`` is unique among the processes that measure for a store."""

    def __init__(self, send: Callable[[messages.Message], None], process_key: str) -> None:
        self._send = send
        self._process_key = process_key
        self._opened: OpenedRuntime | None = None
        self._trust, self._made_up = False, False
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
                if self._opened.instruments.probe is None:
                    raise MeasurementError("this worker measures without a probe, there is nothing to calibrate")
                self._send({"event": "calibrated", "quiet_ms": list(calibrate_probe(self._opened.instruments.probe))})
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
        self._trust, self._made_up = bool(settings.get("trust")), bool(settings.get("made_up_weights"))
        own = ("trust", "made_up_weights")
        self._opened = open_runtime(**{name: value for name, value in settings.items() if name not in own})
        probe = self._opened.instruments.probe
        key = None if probe is None else probe.key
        self._send({"event": "opened", "platform": self._opened.platform.id, "probe": key})

    def _measure(self, opened: OpenedRuntime, request: Mapping[str, Any]) -> None:
        plan = MeasurePlan.from_json(request["plan"])
        self._quiet_ms = tuple(request["quiet_ms"])
        waiting = deque(_Job.from_json(item) for item in request["subjects"])
        while plan.start and waiting:
            self._measure_start(opened, waiting.popleft(), plan)
        while plan.beside and waiting:
            for loaded in self._load_batch(opened, waiting, replace(plan, batch_size=1)):
                self._announce(loaded.job, "running")
                try:
                    warm_up(loaded.subject.session, plan, opened.instruments.clock)
                    loaded.subject.log, factors = time_beside(opened, loaded.subject.session, plan.beside.split(","))
                except LatcastError as failure:
                    loaded.subject.failure, factors = failure, {}
                self._finish(opened, replace(loaded, moment={**loaded.moment, "beside": factors}), plan)
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
            release_memory()  # so that the next batch's growth is seen

    def _measure_start(self, opened: OpenedRuntime, job: _Job, plan: MeasurePlan) -> None:
        """Load a subject's file, run it once, and report the two times; its process is fresh where its batch has one subject."""
        self._announce(job, "loading")
        with tempfile.TemporaryDirectory(prefix="latcast-") as folder:
            try:
                read = job.unpacked(Path(folder)) if job.files else job
                file = self._own_file(opened, read)
                touched_bytes = _size_bytes(file)
                if file is None:
                    graph = read.graph(trust=self._trust)
                    touched_bytes = working_set_bytes(graph)
                    file = ModelFile(opened.write(graph, Path(folder)), graph.name, values=job.values)
                weights = opened.probe_weights(touched_bytes)
                log, load_ms = start_log(opened, file, plan.start)
                moment: dict[str, Any] = {"load_ms": load_ms, "page_cache": plan.start, "file_bytes": _size_bytes(file)}
                measurement = finished(
                    log, platform=opened.platform.id, reference=job.reference, role=job.role, parts=opened.probe_parts,
                    quiet_ms=self._quiet_ms, weights=weights,
                    environment=self._environment(opened, **moment, probe_weights=list(weights)),
                )  # fmt: skip
            except Exception as problem:  # as in loading
                self._report_failure(opened, job, problem)
            else:
                self._report(job, measurement)

    def _announce(self, job: _Job, stage: str) -> None:
        self._send({"event": "started", "number": job.number, "stage": stage})

    def _load_batch(self, opened: OpenedRuntime, waiting: deque[_Job], plan: MeasurePlan) -> list[_Loaded]:
        """Take subjects from the queue until the batch is full by number or by memory; failures are reported at once.

        On several threads a subject is alone: the pools of others would spin on the CPUs that it needs, for tens of milliseconds
        after their last run.
        """
        batch: list[_Loaded] = []
        most = 1 if opened.cpus and opened.platform.threads > 1 else plan.batch_size
        before_bytes = env.resident_bytes()
        clock = opened.instruments.clock
        while waiting and len(batch) < most:
            job = waiting.popleft()
            self._announce(job, "loading")
            folder = tempfile.TemporaryDirectory(prefix="latcast-") if job.files else None
            try:
                read = job if folder is None else job.unpacked(Path(folder.name))
                start_ms = clock.now_ms()
                file = self._own_file(opened, read)
                graph = read.graph(trust=self._trust) if file is None else file.graph
                build_ms = clock.now_ms() - start_ms
                if file is not None:
                    session = _as_it_is(opened, file, profile=plan.profile)
                else:
                    assert graph is not None
                    session = opened.load(graph, profile=plan.profile)
                    if job.values:
                        session.set_inputs(_inputs(graph, job.values))
                load_ms = clock.now_ms() - start_ms - build_ms
                touched_bytes = working_set_bytes(graph) if graph is not None else _size_bytes(file)
            except Exception as problem:  # one subject's failure, of whatever kind, must not end the others
                self._report_failure(opened, job, problem)
                continue
            moment = {
                "build_ms": round(build_ms, 3),
                "load_ms": round(load_ms, 3),
                "working_set_bytes": touched_bytes,
                "weights": "made up" if file is None else "of the file",
            }
            platform = opened.platform
            if file is not None and graph is not None and graph.precision != "fp32":
                platform = replace(platform, precision=graph.precision)  # as the file runs, whatever was asked for
            batch.append(_Loaded(job, Subject(session), opened.probe_weights(touched_bytes), moment, platform.id, folder))
            if env.resident_bytes() - before_bytes >= plan.batch_bytes:
                break
        return batch

    def _own_file(self, opened: OpenedRuntime, job: _Job) -> ModelFile | None:
        """Return the file of a subject where the runtime runs it as it is; None where its graph is to be written.

        Raises:
            DynamicShapeError: The size of an input is not known.
            ModelError: The file is missing or has changed.
        """
        if job.reference.space != "file" or job.packed is not None or self._made_up or "signature" in job.reference.parameters:
            return None
        path = file_of(job.reference)
        if not path.is_file() or not opened.runs(path):
            return None
        graph: Graph | None = None
        try:
            graph = job.graph(trust=self._trust)
        except DynamicShapeError:
            raise
        except LatcastError:
            if opened.platform.precision == "int8":
                raise
        # A file of reals is quantised where int8 is asked for.
        if opened.platform.precision == "int8" and graph is not None and graph.precision != "int8":
            return None
        parameters = job.reference.parameters
        values = job.values or parameters.get("values", {})
        shapes = parameters.get("shapes", {})
        if graph is not None and "" in shapes:
            shapes = shapes_by_input(shapes, graph.inputs, graph.name)
        return ModelFile(path, job.reference.name, graph, shapes, values)

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
                platform=loaded.platform,
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
        finally:
            if loaded.folder is not None:
                loaded.folder.cleanup()
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


def _as_it_is(opened: OpenedRuntime, file: ModelFile, *, profile: bool) -> Session:
    """Return a session of a model file; the error of a runtime that refuses it says how else it may be measured."""
    try:
        return opened.load_file(file, profile=profile)
    except (RuntimeFailure, UnsupportedOperatorError) as problem:
        if file.graph is None:
            raise
        raise type(problem)(f"{problem}; latcast reads the file and may write it in other words: --made-up-weights") from problem


def _inputs(graph: Graph, values: Values) -> list[np.ndarray]:
    """Return the inputs of a graph: the values given, random ones for the others."""
    check_input_names(values, graph.inputs, graph.name, what="value")
    return [
        fitted(name, values[name], graph.shape(name), graph.tensors[name].dtype) if name in values else array
        for name, array in zip(graph.inputs, random_inputs(graph), strict=True)
    ]


def _size_bytes(file: ModelFile | None) -> float:
    return 0.0 if file is None else float(sum(each.stat().st_size for each in files_of(file.path)))


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
