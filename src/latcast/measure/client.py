"""The client of a worker: starts the process, sends it subjects, replaces it when it dies.

A subject is blamed for a crash only when it crashes alone in a fresh process. When a worker dies with several subjects loaded,
those without a record are measured again one by one, so that only the faulty one has an error.
"""

from __future__ import annotations

import base64
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import TracebackType
from typing import IO, Any

from latcast.environment import shifted
from latcast.errors import LatcastError, MeasurementError, RuntimeFailure
from latcast.graph.compact import pack
from latcast.graph.input_values import pack_values
from latcast.graph.ir import Values
from latcast.measure import messages
from latcast.measure.probe import QuietTimes, settle
from latcast.measure.record import failed, with_moment
from latcast.measure.settings import MeasurePlan, WorkerSettings
from latcast.measure.wires import Wire, wire_of
from latcast.records import Measurement, Platform, Reference
from latcast.runtimes import RUNTIMES
from latcast.runtimes.model_file import files_of
from latcast.spaces import build
from latcast.spaces.catalogue import file_of

START_TIMEOUT_S = 120.0
"""Longest start: importing a runtime on a slow, busy machine."""

CLOSE_TIMEOUT_S = 5.0

CALIBRATION_INTERVAL_S = 10.0
"""Shortest time between calibrations: a host changes its state within seconds to minutes."""

LOG_TAIL_CHARACTERS = 300

RECONNECT_WAITS_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Waits between attempts to reach a lost device: a board takes a minute to restart."""

LOST_AT_MOST = 3
"""Losses of a link in a row without a record, after which the subject is blamed."""

HELLO_TIMEOUT_S = 60.0

MOST_CARRIED_BYTES = 64 << 20
"""Largest file that goes to another machine as it is: a board holds it some times over. Of a larger one the shapes go alone."""

CLOCK_READINGS = 3
"""Readings of a far clock, of which the one with the shortest round trip counts."""

_FOR_THE_START = ("variables", "address", "library_path")
"""Settings that a process is started with; the others follow in a request."""


@dataclass(frozen=True)
class Item:
    """A subject to measure, and its role."""

    reference: Reference
    role: str = "network"
    packed: bytes | None = field(default=None, repr=False, compare=False, kw_only=True)
    """The graph of a file, where the worker's machine does not have the file."""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False, compare=False, kw_only=True)
    """Or the file itself by its name, where the runtime runs it as it is, with those of its weights after it."""
    values: Values = field(default_factory=dict, repr=False, compare=False, kw_only=True)
    """Values of inputs, which the reference names too."""

    @property
    def name(self) -> str:
        return self.reference.name or f"{self.reference.space} {self.reference.key}"


def carried(item: Item, settings: WorkerSettings) -> Item:
    """Return a subject with what a machine that does not have its file needs.

    That is the file, where the runtime runs it as it is and it is not too large; else its shapes without weights, some kilobytes;
    nothing where the file cannot be read: the record from there will say so.
    """
    reference = item.reference
    if reference.space != "file":
        return item
    try:
        path = file_of(reference)
        # A runtime that a module of the worker registers is not known here.
        endings = getattr(RUNTIMES.get(settings.runtime), "endings", ()) if settings.runtime in RUNTIMES else ()
        if path.suffix.lower() in endings and not settings.made_up_weights and "signature" not in reference.parameters:
            files = [file for file in files_of(path) if file.is_file()]
            if files and sum(file.stat().st_size for file in files) <= MOST_CARRIED_BYTES:
                return replace(item, files={file.relative_to(path.parent).as_posix(): file.read_bytes() for file in files})
        return replace(item, packed=pack(build(reference, trust=settings.trust)))
    except LatcastError:
        return item


class WorkerDied(RuntimeFailure):
    """The worker's process ended or fell silent.

    Attributes:
        busy_with: Number of the subject that it reported last.
        timed_out: Whether it fell silent.
        wire: Whether the wire to it is the reason, not the worker.
        lost: Whether the link to it broke, and may come back.
    """

    def __init__(
        self, reason: str, busy_with: int | None, *, timed_out: bool = False, wire: bool = False, lost: bool = False
    ) -> None:
        super().__init__(reason)
        self.busy_with = busy_with
        self.timed_out = timed_out
        self.wire = wire
        self.lost = lost


@dataclass(frozen=True)
class FarClock:
    """The clock of another machine.

    Attributes:
        offset_ms: Its time minus this machine's.
        round_trip_ms: Duration of the reading; the error of the offset is at most half of it.
    """

    offset_ms: float
    round_trip_ms: float

    def corrected(self, measurement: Measurement) -> Measurement:
        """Return a record with its time of day by this machine's clock, and the correction."""
        clock = {"clock_offset_ms": round(self.offset_ms, 3), "clock_round_trip_ms": round(self.round_trip_ms, 3)}
        return with_moment(replace(measurement, taken_at=shifted(measurement.taken_at, -self.offset_ms)), clock)


class WorkerProcess:
    """One process, from start to death. :class:`MeasuringClient` replaces it when it dies."""

    def __init__(self, wire: Wire, settings: WorkerSettings) -> None:
        self._wire = wire
        if sys.platform == "win32":
            raise MeasurementError(
                "measuring does not work on Windows: its pipes cannot be waited for, nor its processes pinned; measure in WSL, "
                "or from Linux or macOS with --device ssh://user@host"
            )
        command = list(wire.command(settings))
        self._log: IO[bytes] = tempfile.TemporaryFile(prefix="latcast-worker-")  # noqa: SIM115 - lives as the process does
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=dict(wire.variables(settings)),
            bufsize=0,
            # Ctrl-C is for the client, which ends the worker when it goes.
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._reader = messages.LineReader(self._answers.fileno())
        self.measured = 0
        self.probe_key: str | None = None
        self.clock: FarClock | None = None
        self._sending = threading.Lock()
        self._ended = threading.Event()
        if wire.far:
            threading.Thread(target=self._keep_alive, name="heartbeat", daemon=True).start()

    @property
    def alive(self) -> bool:
        return not self._requests.closed

    def ask(self, request: messages.Message, timeout_s: float) -> Iterator[dict[str, Any]]:
        """Send a request and yield the answers to it, up to and without ``idle``.

        Raises:
            WorkerDied: The process ended, or was silent for ``timeout_s`` and was killed.
            RuntimeFailure: The worker refused.
        """
        busy_with: int | None = None
        stage = "starting"
        try:
            self._send(request)
        except BrokenPipeError:
            raise self._death(busy_with, stage) from None
        while True:
            answer = self._next_answer(timeout_s, busy_with, stage)
            if answer["event"] == "idle":
                return
            if answer["event"] == "refused":
                raise RuntimeFailure(answer["error"])
            if answer["event"] == "started":
                busy_with, stage = int(answer["number"]), str(answer["stage"])
            try:
                yield answer
            except GeneratorExit:
                self.kill()  # the rest of the answers would be taken for answers to the next request
                raise

    def _send(self, request: messages.Message) -> None:
        with self._sending:
            messages.send(self._requests.fileno(), request)

    def _keep_alive(self) -> None:
        """Tell a worker on another machine from time to time that its client is still there."""
        while not self._ended.wait(messages.SILENCE_S / 6):
            try:
                with self._sending:
                    if not self._ended.is_set():
                        self._requests.write(b"\n")
            except OSError:
                return

    def hello(self) -> str:
        """Read the clock of a worker on another machine; return its code's id.

        Raises:
            WorkerDied: It cannot be reached.
            RuntimeFailure: It does not know the question.
        """
        code = ""
        for _ in range(CLOCK_READINGS):
            asked_s = time.time()
            (answer,) = self.ask({"request": "hello", "silence_s": messages.SILENCE_S}, HELLO_TIMEOUT_S)
            answered_s = time.time()
            code = str(answer["latcast"])
            found = FarClock(1e3 * (float(answer["utc_s"]) - (asked_s + answered_s) / 2), 1e3 * (answered_s - asked_s))
            if self.clock is None or found.round_trip_ms < self.clock.round_trip_ms:
                self.clock = found
        return code

    def _next_answer(self, timeout_s: float, busy_with: int | None, stage: str) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        while True:
            while (line := self._reader.take_line()) is not None:
                try:
                    return messages.decode(line)
                except MeasurementError:
                    if not self._wire.far or self.clock is not None:
                        raise
                    os.write(self._log.fileno(), line + b"\n")  # a login prints on the other machine before the worker answers
            ready, _, _ = select.select([self._answers], [], [], max(deadline - time.monotonic(), 0))
            if not ready:
                self.kill()
                raise WorkerDied(f"no sign of life for {timeout_s:g} s while {stage}", busy_with, timed_out=True)
            if not self._reader.receive():
                raise self._death(busy_with, stage)

    def _death(self, busy_with: int | None, stage: str) -> WorkerDied:
        """Return the exception for a process that has closed its end."""
        try:
            code = self._process.wait(CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        log_tail = self._log_tail()
        self._release()
        ending = self._wire.ending(code, log_tail)
        if ending is not None:
            return WorkerDied(ending.reason, busy_with, wire=True, lost=ending.lost)
        if self._wire.far and code > 128:
            code = 128 - code  # a shell's status of a killed process
        names = {each.value: each.name for each in signal.Signals}
        how = f"was killed by {names.get(-code, f'signal {-code}')}" if code < 0 else f"ended with status {code}"
        return WorkerDied(f"the worker {how} while {stage}" + (f"; it wrote: {log_tail}" if log_tail else ""), busy_with)

    def _log_tail(self) -> str:
        """Return the end of what the process printed, on one line."""
        size = self._log.seek(0, 2)
        self._log.seek(max(size - 4 * LOG_TAIL_CHARACTERS, 0))
        text = " ".join(self._log.read().decode("utf-8", errors="replace").split())
        return text if len(text) <= LOG_TAIL_CHARACTERS else f"...{text[-LOG_TAIL_CHARACTERS:]}"

    def close(self) -> None:
        """End the process, by force after a few seconds."""
        if self.alive:
            try:
                self._send({"request": "close"})
                self._process.wait(CLOSE_TIMEOUT_S)
            except (BrokenPipeError, subprocess.TimeoutExpired):
                self._process.kill()
            self._release()

    def kill(self) -> None:
        """End the process at once."""
        if self.alive:
            self._process.kill()
            self._release()

    def _release(self) -> None:
        self._ended.set()
        with self._sending:
            for stream in (self._requests, self._answers):
                stream.close()
            self._process.wait()
            self._log.close()


class _Unreachable(RuntimeFailure):
    """A device cannot be reached at the moment."""


class MeasuringClient:
    """Measures on one platform, in a separate process that is replaced when it dies. A context manager.

    Raises:
        RuntimeFailure: The worker could not be started or refused the settings.
    """

    def __init__(self, settings: WorkerSettings, quiet_times: QuietTimes) -> None:
        self.settings = settings
        self._wire = wire_of(settings.address)
        self._quiet_times = quiet_times
        self._process: WorkerProcess | None = None
        self.quiet_ms: tuple[float, ...] = ()
        self.lanes = 1
        self._calibrated_at = -CALIBRATION_INTERVAL_S
        self._process = self._start()

    def __enter__(self) -> MeasuringClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the worker."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def restart(self) -> None:
        """Replace the process, so that one memory layout does not enter every measurement."""
        self.close()
        self._living_process()

    def measure(
        self, items: Sequence[Item], plan: MeasurePlan, announce: Callable[[Item, str], None] = lambda item, stage: None
    ) -> Iterator[tuple[int, Measurement]]:
        """Measure all items, interleaved in batches, and yield each one's index and record as it is finished.

        Every item gets exactly one record. One that cannot be loaded or run, crashes the process, or exceeds
        ``plan.timeout_s`` has ``error`` set. ``announce`` is called with an item and its stage ("loading", "running", "closing",
        "profiling").

        Raises:
            RuntimeFailure: No worker can be started any more.
        """
        groups = deque([list(range(len(items)))])
        lost = 0
        while groups:
            group = groups.popleft()
            process = self._living_process()
            fresh = process.measured == 0
            left = dict.fromkeys(group)
            try:
                if time.monotonic() - self._calibrated_at >= CALIBRATION_INTERVAL_S:
                    self.calibrate()
                for answer in process.ask(self._request(items, group, plan), plan.timeout_s):
                    number = int(answer["number"])
                    if answer["event"] == "started":
                        announce(items[number], answer["stage"])
                    else:
                        del left[number]
                        process.measured += 1
                        lost = 0
                        measurement = Measurement.from_json(answer["measurement"])
                        yield number, measurement if process.clock is None else process.clock.corrected(measurement)
            except WorkerDied as death:
                if death.wire and not death.lost:
                    raise
                lost = lost + 1 if death.lost else 0
                # No subject is blamed for a lost link, unless it is lost repeatedly.
                forgiven = 0 < lost < LOST_AT_MOST
                lost = lost if forgiven else 0
                alone = len(group) == 1 and (fresh or death.lost) and not forgiven
                blamed = death.busy_with if death.timed_out else group[0] if alone else None
                if blamed in left:
                    del left[blamed]
                    yield blamed, failed(str(death), self.platform.id, items[blamed].reference, items[blamed].role)
                # After a time-out the subject at fault is known and the others go on together; after a crash it is not.
                together = forgiven or (death.timed_out and blamed is not None)
                again = [list(left)] if together else [[number] for number in left]
                groups.extendleft(reversed([numbers for numbers in again if numbers]))

    def _request(self, items: Sequence[Item], group: Sequence[int], plan: MeasurePlan) -> messages.Message:
        subjects: list[dict[str, Any]] = []
        for number in group:
            item = carried(items[number], self.settings) if self._wire.far else items[number]
            subjects.append({"number": number, "reference": item.reference.to_json(), "role": item.role})
            if item.packed is not None:
                subjects[-1]["graph"] = base64.b64encode(item.packed).decode()
            if item.files:
                subjects[-1]["files"] = {name: base64.b64encode(content).decode() for name, content in item.files.items()}
            if item.values:
                subjects[-1]["values"] = base64.b64encode(pack_values(item.values)).decode()
        return {"request": "measure", "plan": plan.to_json(), "quiet_ms": list(self.quiet_ms), "subjects": subjects}

    def _living_process(self) -> WorkerProcess:
        """Return the process, started again where it died; a lost device is waited for."""
        if self._process is not None and self._process.alive:
            return self._process
        for wait_s in (*RECONNECT_WAITS_S, None):
            try:
                self._process = self._start()
                return self._process
            except _Unreachable as problem:
                if wait_s is None:
                    raise RuntimeFailure(f"{problem}; tried again for a minute, what was measured is kept") from problem
                time.sleep(wait_s)
        raise AssertionError("unreachable")

    def calibrate(self) -> None:
        """Read the quiet time of the worker's probe and settle it with the known one; this takes half a second."""
        process = self._living_process()
        key = process.probe_key
        if key is None:
            return
        (calibrated,) = process.ask({"request": "calibrate"}, START_TIMEOUT_S)
        known = self._quiet_times.quiet_ms(key)
        self.quiet_ms = settle(known, calibrated["quiet_ms"])
        if self.quiet_ms != known:
            self._quiet_times.keep_quiet_ms(key, self.quiet_ms)
        self._calibrated_at = time.monotonic()

    def _start(self) -> WorkerProcess:
        process = WorkerProcess(self._wire, self.settings)
        told = self._wire.adjusted(self.settings)
        arguments = {name: value for name, value in asdict(told).items() if name not in _FOR_THE_START}
        if self.settings.address and told.device == "local":
            arguments["device"] = None
        try:
            if self._wire.far:
                self._check_code(process)
            (opened,) = process.ask({"request": "open", "settings": arguments}, START_TIMEOUT_S)
            self.platform = Platform.parse(opened["platform"])
            process.probe_key = opened["probe"]
        except WorkerDied as death:
            if death.wire:
                raise (_Unreachable if death.lost else RuntimeFailure)(str(death)) from None
            raise RuntimeFailure(f"{self.settings.runtime} could not be started: {death}") from None
        except RuntimeFailure as problem:
            process.kill()
            said, missing, _ = str(problem).partition("; add it with: pip install ")
            if not self._wire.far or not missing:
                raise
            mend = f"latcast device prepare {self.settings.address} --runtime {self.settings.runtime}"
            raise RuntimeFailure(f"{self._wire.where}: {said}; add it with: {mend}") from problem
        except BaseException:
            process.kill()
            raise
        return process

    def _check_code(self, process: WorkerProcess) -> None:
        """Raise a RuntimeFailure for a worker of another version, whose records would not compare."""
        mend = f"latcast device prepare {self.settings.address}"
        try:
            there = process.hello()
        except WorkerDied:
            raise
        except RuntimeFailure as problem:
            raise RuntimeFailure(f"the latcast on {self._wire.where} is older than this one: {mend}") from problem
        if there != messages.code_id():
            raise RuntimeFailure(
                f"latcast differs: {self._wire.where} has {there}, this machine {messages.code_id()}; records of different ones "
                f"do not compare: {mend}"
            )
