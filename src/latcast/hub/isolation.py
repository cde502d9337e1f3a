"""Strangers' models, each in a separate process: forked from one that has everything loaded, limited, and forgotten.

The server starts one process (:func:`main`) that loads the platforms and then forks a child for every model. A child reads the
file, predicts, writes its answer to a socket and ends; the kernel ends it where it takes too long or too much. Neither the server
nor the process that forks ever opens a model. Where the server is gone, its socket ends, and so does everything behind it.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from io import BytesIO
from typing import IO

from latcast.errors import HubError
from latcast.hub.model_forecasts import Known, ModelAnswer, ModelRequest, predict_model
from latcast.hub.named_platforms import YARDSTICK

MAX_ANSWER_BYTES = 30_000_000

LOADING_S = 120.0

_BEGUN = b"b"
"""The first byte that a child writes."""

_MODEL, _LOOK_AGAIN = b"m", b"l"
"""Messages to the process that forks: to have a model read, whose file and answers come along; to look at the hub."""

_DATABASE = "LATCAST_HUB_DATABASE"
"""Environment variable with the URL of the hub, which may hold a password."""

FIRST_LOOK_S = 5.0
"""Time for which the first model waits for the hub's own platforms; those that are not loaded by then follow."""

RUNNING = 4
"""Models that are read at once."""

NICER_EACH_S, NICER_BY = 0.2, 2
"""After each such time of the processor a model's priority falls by so much, so that one that has just begun goes first."""


@dataclass(frozen=True)
class Limits:
    """Limits of one model: time, and memory beyond what is loaded already."""

    cpu_s: int = 20
    wall_s: float = 40.0
    memory_bytes: int = 3 << 29


class IsolatedForecasts:
    """The server's end: hands models over, one process each, and waits for their answers.

    Args:
        most_platforms: Only so many of those that come with latcast are loaded; all where None.
        database: URL of a hub, whose own platforms are predicted on too.
    """

    def __init__(self, limits: Limits | None = None, most_platforms: int | None = None, database: str = "") -> None:
        self._database = database
        self._limits = limits or Limits()
        self._most = most_platforms
        self._places = asyncio.Semaphore(RUNNING)
        self.inside = 0
        self._starting = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._ready = False
        self._first = b""

    async def ask(self, request: ModelRequest, content: IO[bytes]) -> AsyncGenerator[ModelAnswer, None]:
        """Do as :meth:`ask_now`, as soon as fewer than :data:`RUNNING` other models are being read."""
        self.inside += 1
        try:
            async with self._places:
                answers = self.ask_now(request, content)
                while (part := await asyncio.get_running_loop().run_in_executor(None, next, answers, None)) is not None:
                    yield part
        finally:
            self.inside -= 1

    def ask_now(self, request: ModelRequest, content: IO[bytes]) -> Iterator[ModelAnswer]:
        """Read and predict a model in a separate process, and wait for the answer, or for each part of it.

        Args:
            content: The model's file; it is not read here.

        Raises:
            HubError: The platforms cannot be loaded (503).
        """
        for _ in range(2):
            begun = False
            for part in self._exchange(request, content):
                begun = True
                if part is not None:
                    yield part
                    if part.last:
                        return
            if begun:
                most = f"{self._limits.cpu_s} s of processor time or {self._limits.memory_bytes / 2**30:.1f} GiB"
                yield ModelAnswer.refusal(f"the model takes more than {most}; export a smaller part of it", self._limits.cpu_s)
                return
            # No child began: the process that forks has ended, and is started again.
            self.stop()
        raise HubError("the process that reads models keeps ending; see the server's log", 503)

    def _exchange(self, request: ModelRequest, content: IO[bytes]) -> Iterator[ModelAnswer | None]:
        """Have a child forked for a model; yield None once it began, then what it answers until it ends."""
        mine, theirs = socket.socketpair()
        with mine, suppress(OSError, ValueError):
            with theirs, self._starting:
                socket.send_fds(self.start(), [_MODEL], [content.fileno(), theirs.fileno()])
            mine.settimeout(self._limits.wall_s + 5)
            mine.sendall(json.dumps(asdict(request)).encode() + b"\n")
            with mine.makefile("rb") as answers:
                if answers.read(1) == _BEGUN:
                    yield None
                    while True:
                        yield ModelAnswer.read(answers, MAX_ANSWER_BYTES)

    def refresh(self) -> None:
        """Have the hub's own platforms looked at again, where any are loaded; models are answered meanwhile."""
        with self._starting, suppress(OSError):  # where that process has ended, the next one looks when it starts
            if self._ready and self._control is not None and self._database:
                self._control.sendall(_LOOK_AGAIN)

    def launch(self) -> None:
        """Begin to load the platforms, without waiting, unless they are loaded or being loaded.

        Raises:
            HubError: This system cannot fork a process with limits (503).
        """
        with self._starting:
            if self._control is not None:
                return
            if not hasattr(os, "fork"):
                raise HubError("models are not read here: this system cannot fork a process with limits", 503)
            self._control, theirs = socket.socketpair()
            with theirs:
                environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", _DATABASE: self._database}
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "latcast.hub.isolation", json.dumps([asdict(self._limits), self._most])],
                    stdin=theirs.fileno(),
                    env=environment,
                    start_new_session=True,  # Ctrl-C is for the server, whose end is theirs
                )

    def start(self) -> socket.socket:
        """Load the platforms, which takes some seconds, unless they are; return the socket to the process that forks.

        Raises:
            HubError: They cannot be loaded (503).
        """
        with self._starting:
            self.launch()
            assert self._control is not None
            if not self._ready:
                self._control.settimeout(LOADING_S)
                with suppress(OSError, ValueError), self._control.makefile("rb") as said:
                    self._first = said.read(int(said.readline()))
                    self._ready = bool(self._first)
                if not self._ready:
                    self.stop()
                    raise HubError("the platforms could not be loaded; see the server's log", 503)
            return self._control

    def first_answer(self) -> ModelAnswer:
        """Return the answer for :data:`YARDSTICK` on the platforms that come with latcast, which is there once they are loaded.

        Raises:
            HubError: They cannot be loaded (503).
        """
        self.start()
        return ModelAnswer.read(BytesIO(self._first), len(self._first))

    def stop(self) -> None:
        """End the process; models that are being read end by their limits."""
        with self._starting:
            if self._control is not None:
                self._control.close()
            if self._process is not None:
                try:
                    self._process.wait(2)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()
            self._control = self._process = None
            self._ready = False


def main(limits: Limits, most_platforms: int | None, database: str) -> None:
    """Run the process that forks: its standard input is the socket to the server."""
    control = socket.socket(fileno=os.dup(0))
    shipped = Known.loaded(most_platforms)
    # All that a first network loads is then there in every child; the pages need its answer.
    [answer] = predict_model(asdict(ModelRequest(YARDSTICK, "name")), 0, shipped)
    first = answer.to_bytes()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are not waited for
    try:
        control.sendall(b"%d\n" % len(first) + first)
    except BrokenPipeError:
        return  # the server ended meanwhile
    from latcast.hub.own_platforms import OwnPlatforms

    known, own = shipped, OwnPlatforms(database)
    ready_s = time.monotonic() + FIRST_LOOK_S
    while own.pause_s == 0.0 and time.monotonic() < ready_s:
        own.go_on()
    while True:
        if own.looked:
            known, own.looked = shipped.with_own(own), False
        if not select.select([control], [], [], own.pause_s)[0]:
            own.go_on()
            continue
        message, descriptors, _, _ = socket.recv_fds(control, 1, 2)
        if not message:
            return
        if message == _LOOK_AGAIN:
            own.changed = True
            continue
        content, answers = descriptors
        if os.fork() == 0:
            code = 1
            try:
                control.close()
                with socket.socket(fileno=answers) as server:
                    server.sendall(_BEGUN)
                    _limit(limits)
                    with server.makefile("rb") as lines:
                        request = json.loads(lines.readline())
                    for part in predict_model(request, content, known):
                        server.sendall(replace(part, cpu_s=time.process_time()).to_bytes())
                code = 0
            finally:
                os._exit(code)
        os.close(content)
        os.close(answers)


def _limit(limits: Limits) -> None:
    import resource

    signal.setitimer(signal.ITIMER_REAL, limits.wall_s)
    signal.signal(signal.SIGPROF, lambda number, frame: os.nice(NICER_BY))
    signal.setitimer(signal.ITIMER_PROF, NICER_EACH_S, NICER_EACH_S)
    resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_s, limits.cpu_s))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    with suppress(OSError, ValueError):  # elsewhere than on Linux the system does not say, or does not limit it
        with open("/proc/self/statm", encoding="ascii") as sizes:
            most_bytes = int(sizes.read().split()[0]) * resource.getpagesize() + limits.memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))


if __name__ == "__main__":
    given, most = json.loads(sys.argv[1])
    main(Limits(**given), most, os.environ.pop(_DATABASE, ""))
