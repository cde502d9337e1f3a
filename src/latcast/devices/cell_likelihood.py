"""Likelihood and posterior of measured cells under a separable Gaussian process.

Cells (device d, network n) have covariance ``Kn[n, n'] A[d, d'] + 1[n = n'] B[d, d']``, each device an offset of its own that
is free, and noise of its own. Where all cells of the table were measured, the eigenvectors of ``Kn`` split the problem into
one of the devices' size for each network (:class:`Grid`); otherwise all cells are treated at once (:class:`Scattered`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from latcast.errors import TrainingError

OFFSET_VARIANCE = 25.0
"""Of a device's offset where it cannot be projected out: e^5 times faster or slower is nothing unusual."""


@dataclass(frozen=True)
class Derivatives:
    """Negative logarithmic likelihood, with its derivatives by A, B and the devices' noise variances."""

    value: float
    by_a: np.ndarray
    by_b: np.ndarray
    by_noise: np.ndarray


@dataclass(frozen=True)
class Posterior:
    """The mean of the process after the cells were seen, as weights.

    Attributes:
        weights: (known networks, devices): the mean of another cell is its covariance with all cells times these.
        offset: (devices,) each device's offset.
    """

    weights: np.ndarray
    offset: np.ndarray


class Cells(Protocol):
    """Measured cells."""

    @property
    def values(self) -> np.ndarray:
        """(devices, networks) logarithms less the networks' means, NaN where not measured."""

    def likelihood(self, a: np.ndarray, b: np.ndarray, noise: np.ndarray) -> Derivatives:
        """See :class:`Derivatives`."""

    def posterior(self, a: np.ndarray, b: np.ndarray, noise: np.ndarray) -> Posterior:
        """See :class:`Posterior`."""

    def explained(self, a: np.ndarray, b: np.ndarray, noise: np.ndarray) -> Explained:
        """For the variance of other cells."""

    def with_values(self, values: np.ndarray) -> Cells:
        """The same cells with other values."""


class Explained(Protocol):
    """How much of the variance of a new device's cells the measured ones explain."""

    def root(self, cross: np.ndarray, place: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """(networks, any): the explained covariance of networks i and j is the product of rows i and j.

        Args:
            cross: (networks, known networks) covariance of the wanted networks with the known ones.
            place: (networks,) index among the known networks, -1 for others.
            a, b: (devices,) covariance of the new device with the known ones.
        """


def _positions(place: np.ndarray, known: int) -> np.ndarray:
    """(networks, known networks) ones where a wanted network is a known one."""
    table = np.zeros((len(place), known))
    inside = place >= 0
    table[inside, place[inside]] = 1.0
    return table


def _cholesky(matrix: np.ndarray) -> np.ndarray:
    try:
        factor: np.ndarray = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError as problem:
        raise TrainingError(
            "the covariance of the measured cells is not positive definite; measure different networks"
        ) from problem
    return factor


class Grid:
    """All cells of a table of devices and networks.

    Args:
        networks: (networks, networks) covariance ``Kn``.
        values: (devices, networks) logarithms less the networks' means.
    """

    def __init__(self, networks: np.ndarray, values: np.ndarray) -> None:
        count = len(networks)
        # Differences between networks only: the devices' offsets fall out.
        basis = np.linalg.qr(np.hstack([np.ones((count, 1)), np.eye(count)[:, : count - 1]]))[0][:, 1:]
        self.eigenvalues, rotation = np.linalg.eigh(basis.T @ networks @ basis)
        self.directions = basis @ rotation
        self.networks = networks
        self.values = values

    def with_values(self, values: np.ndarray) -> Grid:
        """The same networks with other values."""
        grid = object.__new__(Grid)
        grid.eigenvalues, grid.directions, grid.networks, grid.values = self.eigenvalues, self.directions, self.networks, values
        return grid

    def _blocks(self, a: np.ndarray, b: np.ndarray, noise: np.ndarray) -> np.ndarray:
        return self.eigenvalues[:, None, None] * a + (b + np.diag(noise))

    @cached_property
    def _projected(self) -> np.ndarray:
        return (self.values @ self.directions).T

    def likelihood(self, a: np.ndarray, b: np.ndarray, noise: np.ndarray) -> Derivatives:
        """See :class:`Cells`."""
        blocks = self._blocks(a, b, noise)
        factor = _cholesky(blocks)
        inverse = np.linalg.inv(blocks)
        right = self._projected
        solved = np.einsum("nij,nj->ni", inverse, right)
        value = 0.5 * float((right * solved).sum()) + float(np.log(np.diagonal(factor, axis1=1, axis2=2)).sum())
        by_a = 0.5 * (np.tensordot(self.eigenvalues, inverse, 1) - (solved * self.eigenvalues[:, None]).T @ solved)
        by_b = 0.5 * (inverse.sum(axis=0) - solved.T @ solved)
        return Derivatives(value, by_a, by_b, np.diag(by_b).copy())

    def posterior(self, a: np.ndarray, b: np.ndarray, noise: np.ndarray) -> Posterior:
        """See :class:`Cells`."""
        solved = np.linalg.solve(self._blocks(a, b, noise), self._projected[:, :, None])[:, :, 0]
        weights = self.directions @ solved
        explained = self.networks @ weights @ a + weights @ (b + np.diag(noise))
        return Posterior(weights, (self.values.T - explained).mean(axis=0))

    def explained(self, a: np.ndarray, b: np.ndarray, noise: np.ndarray) -> GridExplained:
        """See :class:`Cells`."""
        return GridExplained(self.directions, np.linalg.inv(self._blocks(a, b, noise)))


@dataclass(frozen=True)
class GridExplained:
    """See :class:`Explained`.

    Attributes:
        directions: (known networks, directions).
        inverse: (directions, devices, devices).
    """

    directions: np.ndarray
    inverse: np.ndarray

    def root(self, cross: np.ndarray, place: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """See :class:`Explained`."""
        by_a, by_b = self.inverse @ a, self.inverse @ b
        aa, ab, bb = by_a @ a, by_a @ b, by_b @ b
        smooth, own = cross @ self.directions, _positions(place, len(self.directions)) @ self.directions
        # The factor of [[aa, ab], [ab, bb]] of each direction; bb may be 0 where networks have nothing of their own.
        first = np.sqrt(np.maximum(aa, 1e-300))
        second = ab / first
        third = np.sqrt(np.maximum(bb - second**2, 0.0))
        return np.hstack([smooth * first + own * second, own * third])


class Scattered:
    """Some cells of a table.

    Args:
        networks: (networks, networks) covariance ``Kn``.
        values: (devices, networks) logarithms less the networks' means, NaN where not measured.
    """

    def __init__(self, networks: np.ndarray, values: np.ndarray) -> None:
        self.networks, self.values = networks, values
        self.device, self.network = np.nonzero(~np.isnan(values))
        self._right = values[self.device, self.network]
        self._between = networks[np.ix_(self.network, self.network)]
        self._same_network = self.network[:, None] == self.network[None]

    def with_values(self, values: np.ndarray) -> Scattered:
        """The same cells with other values."""
        return Scattered(self.networks, np.where(np.isnan(self.values), np.nan, values))

    def _covariance(self, a: np.ndarray, b: np.ndarray, noise: np.ndarray) -> np.ndarray:
        rows = np.ix_(self.device, self.device)
        covariance = self._between * (a + 0.0)[rows] + self._same_network * b[rows]
        covariance += OFFSET_VARIANCE * (self.device[:, None] == self.device[None])
        covariance[np.diag_indices_from(covariance)] += noise[self.device]
        return covariance

    def likelihood(self, a: np.ndarray, b: np.ndarray, noise: np.ndarray) -> Derivatives:
        """See :class:`Cells`."""
        covariance = self._covariance(a, b, noise)
        factor = _cholesky(covariance)
        inverse = np.linalg.inv(covariance)
        solved = inverse @ self._right
        value = 0.5 * float(self._right @ solved) + float(np.log(np.diag(factor)).sum())
        inner = 0.5 * (inverse - np.outer(solved, solved))
        devices = len(self.values)
        member = np.zeros((len(self.device), devices))
        member[np.arange(len(self.device)), self.device] = 1.0
        by_a = member.T @ (inner * self._between) @ member
        by_b = member.T @ (inner * self._same_network) @ member
        return Derivatives(value, by_a, by_b, np.bincount(self.device, np.diag(inner), devices))

    def posterior(self, a: np.ndarray, b: np.ndarray, noise: np.ndarray) -> Posterior:
        """See :class:`Cells`."""
        from scipy.linalg import cho_solve

        solved = cho_solve((_cholesky(self._covariance(a, b, noise)), True), self._right)
        weights = np.zeros(self.values.shape[::-1])
        weights[self.network, self.device] = solved
        return Posterior(weights, OFFSET_VARIANCE * weights.sum(axis=0))

    def explained(self, a: np.ndarray, b: np.ndarray, noise: np.ndarray) -> ScatteredExplained:
        """See :class:`Cells`."""
        return ScatteredExplained(self.device, self.network, _cholesky(self._covariance(a, b, noise)), len(self.networks))


@dataclass(frozen=True)
class ScatteredExplained:
    """See :class:`Explained`.

    Attributes:
        device, network: (cells,) what each cell is of.
        factor: (cells, cells) lower triangle.
        known: Number of known networks.
    """

    device: np.ndarray
    network: np.ndarray
    factor: np.ndarray
    known: int

    def root(self, cross: np.ndarray, place: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """See :class:`Explained`."""
        from scipy.linalg import solve_triangular

        own = _positions(place, self.known)
        covariance = cross[:, self.network] * a[self.device] + own[:, self.network] * b[self.device]
        solved: np.ndarray = solve_triangular(self.factor, covariance.T, lower=True).T
        return solved
