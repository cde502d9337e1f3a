"""A server under load: nothing lost or doubled while it is killed, and how many reads it answers."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from benchmarks.hub.made_up import fill, made_up
from latcast.datasets.store import measurement_id
from latcast.hub.database import HubDatabase
from latcast.hub.sharing import HubClient, json_line
from latcast.records import Measurement, Reference

CLIENTS, UPLOADS, RECORDS = 16, 512, 100
KILLS = (1 / 3, 2 / 3)
"""Shares of the uploads after which the server is killed."""

DEVICES = 32
READS, LONGEST_READING_S = 3000, 60.0


def records(upload: int, count: int = RECORDS) -> list[Measurement]:
    """Return measurements of one device on one day, different from those of any other upload."""
    device, day = upload % DEVICES, upload // DEVICES
    return [
        Measurement(
            f"device-{device}/onnxruntime-1.31/cpu1/fp32",
            Reference("resnet", {"depth": number}, f"resnet-{number}"),
            runs_ms=tuple((1 + number) * (1 + device / 8) * (1 + 0.01 * step) for step in range(-5, 6)),
            rounds=(0,) * 11,
            latency_ms=(1 + number) * (1 + device / 8),
            raw_latency_ms=(1 + number) * (1 + device / 8),
            variation=0.02,
            statistic="median of runs",
            taken_at=f"2026-01-{1 + day:02d}T12:00:00.{number:03d}Z",
            environment={"host": {"cpu": {"model": f"Example {device}"}}, "moment": {"worker": f"{device}-{day}"}},
        )
        for number in range(count)
    ]


@dataclass
class Server:
    """``latcast hub serve`` as a process that can be killed and started again."""

    database: str
    port: int
    log: Path
    cpus: str = ""
    limited: bool = False
    restarts: int = -1
    process: subprocess.Popen[bytes] | None = None
    options: Sequence[str] = field(default_factory=tuple)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        pinned = ["taskset", "-c", self.cpus] if self.cpus else []
        command = [sys.executable, "-m", "latcast", "hub", "serve", "--database", self.database, "--port", str(self.port)]
        unlimited = [] if self.limited else ["--reads-per-minute", "0", "--writes-per-minute", "0", "--connections", "0"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*pinned, *command, *unlimited, *self.options], stdout=log, stderr=log)
        self.restarts += 1

    def wait(self) -> None:
        """Wait until it answers."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"the server does not listen; see {self.log}")

    def cpu_seconds(self) -> float:
        """Return the processor time of the server and its workers, without fits and forecasts of strangers' models."""
        assert self.process is not None
        return sum(_cpu_seconds(each) for each in (self.process.pid, *_workers(self.process.pid)))

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=60)


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _workers(process: int) -> list[int]:
    found = []
    for child in Path(f"/proc/{process}/task/{process}/children").read_text(encoding="utf-8").split():
        with suppress(OSError):
            if b"latcast-hub-worker" in Path(f"/proc/{child}/environ").read_bytes():
                found.append(int(child))
    return found


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def hub_location(database: str | None) -> Iterator[tuple[str, Path]]:
    """Yield where a database is, by default one that is removed afterwards, and a folder."""
    with tempfile.TemporaryDirectory() as folder:
        yield database or str(Path(folder) / "hub.sqlite"), Path(folder)


def upload_under_fire(database: str | None = None, uploads: int = UPLOADS, clients: int = CLIENTS) -> dict[str, float]:
    """Upload from many clients while the server is killed twice with SIGKILL, and count what the database holds then.

    Each upload is tried until it is answered, as ``latcast share`` does; the first tenth is sent a second time at the end.
    """
    with hub_location(database) as (location, folder):
        with HubDatabase(location) as opened:
            tokens = [opened.issue_token(f"client {index}")[0] for index in range(clients)]
        server = Server(location, free_port(), folder / "server.log")
        server.start()
        server.wait()
        batches = [b"".join(map(json_line, records(index))) for index in range(uploads)]
        done, lock, retries = [0], threading.Lock(), [0]
        kills = [int(share * uploads) for share in KILLS]

        def send(index: int) -> None:
            def again(reason: str, wait_s: float) -> None:
                with lock:
                    retries[0] += 1

            HubClient(server.url, tokens[index % clients], attempts=60, sleep=lambda wait_s: time.sleep(min(wait_s, 1.0))).send(
                batches[index], again
            )
            with lock:
                done[0] += 1
                if done[0] in kills:
                    server.kill()
                    server.start()

        started = time.perf_counter()
        with ThreadPoolExecutor(clients) as pool:
            list(pool.map(send, range(uploads)))
        seconds = time.perf_counter() - started
        for index in range(uploads // 10):
            send(index)
        server.stop()
        expected = {measurement_id(item) for index in range(uploads) for item in records(index)}
        with HubDatabase(location) as opened:
            found = [measurement_id(replace(item)) for item in opened.measurements(as_taken=True)]
    return {
        "uploads": uploads, "clients": clients, "kills": server.restarts, "retries": retries[0], "seconds": seconds,
        "uploads a second": uploads / seconds, "lost": len(expected - set(found)), "doubled": len(found) - len(set(found)),
        "strange": len(set(found) - expected),
    }  # fmt: skip


@dataclass(frozen=True)
class Reads:
    """Figures of one page at one number of connections.

    Attributes:
        path: Page that is read.
        connections: At once, each asking again as soon as it is answered.
        answer_bytes: Of one answer.
        reads: Answered.
        reads_a_cpu_second: Of the server, whatever else the host does.
        p50_ms, p99_ms: Of the time until an answer is there, as clients on the same host see it.
    """

    path: str
    connections: int
    answer_bytes: int
    reads: int
    reads_a_cpu_second: float
    p50_ms: float
    p99_ms: float


def read_rates(
    connections: Sequence[int] = (1, 16, 64),
    reads: int = READS,
    devices: int = 100,
    networks: int = 50,
    database: str | None = None,
    workers: int = 1,
) -> list[Reads]:
    """Read a filled hub, half of the reads before an upload, so that every answer becomes stale once.

    Args:
        database: URL of a PostgreSQL database, which several workers need; a SQLite file of its own where None.
    """
    found = made_up(devices, networks)
    name = found.platforms[0]
    rates = []
    with hub_location(database) as (location, folder):
        with HubDatabase(location) as opened:
            fill(opened, found)
            token, _ = opened.issue_token("Ann", trusted=True)
        options = ["--workers", str(workers)] if workers > 1 else []
        server = Server(location, free_port(), folder / "server.log", options=options)
        server.start()
        try:
            server.wait()
            until_ready(server.port, f"/api/platforms/{name}")
            for path in ("/api/devices?limit=50", f"/api/platforms/{name}", "/api/networks?limit=50"):
                for count in connections:
                    size = len(fetch(server.port, path)[1])
                    times: list[list[float]] = [[] for _ in range(count)]
                    cpu_s = server.cpu_seconds()
                    end = time.perf_counter() + LONGEST_READING_S
                    threads = [
                        threading.Thread(target=_read, args=(server.port, path, reads // count, end, each)) for each in times
                    ]
                    for thread in threads:
                        thread.start()
                    while any(thread.is_alive() for thread in threads) and sum(map(len, times)) < reads / 2:
                        time.sleep(0.01)
                    batch = records(1000 + count, 1)
                    HubClient(server.url, token).send(b"".join(map(json_line, batch)))
                    for thread in threads:
                        thread.join()
                    cpu_s = server.cpu_seconds() - cpu_s
                    all_ms = 1000 * np.concatenate(times)
                    p50_ms, p99_ms = np.percentile(all_ms, [50, 99]).tolist()
                    rates.append(Reads(path, count, size, len(all_ms), len(all_ms) / cpu_s, p50_ms, p99_ms))
        finally:
            server.stop()
    return rates


def until_ready(port: int, path: str, limit_s: float = 300.0) -> None:
    """Wait until a platform has predictions or has nothing to predict."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        head, body = fetch(port, path)
        if head.startswith(b"HTTP/1.1 200") and json.loads(body).get("not_predicted") == 0:
            return
        time.sleep(0.5)
    raise RuntimeError("the hub has no predictions")


def _request(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


def _read(port: int, path: str, reads: int, end: float, times: list[float]) -> None:
    request = _request(path)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while len(times) < reads and time.perf_counter() < end:
            began = time.perf_counter()
            connection.sendall(request)
            if not _answer(connection)[0].startswith(b"HTTP/1.1 200"):
                raise RuntimeError("a read was refused")
            times.append(time.perf_counter() - began)


def fetch(port: int, path: str) -> tuple[bytes, bytes]:
    """Return head and body of an answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(_request(path))
        return _answer(connection)


def _answer(connection: socket.socket) -> tuple[bytes, bytes]:
    content = b""
    while b"\r\n\r\n" not in content:
        content += _received(connection)
    head, _, body = content.partition(b"\r\n\r\n")
    length = int(next(item for item in head.lower().split(b"\r\n") if item.startswith(b"content-length:")).split(b":")[1])
    parts, got = [body], len(body)
    while got < length:
        parts.append(_received(connection))
        got += len(parts[-1])
    return head, b"".join(parts)


def _received(connection: socket.socket) -> bytes:
    found = connection.recv(262_144)
    if not found:
        raise RuntimeError("the server closed a connection")
    return found
