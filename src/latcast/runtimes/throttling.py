"""Signs that heat slows a phone down: its own reports, the clocks that it allows, and rising latencies.

Phones that report nothing are judged by latencies alone: those of one small network, the anchor, that runs again between the
others. Its bursts are compared with its earlier ones; the ratios are added up in Page's cumulative sum (E. S. Page, "Continuous
inspection schemes", Biometrika 41, 1954), which notices a small lasting rise and lets a single slow burst pass.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from latcast.runtimes.adb import PhoneState

LEAST_STATUS = 1
"""Android's thermal status "light": the first at which clocks may fall."""

LEAST_LIMIT = 0.95
"""Share of the highest clock that a CPU may have, below which the phone is slowed down."""

LEAST_CLOCK = 0.9
"""Share of the highest clock seen, below which the phone does not run at full speed."""

CLOCK_READINGS = 5
"""Readings of the clock of which the median counts: a governor may lower the clock before it is read."""

LEAST_RISE = 0.05
"""Smallest slowdown: caches and other programs cause less."""

_LEAST_NOISE = 0.01
_FIRST_NOISE = 0.05
"""Noise of the logarithm of a burst's latency: the least, and the value before there are enough bursts."""

_FIRST_BURSTS = 4
"""Bursts of a network that set its speed."""

_ENOUGH = 4
_REMEMBERED = 80
"""Steps between bursts: the fewest for an estimate of the noise, and the most that are kept."""

_ALLOWANCE, _MOST_AT_ONCE, _ALARM = 1.5, 3.0, 12.0
"""The cumulative sum in multiples of the noise: subtracted each time, the most that a burst adds, and the alarm (tuned on
recorded series)."""

_CALM = 2.5
"""Slowdown, in multiples of the noise, above which a burst is not compared with later ones."""


@dataclass
class RisingLatencies:
    """Detects that bursts have become slower than earlier ones of the same network, and that it is over."""

    _calm: dict[str, list[float]] = field(default_factory=dict)
    _last: dict[str, float] = field(default_factory=dict)
    _steps: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _sum: float = 0.0
    _rises: list[float] = field(default_factory=list)

    def add(self, network: str, latency_ms: float) -> bool:
        """Add the latency of a network's burst; return whether the phone is slow now."""
        value = math.log(latency_ms)
        calm = self._calm.setdefault(network, [])
        if network in self._last:
            self._steps.append(abs(value - self._last[network]))
        self._last[network] = value
        if len(calm) < _FIRST_BURSTS:
            calm.append(value)
            return self.slow
        rise, noise = value - median(calm), self.noise
        step = max(-_MOST_AT_ONCE, min(rise / noise, _MOST_AT_ONCE))
        self._sum = max(0.0, self._sum + step - _ALLOWANCE)
        self._rises = [*self._rises, rise] if self._sum > 0 else []
        if rise < _CALM * noise:
            calm.append(value)
        return self.slow

    @property
    def slow(self) -> bool:
        return self._sum > _ALARM and median(self._rises) > LEAST_RISE

    @property
    def noise(self) -> float:
        """Standard deviation of a burst's logarithm, robustly: from the steps between bursts, of which a slowdown makes one."""
        if len(self._steps) < _ENOUGH:
            return _FIRST_NOISE
        return max(_LEAST_NOISE, 1.4826 * median(self._steps) / math.sqrt(2))

    def forget_rise(self) -> None:
        """Reset the sum, after a rest."""
        self._sum, self._rises = 0.0, []


@dataclass
class ThrottleWatch:
    """Signs of throttling over the bursts of one device on some CPUs, or all."""

    cpus: Sequence[int] = ()
    rising: RisingLatencies = field(default_factory=RisingLatencies)
    _clocks_mhz: deque[float] = field(default_factory=lambda: deque(maxlen=CLOCK_READINGS))
    _highest_mhz: float = 0.0

    def reasons(self, state: PhoneState) -> tuple[str, ...]:
        """Return why a burst does not count as one at full speed, from the state right after it; none where it does."""
        found = list(self.signs(state))
        clock_mhz = state.clock_mhz(self.cpus)
        if clock_mhz is not None:
            self._clocks_mhz.append(clock_mhz)
        if len(self._clocks_mhz) == CLOCK_READINGS:
            usual_mhz = median(self._clocks_mhz)
            self._highest_mhz = max(self._highest_mhz, usual_mhz)
            if usual_mhz < LEAST_CLOCK * self._highest_mhz and not found:
                found.append(f"the clock fell to {usual_mhz:.0f} of {self._highest_mhz:.0f} MHz")
        if self.rising.slow and not found:
            found.append("latencies rise")
        return tuple(found)

    def forget(self) -> None:
        """Reset after a rest, all but the phone's full speed."""
        self.rising.forget_rise()
        self._clocks_mhz.clear()

    def signs(self, state: PhoneState) -> tuple[str, ...]:
        """Return the signs of throttling that the phone reports."""
        found = []
        if state.thermal_status is not None and state.thermal_status >= LEAST_STATUS:
            found.append(f"thermal status {state.thermal_status}")
        limit = state.limit(self.cpus)
        if limit is not None and limit < LEAST_LIMIT:
            found.append(f"clocks are limited to {limit:.0%}")
        return tuple(found)
