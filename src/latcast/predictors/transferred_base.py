"""What a predictor of another platform says of a kernel, as one more analytical term.

A kernel's latency on a new platform is modelled as

    Σ coefficient · term + Σ coefficient · latency that a source predicts,

all coefficients non-negative and drawn to those of the whole kernel type where a class has few samples. Where the platforms are
alike, the source's term carries its staircases over and the analytical terms only correct the balance of computing and moving;
where they are not, its coefficient falls to zero and what is left is what would have been fitted from scratch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from latcast.kernels.types import kernel_type
from latcast.predictors.analytical import POOLED, AnalyticalTerms, fit_nonnegative, term_values

if TYPE_CHECKING:
    from latcast.predictors.kernel_predictor import KernelPredictor

FEWEST_OF_A_CLASS = 3
"""Samples below which a class keeps the coefficients of the whole type."""


@dataclass(frozen=True)
class KernelSource:
    """A kernel predictor of another platform.

    Attributes:
        platform: Id of that platform.
        analytical: Its analytical terms; of a bundle only those of the classes of the kernel type.
        predictor: Its kernel predictor.
    """

    platform: str
    analytical: AnalyticalTerms
    predictor: KernelPredictor

    def latency_ms(self, configurations: np.ndarray) -> np.ndarray:
        """What it predicts on its own platform, (kernels,)."""
        return self.predictor.latency_ms(self.analytical, configurations)


@dataclass(frozen=True)
class TransferredBase:
    """Analytical terms with those of sources beside them, for one kernel type.

    Attributes:
        sources: Predictors of other platforms.
        coefficients: Analytical class to (len(TERMS) + sources,); :data:`latcast.predictors.analytical.POOLED` is always there.
    """

    sources: tuple[KernelSource, ...]
    coefficients: Mapping[str, np.ndarray]

    def latency_ms(self, type_name: str, configurations: np.ndarray) -> np.ndarray:
        """Latency of kernels, (kernels,)."""
        pooled = self.coefficients[POOLED]
        classes = _classes(type_name, configurations)
        weights = np.stack([self.coefficients.get(name, pooled) for name in classes]) if classes else np.zeros((0, len(pooled)))
        return np.maximum((_design(type_name, configurations, self.sources) * weights).sum(axis=1), 1e-7)


def fit_transferred_base(
    type_name: str,
    configurations: np.ndarray,
    latency_ms: np.ndarray,
    sources: tuple[KernelSource, ...],
    *,
    strength: float = 1e-3,
) -> TransferredBase:
    """Fits coefficients to timed kernels of the new platform.

    Args:
        type_name: The kernel type.
        configurations: (kernels, fields).
        latency_ms: (kernels,).
        sources: Predictors of other platforms that know the type.
        strength: Weight of the prior, as in :func:`latcast.predictors.analytical.fit_from_kernels`.
    """
    design = _design(type_name, configurations, sources)
    pooled = fit_nonnegative(design, latency_ms, strength=strength)
    coefficients = {POOLED: pooled}
    classes = np.array(_classes(type_name, configurations))
    for name in np.unique(classes):
        rows = classes == name
        count = int(rows.sum())
        if count >= FEWEST_OF_A_CLASS:
            coefficients[str(name)] = fit_nonnegative(design[rows], latency_ms[rows], pooled, strength + 0.3 / count)
    return TransferredBase(sources, coefficients)


def _design(type_name: str, configurations: np.ndarray, sources: tuple[KernelSource, ...]) -> np.ndarray:
    terms = term_values(kernel_type(type_name), configurations)
    return np.column_stack([terms, *(source.latency_ms(configurations) for source in sources)])


def _classes(type_name: str, configurations: np.ndarray) -> list[str]:
    kind = kernel_type(type_name)
    return [str(name) for name in kind.throughput_class(kind.columns(configurations))]
