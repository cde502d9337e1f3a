"""Connections of one address to a real server: how many, and how long they may wait."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

from latcast.hub import connections, limits
from latcast.hub.connections import Door
from latcast.hub.database import HubDatabase
from tests.hub.serving import QUICK, listening, serving, wait_for


@pytest.fixture(autouse=True)
def little_lingering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LINGERING_S", 0.1)


def connected(url: str, source: str = "127.0.0.1") -> socket.socket:
    found = urlsplit(url)
    return socket.create_connection((str(found.hostname), found.port or 80), timeout=20, source_address=(source, 0))


def answered(connection: socket.socket, request: bytes = b"") -> bytes:
    """Everything until the server closes; what it resets was nothing."""
    found = b""
    try:
        connection.sendall(request)
        while part := connection.recv(65_536):
            found += part
    except ConnectionError:
        pass
    return found


GET = b"GET /api/health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


def test_half_open_connections_of_one_address_do_not_keep_others_out(sqlite: HubDatabase) -> None:
    door = Door(per_address=10)
    with listening(sqlite, QUICK, door) as url, ExitStack() as held:
        for _ in range(498):
            half_open = held.enter_context(connected(url))
            half_open.sendall(b"GET /api/devices HTTP/1.1\r\nhost: x\r\n")
        wait_for(lambda: door.refused == 488)
        with connected(url) as mine, connected(url, "127.0.0.2") as other:
            assert answered(mine).startswith(b"HTTP/1.1 429")
            assert answered(other, GET).startswith(b"HTTP/1.1 200")
        assert door.open == {"127.0.0.1": 10}
        held.close()
        wait_for(lambda: not door.open)
        with connected(url) as mine:
            assert answered(mine, GET).startswith(b"HTTP/1.1 200")


def test_a_proxy_may_hold_any_number_and_says_whose_they_are(sqlite: HubDatabase) -> None:
    door = Door(per_address=2, proxies=("127.0.0.1",))
    with listening(sqlite, QUICK, door) as url, ExitStack() as held:
        for _ in range(20):
            held.enter_context(connected(url))
        with connected(url) as one:
            assert answered(one, GET).startswith(b"HTTP/1.1 200")


def test_of_ipv6_a_whole_network_counts_as_one_address() -> None:
    door = Door(per_address=1)

    assert door.enter("2001:db8::1")
    assert not door.enter("2001:db8::ffff:2")
    assert door.enter("2001:db8:0:1::1")
    assert door.enter("::ffff:10.0.0.1")
    assert not door.enter("10.0.0.1")
    door.leave("2001:db8::1")
    assert door.enter("2001:db8::2")


@pytest.mark.parametrize("sent", [b"", b"GET / HT", GET.replace(b"close", b"keep-alive") + b"GET / HT"])
def test_headers_that_do_not_come_are_not_waited_for(sqlite: HubDatabase, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(connections, "HEADER_S", 0.2)
    door = Door()
    with listening(sqlite, QUICK, door) as url, connected(url) as slow:
        assert b"HTTP/1.1 408" in answered(slow, sent)
        assert door.too_slow == 1


def test_a_long_header_is_refused(sqlite: HubDatabase) -> None:
    with listening(sqlite) as url, connected(url) as long:
        assert answered(long, b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 40_000).startswith(b"HTTP/1.1 400")


@contextmanager
def giant() -> Iterator[tuple[str, Door]]:
    """A server whose answer is 50 MB."""

    async def app(scope: Any, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for index in range(50):
            await send({"type": "http.response.body", "body": bytes(1_000_000), "more_body": index < 49})

    door = Door()
    with serving(app, door, lifespan="off") as url:
        yield url, door


def test_a_stalled_reader_is_cut_off_and_a_slow_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STALLED_S", 0.3)
    with giant() as (url, door):
        with connected(url) as stalled, connected(url) as reader:
            stalled.sendall(GET)
            wait_for(lambda: door.too_slow == 1)
            reader.sendall(GET)
            size = 0
            while part := reader.recv(1 << 18):
                size += len(part)
        assert size > 50_000_000
        assert door.too_slow == 1
        wait_for(lambda: not door.open)


@pytest.mark.parametrize("path", ["/api/predict", "/api/measurements", "/"])
def test_a_body_of_400_mb_is_refused_before_it_comes(sqlite: HubDatabase, path: str) -> None:
    with listening(sqlite) as url, connected(url) as sender:
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 400000000\r\n\r\n".encode()
        answer = answered(sender, head)

    assert answer.startswith(b"HTTP/1.1 413")
    assert b"bytes; " in json.loads(answer.partition(b"\r\n\r\n")[2])["detail"].encode()


@pytest.mark.parametrize("path", ["/api/predict", "/api/devices"])
def test_a_body_without_end_is_not_read_to_the_end(sqlite: HubDatabase, path: str) -> None:
    sent_bytes = 0
    with listening(sqlite) as url, connected(url) as sender, suppress(OSError):
        sender.sendall(f"POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n".encode())
        while sent_bytes < 2_000_000_000:
            sender.sendall(b"100000\r\n" + bytes(0x100000) + b"\r\n")
            sent_bytes += 0x100000

    assert sent_bytes < 2_000_000_000


def test_a_body_that_does_not_come_is_not_waited_for(sqlite: HubDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODY_S", 0.2)
    with listening(sqlite) as url, connected(url) as slow:
        answer = answered(slow, b"POST /api/predict HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nx")

    assert answer.startswith(b"HTTP/1.1 400")
    assert b"arrives too slowly" in answer


def test_a_body_that_trickles_is_not_waited_for_until_its_last_byte(sqlite: HubDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODY_GRACE_S", 0.3)
    sent_bytes = 0
    with listening(sqlite) as url, connected(url) as slow, suppress(OSError):
        slow.sendall(b"POST /api/predict HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n")
        while sent_bytes < 900:
            slow.sendall(b"x")
            sent_bytes += 1
            time.sleep(0.02)

    assert sent_bytes < 900


@pytest.mark.parametrize(
    "request_",
    [
        b"POST /api/predict HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nx",
        b"POST /api/measurements HTTP/1.1\r\nhost: x\r\nauthorization: Bearer TOKEN\r\ncontent-length: 1000\r\n\r\nx",
        b"nothing of the kind\r\n\r\n",
    ],
    ids=["model", "measurements", "not HTTP"],
)
def test_requests_that_are_broken_off_leave_no_line_in_the_log(sqlite: HubDatabase, request_: bytes) -> None:
    found: list[str] = []

    class Listed(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())

    sent = request_.replace(b"TOKEN", sqlite.issue_token("Ann")[0].encode())
    door, handler, logs = Door(per_address=0), Listed(), [logging.getLogger(name) for name in ("uvicorn.error", "latcast.hub")]
    with listening(sqlite, QUICK, door) as url:
        for log in logs:
            log.addHandler(handler)
        for _ in range(5):
            with connected(url) as broken:
                broken.sendall(sent)
                time.sleep(0.1)
            wait_for(lambda: not door.open)
        with connected(url) as other:
            assert answered(other, GET).startswith(b"HTTP/1.1 200")
        for log in logs:
            log.removeHandler(handler)

    assert found == []
