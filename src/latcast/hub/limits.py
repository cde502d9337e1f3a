"""How often one address may ask: a bucket of requests for each, that fills up again with time."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

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
