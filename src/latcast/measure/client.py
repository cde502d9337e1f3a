"""The client of a worker: starts the process, sends it subjects, replaces it when it dies.

A subject is blamed for a crash only when it crashes alone in a fresh process. When a worker dies with several subjects
loaded, those without a record are measured again one by one; what was wrong with one of them then shows by itself, and the
others get their records.
"""

from __future__ import annotations

import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import IO, Any

from latcast.errors import RuntimeFailure
from latcast.measure import messages
from latcast.measure.probe import QuietTimes, settle
from latcast.measure.record import failed
from latcast.measure.settings import MeasurePlan, WorkerSettings
from latcast.records import Measurement, Platform, Reference

START_TIMEOUT_S = 120.0
"""For importing a runtime on a slow, busy machine."""

CLOSE_TIMEOUT_S = 5.0

CALIBRATION_INTERVAL_S = 10.0
"""A host changes its state within seconds to minutes; a calibration is not repeated more often than this."""

LOG_TAIL_CHARACTERS = 300

_FOR_THE_START = ("variables", "scheduler", "library_path")
"""Settings that a process is started with; it is asked for the others once it runs."""


@dataclass(frozen=True)
class Item:
    """What to measure, and as what."""

    reference: Reference
    role: str = "network"

    @property
    def name(self) -> str:
        return self.reference.name or f"{self.reference.space} {self.reference.key}"


class WorkerDied(RuntimeFailure):
    """The worker's process ended or fell silent; ``busy_with`` is the number of the subject it last spoke of."""

    def __init__(self, reason: str, busy_with: int | None, *, timed_out: bool) -> None:
        super().__init__(reason)
        self.busy_with = busy_with
        self.timed_out = timed_out


class WorkerProcess:
    """One process, from start to death. :class:`MeasuringClient` replaces it when it dies."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile(prefix="latcast-worker-")  # noqa: SIM115 - lives as the process does
        self._process = subprocess.Popen(
            [sys.executable, "-m", "latcast.measure.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=settings.process_variables(),
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

    @property
    def alive(self) -> bool:
        return not self._requests.closed

    def ask(self, request: messages.Message, timeout_s: float) -> Iterator[dict[str, Any]]:
        """Sends a request and yields the answers to it, up to and without ``idle``.

        Args:
            request: The request.
            timeout_s: Longest silence.

        Raises:
            WorkerDied: The process ended or was silent for too long; it is gone then.
            RuntimeFailure: The worker refused.
        """
        busy_with: int | None = None
        stage = "starting"
        try:
            messages.send(self._requests.fileno(), request)
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

    def _next_answer(self, timeout_s: float, busy_with: int | None, stage: str) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        while True:
            line = self._reader.take_line()
            if line is not None:
                return messages.decode(line)
            ready, _, _ = select.select([self._answers], [], [], max(deadline - time.monotonic(), 0))
            if not ready:
                self.kill()
                raise WorkerDied(f"no sign of life for {timeout_s:g} s while {stage}", busy_with, timed_out=True)
            if not self._reader.receive():
                raise self._death(busy_with, stage)

    def _death(self, busy_with: int | None, stage: str) -> WorkerDied:
        """The exception for a process that has closed its end."""
        try:
            code = self._process.wait(CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        how = f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with status {code}"
        log_tail = self._log_tail()
        self._release()
        return WorkerDied(
            f"the worker {how} while {stage}" + (f"; it wrote: {log_tail}" if log_tail else ""),
            busy_with,
            timed_out=False,
        )

    def _log_tail(self) -> str:
        """The end of what the process printed, on one line."""
        size = self._log.seek(0, 2)
        self._log.seek(max(size - 4 * LOG_TAIL_CHARACTERS, 0))
        text = " ".join(self._log.read().decode("utf-8", errors="replace").split())
        return text if len(text) <= LOG_TAIL_CHARACTERS else f"...{text[-LOG_TAIL_CHARACTERS:]}"

    def close(self) -> None:
        """Ends the process, by force after a few seconds."""
        if self.alive:
            try:
                messages.send(self._requests.fileno(), {"request": "close"})
                self._process.wait(CLOSE_TIMEOUT_S)
            except (BrokenPipeError, subprocess.TimeoutExpired):
                self._process.kill()
            self._release()

    def kill(self) -> None:
        """Ends the process at once."""
        if self.alive:
            self._process.kill()
            self._release()

    def _release(self) -> None:
        for stream in (self._requests, self._answers):
            stream.close()
        self._process.wait()
        self._log.close()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class MeasuringClient:
    """Measures on one platform, in a process of its own that is replaced when it dies. A context manager.

    Args:
        settings: The platform and how to start the process.
        quiet_times: Where the probe's quiet times are kept.

    Raises:
        RuntimeFailure: The worker could not be started or refused the settings.
    """

    def __init__(self, settings: WorkerSettings, quiet_times: QuietTimes) -> None:
        self.settings = settings
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
        """Ends the worker."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def restart(self) -> None:
        """Replaces the process, so that what one process keeps (memory layout) does not enter every measurement."""
        self.close()
        self._process = self._start()

    def measure(
        self, items: Sequence[Item], plan: MeasurePlan, announce: Callable[[Item, str], None] = lambda item, stage: None
    ) -> Iterator[tuple[int, Measurement]]:
        """Measures all items, interleaved in batches, and yields each one's index and record as it is finished.

        Every item gets exactly one record. One that cannot be loaded or run, takes the process down, or exceeds
        ``plan.timeout_s`` has ``error`` set.

        Args:
            items: What to measure.
            plan: How.
            announce: Told what the worker is busy with ("loading", "running", "closing", "profiling").

        Raises:
            RuntimeFailure: No worker can be started any more.
        """
        groups = deque([list(range(len(items)))])
        while groups:
            group = groups.popleft()
            process = self._living_process()
            fresh = process.measured == 0
            left = dict.fromkeys(group)
            try:
                if time.monotonic() - self._calibrated_at >= CALIBRATION_INTERVAL_S:
                    self._calibrate(process)
                for answer in process.ask(self._request(items, group, plan), plan.timeout_s):
                    number = int(answer["number"])
                    if answer["event"] == "started":
                        announce(items[number], answer["stage"])
                    else:
                        del left[number]
                        process.measured += 1
                        yield number, Measurement.from_json(answer["measurement"])
            except WorkerDied as death:
                blamed = death.busy_with if death.timed_out else group[0] if fresh and len(group) == 1 else None
                if blamed in left:
                    del left[blamed]
                    yield blamed, failed(str(death), self.platform.id, items[blamed].reference, items[blamed].role)
                # After a time-out the subject at fault is known and the others go on together; after a crash it is not.
                again = [list(left)] if death.timed_out and blamed is not None else [[number] for number in left]
                groups.extendleft(reversed([numbers for numbers in again if numbers]))

    def _request(self, items: Sequence[Item], group: Sequence[int], plan: MeasurePlan) -> messages.Message:
        subjects = [
            {"number": number, "reference": items[number].reference.to_json(), "role": items[number].role} for number in group
        ]
        return {"request": "measure", "plan": plan.to_json(), "quiet_ms": list(self.quiet_ms), "subjects": subjects}

    def _living_process(self) -> WorkerProcess:
        if self._process is None or not self._process.alive:
            self._process = self._start()
        return self._process

    def calibrate(self) -> None:
        """Reads the quiet time of the worker's probe and settles it with what is known; it takes half a second."""
        self._calibrate(self._living_process())

    def _calibrate(self, process: WorkerProcess) -> None:
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
        process = WorkerProcess(self.settings)
        try:
            arguments = {name: value for name, value in asdict(self.settings).items() if name not in _FOR_THE_START}
            (opened,) = process.ask({"request": "open", "settings": arguments}, START_TIMEOUT_S)
            self.platform = Platform.parse(opened["platform"])
            process.probe_key = opened["probe"]
        except WorkerDied as death:
            raise RuntimeFailure(f"{self.settings.runtime} could not be started: {death}") from None
        except BaseException:
            process.kill()
            raise
        return process
