"""Learning what starts take: the terms of loading and of the first inference, and their intervals on networks held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from latcast.extras import require
from latcast.predictors.intervals import conformal_quantile
from latcast.predictors.starts import StartLaw

ROUNDS, LEAST_ERROR = 30, 0.01
"""Rounds of reweighting from squared to absolute relative errors, and the error below which a weight grows no further."""

LEAST_PART = 1e-4
"""Part that a term takes at most of a sample, up to which it is left out."""

TAIL = 0.05
"""Part of the networks beyond each bound."""

FOLDS = 5


def fit_terms(terms: Sequence[str], features: Sequence[Mapping[str, float]], actual_ms: np.ndarray) -> dict[str, float]:
    """Return the milliseconds by term, none below 0, with the least mean absolute relative error; terms of 0 are left out."""
    require("learning starts", "scipy")
    from scipy.optimize import nnls

    rows = np.array([[row[name] for name in terms] for row in features]) / actual_ms[:, None]
    scale = np.maximum(rows.max(axis=0), 1e-12)
    weights = np.ones(len(rows))
    found = np.zeros(len(terms))
    for _ in range(ROUNDS):
        found, _ = nnls(rows / scale * weights[:, None], weights)
        weights = np.sqrt(1 / np.maximum(np.abs(rows / scale @ found - 1), LEAST_ERROR))
    return {name: float(value / unit) for name, value, unit in zip(terms, found, scale, strict=True) if value > LEAST_PART}


def fit_law(
    terms: Sequence[str], features: Sequence[Mapping[str, float]], actual_ms: np.ndarray, folds: np.ndarray
) -> tuple[StartLaw, np.ndarray]:
    """Fit a part of a start.

    Args:
        terms: Which it may depend on.
        features: A row a sample.
        actual_ms: (samples,) as measured.
        folds: (samples,) number of the fold that a sample is held out in.

    Returns:
        The law of all samples, and what those of the other folds predict for each, (samples,).
    """
    held_out = np.zeros(len(actual_ms))
    for fold in np.unique(folds):
        own = folds == fold
        law = StartLaw(fit_terms(terms, [features[place] for place in np.flatnonzero(~own).tolist()], actual_ms[~own]), 1.0, 1.0)
        held_out[own] = [law.latency_ms(features[place]) for place in np.flatnonzero(own).tolist()]
    errors = np.log(actual_ms / held_out)
    low, high = -conformal_quantile(-errors, 1 - TAIL), conformal_quantile(errors, 1 - TAIL)
    terms_ms = fit_terms(terms, features, actual_ms)
    return StartLaw(terms_ms, float(np.exp(min(low, 0.0))), float(np.exp(max(high, 0.0)))), held_out
