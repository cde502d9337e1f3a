"""Kernel predictors from those of other platforms and a few samples.

The sources' predictions are further analytical terms; boosted trees learn what these leave. This replaces LitePred's fine-tuned
perceptron (§4.3). Cross-validation on a type's samples chooses between sources, sources with trees, and training from scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from latcast.kernels.types import kernel_type
from latcast.predictors.analytical import AnalyticalTerms, fit_from_kernels
from latcast.predictors.kernel_predictor import (
    ANALYTICAL_GBDT,
    FEW_SAMPLES,
    TRANSFERRED,
    KernelPredictor,
    KernelSource,
    Seen,
    TransferredBase,
    feature_matrix,
    feature_names,
    fit_kernel_predictor,
    fit_transferred_base,
)
from latcast.predictors.platform_predictor import PlatformPredictor

FOLDS = 3

FEWEST_FOR_CHOICE = 15
"""Samples below which nothing is cross-validated: the base alone is taken, which hardly overfits."""

FEWEST_FOR_TREES = 60
"""Samples below which trees are not tried."""

MOST_SOURCES = 3
"""Most similar predictors whose terms stand side by side."""

SCRATCH, BASE, TREES = "from scratch", "sources", "sources and trees"
"""The ways between which samples decide."""


@dataclass(frozen=True)
class Transferred:
    """A kernel predictor of the new platform and how it came about.

    Attributes:
        predictor: Trained on all samples.
        way: :data:`SCRATCH`, :data:`BASE` or :data:`TREES`.
        errors: Mean relative error of each way that was tried, by cross-validation on the samples.
    """

    predictor: KernelPredictor
    way: str
    errors: Mapping[str, float]


def kernel_source(predictor: PlatformPredictor, type_name: str) -> KernelSource:
    """Return a platform's predictor of a kernel type as a source."""
    return KernelSource(predictor.platform.id, predictor.analytical, predictor.kernels[type_name])


def fit_transferred(
    type_name: str,
    configurations: np.ndarray,
    latency_ms: np.ndarray,
    analytical: AnalyticalTerms,
    sources: Sequence[KernelSource],
    *,
    seed: int = 0,
) -> Transferred:
    """Train the predictor of one kernel type.

    Args:
        type_name: The kernel type.
        configurations: (samples, fields).
        latency_ms: (samples,).
        analytical: Terms fitted to all samples of the new platform, for training from scratch.
        sources: Predictors of other platforms, most similar first; the first :data:`MOST_SOURCES` are taken.
        seed: Of folds and trees.
    """
    chosen = tuple(sources[:MOST_SOURCES])
    if not chosen:
        scratch = fit_kernel_predictor(type_name, configurations, latency_ms, analytical, seed=seed)
        return Transferred(scratch, SCRATCH, {})
    makers: dict[str, Callable[[np.ndarray], KernelPredictor]] = {
        BASE: lambda rows: _on_sources(type_name, configurations[rows], latency_ms[rows], chosen, trees=False, seed=seed)
    }
    if len(latency_ms) >= FEWEST_FOR_TREES:
        makers[TREES] = lambda rows: _on_sources(type_name, configurations[rows], latency_ms[rows], chosen, trees=True, seed=seed)
    if len(latency_ms) < FEWEST_FOR_CHOICE:
        return Transferred(makers[BASE](np.arange(len(latency_ms))), BASE, {})
    fold = np.random.default_rng(seed).permutation(np.arange(len(latency_ms)) % FOLDS)
    errors = {way: _cross_validated(make, configurations, latency_ms, fold, analytical) for way, make in makers.items()}
    errors[SCRATCH] = _scratch_error(type_name, configurations, latency_ms, fold, seed)
    way = min(errors, key=lambda name: errors[name])
    if way == SCRATCH:
        predictor = fit_kernel_predictor(type_name, configurations, latency_ms, analytical, seed=seed)
    else:
        predictor = makers[way](np.arange(len(latency_ms)))
    return Transferred(predictor, way, errors)


def _on_sources(
    type_name: str,
    configurations: np.ndarray,
    latency_ms: np.ndarray,
    sources: tuple[KernelSource, ...],
    *,
    trees: bool,
    seed: int,
) -> KernelPredictor:
    kind = kernel_type(type_name)
    base = _without_idle(fit_transferred_base(type_name, configurations, latency_ms, sources))
    found = KernelPredictor(
        type_name, TRANSFERRED, None, configurations.min(axis=0), configurations.max(axis=0), len(latency_ms),
        Seen.of(type_name, configurations), feature_names(kind), base,
    )  # fmt: skip
    if not trees or len(latency_ms) < FEW_SAMPLES:
        return found
    from latcast.predictors.regressors.trees import LogResidual

    ratio = latency_ms / base.latency_ms(type_name, configurations)
    return replace(found, regressor=LogResidual.fit(feature_matrix(kind, configurations), ratio, seed=seed))


def _without_idle(base: TransferredBase) -> TransferredBase:
    """Drop the sources with coefficients of 0 everywhere; the first one stays, so that there is one.

    A bundle carries its sources along, and its readers evaluate them.
    """
    count = len(base.sources)
    width = len(next(iter(base.coefficients.values())))
    terms = width - count
    busy = [place for place in range(count) if any(values[terms + place] > 0 for values in base.coefficients.values())] or [0]
    columns = [*range(terms), *(terms + place for place in busy)]
    kept = {name: values[columns] for name, values in base.coefficients.items()}
    return TransferredBase(tuple(base.sources[place] for place in busy), kept)


def _cross_validated(
    make: Callable[[np.ndarray], KernelPredictor],
    configurations: np.ndarray,
    latency_ms: np.ndarray,
    fold: np.ndarray,
    analytical: AnalyticalTerms,
) -> float:
    """Return the mean relative error; a predictor with a base ignores ``analytical``."""
    predicted = np.empty(len(latency_ms))
    for part in range(FOLDS):
        made = make(np.flatnonzero(fold != part))
        predicted[fold == part] = made.latency_ms(analytical, configurations[fold == part])
    return float(np.abs(predicted / latency_ms - 1).mean())


def _scratch_error(type_name: str, configurations: np.ndarray, latency_ms: np.ndarray, fold: np.ndarray, seed: int) -> float:
    predicted = np.empty(len(latency_ms))
    for part in range(FOLDS):
        rows = fold != part
        analytical = fit_from_kernels({type_name: (configurations[rows], latency_ms[rows])})
        made = fit_kernel_predictor(
            type_name, configurations[rows], latency_ms[rows], analytical, model=ANALYTICAL_GBDT, seed=seed
        )
        predicted[~rows] = made.latency_ms(analytical, configurations[~rows])
    return float(np.abs(predicted / latency_ms - 1).mean())
