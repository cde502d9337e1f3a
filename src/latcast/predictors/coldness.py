"""Coldness: how much of a kernel's code and data was overwritten in the caches since the kernel ran last.

A network that is run again and again finds some of its weights, buffers and code in the caches. How much depends on how long ago
a kernel ran, which is the network's latency, and on how many bytes were read in between: a network whose weights are small
against a core's own cache keeps them. So a kernel's latency is a function of its configuration and of its network's coldness,
from 0 (nothing was overwritten) to 1, and a network's latency is what its kernels add up to at the coldness that it causes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from latcast.kernels.types import kernel_type
from latcast.records import WEIGHT_BYTES

HALF_COLD_MS = 1.3
"""Latency at which half is overwritten in a network of many weights; measured on one core of an AMD EPYC."""

DEFAULT_L2_BYTES = 1 << 20
"""Size of a core's own cache where the system does not report it."""

LEVELS = np.linspace(0.0, 1.0, 9)
"""Coldness at which kernels are predicted; between them their latencies are interpolated."""

HALVINGS = 20
"""Steps of the search between two levels, each of which halves what is left."""


@dataclass(frozen=True)
class Coldness:
    """How fast a machine's caches cool down.

    Attributes:
        half_cold_ms: As :data:`HALF_COLD_MS`.
        l2_bytes: Size of a core's own last cache.
    """

    half_cold_ms: float = HALF_COLD_MS
    l2_bytes: float = DEFAULT_L2_BYTES

    def of(self, latency_ms: np.ndarray, weight_bytes: np.ndarray) -> np.ndarray:
        """Return the coldness of networks, (networks,), by their latencies and the bytes of their weights.

        ``x / (x + half_cold_ms)`` with ``x = latency · weights / (weights + 2 L2)``.
        """
        exposed_ms = latency_ms * weight_bytes / (weight_bytes + 2.0 * self.l2_bytes)
        return np.asarray(exposed_ms / (exposed_ms + self.half_cold_ms))

    def latency_ms(self, sums_ms: np.ndarray, weight_bytes: np.ndarray) -> np.ndarray:
        """Return the latencies of networks that take as long as their kernels do at the coldness that they cause, (networks,).

        Args:
            sums_ms: (networks, levels) latencies at each of :data:`LEVELS`.
            weight_bytes: (networks,).
        """
        caused = np.stack([self.of(column, weight_bytes) for column in sums_ms.T], axis=1)
        # The last level that a network's kernels cause at least; the latency lies between there and the next one.
        place = np.clip((caused >= LEVELS).sum(axis=1) - 1, 0, len(LEVELS) - 2)
        rows = np.arange(len(sums_ms))
        first_ms, second_ms = sums_ms[rows, place], sums_ms[rows, place + 1]
        low, high = np.zeros(len(rows)), np.ones(len(rows))
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            causes = self.of(first_ms + middle * (second_ms - first_ms), weight_bytes)
            colder = causes > LEVELS[place] + middle * LEVELS[1]
            low, high = np.where(colder, middle, low), np.where(colder, high, middle)
        return np.asarray(first_ms + high * (second_ms - first_ms))

    def to_json(self) -> dict[str, float]:
        return {"half_cold_ms": self.half_cold_ms, "l2_bytes": self.l2_bytes}

    @classmethod
    def from_json(cls, data: Mapping[str, float]) -> Coldness:
        """Read what :meth:`to_json` wrote.

        Raises:
            ValueError: A number is not positive and finite.
        """
        found = cls(float(data["half_cold_ms"]), float(data["l2_bytes"]))
        for name, value in found.to_json().items():
            if not 0 < value < float("inf"):
                raise ValueError(f"found {name} {value}, expected a positive number")
        return found


def kernel_weight_bytes(configurations: Mapping[str, np.ndarray], precision: str) -> np.ndarray:
    """Return the bytes of the weights of distinct kernels, (kernels,), types one after another."""
    parts = [np.zeros(0)]
    for name, rows in configurations.items():
        kind = kernel_type(name)
        parts.append(np.broadcast_to(kind.quantities(kind.columns(rows)).weight_elements, len(rows)))
    return np.concatenate(parts) * WEIGHT_BYTES.get(precision, 4.0)


def at_coldness(values: np.ndarray, coldness: np.ndarray) -> np.ndarray:
    """Return values of networks at the coldness of each, (networks, ...), from those at levels, (levels, networks, ...)."""
    place = np.minimum((coldness / LEVELS[1]).astype(int), len(LEVELS) - 2)
    rows = np.arange(len(coldness))
    part = ((coldness - LEVELS[place]) / LEVELS[1]).reshape(-1, *[1] * (values.ndim - 2))
    return np.asarray(values[place, rows] * (1 - part) + values[place + 1, rows] * part)
