"""A hub behind HTTP: in this process without a socket, or as a server that listens."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from onnx import TensorProto, helper
from starlette.testclient import TestClient

from latcast.hub.app import make_app
from latcast.hub.connections import Door, server_options
from latcast.hub.database import HubDatabase
from latcast.hub.site import ServerSettings
from latcast.records import Measurement
from tests.hub.made_up import lines

QUICK = ServerSettings(reads_per_minute=0, writes_per_minute=0, refit_quiet_s=0.01, fit_in_process=False, seed=False)


@contextmanager
def client(database: HubDatabase, settings: ServerSettings = QUICK) -> Iterator[TestClient]:
    with TestClient(make_app(database, settings), base_url="http://localhost") as found:
        yield found


def post(http: TestClient, token: str, content: bytes | list[Measurement], **headers: str) -> Any:
    body = content if isinstance(content, bytes) else lines(content)
    return http.post("/api/measurements", content=body, headers={"authorization": f"Bearer {token}", **headers})


def wait_for(condition: Callable[[], Any], seconds: float = 30.0) -> Any:
    """What the condition gives once it is true."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it never became true"
        time.sleep(0.02)
    return found


def fetched(url: str, content: bytes | None = None, token: str = "") -> Any:
    """The JSON that a server answers; None where it does not, or refuses."""
    request = urllib.request.Request(url, data=content, headers={"authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)
    except OSError:
        return None


@contextmanager
def listening(database: HubDatabase, settings: ServerSettings = QUICK, door: Door | None = None) -> Iterator[str]:
    """The address of a real server in a thread of this process."""
    door = door or Door(per_address=0)
    with serving(make_app(database, settings, door=door), door) as url:
        yield url


@contextmanager
def serving(app: Any, door: Door, **options: Any) -> Iterator[str]:
    """The address of any application behind a door."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, **{**server_options(door), "timeout_graceful_shutdown": 2, **options}))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def dynamic_model() -> bytes:
    """An ONNX file that leaves the batch of its input ``x`` open."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ("batch", 8, 32, 32)) for name in ("x", "y")]
    content: bytes = helper.make_model(
        helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    ).SerializeToString()
    return content
