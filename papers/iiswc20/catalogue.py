"""The dataset's networks as indices, so that all splits share what does not depend on them: how alike two kernels are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from latcast.devices.kernel_covariance import KernelTraits, kernel_covariance
from latcast.devices.network_covariance import KernelShares, LayerShareFit, LayerShareModel
from latcast.kernels.kernel import Kernel, KernelTable


@dataclass(frozen=True)
class Catalogue:
    """Fits as :class:`LayerShareFit` does, with the same results, to networks given as indices.

    Attributes:
        kernels: Of every network.
        likeness: (distinct kernels, distinct kernels) covariance of their efficiencies.
        fit: Learns typical latencies.
    """

    kernels: tuple[tuple[Kernel, ...], ...]
    likeness: np.ndarray
    fit: LayerShareFit

    @classmethod
    def of(cls, kernels: Sequence[Sequence[Kernel]]) -> Catalogue:
        """Of networks by their kernels."""
        fit = LayerShareFit()
        traits = KernelTraits.of(KernelTable.of(kernels))
        return cls(tuple(tuple(found) for found in kernels), kernel_covariance(traits, traits, fit.scales), fit)

    def __call__(self, networks: Sequence[int], pattern: np.ndarray) -> CatalogueModel:
        """See :class:`latcast.devices.network_covariance.NetworkPriorFit`."""
        fitted = self.fit([self.kernels[index] for index in networks], pattern)
        return CatalogueModel(fitted, self, fitted.describe(self.kernels))


@dataclass(frozen=True)
class CatalogueModel:
    """Attributes:
    fitted: Learned from some of the networks.
    catalogue: All networks.
    described: All networks in it.
    """

    fitted: LayerShareModel
    catalogue: Catalogue
    described: KernelShares

    def describe(self, networks: Sequence[int]) -> KernelShares:
        chosen = [int(index) for index in networks]
        return KernelShares(self.described.mean[chosen], self.described.shares[chosen], self.described.traits)

    def covariance(self, first: KernelShares, second: KernelShares) -> np.ndarray:
        found: np.ndarray = first.shares @ self.catalogue.likeness @ second.shares.T
        return found

    def variance(self, described: KernelShares) -> np.ndarray:
        found: np.ndarray = (described.shares @ self.catalogue.likeness * described.shares).sum(axis=1)
        return found
