"""Checks whether stated latencies are milliseconds or a thousand times off.

Known phones lie within a factor of eight of the typical one of their kind of unit, so that what is more than a hundred times
off is hardly in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

MILLISECONDS: Mapping[str, float] = {"ms": 1.0, "s": 1e3, "us": 1e-3}
"""Milliseconds in each unit that latencies may be stated in."""

MISMATCH_FACTOR = 100.0
"""A device is asked about that is so many times faster or slower than the typical known one."""


@dataclass(frozen=True)
class UnitMismatch:
    """Attributes:
    times: How many times as long as on the typical known device the networks are said to take, on the median.
    unit: The unit that would explain it.
    """

    times: float
    unit: str

    def __str__(self) -> str:
        below = self.times < 1
        factor = 1 / self.times if below else self.times
        return (
            f"{factor:,.0f} times {'below' if below else 'above'} those of the typical known device, as "
            f"{'seconds' if below else 'microseconds'} taken for milliseconds would be"
        )


def mismatch_of(stated_ms: np.ndarray, typical_ms: np.ndarray) -> UnitMismatch | None:
    """Return why latencies are hardly milliseconds, from those on the typical known device.

    Args:
        stated_ms: (networks,) what is taken for milliseconds.
        typical_ms: (networks,) NaN where it is not known.
    """
    log_times = _log_times(stated_ms, typical_ms)
    if not len(log_times):
        return None
    times = float(np.exp(np.median(log_times)))
    if 1 / MISMATCH_FACTOR <= times <= MISMATCH_FACTOR:
        return None
    return UnitMismatch(times, "s" if times < 1 else "us")


def odd_ones(stated_ms: np.ndarray, typical_ms: np.ndarray) -> dict[int, float]:
    """Find latencies hardly of the others' unit: index, and how many times the others' device seems slower by it.

    Two that contradict each other are both odd.

    Args:
        stated_ms, typical_ms: See :func:`mismatch_of`.
    """
    log_times = _log_times(stated_ms, typical_ms)
    if len(log_times) < 2:
        return {}
    indices = np.flatnonzero(np.isfinite(typical_ms))
    off = log_times - np.median(log_times)
    # Of two, the median lies halfway.
    most = np.log(MISMATCH_FACTOR) / (2 if len(off) == 2 else 1)
    return {int(indices[at]): float(np.exp(off[at])) for at in np.flatnonzero(np.abs(off) > most)}


def _log_times(stated_ms: np.ndarray, typical_ms: np.ndarray) -> np.ndarray:
    known = np.isfinite(typical_ms)
    return np.asarray(np.log(stated_ms[known]) - np.log(typical_ms[known]))
