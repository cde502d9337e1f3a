"""A hub whose disk is full, whose database is locked, whose clocks are wrong: what is refused, and that nothing is lost."""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.hub.serving import Server, fetch, free_port, hub_location, records
from latcast.hub.database import HubDatabase
from latcast.hub.sharing import json_line
from latcast.records import Measurement

ROOM_BYTES = 600_000
"""That a database may still grow by when its disk fills up."""

LOCKED_S = 4.0


@dataclass(frozen=True)
class Fault:
    """Figures of one fault.

    Attributes:
        name: Of the fault.
        answers: HTTP status to how many uploads were answered with it while the fault lasted.
        reads: Reads that were answered meanwhile.
        reads_refused: Reads that were not.
        after: Status of an upload after the fault.
        lost: Records that were accepted and are not there.
        doubled: Records that are there twice.
        held: Records that went into quarantine.
    """

    name: str
    answers: dict[str, int]
    reads: int
    reads_refused: int
    after: int
    lost: int
    doubled: int
    held: int = 0

    @property
    def passed(self) -> bool:
        """True if nothing was lost or doubled, reads went on, no answer was a surprise, and the hub recovered."""
        expected = all(status in ("200", "503") for status in self.answers)
        return expected and not (self.lost or self.doubled or self.reads_refused) and self.after == 200


class _Trial:
    """A server with a contributor, whose answers are counted."""

    def __init__(self, location: str, folder: Path, options: Sequence[str] = ()) -> None:
        self.location = location
        with HubDatabase(location) as opened:
            self.token, _ = opened.issue_token("Ann", trusted=True)
        self.server = Server(location, free_port(), folder / "server.log", options=options)
        self.server.start()
        assert self.server.process is not None
        self.process = self.server.process.pid
        self.answers: Counter[str] = Counter()
        self.reads: Counter[bool] = Counter()
        self.accepted = 0

    def send(self, measurements: Sequence[Measurement]) -> tuple[int, dict[str, Any]]:
        request = urllib.request.Request(
            f"{self.server.url}/api/measurements",
            data=b"".join(map(json_line, measurements)),
            headers={"authorization": f"Bearer {self.token}", "content-type": "application/x-ndjson"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                status, found = answer.status, json.load(answer)
        except urllib.error.HTTPError as problem:
            with problem:
                status, found = problem.code, {}
        self.accepted += 0 if found.get("repeated") else found.get("accepted", 0)
        return status, found

    def upload(self, measurements: Sequence[Measurement]) -> None:
        """Send while the fault lasts."""
        self.answers[str(self.send(measurements)[0])] += 1

    def read(self) -> None:
        self.reads[fetch(self.server.port, "/api/devices")[0].startswith(b"HTTP/1.1 200")] += 1

    def fault(self, name: str, after: int) -> Fault:
        with HubDatabase(self.location) as opened:
            found, held = len(opened), len(opened.quarantine())
        lost = self.accepted - found
        return Fault(
            name, dict(self.answers), self.reads[True], self.reads[False], after, max(0, lost), max(0, -lost), held
        )  # fmt: skip


@contextmanager
def _running() -> Iterator[_Trial]:
    """Start a server without fits."""
    with hub_location(None) as (location, folder):
        trial = _Trial(location, folder, ["--no-refit"])
        try:
            trial.server.wait()
            yield trial
        finally:
            trial.server.stop()


def disk_full() -> Fault:
    """Upload while the server's files cannot grow, as on a full disk."""
    with _running() as trial:
        trial.send(records(0, 20))
        size = max(os.path.getsize(trial.location + end) for end in ("", "-wal") if Path(trial.location + end).exists())
        resource.prlimit(trial.process, resource.RLIMIT_FSIZE, (size + ROOM_BYTES, resource.RLIM_INFINITY))
        for upload in range(1, 40):
            trial.upload(records(upload, 100))
            trial.read()
            if trial.answers["503"] >= 5:
                break
        resource.prlimit(trial.process, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        return trial.fault("disk full", trial.send(records(50, 20))[0])


def locked(seconds: float = LOCKED_S) -> Fault:
    """Upload while another program holds the database's write lock."""
    with _running() as trial:
        trial.send(records(0, 20))
        trial.read()  # the first one loads what others use
        other = sqlite3.connect(trial.location, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        threads = [threading.Thread(target=trial.upload, args=(records(number, 20),)) for number in range(1, 5)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            trial.read()
            time.sleep(0.05)
        other.execute("ROLLBACK")
        other.close()
        for thread in threads:
            thread.join()
        return trial.fault("database locked", trial.send(records(50, 20))[0])


def clocks() -> Fault:
    """Upload from devices whose clocks are fast, slow or not set, and send records again with another time."""
    with _running() as trial:
        right = records(0, 20)
        for moment in ("2096-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000Z", "2026-02-30T00:00:00.000Z", ""):
            trial.upload([replace(item, taken_at=moment, platform=item.platform.replace("device-0", "clock")) for item in right])
        trial.upload(right)
        after, answer = trial.send(right)
        assert answer["repeated"], "the same content was not recognised"
        return trial.fault("clocks", after)


def orphans() -> dict[str, Any]:
    """Kill a server while its model is fitted, and count the processes that it leaves."""
    with hub_location(None) as (location, folder):
        trial = _Trial(location, folder)
        trial.server.wait()
        trial.send(records(0, 100))
        children: list[int] = []
        end = time.monotonic() + 60
        while time.monotonic() < end and len(children) < 2:
            children = _descendants(trial.process)
            time.sleep(0.05)
        trial.server.kill()
        end = time.monotonic() + 20
        while time.monotonic() < end and any(_alive(child) for child in children):
            time.sleep(0.1)
        return {"name": "orphans", "processes": len(children), "left": sum(map(_alive, children))}


def _descendants(process: int) -> list[int]:
    try:
        direct = [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text(encoding="utf-8").split()]
        for thread in Path(f"/proc/{process}/task").iterdir():
            direct += [int(each) for each in (thread / "children").read_text().split() if int(each) not in direct]
    except OSError:
        return []
    return [*direct, *(each for child in direct for each in _descendants(child))]


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
