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
from collections.abc import Iterator
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


@contextmanager
def _running() -> Iterator[tuple[Server, str, str]]:
    """Start a server without fits; yield it, a token, and where its database is."""
    with hub_location(None) as (location, folder):
        with HubDatabase(location) as opened:
            token, _ = opened.issue_token("Ann", trusted=True)
        server = Server(location, free_port(), folder / "server.log", options=["--no-refit"])
        server.start()
        try:
            server.wait()
            yield server, token, location
        finally:
            server.stop()


def _send(server: Server, token: str, measurements: list[Measurement]) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(
        f"{server.url}/api/measurements",
        data=b"".join(map(json_line, measurements)),
        headers={"authorization": f"Bearer {token}", "content-type": "application/x-ndjson"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as problem:
        with problem:
            return problem.code, {}


def _read(server: Server) -> bool:
    return fetch(server.port, "/api/devices")[0].startswith(b"HTTP/1.1 200")


def _stored(location: str) -> tuple[int, int]:
    with HubDatabase(location) as opened:
        return len(opened), len(opened.quarantine())


def disk_full() -> Fault:
    """Upload while the server's files cannot grow, as on a full disk."""
    answers: dict[str, int] = {}
    accepted = reads = refused = 0
    with _running() as (server, token, location):
        assert server.process is not None
        accepted += _send(server, token, records(0, 20))[1]["accepted"]
        size = max(os.path.getsize(location + end) for end in ("", "-wal") if Path(location + end).exists())
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size + ROOM_BYTES, resource.RLIM_INFINITY))
        for upload in range(1, 40):
            status, answer = _send(server, token, records(upload, 100))
            answers[str(status)] = answers.get(str(status), 0) + 1
            accepted += answer.get("accepted", 0)
            reads, refused = (reads + 1, refused) if _read(server) else (reads, refused + 1)
            if answers.get("503", 0) >= 5:
                break
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        after, answer = _send(server, token, records(50, 20))
        accepted += answer.get("accepted", 0)
        found, _ = _stored(location)
    return Fault("disk full", answers, reads, refused, after, max(0, accepted - found), max(0, found - accepted))


def locked(seconds: float = LOCKED_S) -> Fault:
    """Upload while another program holds the database's write lock."""
    answers: dict[str, int] = {}
    accepted = [0]
    reads = refused = 0
    with _running() as (server, token, location):
        accepted[0] += _send(server, token, records(0, 20))[1]["accepted"]
        _read(server)  # the first one loads what others use
        other = sqlite3.connect(location, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")

        def upload(number: int) -> None:
            status, answer = _send(server, token, records(number, 20))
            answers[str(status)] = answers.get(str(status), 0) + 1
            accepted[0] += answer.get("accepted", 0)

        threads = [threading.Thread(target=upload, args=(number,)) for number in range(1, 5)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            reads, refused = (reads + 1, refused) if _read(server) else (reads, refused + 1)
            time.sleep(0.05)
        other.execute("ROLLBACK")
        other.close()
        for thread in threads:
            thread.join()
        after, answer = _send(server, token, records(50, 20))
        found, _ = _stored(location)
        total = accepted[0] + answer.get("accepted", 0)
    return Fault("database locked", answers, reads, refused, after, max(0, total - found), max(0, found - total))


def clocks() -> Fault:
    """Upload from devices whose clocks are fast, slow or not set, and send records again with another time."""
    answers: dict[str, int] = {}
    accepted = held = 0
    with _running() as (server, token, location):
        right = records(0, 20)
        moments = ("2096-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000Z", "2026-02-30T00:00:00.000Z", "")
        for moment in moments:
            wrong = [replace(item, taken_at=moment, platform=item.platform.replace("device-0", "clock")) for item in right]
            status, answer = _send(server, token, wrong)
            answers[str(status)] = answers.get(str(status), 0) + 1
            accepted += answer.get("accepted", 0)
            held += len(answer.get("quarantined", ()))
        status, answer = _send(server, token, right)
        answers[str(status)] = answers.get(str(status), 0) + 1
        accepted += answer["accepted"]
        after, answer = _send(server, token, right)
        found, quarantined = _stored(location)
    assert answer["repeated"], "the same content was not recognised"
    return Fault("clocks", answers, 1, 0, after, max(0, accepted - found), max(0, found - accepted), quarantined)


def orphans() -> dict[str, Any]:
    """Kill a server while its model is fitted, and count the processes that it leaves."""
    with hub_location(None) as (location, folder):
        with HubDatabase(location) as opened:
            token, _ = opened.issue_token("Ann", trusted=True)
        server = Server(location, free_port(), folder / "server.log")
        server.start()
        server.wait()
        _send(server, token, records(0, 100))
        assert server.process is not None
        children: list[int] = []
        end = time.monotonic() + 60
        while time.monotonic() < end and len(children) < 2:
            children = _descendants(server.process.pid)
            time.sleep(0.05)
        server.kill()
        end = time.monotonic() + 20
        while time.monotonic() < end and any(_alive(child) for child in children):
            time.sleep(0.1)
        return {"name": "orphans", "processes": len(children), "left": sum(map(_alive, children))}


def _descendants(process: int) -> list[int]:
    try:
        direct = [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
        for thread in Path(f"/proc/{process}/task").iterdir():
            direct += [int(each) for each in (thread / "children").read_text().split() if int(each) not in direct]
    except OSError:
        return []
    return [*direct, *(each for child in direct for each in _descendants(child))]


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
