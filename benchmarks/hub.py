"""The shared hub under load: nothing lost or doubled while its server is killed, and how many reads it answers."""

from __future__ import annotations

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
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from latcast.datasets.store import measurement_id
from latcast.hub.database import HubDatabase
from latcast.hub.sharing import HubClient, UploadBatch, json_line
from latcast.records import Measurement, Reference

CLIENTS, UPLOADS, RECORDS = 16, 512, 100
KILLS = (1 / 3, 2 / 3)
"""Shares of the uploads after which the server is killed."""

DEVICES = 32
READERS, READ_SECONDS = 8, 10.0


def records(upload: int, count: int = RECORDS) -> list[Measurement]:
    """Measurements of one device on one day, different from those of any other upload."""
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
    restarts: int = -1
    process: subprocess.Popen[bytes] | None = None
    options: Sequence[str] = field(default_factory=tuple)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        pinned = ["taskset", "-c", self.cpus] if self.cpus else []
        command = [sys.executable, "-m", "latcast", "hub", "serve", "--database", self.database, "--port", str(self.port)]
        limits = ["--reads-per-minute", "0", "--writes-per-minute", "0", *self.options]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*pinned, *command, *limits], stdout=log, stderr=log)
        self.restarts += 1

    def wait(self) -> None:
        """Until it answers."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"the server does not listen; see {self.log}")

    def cpu_seconds(self) -> float:
        """Processor time of the server, its finished fits left out."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=60)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def hub_location(database: str | None) -> Iterator[tuple[str, Path]]:
    """Where a database is, one that is removed afterwards where none is given, and a folder."""
    with tempfile.TemporaryDirectory() as folder:
        yield database or str(Path(folder) / "hub.sqlite"), Path(folder)


def upload_under_fire(database: str | None = None, uploads: int = UPLOADS, clients: int = CLIENTS) -> dict[str, float]:
    """Uploads from many clients while the server is killed twice with SIGKILL, and what the database holds then.

    Each upload is tried until it is answered, as ``latcast hub share`` does; the first tenth is sent a second time at the end.
    """
    with hub_location(database) as (location, folder):
        with HubDatabase(location) as opened:
            tokens = [opened.issue_token(f"client {index}")[0] for index in range(clients)]
        server = Server(location, free_port(), folder / "server.log")
        server.start()
        server.wait()
        batches = [UploadBatch(b"".join(map(json_line, records(index))), RECORDS) for index in range(uploads)]
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
        "uploads": uploads,
        "clients": clients,
        "kills": server.restarts,
        "retries": retries[0],
        "seconds": seconds,
        "uploads a second": uploads / seconds,
        "lost": len(expected - set(found)),
        "doubled": len(found) - len(set(found)),
        "strange": len(set(found) - expected),
    }


def read_rate(seconds: float = READ_SECONDS, readers: int = READERS, cpus: tuple[str, str] = ("", "")) -> dict[str, float]:
    """Reads of one device's page as JSON, a second; ``cpus`` are those of the server and of the readers."""
    with hub_location(None) as (location, folder):
        with HubDatabase(location) as opened:
            token, _ = opened.issue_token("Ann")
        server = Server(location, free_port(), folder / "server.log", cpus[0])
        server.start()
        server.wait()
        client = HubClient(server.url, token)
        for index in range(4):
            client.send(UploadBatch(b"".join(map(json_line, records(index, 80 if index else 20))), 80))
        time.sleep(8)  # until the model is fitted
        if cpus[1]:
            os.sched_setaffinity(0, {int(cpu) for cpu in cpus[1].split(",")})
        counts = [0] * readers
        cpu_s = server.cpu_seconds()
        end = time.perf_counter() + seconds
        threads = [threading.Thread(target=_read, args=(server.port, end, counts, index)) for index in range(readers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        cpu_s = server.cpu_seconds() - cpu_s
        size = _answer_size(server.port)
        server.stop()
    return {
        "readers": readers,
        "seconds": seconds,
        "answer bytes": size,
        "reads a second": sum(counts) / seconds,
        "reads a second of one core": sum(counts) / cpu_s,  # whatever else the host does
    }


_REQUEST = b"GET /api/platforms/device-0/onnxruntime-1.31/cpu1/fp32 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def _read(port: int, end: float, counts: list[int], index: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while time.perf_counter() < end:
            connection.sendall(_REQUEST)
            if not _answer(connection).startswith(b"HTTP/1.1 200"):
                raise RuntimeError("a read was refused")
            counts[index] += 1


def _answer(connection: socket.socket) -> bytes:
    content = b""
    while b"\r\n\r\n" not in content:
        content += connection.recv(65536)
    head, _, body = content.partition(b"\r\n\r\n")
    length = int(next(item for item in head.lower().split(b"\r\n") if item.startswith(b"content-length:")).split(b":")[1])
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def _answer_size(port: int) -> int:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(_REQUEST)
        return len(_answer(connection))


def main() -> None:
    """``python -m benchmarks.hub``: both, as JSON."""
    import json

    print(json.dumps({"uploads": upload_under_fire(), "reads": read_rate()}, indent=1))


if __name__ == "__main__":
    main()
