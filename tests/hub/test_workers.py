"""Several processes serve one PostgreSQL database: one fits, all answer, and one that dies is replaced."""

from __future__ import annotations

import os
import signal
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.hub.serving import Server, free_port
from latcast.hub.database import HubDatabase
from latcast.hub.workers import MARK
from tests.hub.made_up import device, lines
from tests.hub.serving import fetched, wait_for

pytestmark = pytest.mark.slow


def status(url: str) -> int:
    """Of a write, over a connection of its own."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as problem:
        return problem.code


def workers(process: int) -> list[int]:
    found = []
    for each in Path(f"/proc/{process}/task/{process}/children").read_text().split():
        with suppress(OSError):  # it may end meanwhile
            ours = MARK.encode() in Path(f"/proc/{each}/environ").read_bytes()
            if ours and b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes():
                found.append(int(each))
    return found


def test_workers_share_a_database_and_a_dead_one_is_replaced(new_postgresql: str, tmp_path: Path) -> None:
    with HubDatabase(new_postgresql) as database:
        token, _ = database.issue_token("Ann", trusted=True)
    server = Server(new_postgresql, free_port(), tmp_path / "log", options=["--workers", "2", "--writes-per-minute", "6"])
    server.start()
    try:
        server.wait()
        assert server.process is not None
        wait_for(lambda: fetched(f"{server.url}/api/health"), 120)
        first = wait_for(lambda: len(found := workers(server.process.pid)) == 2 and found, 60)
        records = [*device("a", 1.0), *device("b", 2.0), *device("c", 3.0)]
        assert fetched(f"{server.url}/api/measurements", lines(records), token)["accepted"] == 60
        answers = [wait_for(lambda: (fetched(f"{server.url}/api/models") or {}).get("serving") or None, 120) for _ in range(8)]
        assert set(answers) == {1}
        os.kill(first[0], signal.SIGKILL)
        wait_for(lambda: len(found := workers(server.process.pid)) == 2 and first[0] not in found, 60)
        devices = wait_for(lambda: fetched(f"{server.url}/api/devices"), 60)["devices"]
        assert sorted(each["device"] for each in devices if each["measurements"]) == ["a", "b", "c"]
        answered = [status(f"{server.url}/api/devices") for _ in range(40)]
        assert set(answered) == {405, 429}
        assert answered.count(405) < 15  # 10 at once, of both workers together, and one in ten seconds
        left = workers(server.process.pid)
    finally:
        server.stop()

    assert not any(Path(f"/proc/{each}").exists() for each in left)
    assert "Traceback" not in (tmp_path / "log").read_text()
