"""Limits of requests: how often an address may ask, and how large and how slow a body may be."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from latcast.errors import HubError
from latcast.hub.addresses import AddressTable, network_of
from latcast.hub.uploads import TooLargeError, UnreadableBodyError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


BODY_S = 60.0
"""In which a body must arrive."""

BODY_GRACE_S, LEAST_BYTES_PER_S = 10.0, 10_000.0
"""A body that arrives more slowly than that is waited for so long."""

MAX_USUAL_BYTES = 65_536
"""Of a body, on routes that take no files."""


class TooOftenError(HubError):
    """Too many requests; ``wait_s`` is after how long to try again."""

    def __init__(self, wait_s: int) -> None:
        super().__init__(f"too many requests from this address; try again in {wait_s} s")
        self.wait_s = wait_s


def address_of(scope: Scope) -> str:
    """Return who a request came from, as :func:`network_of` counts addresses."""
    return network_of(str((scope.get("client") or ("unknown",))[0]))


class RateLimits:
    """Answers 429 to an address that asks too often; GET and HEAD are counted apart from everything else."""

    def __init__(self, app: Application, reads: RateLimit, writes: RateLimit) -> None:
        self.app = app
        self.reads = reads
        self.writes = writes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            limit = self.reads if scope["method"] in ("GET", "HEAD") else self.writes
            wait_s = limit.wait_s(address_of(scope))
            if wait_s:
                await _refuse(send, 429, str(TooOftenError(wait_s)), ((b"retry-after", str(wait_s).encode()),))
                return
        await self.app(scope, receive, send)


class BodyLimits:
    """Answers 413 to a body that is larger than its route takes, and ends one that does not arrive.

    Args:
        app: To protect.
        limits: By path, most bytes and advice about more; all other paths take :data:`MAX_USUAL_BYTES`.
    """

    def __init__(self, app: Application, limits: Mapping[str, tuple[int, str]]) -> None:
        self.app = app
        self.limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        most_bytes, advice = self.limits.get(scope["path"], (MAX_USUAL_BYTES, "send less"))
        stated = dict(scope["headers"]).get(b"content-length", b"0")
        text = f"more than {most_bytes} bytes; {advice}"
        if stated.isdigit() and int(stated[:20]) > most_bytes:
            await _refuse(send, 413, text, ((b"connection", b"close"),))
            return
        size, begun_s = 0, 0.0

        async def limited() -> MutableMapping[str, Any]:
            nonlocal size, begun_s
            begun_s = begun_s or time.monotonic()
            allowed_s = begun_s + min(BODY_S, BODY_GRACE_S + size / LEAST_BYTES_PER_S) - time.monotonic()
            try:
                message = await asyncio.wait_for(receive(), None if size < 0 else max(0.01, allowed_s))
            except asyncio.TimeoutError:
                rate = f"{LEAST_BYTES_PER_S / 1000:.0f} kB/s"
                raise UnreadableBodyError(
                    f"the body arrives too slowly, expected at least {rate} and all of it in {BODY_S:.0f} s; send less at once"
                ) from None
            if size >= 0 and message["type"] == "http.disconnect" and scope["method"] not in ("GET", "HEAD"):
                raise UnreadableBodyError("the connection ended before the body was there; send it again")
            size += len(message.get("body", b""))
            if size > most_bytes:
                raise TooLargeError(text)
            if not message.get("more_body", False):
                size = -1  # what comes now is the end of the connection, for which long answers wait
            return message

        await self.app(scope, limited, send)


async def _refuse(send: Send, status: int, text: str, headers: tuple[tuple[bytes, bytes], ...]) -> None:
    body = json.dumps({"detail": text}).encode()
    start = {
        "type": "http.response.start",
        "status": status,
        "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers],
    }
    await send(start)
    await send({"type": "http.response.body", "body": body})


class RateLimit:
    """At most ``per_minute`` requests of one address in the long run, and ``burst`` at once, whichever worker it asks.

    Args:
        name: Of the limit: workers of a server count under it together.
        per_minute: 0 for no limit.
        burst: A quarter of ``per_minute`` by default, at least 10.
        clock: Seconds, monotonic, the same for all workers.
    """

    def __init__(self, name: str, per_minute: int, burst: int | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_minute / 60
        self.burst = float(max(10, per_minute // 4) if burst is None else burst)
        self._clock = clock
        self._table = AddressTable(name, 2) if per_minute else None

    def wait_s(self, address: str, cost: float = 1.0) -> int:
        """Take one request of an address, and return 0 where it may go on, or the seconds after which to try again."""
        if self._table is None:
            return 0
        now_s = self._clock()
        with self._table.row(address, now_s) as (bucket, new):
            left = self.burst if new else min(self.burst, bucket[0] + (now_s - bucket[1]) * self.per_second)
            allowed = left >= cost
            bucket[0], bucket[1] = left - cost if allowed else left, now_s
        return 0 if allowed else max(1, math.ceil((cost - left) / self.per_second))

    def charge(self, address: str, cost: float) -> None:
        """Take the cost of an answer from an address; where it has less left, its next request waits until that is paid."""
        if self._table is not None and cost > 0:
            self.wait_s(address, 0.0)  # adds up what has come back until now
            with self._table.row(address, self._clock()) as (bucket, _):
                bucket[0] -= cost
