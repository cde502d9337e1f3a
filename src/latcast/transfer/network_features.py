"""Networks as vectors of fixed length: what their kernels of each class compute and move, added up.

Unlike layers one after the other, the length does not depend on the deepest network, and a layer that stands one place further
on changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from latcast.kernels.kernel import Kernel, KernelTable
from latcast.kernels.types import kernel_type
from latcast.predictors.physical import TERMS, term_values
from latcast.transfer.kernel_covariance import LANES, KernelTraits

UNIT = np.array([1e6, 1e6, 1e6, 1.0])
"""What a term is counted in: millions of FLOPs, elements and weights; kernels."""


@dataclass(frozen=True)
class NetworkFeatures:
    """Attributes:
    classes: Physical classes of the known networks; kernels of another class count in the totals alone.
    """

    classes: tuple[str, ...]

    @classmethod
    def of(cls, networks: Sequence[Sequence[Kernel]]) -> NetworkFeatures:
        """For some known networks, by their kernels."""
        return cls(tuple(sorted(set(KernelTraits.of(KernelTable.of(networks)).classes))))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features, in order."""
        blocks = (*self.classes, "all", *(f"channels no multiple of {lanes}" for lanes in LANES))
        return tuple(f"{block}: {term}" for block in blocks for term in TERMS)

    def features(self, networks: Sequence[Sequence[Kernel]]) -> np.ndarray:
        """(networks, features): ``log(1 + sum)`` of each term over the kernels of each class, of all, and of those whose
        channels are no multiple of a vector length."""
        table = KernelTable.of(networks)
        traits = KernelTraits.of(table)
        parts = [term_values(kernel_type(name), rows) for name, rows in table.configurations.items()]
        terms = (np.concatenate(parts) if parts else np.zeros((0, len(TERMS)))) / UNIT
        members = [traits.classes == name for name in self.classes]
        members.append(np.ones(len(traits), dtype=bool))
        members += [traits.misaligned[:, 2 * index : 2 * index + 2].any(axis=1) for index in range(len(LANES))]
        blocks = [table.sum_by_network(terms * inside[:, None]) for inside in members]
        found: np.ndarray = np.log1p(np.hstack(blocks))
        return found
