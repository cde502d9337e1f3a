"""Where the time comes from: the machine's own clock, or recorded runs played back."""

from __future__ import annotations

import time
from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    """A clock that never goes back; only differences of its readings mean something."""

    def now_ms(self) -> float:
        """Milliseconds since an arbitrary moment."""


class SystemClock:
    """The machine's highest-resolution monotonic clock."""

    def now_ms(self) -> float:
        return time.perf_counter_ns() / 1e6


class ReplayClock:
    """A clock that stands still until it is told to advance, so that recorded latencies are "measured" exactly."""

    def __init__(self) -> None:
        self._now_ms = 0.0

    def now_ms(self) -> float:
        return self._now_ms

    def advance(self, duration_ms: float) -> None:
        """Lets time pass.

        Raises:
            ValueError: The duration is negative.
        """
        if not duration_ms >= 0:
            raise ValueError(f"a clock cannot advance by {duration_ms} ms; durations are not negative")
        self._now_ms += duration_ms
