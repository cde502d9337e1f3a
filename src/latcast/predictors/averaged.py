"""The mean of two predictors of one platform, as one predictor.

Two ways of learning err in different places. Operators that a profiler recorded teach their kernels exactly, and nothing of what
it did not record; whole networks teach everything, but only in sums. The mean of both is a sum over kernels again: each kernel
costs half of what either predictor says that it costs inside a network, each network half of both overheads.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from latcast.predictors.analytical import POOLED, TERMS, AnalyticalTerms
from latcast.predictors.calibration_terms import CalibrationTerms
from latcast.predictors.kernel_predictor import ANALYTICAL, TRANSFERRED, KernelPredictor, Seen
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.transferred_base import KernelSource, TransferredBase


def averaged(first: PlatformPredictor, second: PlatformPredictor) -> PlatformPredictor:
    """The mean of two predictors of a platform under the same fusion rules; platform, rules and card are the first one's.

    A kernel type that only one of them was trained on is estimated by the other one's analytical terms.
    """
    both = (first, second)
    names = sorted({name for predictor in both for name in predictor.kernels})
    return PlatformPredictor(
        first.platform,
        first.rules,
        AnalyticalTerms(_mean_coefficients(both)),
        {name: _mean_of_type(name, both) for name in names},
        CalibrationTerms(constant_ms=sum(predictor.network.constant_ms for predictor in both) / 2),
        card=first.card,
    )


def _mean_of_type(name: str, both: tuple[PlatformPredictor, PlatformPredictor]) -> KernelPredictor:
    known = [predictor.kernels[name] for predictor in both if name in predictor.kernels]
    low = np.min([found.low for found in known], axis=0)
    high = np.max([found.high for found in known], axis=0)
    sources = tuple(_source(predictor, name, low, high) for predictor in both)
    weights = [predictor.network.weights.get(name, 1.0) / 2 for predictor in both]
    coefficients = np.array([*_of_each_kernel(both), *weights])
    samples = max(found.samples for found in known)
    base = TransferredBase(sources, {POOLED: coefficients})
    seen = Seen.union(found.seen for found in known)
    return KernelPredictor(name, TRANSFERRED, None, low, high, samples, base=base, seen=seen)


def _of_each_kernel(both: tuple[PlatformPredictor, PlatformPredictor]) -> np.ndarray:
    """What a kernel costs besides its own latency, as analytical terms, (TERMS,)."""
    per_kernel_ms = sum(predictor.network.per_kernel_ms for predictor in both) / 2
    return np.array([per_kernel_ms if term == "count" else 0.0 for term in TERMS])


def _source(predictor: PlatformPredictor, name: str, low: np.ndarray, high: np.ndarray) -> KernelSource:
    found = predictor.kernels.get(name) or KernelPredictor(name, ANALYTICAL, None, low, high, 0)
    return KernelSource(predictor.platform.id, predictor.analytical, found)


def _mean_coefficients(both: tuple[PlatformPredictor, PlatformPredictor]) -> Mapping[str, np.ndarray]:
    """Analytical terms for kernels of types that neither was trained on."""
    classes = {name for predictor in both for name in predictor.analytical.coefficients}
    tables = [predictor.analytical.coefficients for predictor in both]
    each = _of_each_kernel(both)
    return {name: np.mean([table.get(name, table[POOLED]) for table in tables], axis=0) + each for name in sorted(classes)}
