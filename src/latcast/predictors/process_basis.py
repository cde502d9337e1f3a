"""The basis of the process: which networks and kernels misfit alike.

A platform's misfit is smooth over what places a network among others (its work, memory, width, shares of terms) and over the
sizes of its kernels. Both processes are written on a few points (Nyström), so that a platform has a coefficient a point and the
cost of fitting grows with the observations alone. What the points leave open of a network's variance is its novelty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from latcast.predictors.network_features import (
    KERNEL_GROUPS,
    TERM_NAMES,
    NetworkFeatures,
    added,
    network_place,
    network_terms,
)

PLACE_LENGTH = 2.0
"""Length over which networks misfit alike, in units of :attr:`NetworkFeatures.place`."""

SIZE_LENGTHS = np.array([2.0, 2.0, 2.5, 1.0, 1.0])
"""Doublings of each size over which kernels misfit alike."""


@dataclass(frozen=True)
class ProcessBasis:
    """Attributes:
    places: (points, places) networks that represent all.
    place_root: (points, points) inverse root of their covariance.
    group: (points,) group of the kernels that represent all.
    sizes: (points, sizes).
    size_root: (points, points).
    coefficients: (terms,) logarithms by which the shares of kernels are taken.
    """

    places: np.ndarray
    place_root: np.ndarray
    group: np.ndarray
    sizes: np.ndarray
    size_root: np.ndarray
    coefficients: np.ndarray

    @classmethod
    def of(cls, networks: NetworkFeatures, coefficients: np.ndarray, points: int = 60, kernel_points: int = 60) -> ProcessBasis:
        """Choose points that represent networks: each next one is the farthest from those chosen."""
        chosen = farthest(networks.place, points)
        places = networks.place[chosen]
        share = kernel_shares(networks, coefficients)
        weight = np.bincount(networks.counts[1], weights=share, minlength=len(networks.kernels.terms))
        kernels = networks.kernels
        where = np.column_stack([kernels.sizes / SIZE_LENGTHS, 4.0 * np.eye(len(KERNEL_GROUPS))[kernels.group]])
        picked = farthest(where, kernel_points, weight)
        group, sizes = kernels.group[picked], kernels.sizes[picked]
        return cls(
            places, _root(_alike(places, places, PLACE_LENGTH)), group, sizes,
            _root(_kernels_alike(group, sizes, group, sizes)), coefficients,
        )  # fmt: skip

    @property
    def network_size(self) -> int:
        """Columns of the basis that come from a network's place; the others come from its kernels."""
        return int(self.place_root.shape[1])

    @property
    def size(self) -> int:
        """Columns of the basis."""
        return int(self.place_root.shape[1] + self.size_root.shape[1])

    def of_networks(self, networks: NetworkFeatures) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the basis of networks, (networks, basis), and the variance it leaves of both processes, each (networks,)."""
        return self.of_sums(networks.sums, self.kernel_sums(networks))

    def kernel_sums(self, networks: NetworkFeatures) -> np.ndarray:
        """Return sums over a network's kernels, (networks, kernel basis + 2): its latency by :attr:`coefficients`, the same
        times the kernels' basis, and times what that leaves open."""
        kernels = networks.kernels
        value = kernels.terms @ np.exp(self.coefficients)
        by_kernel, left = self.of_kernels(kernels.group, kernels.sizes)
        return added(np.column_stack([value, value[:, None] * by_kernel, value * np.sqrt(left)]), networks.counts, len(networks))

    def of_sums(self, sums: np.ndarray, kernel_sums: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return :meth:`of_networks` from :attr:`NetworkFeatures.sums` and :meth:`kernel_sums`.

        What is open of the kernels of one network is taken to be alike, as a block that no device ran is repeated.
        """
        by_place = _alike(network_place(sums), self.places, PLACE_LENGTH) @ self.place_root
        total = network_terms(sums) @ np.exp(self.coefficients)
        share = kernel_sums[:, 1:] / total[:, None]
        return (
            np.hstack([by_place, share[:, :-1]]),
            np.clip(1 - (by_place**2).sum(axis=1), 0, 1),
            np.clip(share[:, -1], 0, 1) ** 2,
        )

    def of_kernels(self, group: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the kernels' part of the basis, (kernels, points), and the variance outside it, (kernels,)."""
        found = _kernels_alike(group, sizes, self.group, self.sizes) @ self.size_root
        return found, np.clip(1 - (found**2).sum(axis=1), 0, 1)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the basis as arrays."""
        return {
            "basis.places": self.places, "basis.place_root": self.place_root, "basis.group": self.group,
            "basis.sizes": self.sizes, "basis.size_root": self.size_root, "basis.coefficients": self.coefficients,
        }  # fmt: skip

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> ProcessBasis:
        """Rebuild a basis from :meth:`arrays`.

        Raises:
            ValueError: The arrays do not belong together.
        """
        places, place_root, group, sizes, size_root, coefficients = (
            np.asarray(arrays[f"basis.{name}"], dtype=np.float64)
            for name in ("places", "place_root", "group", "sizes", "size_root", "coefficients")
        )
        shapes = (places.ndim, place_root.shape[:1], sizes.shape, size_root.shape[:1], coefficients.shape)
        expected = (2, places.shape[:1], (len(group), len(SIZE_LENGTHS)), group.shape, (len(TERM_NAMES),))
        if (
            shapes != expected
            or place_root.ndim != 2
            or size_root.ndim != 2
            or not ((group >= 0) & (group < len(KERNEL_GROUPS))).all()
        ):
            raise ValueError(f"found a basis of shapes {shapes}, expected {expected}")
        return cls(places, place_root, group.astype(np.int64), sizes, size_root, coefficients)


def kernel_shares(networks: NetworkFeatures, coefficients: np.ndarray) -> np.ndarray:
    """Return the part of its network's latency that each kernel takes by some coefficients, (occurrences,)."""
    network, kernel, count = networks.counts
    value = (networks.kernels.terms @ np.exp(coefficients))[kernel] * count
    total = networks.terms @ np.exp(coefficients)
    return value / total[network]


def farthest(where: np.ndarray, points: int, weight: np.ndarray | None = None) -> np.ndarray:
    """Choose rows that cover all: each next one has the greatest weighted distance from those chosen."""
    weight = np.ones(len(where)) if weight is None else np.sqrt(weight / weight.max())
    distance = ((where - np.average(where, axis=0, weights=weight)) ** 2).sum(axis=1)
    chosen = [int(np.argmin(distance + (weight < np.median(weight)) * 1e9))]
    nearest = ((where - where[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < min(points, len(where)):
        best = int(np.argmax(nearest * weight))
        if nearest[best] <= 1e-9:
            break
        chosen.append(best)
        nearest = np.minimum(nearest, ((where - where[best]) ** 2).sum(axis=1))
    return np.array(chosen)


def _alike(first: np.ndarray, second: np.ndarray, length: float) -> np.ndarray:
    square = (first**2).sum(axis=1)[:, None] + (second**2).sum(axis=1)[None] - 2 * first @ second.T
    return np.exp(-0.5 * np.maximum(square, 0) / length**2)


def _kernels_alike(group: np.ndarray, sizes: np.ndarray, other_group: np.ndarray, other_sizes: np.ndarray) -> np.ndarray:
    same = group[:, None] == other_group[None]
    return same * (0.3 + 0.7 * _alike(sizes / SIZE_LENGTHS, other_sizes / SIZE_LENGTHS, 1.0))


def _root(covariance: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    kept = values > 1e-4 * values.max()
    return vectors[:, kept] / np.sqrt(values[kept])
