"""Networks as sums over kernels: counts of kernels, their analytical terms, and the covariance of kernels of one type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from latcast.extras import require
from latcast.kernels.kernel import Kernel, KernelTable
from latcast.kernels.types import KernelType, kernel_type
from latcast.predictors.analytical import TERMS, coarse_class, term_values
from latcast.predictors.kernel_predictor import feature_matrix, feature_names
from latcast.predictors.regressors.gaussian_process import GaussianProcessCorrection, SizeCovariance

_CONVOLUTION_SIZES = {"group_in_channels": 2.0, "out_channels": 2.0, "output_pixels": 2.0, "kernel_h": 1.0, "stride_h": 1.0}
_LINEAR_SIZES = {"in_features": 2.0, "out_features": 2.0, "rows": 2.0}
_OTHER_SIZES = {"input_elements": 3.0, "output_elements": 3.0, "channels": 3.0}
"""Feature to how many doublings of it make two kernels different."""

SMOOTH_DEVIATION = 0.3
OWN_DEVIATION = 0.1
"""Standard deviations of a factor's logarithm: shared by close sizes, by the same sizes."""

MOST_POINTS = 3000
"""Kernels of a type beyond which sizes within a quarter of a doubling count as the same."""


def size_lengths(kind: KernelType) -> Mapping[str, float]:
    """Return the features that distinguish kernels of a type, and their lengths."""
    known = set(feature_names(kind))
    if known.issuperset(_CONVOLUTION_SIZES):
        return _CONVOLUTION_SIZES
    if known.issuperset(_LINEAR_SIZES):
        return _LINEAR_SIZES
    return {name: length for name, length in _OTHER_SIZES.items() if name in known}


def size_covariance(kind: KernelType, smooth: float = SMOOTH_DEVIATION) -> SizeCovariance:
    """Return the covariance of kernels of a type; ``smooth`` is the deviation that close sizes share."""
    lengths = np.array(list(size_lengths(kind).values()))
    return SizeCovariance(lengths, 0, level=0.0, path=0.0, smooth=smooth, own=OWN_DEVIATION)


@dataclass(frozen=True)
class TypeSizes:
    """The distinct kernels of one type.

    Attributes:
        name: The type.
        rows: Their place among all distinct kernels.
        configurations: (kernels, fields).
        sizes: (kernels, sizes) of :func:`size_lengths`.
        smooth: As for :func:`size_covariance`.
    """

    name: str
    rows: slice
    configurations: np.ndarray
    sizes: np.ndarray
    smooth: float = SMOOTH_DEVIATION

    @cached_property
    def point_of(self) -> np.ndarray:
        """(kernels,) index of the point that represents each kernel."""
        rounded = self.sizes
        if len(rounded) > MOST_POINTS:
            rounded = np.round(2.0 ** (np.round(4 * np.log2(np.maximum(rounded, 1.0))) / 4))
        return np.unique(rounded, axis=0, return_index=True, return_inverse=True)[2].reshape(-1)

    @cached_property
    def points(self) -> np.ndarray:
        """(points, sizes), one of the kernels that each represents."""
        first = np.full(self.point_of.max() + 1, -1)
        first[self.point_of[::-1]] = np.arange(len(self.point_of))[::-1]
        return self.sizes[first]

    @cached_property
    def covariance(self) -> np.ndarray:
        """(points, points)."""
        return size_covariance(kernel_type(self.name), self.smooth).between(self.points, self.points)

    def factor(self, weights: np.ndarray) -> GaussianProcessCorrection:
        """Return the factor whose points have these weights, (points,)."""
        return GaussianProcessCorrection.of(size_covariance(kernel_type(self.name), self.smooth), self.points, weights)


@dataclass(frozen=True)
class NetworkTerms:
    """Networks in the form that learning from their latencies works on.

    Attributes:
        counts: (networks, kernels), sparse: how often each distinct kernel occurs.
        values: (kernels, terms).
        classes: Coarse classes of the kernels.
        class_of: (kernels,) index into ``classes``.
        types: The kernels by type, in order.
        terms: Names of the columns of ``values``.
    """

    counts: Any
    values: np.ndarray
    classes: tuple[str, ...]
    class_of: np.ndarray
    types: tuple[TypeSizes, ...]
    terms: tuple[str, ...] = TERMS

    @classmethod
    def of(
        cls,
        networks: Sequence[Sequence[Kernel]],
        terms: Sequence[str] = TERMS,
        smooth: Callable[[str], float] = lambda _: SMOOTH_DEVIATION,
    ) -> NetworkTerms:
        """Return the terms of networks given by their kernels.

        Args:
            networks: Kernels of each.
            terms: Which, as for :func:`latcast.predictors.analytical.term_values`.
            smooth: Kernel type to the deviation of the factor that its close sizes share.

        Raises:
            MissingExtraError: SciPy is not installed.
        """
        require("learning from whole networks", "scipy")
        from scipy.sparse import csr_matrix

        table = KernelTable.of(networks)
        values, names, types = [], [], []
        start = 0
        for name, rows in table.configurations.items():
            kind = kernel_type(name)
            values.append(term_values(kind, rows, terms))
            names += [coarse_class(str(found)) for found in kind.throughput_class(kind.columns(rows))]
            sizes = feature_matrix(kind, rows, tuple(size_lengths(kind)))
            types.append(TypeSizes(name, slice(start, start + len(rows)), rows, sizes, smooth(name)))
            start += len(rows)
        classes = tuple(sorted(set(names)))
        place = {name: index for index, name in enumerate(classes)}
        shape = (table.networks, start)
        counts = csr_matrix((np.ones(len(table.network)), (table.network, table.kernel)), shape=shape)
        counts.sum_duplicates()
        stacked = np.concatenate(values) if values else np.zeros((0, len(terms)))
        class_of = np.array([place[name] for name in names], dtype=np.int64)
        return cls(counts, stacked, classes, class_of, tuple(types), tuple(terms))

    @cached_property
    def class_sums(self) -> np.ndarray:
        """(networks, classes x terms + 1): summed terms by class, and 1 for the overhead."""
        kernels, width = self.values.shape
        design = np.zeros((kernels, len(self.classes), width))
        design[np.arange(kernels), self.class_of] = self.values
        sums = self.counts @ design.reshape(kernels, -1)
        return np.hstack([sums, np.ones((self.counts.shape[0], 1))])

    def kernel_latency_ms(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the latency of each kernel by coefficients (classes x terms,)."""
        table = coefficients.reshape(len(self.classes), len(self.terms))
        return np.asarray((self.values * table[self.class_of]).sum(axis=1))
