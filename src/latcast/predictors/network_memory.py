"""Networks that known platforms ran and those that a device measured itself, and what both tell of other networks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

SAME = 0.9999
"""Similarity from which on two networks have the same kernels: their FLOPs, say, differ by less than 0.3 %."""

ALIKE = 0.1
"""Length scale: distance of two networks' places over which their errors become independent."""


NEAR, NEAR_SHARE = 0.5, 0.8
"""Length over which a measured network tells how far the forecast of another is off, and the part of the variance that is gone
where both are at one place."""


def nearness(places: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """Return how near networks are to the nearest one measured on the same device (0 to 1), (networks,).

    Args:
        places: (networks, places) as in :func:`latcast.predictors.network_features.network_place`.
        measured: (measured networks, places).
    """
    return _nearness(nearest_of(places, measured)[1])


def _nearness(square: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(-0.5 * square / NEAR**2))


EXTRAPOLATED = 0.15
"""Deviation that is added for each e-fold by which a forecast lies beyond all latencies that were measured on the device."""


def variance_left(near: np.ndarray) -> np.ndarray:
    """Return the part of the variance of networks' forecasts that measured networks leave, (networks,), from :func:`nearness`."""
    return np.asarray(1 - NEAR_SHARE * near)


def carried(residual: np.ndarray, known: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Return the part of the nearest measured network's residual that counts for a network, each (networks,).

    It tells nothing of networks that other platforms ran, as their offset is known.

    Args:
        residual: Of the nearest measured network.
        known: See :meth:`NetworkMemory.known`.
        near: See :func:`nearness`.
    """
    return (1 - known) * NEAR_SHARE * near * residual


WEIGHTS = 2
"""Coordinate of places that distances leave out: a classifier for other classes is half of a small network's weights, and hardly
any of its latency."""


def squares_apart(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the squared distances of places, (first, second)."""
    first, second = np.delete(first, WEIGHTS, axis=1), np.delete(second, WEIGHTS, axis=1)
    return np.maximum((first**2).sum(axis=1)[:, None] + (second**2).sum(axis=1)[None] - 2 * first @ second.T, 0.0)


def nearest_of(places: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest of known places to each, 0 where none is known, and its squared distance, each (networks,)."""
    if not len(known) or not len(places):
        return np.zeros(len(places), dtype=np.int64), np.full(len(places), np.inf)
    square = squares_apart(places, known)
    nearest = square.argmin(axis=1)
    return nearest, square[np.arange(len(places)), nearest]


def likeness(square: np.ndarray) -> np.ndarray:
    """Return how far networks are alike (0 to 1) by the squared distances of their places."""
    return np.asarray(np.exp(-0.5 * square / ALIKE**2))


class NearestMeasured(NamedTuple):
    """The network nearest to each among those that a device itself measured, arrays (networks,).

    Attributes:
        near: See :func:`nearness`.
        residual: Of the nearest; see :class:`NetworkMemory`.
        measured_ms: Its latency where it is the same network, otherwise 0.
    """

    near: np.ndarray
    residual: np.ndarray
    measured_ms: np.ndarray


@dataclass(frozen=True)
class NetworkMemory:
    """Networks that known platforms ran, and by how much those like the device deviate on each from what their states say.

    Attributes:
        places: (networks, places) as in :func:`latcast.predictors.network_features.network_place`.
        offsets: (networks,) of the logarithm of the latency; 0 where platforms disagree or none ran it.
        explained: Part of the noise's variance that is gone for a network with an offset.
        ran: (networks,) whether any platform of the device's kind of unit, and design of NPU, ran each, be it one alone.
        measured_places: (measured networks, places) of those that the device itself ran, be they in the memory or not.
        measured_ms: (measured networks,) their latencies.
        measured_residual: (measured networks,) logarithm of each over what the members say of it; 0 where it is not to count for
            other networks.
    """

    places: np.ndarray
    offsets: np.ndarray
    explained: float
    ran: np.ndarray
    measured_places: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    measured_ms: np.ndarray = field(default_factory=lambda: np.zeros(0))
    measured_residual: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def with_measured(self, places: np.ndarray, log_ms: np.ndarray, residual: np.ndarray | None = None) -> NetworkMemory:
        """Keep what the device measured of networks, the geometric mean of each; of no networks, forget what it measured.

        Args:
            places: (measured networks, places).
            log_ms: (measured networks,) logarithms of the latencies.
            residual: (measured networks,) their logarithms over what the members say; None where it is to count for no other.
        """
        same = likeness(squares_apart(places, places)) > SAME
        mean_log_ms, mean_residual = (
            same @ values / same.sum(axis=1) for values in (log_ms, np.zeros(len(log_ms)) if residual is None else residual)
        )
        return replace(self, measured_places=places, measured_ms=np.exp(mean_log_ms), measured_residual=mean_residual)

    def nearest_measured(self, places: np.ndarray) -> NearestMeasured:
        """Return what the device itself measured near networks at some places, (networks, places)."""
        nearest, square = nearest_of(places, self.measured_places)
        if not len(self.measured_ms):
            return NearestMeasured(*np.zeros((3, len(places))))
        measured_ms = np.where(likeness(square) > SAME, self.measured_ms[nearest], 0.0)
        return NearestMeasured(_nearness(square), self.measured_residual[nearest], measured_ms)

    def recalled(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the offset of networks, and how far it is known (0 to 1), each (networks,)."""
        return self.recalled_of(*self.nearest(places))

    def nearest(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the network of the memory that is nearest to each, and how far the two are alike (0 to 1), each (networks,)."""
        nearest, square = nearest_of(places, self.places)
        return nearest, likeness(square)

    def recalled_of(self, nearest: np.ndarray, alike: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return :meth:`recalled` from the result of :meth:`nearest`."""
        if not len(self.offsets):
            return alike, alike
        offset = self.offsets[nearest]
        return alike * offset, alike * (offset != 0)

    def beyond(self, log_ms: np.ndarray) -> np.ndarray:
        """Return the deviation of forecasts by how far they lie above, or below (negative), all latencies that the device itself
        measured, (networks,)."""
        if not len(self.measured_ms):
            return np.zeros(len(log_ms))
        measured = np.log(self.measured_ms)
        return np.asarray(EXTRAPOLATED * (log_ms - np.clip(log_ms, measured.min(), measured.max())))

    def known(self, nearest: np.ndarray, alike: np.ndarray) -> np.ndarray:
        """Return how far platforms of the kind ran networks (0 to 1), (networks,), from the result of :meth:`nearest`."""
        return alike * self.ran[nearest] if len(self.ran) else alike


NO_MEMORY = NetworkMemory(np.zeros((0, 0)), np.zeros(0), 0.0, np.zeros(0, dtype=bool))
