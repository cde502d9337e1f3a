"""Limits of requests: how often an address may ask, how large and slow a body may be, and how many models are read at once."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from weakref import WeakValueDictionary

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from latcast.errors import HubError
from latcast.hub.addresses import AddressTable, network_of

BODY_S = 60.0
"""Time for a body to arrive."""

BODY_GRACE_S, LEAST_BYTES_PER_S = 10.0, 10_000.0
"""A body that arrives more slowly than that is waited for so long."""

MAX_USUAL_BYTES = 65_536
"""Bytes of a body, on routes that take no files."""

PLACES, PLACES_OF_ONE = 256, 4
"""Models that may arrive, wait or be read at once, and those of one address: of these a single one is being read."""

USUAL_CPU_S = 2.0
"""Processor time of a usual model, which costs 1."""


def address_of(scope: Scope) -> str:
    """Return who a request came from, as :func:`network_of` counts addresses."""
    return network_of(str((scope.get("client") or ("unknown",))[0]))


def too_often(wait_s: int) -> HubError:
    """Return the refusal of an address that may ask again after some seconds."""
    return HubError(f"too many requests from this address; try again in {wait_s} s", 429, wait_s)


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


class RateLimits:
    """Answers 429 to an address that asks too often; GET and HEAD are counted apart from everything else."""

    def __init__(self, app: ASGIApp, reads: RateLimit, writes: RateLimit) -> None:
        self.app = app
        self.reads = reads
        self.writes = writes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self.app
        if scope["type"] == "http":
            limit = self.reads if scope["method"] in ("GET", "HEAD") else self.writes
            wait_s = limit.wait_s(address_of(scope))
            if wait_s:
                app = JSONResponse({"detail": str(too_often(wait_s))}, 429, {"retry-after": str(wait_s)})
        await app(scope, receive, send)


class BodyLimits:
    """Answers 413 to a body that is larger than its route takes, and ends one that does not arrive.

    Args:
        limits: By path, most bytes and advice about more; all other paths take :data:`MAX_USUAL_BYTES`.
    """

    def __init__(self, app: ASGIApp, limits: Mapping[str, tuple[int, str]]) -> None:
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
            await JSONResponse({"detail": text}, 413, {"connection": "close"})(scope, receive, send)
            return
        size, begun_s = 0, 0.0

        async def limited() -> Message:
            nonlocal size, begun_s
            begun_s = begun_s or time.monotonic()
            allowed_s = begun_s + min(BODY_S, BODY_GRACE_S + size / LEAST_BYTES_PER_S) - time.monotonic()
            try:
                message = await asyncio.wait_for(receive(), None if size < 0 else max(0.01, allowed_s))
            except asyncio.TimeoutError:
                rate = f"{LEAST_BYTES_PER_S / 1000:.0f} kB/s"
                raise HubError(
                    f"the body arrives too slowly, expected at least {rate} and all of it in {BODY_S:.0f} s; send less at once",
                    400,
                ) from None
            if size >= 0 and message["type"] == "http.disconnect" and scope["method"] not in ("GET", "HEAD"):
                raise HubError("the connection ended before the body was there; send it again", 400)
            size += len(message.get("body", b""))
            if size > most_bytes:
                raise HubError(text, 413)
            if not message.get("more_body", False):
                size = -1  # what comes now is the end of the connection, for which long answers wait
            return message

        await self.app(scope, limited, send)


class ModelTurns:
    """The models of each address: a few at once, read one after the other, and no more than their processor time allows."""

    def __init__(self, per_minute: int) -> None:
        self._rate = RateLimit("models", per_minute, burst=max(10, per_minute // 3))
        self._inside: Counter[str] = Counter()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @contextmanager
    def place(self, address: str, cost: float) -> Iterator[None]:
        """Take the cost of a model, and hold a place from before its body arrives until it is answered.

        Raises:
            HubError: The address has spent too much (429), or too many places are taken (503).
        """
        self._take(address, cost)
        if self._inside[address] >= PLACES_OF_ONE or self._inside.total() >= PLACES:
            raise HubError("too many models are being sent or read at once; try again in a few seconds", 503)
        self._inside[address] += 1
        try:
            yield
        finally:
            self._inside -= Counter([address])

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        """Wait until no other model of the address is being read.

        Raises:
            HubError: Its other models have cost more meanwhile than it may spend (429).
        """
        async with self._turns.setdefault(address, asyncio.Lock()):
            self._take(address, 0.0)
            yield

    def charge(self, address: str, cpu_s: float, paid: float) -> None:
        """Take the processor time of an answer, of which a part was paid before."""
        self._rate.charge(address, cpu_s / USUAL_CPU_S - paid)

    def _take(self, address: str, cost: float) -> None:
        wait_s = self._rate.wait_s(address, cost)
        if wait_s:
            raise too_often(wait_s)
