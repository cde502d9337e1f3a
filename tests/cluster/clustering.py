"""A real scheduler and real workers, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from latcast.cluster import connected, offers

REPOSITORY_ROOT = Path(__file__).resolve().parents[2]

ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(REPOSITORY_ROOT / "src"), str(REPOSITORY_ROOT)]),
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "10s",
    "OMP_NUM_THREADS": "1",
}


class Cluster:
    """A scheduler and its workers."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.workers: list[subprocess.Popen[bytes]] = []

    def add(self, *arguments: str, module: str = "latcast") -> subprocess.Popen[bytes]:
        """Starts a worker."""
        command = [sys.executable, "-m", module, *(["worker"] if module == "latcast" else []), self.address, *arguments]
        self.workers.append(subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        return self.workers[-1]

    def wait_for(self, needed: str, count: int) -> None:
        """Returns when so many workers offer something."""
        until = time.monotonic() + 60
        with connected(self.address) as client:
            while offers(client).get(needed, 0) != count:
                assert time.monotonic() < until, f"{offers(client)} after a minute, expected {count} of {needed}"
                time.sleep(0.05)


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A scheduler without workers; everything ends with the block."""
    file = folder / "scheduler.json"
    command = ["-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    scheduler = subprocess.Popen(
        [sys.executable, *command, "--host", "127.0.0.1"], env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    found = Cluster("")
    try:
        until = time.monotonic() + 60
        while not file.exists() or not file.read_text():
            assert time.monotonic() < until
            assert scheduler.poll() is None, "the scheduler ended"
            time.sleep(0.05)
        found.address = json.loads(file.read_text())["address"]
        yield found
    finally:
        _end([*found.workers, scheduler])


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.kill()
    for process in processes:
        process.wait()
