"""A hub served by several processes, which share a listening socket and a PostgreSQL database."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from latcast.errors import HubError
from latcast.hub.addresses import FOLDER, PLACE
from latcast.hub.refitting import end_with_parent

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable under which workers keep their metrics together; see :mod:`latcast.hub.observing`."""

MARK = "LATCAST_HUB_WORKER"
"""Environment variable of a worker."""

QUICK_DEATH_S, MOST_QUICK_DEATHS = 5.0, 5
"""A worker that ends that soon after its start, so many times in a row, will not live next time either."""


@dataclass(frozen=True)
class Serving:
    """What a worker does; it crosses a process boundary.

    Attributes:
        serve: Called in the worker with the socket; ends when the worker is told to.
        count: How many workers.
    """

    serve: Callable[[socket.socket], None]
    count: int


def needs_server(url: str, count: int) -> None:
    """Whether several processes may serve a database.

    Raises:
        HubError: It is a SQLite file, which one process writes at a time.
    """
    if count > 1 and not url.startswith("postgresql"):
        raise HubError(
            f"{count} workers need PostgreSQL (--database postgresql://user@host/name), found a SQLite file; "
            "serve it with one worker"
        )


def run_workers(serving: Serving, listening: socket.socket) -> None:
    """Runs workers until this process is told to end (SIGINT, SIGTERM); one that dies is started again.

    Raises:
        HubError: Workers do not live.
    """
    context = get_context("spawn")
    os.environ[MARK] = "latcast-hub-worker"
    shared = TemporaryDirectory(prefix="latcast-workers-")
    os.environ.setdefault(SHARED_FOLDER, shared.name)
    os.environ[FOLDER] = shared.name
    ending: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        ending.append(number)

    before = {each: signal.signal(each, end) for each in (signal.SIGINT, signal.SIGTERM)}

    def started(place: int) -> tuple[SpawnProcess, float]:
        os.environ[PLACE] = str(place)
        process = context.Process(target=_work, args=(serving.serve, listening), daemon=False)
        process.start()
        return process, time.monotonic()

    workers = [started(place) for place in range(serving.count)]
    quick = 0
    try:
        while not ending:
            wait([process.sentinel for process, _ in workers], timeout=0.5)
            for place, (process, since_s) in enumerate(workers):
                if process.exitcode is None or ending:
                    continue
                quick = quick + 1 if time.monotonic() - since_s < QUICK_DEATH_S else 0
                if quick >= MOST_QUICK_DEATHS:
                    raise HubError(f"workers end as soon as they start (the last one with code {process.exitcode}); see above")
                workers[place] = started(place)
    finally:
        for process, _ in workers:
            process.terminate()
        for process, _ in workers:
            process.join(15)
            process.kill()
        for number, handler in before.items():
            signal.signal(number, handler)
        shared.cleanup()


def _work(serve: Callable[[socket.socket], Any], listening: socket.socket) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C reaches all; the parent ends the workers
    end_with_parent()
    serve(listening)
