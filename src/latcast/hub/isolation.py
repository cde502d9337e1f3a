"""Strangers' models, each in a process of its own: forked from one that has everything loaded, limited, and forgotten.

The server starts one process (:func:`main`) that loads the platforms and then forks a child for every model. A child reads the
file, predicts, writes its answer to a socket and ends; the kernel ends it where it takes too long or too much. Neither the server
nor the process that forks ever opens a model. Where the server is gone, its socket ends, and so does everything behind it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

from latcast.errors import HubError
from latcast.hub.model_forecasts import ModelAnswer, ModelRequest

CPU_S, WALL_S = 20, 40
"""Of one model."""

MEMORY_BYTES = 3 << 29
"""That a model may take beyond what is loaded: 1.5 GiB."""

MAX_ANSWER_BYTES = 30_000_000

LOADING_S = 120.0

ENDED = (
    f"the model takes more than {CPU_S} s of processor time or {MEMORY_BYTES / 2**30:g} GiB to read; export a smaller part of it"
)


class UnavailableError(HubError):
    """What would answer cannot now."""


@dataclass(frozen=True)
class Queue:
    """How many models at once.

    Attributes:
        running: Processes.
        waiting: That wait for one; further ones are refused.
    """

    running: int = max(1, min(4, os.cpu_count() or 1))
    waiting: int = 8


class IsolatedForecasts:
    """The server's end: hands models over, one process each, and waits for what they say.

    Args:
        queue: How many at once.
        most_platforms: Only so many are loaded; all where None.
    """

    def __init__(self, queue: Queue | None = None, most_platforms: int | None = None) -> None:
        self._queue = queue or Queue()
        self._most = most_platforms
        self._places = asyncio.Semaphore(self._queue.running)
        self._inside = 0
        self._starting = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    async def ask(self, request: ModelRequest, content: IO[bytes]) -> ModelAnswer:
        """What a process of its own finds out about a model.

        Args:
            request: What is asked.
            content: The model's file; it is not read here.

        Raises:
            UnavailableError: Too many wait already, or the platforms cannot be loaded.
        """
        if self._inside >= self._queue.running + self._queue.waiting:
            raise UnavailableError(f"{self._inside} models are being read already; try again in a few seconds")
        self._inside += 1
        try:
            async with self._places:
                return await asyncio.get_running_loop().run_in_executor(None, self._ask, request, content)
        finally:
            self._inside -= 1

    def _ask(self, request: ModelRequest, content: IO[bytes]) -> ModelAnswer:
        mine, theirs = socket.socketpair()
        with mine:
            with theirs:
                self._hand_over(content.fileno(), theirs.fileno())
            mine.settimeout(WALL_S + 5)
            parts: list[bytes] = []
            try:
                mine.sendall(json.dumps(request.to_json()).encode() + b"\n")
                size = 0
                while part := mine.recv(1 << 20):
                    parts.append(part)
                    size += len(part)
                    if size > MAX_ANSWER_BYTES:
                        raise ValueError("an answer without end")
                return ModelAnswer.from_bytes(b"".join(parts))
            except (OSError, ValueError):
                return ModelAnswer(422, json.dumps({"detail": ENDED}).encode())

    def _hand_over(self, *descriptors: int) -> None:
        """Sends descriptors to the process that forks; it is started again where it has ended."""
        with self._starting:
            for attempt in range(2):
                control = self._started()
                try:
                    socket.send_fds(control, [b"m"], list(descriptors))
                    return
                except OSError:
                    self._stop()
                    if attempt:
                        raise UnavailableError("the process that reads models ends again and again; see the server's log") from None

    def start(self) -> None:
        """Loads the platforms, which takes some seconds, unless they are.

        Raises:
            UnavailableError: They cannot be loaded.
        """
        with self._starting:
            self._started()

    def _started(self) -> socket.socket:
        if self._control is None:
            mine, theirs = socket.socketpair()
            with theirs:
                environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "latcast.hub.isolation", *([] if self._most is None else [str(self._most)])],
                    stdin=theirs,
                    env=environment,
                    start_new_session=True,  # Ctrl-C is for the server, whose end is theirs
                )
            mine.settimeout(LOADING_S)
            self._control = mine
            ready = b""
            with suppress(OSError):
                ready = mine.recv(1)
            if not ready:
                self._stop()
                raise UnavailableError("the platforms could not be loaded; see the server's log")
        return self._control

    def stop(self) -> None:
        """Ends the process; models that are being read end by their limits."""
        with self._starting:
            self._stop()

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            try:
                self._process.wait(2)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._control = self._process = None


def main(most_platforms: int | None = None) -> None:
    """The process that forks: its standard input is the socket to the server."""
    from latcast.hub.model_forecasts import Known

    control = socket.socket(fileno=os.dup(0))
    known = Known.loaded(most_platforms)
    _warm(known)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are not waited for
    control.sendall(b"r")
    while True:
        said, descriptors, _, _ = socket.recv_fds(control, 1, 2)
        if not said:
            return
        if os.fork() == 0:
            code = 1
            try:
                control.close()
                _answer(*descriptors, known)
                code = 0
            finally:
                os._exit(code)
        for descriptor in descriptors:
            os.close(descriptor)


def _warm(known: Any) -> None:
    """Predicts a network, so that what is made at the first prediction is there in every child."""
    from latcast.hub.model_forecasts import answered

    answered(ModelRequest("mobilenet_v2", "name").to_json(), 0, known)


def _answer(content: int, answers: int, known: Any) -> None:
    from latcast.hub.model_forecasts import answered

    _limit()
    with socket.socket(fileno=answers) as to_server:
        with to_server.makefile("rb") as lines:
            request = json.loads(lines.readline())
        to_server.sendall(answered(request, content, known).to_bytes())


def _limit() -> None:
    import resource

    signal.setitimer(signal.ITIMER_REAL, WALL_S)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    with suppress(OSError, ValueError):  # elsewhere than on Linux the system does not say, or does not limit it
        with open("/proc/self/statm", encoding="ascii") as sizes:
            loaded_bytes = int(sizes.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (loaded_bytes + MEMORY_BYTES, loaded_bytes + MEMORY_BYTES))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
