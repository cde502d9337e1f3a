"""How alike two devices are, from the latencies of a few networks that both ran: their signature.

A device's signature has a level (how fast it is) and a pattern (on which networks it is faster or slower than that). Both
are taken robustly: a phone that throttles while one of the networks runs shall not become another phone by it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

TRIMMED_SHARE = 0.2
"""Of a signature's networks, how many at each end do not count for its level."""

HUBER = 0.1
"""Logarithmic difference from which on a network counts linearly for the distance of two devices."""

LEVEL_WEIGHT = 0.3
"""What a difference of levels counts against one of patterns."""


@dataclass(frozen=True)
class Signature:
    """Attributes:
    pattern: (devices, networks) logarithmic latencies less the typical pattern and the device's level.
    level: (devices,) weighted by :data:`LEVEL_WEIGHT`.
    """

    pattern: np.ndarray
    level: np.ndarray

    def rows(self, chosen: np.ndarray) -> Signature:
        return Signature(self.pattern[chosen], self.level[chosen])


def trimmed_mean(values: np.ndarray) -> np.ndarray:
    """(devices,) mean over networks without the largest and smallest; of one or two, the plain mean."""
    count = values.shape[1]
    cut = max(1, int(TRIMMED_SHARE * count)) if count > 2 else 0
    ordered = np.sort(values, axis=1)
    mean: np.ndarray = ordered[:, cut : count - cut].mean(axis=1)
    return mean


@dataclass(frozen=True)
class SignatureSpace:
    """Signatures on certain networks, in units of how far devices usually lie from each other.

    Attributes:
        typical: (networks,) logarithmic latencies of the typical device, up to a constant.
        centre: Median level.
        scale: Median distance of two devices.
    """

    typical: np.ndarray
    centre: float
    scale: float

    @classmethod
    def of(cls, log_ms: np.ndarray, typical: np.ndarray) -> SignatureSpace:
        """The space that some devices span.

        Args:
            log_ms: (devices, networks) logarithms of their latencies.
            typical: (networks,) the typical pattern.
        """
        level = trimmed_mean(log_ms - typical)
        raw = cls(typical, float(np.median(level)), 1.0)
        signature = raw.signature(log_ms)
        distance = np.sqrt(raw.squared_distance(signature, signature))
        pairs = distance[np.triu_indices(len(log_ms), 1)]
        return cls(typical, raw.centre, float(np.median(pairs)) + 1e-3 if len(pairs) else 1.0)

    def signature(self, log_ms: np.ndarray) -> Signature:
        """(devices, networks) logarithms as signatures."""
        relative = log_ms - self.typical
        level = trimmed_mean(relative)
        return Signature(relative - level[:, None], LEVEL_WEIGHT * (level - self.centre))

    def squared_distance(self, first: Signature, second: Signature) -> np.ndarray:
        """(devices of the first, of the second): mean over networks of the Huber loss, and the difference of levels."""
        apart = np.abs(first.pattern[:, None] - second.pattern[None])
        loss = np.where(apart < HUBER, apart**2, 2 * HUBER * apart - HUBER**2).mean(axis=2)
        squared: np.ndarray = (loss + (first.level[:, None] - second.level[None]) ** 2) / self.scale**2
        return squared

    def product(self, first: Signature, second: Signature) -> np.ndarray:
        """Inner products in the same units."""
        patterns = first.pattern @ second.pattern.T / max(first.pattern.shape[1], 1)
        product: np.ndarray = (patterns + np.outer(first.level, second.level)) / self.scale**2
        return product


@dataclass(frozen=True)
class DeviceScales:
    """Variances that make the covariance of cells, ``Kn ⊗ A + 1[n = n'] ⊗ B`` with ``A = a + b·Kd + f·1[d = d']`` and
    ``B = c + e·Kd``, where ``Kd`` is nearness of signatures plus ``linear`` times their product.

    Attributes:
        typical: a: how far networks differ from their typical latency, on all devices alike.
        alike: b: the same, alike on like devices.
        own: f: the same, on one device alone.
        network: c: what no property of a network tells, on all devices alike.
        network_alike: e: the same, alike on like devices.
        reach: Factor of squared distances in nearness.
        linear: Weight of products.
    """

    typical: float = 1.0
    alike: float = 0.1
    own: float = 0.01
    network: float = 3e-4
    network_alike: float = 3e-3
    reach: float = 0.5
    linear: float = 0.1

    def logarithms(self) -> np.ndarray:
        return np.log([getattr(self, item.name) for item in fields(self)])

    @classmethod
    def of(cls, logarithms: np.ndarray) -> DeviceScales:
        return cls(*np.exp(logarithms).tolist())


PRIOR_SPREAD = np.array([1.5, 2.0, 2.0, 2.0, 2.0, 1.0, 1.0])
"""Standard deviations of the logarithms of :class:`DeviceScales` around their defaults."""


@dataclass(frozen=True)
class DevicePairs:
    """What the covariance of devices is made of.

    Attributes:
        distance: (devices, devices) squared distances.
        product: (devices, devices).
    """

    distance: np.ndarray
    product: np.ndarray

    @classmethod
    def of(cls, space: SignatureSpace, first: Signature, second: Signature) -> DevicePairs:
        return cls(space.squared_distance(first, second), space.product(first, second))

    def covariance(self, scales: DeviceScales, *, same: bool) -> tuple[np.ndarray, np.ndarray]:
        """A and B of :class:`DeviceScales`.

        Args:
            scales: The variances.
            same: Whether rows and columns are the same devices.
        """
        similarity = np.exp(-scales.reach * self.distance) + scales.linear * self.product
        own = scales.own * np.eye(len(similarity)) if same else 0.0
        return scales.typical + scales.alike * similarity + own, scales.network + scales.network_alike * similarity

    def pulled_back(self, scales: DeviceScales, by_a: np.ndarray, by_b: np.ndarray) -> np.ndarray:
        """Derivatives by the logarithms of the scales from those by A and B, of the same devices with themselves."""
        s, near = scales, np.exp(-scales.reach * self.distance)
        similarity = near + s.linear * self.product
        by_similarity = s.alike * by_a + s.network_alike * by_b
        return np.array(
            [
                s.typical * by_a.sum(),
                s.alike * (by_a * similarity).sum(),
                s.own * np.trace(by_a),
                s.network * by_b.sum(),
                s.network_alike * (by_b * similarity).sum(),
                -(by_similarity * near * s.reach * self.distance).sum(),
                s.linear * (by_similarity * self.product).sum(),
            ]
        )
