"""Contributing: what leaves the machine, and that it arrives once however often it must be sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from latcast.errors import HubError, LatcastError
from latcast.hub import sharing
from latcast.hub.sharing import HubClient, shareable, shared_device_name, upload_batches
from latcast.records import Reference
from tests.hub.made_up import device, lines, record


def test_local_becomes_the_name_of_the_device() -> None:
    assert shareable(record(1, device="local"), "thinkpad-t14").platform == "thinkpad-t14/onnxruntime-1.31/cpu1/fp32"
    assert shareable(record(1, device="pixel4"), "thinkpad-t14").platform == "pixel4/onnxruntime-1.31/cpu1/fp32"


@pytest.mark.parametrize(("name", "reason"), [("", "--device"), ("local", "cannot be called"), ("***", "letters or digits")])
def test_a_device_needs_a_name_that_others_understand(name: str, reason: str) -> None:
    with pytest.raises(LatcastError, match=reason):
        shareable(record(1, device="local"), name)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ThinkPad T14", "thinkpad-t14"),
        ("Pixel 7 (Pro)", "pixel-7-pro"),
        ("ﬁne²", "fine2"),
        ("x" * 70, "x" * 60),
    ],
)
def test_names_of_devices_are_made_as_the_page_makes_them(text: str, name: str) -> None:
    assert shared_device_name(text) == name


def test_no_path_of_this_machine_leaves_it() -> None:
    found = shareable(
        record(
            1,
            reference=Reference("file", {"path": "/home/ann/secret/model.onnx", "sha256": "ab" * 32}, "/home/ann/secret/model"),
            error="cannot load /home/ann/secret/model.onnx: bad file, C:\\Users\\ann\\x.dll too",
            environment={
                "settings": {"variables": {"LD_PRELOAD": "/home/ann/secret/lib.so", "OMP_NUM_THREADS": "1"}},
                "list": ["/tmp/secret/a"],
            },
        )
    )

    text = json.dumps(found.to_json())
    assert "secret" not in text
    assert "/home" not in text
    assert "OMP_NUM_THREADS" in text
    assert found.error == "cannot load (path removed): bad file, (path removed) too"
    assert found.reference.parameters == {"sha256": "ab" * 32}


def test_a_text_that_only_looks_like_a_path_stays() -> None:
    environment = {"url": "see https://example.org/a/b", "id": "xeon/onnxruntime-1.31/cpu1/fp32", "share": "3/4"}

    assert shareable(record(1, environment=environment)).environment == environment


def test_batches_hold_everything_once_and_are_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "BATCH_RECORDS", 7)
    records = device("phone", 2.0)

    parts = list(upload_batches(records))

    assert [part.count(b"\n") for part in parts] == [7, 7, 6]
    sent = [json.loads(line) for part in parts for line in part.splitlines()]
    assert sent == [json.loads(line) for line in lines(records).splitlines()]
    assert list(upload_batches(records)) == parts


def test_large_records_make_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "BATCH_BYTES", 700)

    assert [part.count(b"\n") for part in upload_batches(device("phone", 2.0, [1, 2, 3]))] == [1, 1, 1]


@contextmanager
def answering(*answers: tuple[int, dict[str, str], bytes] | None) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A server that gives these answers one after the other; None closes the connection. Also the headers that it saw."""
    seen: list[dict[str, str]] = []
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(dict(self.headers.items()))
            self.rfile.read(int(self.headers["content-length"]))
            answer = left.pop(0)
            if answer is None:
                self.connection.close()
                return
            status, headers, body = answer
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


GOOD = (200, {}, json.dumps({"received": 1, "accepted": 1, "known": 0, "quarantined": [], "repeated": False}).encode())


def test_a_failing_server_is_tried_again_and_again_with_longer_waits() -> None:
    waits: list[float] = []
    busy = (503, {}, b'{"detail": "not now"}')
    with answering(busy, None, (500, {}, b"<html>"), (429, {"retry-after": "7"}, b'{"detail": "slowly"}'), GOOD) as (url, seen):
        answer = HubClient(url, "t", sleep=waits.append).send(b"{}\n")

    assert answer["accepted"] == 1
    assert len(seen) == 5
    assert 0.25 <= waits[0] <= 0.5
    assert 0.5 <= waits[1] <= 1.0
    assert 1.0 <= waits[2] <= 2.0
    assert waits[3] == 7.0


def test_after_all_attempts_it_says_that_nothing_is_lost() -> None:
    with answering(*[(503, {}, b'{"detail": "not now"}')] * 3) as (url, _):
        client = HubClient(url, "t", sleep=lambda wait_s: None, attempts=3)
        with pytest.raises(HubError, match=r"3 attempts \(503: not now\); run the same command again"):
            client.send(b"{}\n")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((401, {}, b'{"detail": "this token is expired"}'), r"refused the measurements \(401\): this token is expired"),
        ((422, {}, b"nonsense"), r"refused the measurements \(422\)"),
        ((200, {}, b"<html>"), "not a hub's; check the address"),
        ((200, {}, b"[]"), "not a hub's; check the address"),
    ],
)
def test_a_refusal_is_not_tried_again(answer: tuple[int, dict[str, str], bytes], reason: str) -> None:
    with answering(answer) as (url, seen), pytest.raises(HubError, match=reason):
        HubClient(url, "t").send(b"{}\n")

    assert len(seen) == 1


def test_the_token_is_not_carried_along_a_redirect() -> None:
    with (
        answering(GOOD) as (elsewhere, stolen),
        answering((302, {"location": elsewhere}, b"")) as (url, seen),
        pytest.raises(HubError, match="refused the measurements"),
    ):
        HubClient(url, "secret").send(b"{}\n")

    assert seen[0]["Authorization"] == "Bearer secret"
    assert stolen == []


@pytest.mark.parametrize("url", ["hub.example", "file:///etc/passwd", "http://"])
def test_a_malformed_address_is_refused(url: str) -> None:
    with pytest.raises(HubError, match="is not the address of a hub"):
        HubClient(url, "t")


@pytest.mark.parametrize(
    ("url", "readable"), [("http://10.0.0.5:8765", True), ("http://localhost:1", False), ("https://x.example", False)]
)
def test_plain_http_to_another_machine_is_readable_by_others(url: str, readable: bool) -> None:
    assert HubClient(url, "t").readable_by_others is readable
