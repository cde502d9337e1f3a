"""A hub served by several processes, which share a listening socket and a PostgreSQL database."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from tempfile import TemporaryDirectory

from latcast.errors import HubError
from latcast.hub.addresses import FOLDER, PLACE
from latcast.hub.refitting import end_with_parent

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable under which workers keep their metrics together; see :mod:`latcast.hub.observing`."""

MARK = "LATCAST_HUB_WORKER"
"""Environment variable of a worker."""

QUICK_DEATH_S, MOST_QUICK_DEATHS = 5.0, 5
"""A worker that ends that soon after its start, so many times in a row, will not live next time either."""

Serve = Callable[[socket.socket], None]
"""Run in each worker with the listening socket, until the worker is told to end; it crosses a process boundary."""


def run_workers(serve: Serve, count: int, listening: socket.socket) -> None:
    """Run workers until this process is told to end (SIGINT, SIGTERM); one that dies is started again.

    Raises:
        HubError: Workers do not live.
    """
    ending: list[int] = []
    before = {each: signal.signal(each, lambda number, frame: ending.append(number)) for each in (signal.SIGINT, signal.SIGTERM)}
    workers: list[tuple[SpawnProcess, float]] = []

    def start(place: int) -> tuple[SpawnProcess, float]:
        os.environ[PLACE] = str(place)
        process = get_context("spawn").Process(target=_work, args=(serve, listening), daemon=False)
        process.start()
        return process, time.monotonic()

    with TemporaryDirectory(prefix="latcast-workers-") as shared:
        os.environ[MARK] = "latcast-hub-worker"
        os.environ.setdefault(SHARED_FOLDER, shared)
        os.environ[FOLDER] = shared
        quick = 0
        try:
            workers.extend(start(place) for place in range(count))
            while not ending:
                wait([process.sentinel for process, _ in workers], timeout=0.5)
                for place, (process, since_s) in enumerate(workers):
                    if process.exitcode is None or ending:
                        continue
                    quick = quick + 1 if time.monotonic() - since_s < QUICK_DEATH_S else 0
                    if quick >= MOST_QUICK_DEATHS:
                        raise HubError(f"workers end as soon as they start (the last with code {process.exitcode}); see above")
                    workers[place] = start(place)
        finally:
            for process, _ in workers:
                process.terminate()
            for process, _ in workers:
                process.join(15)
                process.kill()
            for number, handler in before.items():
                signal.signal(number, handler)


def _work(serve: Serve, listening: socket.socket) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C reaches all; the parent ends the workers
    end_with_parent()
    serve(listening)
