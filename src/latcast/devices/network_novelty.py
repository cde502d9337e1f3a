"""Uncertainty of a network that no known platform ran, from how unlike its kernels are to those of networks that were run.

The same Gaussian process over kernels' sizes that learned the platforms (:mod:`latcast.predictors.whole_networks`): a network
observes the mean of its kernels' logarithmic factors, weighted by their shares of its latency. What the known networks leave
open of another's is the variance of its forecast, and what two networks share of that is their covariance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from latcast.devices.platform_terms import PlatformTerms
from latcast.predictors.network_terms import NetworkTerms
from latcast.predictors.regressors.gaussian_process import SizeCovariance

NOISE_VARIANCE = 0.03**2
"""Of a network's latency about what its kernels say."""


@dataclass(frozen=True)
class TypeShares:
    """Kernels of one type in several networks.

    Attributes:
        covariance: How alike kernels of the type are.
        points: (points, sizes).
        shares: (networks, points) parts of the networks' latencies.
    """

    covariance: SizeCovariance
    points: np.ndarray
    shares: np.ndarray


@dataclass(frozen=True)
class NetworkNovelty:
    """Attributes:
    reference: One platform, by whose latencies kernels have their shares.
    known: Kernel type to its kernels in the known networks.
    networks: How many networks are known.
    """

    reference: PlatformTerms
    known: Mapping[str, TypeShares]
    networks: int

    @classmethod
    def of(cls, platforms: PlatformTerms, terms: NetworkTerms) -> NetworkNovelty:
        """Of networks that these platforms were learned from; shares are those on the middle one of them."""
        levels = platforms.log_ms(terms)
        relative = levels - levels.mean(axis=1, keepdims=True)
        middle = int(np.argmin(((relative - np.median(relative, axis=0)) ** 2).sum(axis=1)))
        reference = platforms.rows([middle])
        return cls(reference, kernel_shares(reference, terms), terms.counts.shape[0])

    @cached_property
    def _precision(self) -> np.ndarray:
        found = np.zeros((self.networks, self.networks))
        for kernels in self.known.values():
            found += kernels.shares @ kernels.covariance.between(kernels.points, kernels.points) @ kernels.shares.T
        return np.asarray(np.linalg.inv(found + NOISE_VARIANCE * np.eye(self.networks)))

    def left_open(self, terms: NetworkTerms, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Variance left of networks by those that are known.

        Args:
            terms: The networks, under the rules of the reference.
            columns: Which of them others are to be compared with.

        Returns:
            (networks,) variances of their logarithms, and (networks, columns) covariances.
        """
        count = terms.counts.shape[0]
        variance, covariance = np.full(count, NOISE_VARIANCE), np.zeros((count, len(columns)))
        cross = np.zeros((count, self.networks))
        for name, new in kernel_shares(self.reference, terms).items():
            among = new.covariance.between(new.points, new.points)
            variance += ((new.shares @ among) * new.shares).sum(axis=1)
            covariance += new.shares @ (among @ new.shares[columns].T)
            if name in self.known:
                known = self.known[name]
                cross += new.shares @ (new.covariance.between(new.points, known.points) @ known.shares.T)
        explained = cross @ self._precision
        variance -= (explained * cross).sum(axis=1)
        covariance -= explained @ cross[columns].T
        covariance[columns, np.arange(len(columns))] += NOISE_VARIANCE
        return np.maximum(variance, NOISE_VARIANCE), covariance


def kernel_shares(platform: PlatformTerms, terms: NetworkTerms) -> dict[str, TypeShares]:
    """Kernels by type with their shares of the networks' latencies on one platform."""
    latency_ms = platform.kernel_latency_ms(terms)[:, 0]
    total = np.asarray(terms.counts @ latency_ms) + platform.overhead_ms[0]
    found = {}
    for kernels in terms.types:
        factors = platform.factors.get(kernels.name)
        if factors is None:
            continue
        spent = terms.counts[:, kernels.rows].multiply(latency_ms[kernels.rows]).toarray() / total[:, None]
        shares = np.zeros((len(total), len(kernels.points)))
        np.add.at(shares.T, kernels.point_of, spent.T)
        found[kernels.name] = TypeShares(factors.covariance, kernels.points, shares)
    return found
