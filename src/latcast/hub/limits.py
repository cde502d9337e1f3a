"""What one address may take: requests a minute, and how an answer says that it was too much."""

from __future__ import annotations

import json
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from latcast.errors import HubError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class TooOftenError(HubError):
    """Asked for too often.

    Args:
        wait_s: After which to try again.
    """

    def __init__(self, wait_s: int) -> None:
        super().__init__(f"too many requests from this address; try again in {wait_s} s")
        self.wait_s = wait_s


def address_of(scope: Scope) -> str:
    """The address that a request came from."""
    return str((scope.get("client") or ("unknown",))[0])


class RateLimits:
    """Answers 429 to an address that asks too often; reading and writing are counted apart.

    Args:
        app: What to protect.
        reads: Limit of GET and HEAD.
        writes: Limit of everything else.
    """

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


async def _refuse(send: Send, status: int, text: str, headers: tuple[tuple[bytes, bytes], ...]) -> None:
    body = json.dumps({"detail": text}).encode()
    start = {
        "type": "http.response.start",
        "status": status,
        "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers],
    }
    await send(start)
    await send({"type": "http.response.body", "body": body})


MAX_ADDRESSES = 10_000
"""Buckets kept; the one used longest ago goes first. An attacker with more addresses than that is not held by counting."""


class RateLimit:
    """At most ``per_minute`` requests of one key in the long run, and a burst of ``burst`` at once.

    Args:
        per_minute: 0 for no limit.
        burst: A quarter of a minute's by default, at least 10.
        clock: Seconds, monotonic.
    """

    def __init__(self, per_minute: int, burst: int | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_minute / 60
        self.burst = float(max(10, per_minute // 4) if burst is None else burst)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, key: str, cost: float = 1.0) -> int:
        """Takes one request of a key.

        Returns:
            0 where it may go on; otherwise the seconds after which to try again.
        """
        if not self.per_second:
            return 0
        now_s = self._clock()
        left, since_s = self._buckets.pop(key, (self.burst, now_s))
        left = min(self.burst, left + (now_s - since_s) * self.per_second)
        allowed = left >= cost
        self._buckets[key] = (left - cost if allowed else left, now_s)
        if len(self._buckets) > MAX_ADDRESSES:
            self._buckets.popitem(last=False)
        return 0 if allowed else max(1, math.ceil((cost - left) / self.per_second))
