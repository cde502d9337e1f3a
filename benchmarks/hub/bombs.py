"""Waiting time of a user of ``POST /api/predict`` while strangers send models that cost as much as they can."""

from __future__ import annotations

import gzip
import http.client
import statistics
import threading
import time
from collections import Counter
from dataclasses import dataclass
from urllib.parse import urlsplit

import numpy as np
from onnx import TensorProto, helper

STRANGERS = ("127.0.0.2", "127.0.0.3")
"""Addresses of this machine that the bombs come from; the user's is 127.0.0.1."""

BOMBS, CHAIN = 12, 20_000

PAUSE_S, USER_PAUSE_S = 0.2, 1.0
"""Between two requests of a stranger's connection, and of the user."""

LONGEST_S = 300.0


@dataclass(frozen=True)
class Starvation:
    """Figures of one attack.

    Attributes:
        bombs: Strangers' connections, each with one request after another.
        quiet_ms, attacked_ms: Median time until the user is answered, before and during the attack.
        statuses: HTTP status to how many of the strangers' requests were answered with it.
    """

    bombs: int
    quiet_ms: float
    attacked_ms: float
    statuses: dict[int, int]

    @property
    def ratio(self) -> float:
        """Factor by which the user waits longer."""
        return self.attacked_ms / self.quiet_ms


def slow_model(operators: int = CHAIN) -> bytes:
    """Return a valid ONNX file of a chain of random operators, which compresses badly and takes long to predict."""
    rng = np.random.default_rng(0)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 8, 32, 32)) for name in ("t0", f"t{operators}")]
    kinds = rng.choice(["Relu", "Sigmoid", "Tanh", "Exp", "Neg"], operators)
    nodes = [helper.make_node(str(kind), [f"t{index}"], [f"t{index + 1}"]) for index, kind in enumerate(kinds)]
    content: bytes = helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:])).SerializeToString()
    return content


def starve(url: str, asked: int = 7, bombs: int = BOMBS) -> Starvation:
    """Ask a server for a published network, alone and while bombs come from :data:`STRANGERS`.

    Args:
        asked: Times before, and times during the attack.
        bombs: Connections: half of them send a slow model, the others 30 MB of zeros in 29 kB.
    """
    slow, zeros = gzip.compress(slow_model()), gzip.compress(bytes(30_000_000))
    quiet_ms = [_asked_ms(url) for _ in range(asked)]
    statuses: Counter[int] = Counter()
    over, sent = threading.Event(), threading.Barrier(bombs + 1)
    threads = [
        threading.Thread(target=_bomb, args=(url, STRANGERS[index % 2], zeros if index % 4 > 1 else slow, over, sent, statuses))
        for index in range(bombs)
    ]
    for thread in threads:
        thread.start()
    sent.wait(LONGEST_S)
    attacked_ms = [_asked_ms(url) for _ in range(asked)]
    over.set()
    for thread in threads:
        thread.join()
    return Starvation(bombs, statistics.median(quiet_ms), statistics.median(attacked_ms), dict(statuses))


def _asked_ms(url: str) -> float:
    time.sleep(USER_PAUSE_S)
    begun_s = time.perf_counter()
    connection = _connection(url, "127.0.0.1")
    connection.request("POST", "/api/predict?model=squeezenet1_1")
    answer = connection.getresponse()
    answer.read()
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"the user was answered with {answer.status}")
    return 1000 * (time.perf_counter() - begun_s)


def _bomb(url: str, source: str, body: bytes, over: threading.Event, sent: threading.Barrier, statuses: Counter[int]) -> None:
    first = True
    while not over.is_set():
        connection = _connection(url, source)
        try:
            connection.request("POST", "/api/predict", body, {"content-encoding": "gzip"})
            if first:
                first = False
                sent.wait(LONGEST_S)
            # A bomb that is still being read when the user is done is not waited for.
            while not over.is_set():
                try:
                    connection.sock.settimeout(PAUSE_S)
                    status = connection.getresponse().status
                except TimeoutError:
                    continue
                statuses[status] += 1
                break
        except OSError:
            statuses[0] += 1  # refused, and closed while it was sending
        finally:
            connection.close()
        over.wait(PAUSE_S)


def _connection(url: str, source: str) -> http.client.HTTPConnection:
    found = urlsplit(url)
    return http.client.HTTPConnection(str(found.hostname), found.port, timeout=LONGEST_S, source_address=(source, 0))
