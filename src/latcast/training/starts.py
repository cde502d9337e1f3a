"""Learning what starts take: the terms of loading and of the first inference, and their intervals on networks held out."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from latcast.environment import MOMENT
from latcast.extras import require
from latcast.kernels.rules import FusionRules
from latcast.kernels.search import find_kernels
from latcast.measure.record import loading_ms
from latcast.predictors.intervals import FOLDS, group_folds
from latcast.predictors.starts import LOAD_TERMS, MACHINE_FIRST_TERMS, StartLaw, StartModel, features_of
from latcast.records import Measurement, Platform
from latcast.spaces.catalogue import build
from latcast.spaces.lineages import lineage_of

if TYPE_CHECKING:
    from latcast.datasets.store import Store

ROUNDS, LEAST_ERROR = 30, 0.01
"""Rounds of reweighting from squared to absolute relative errors, and the error below which a weight grows no further."""

LEAST_PART = 1e-4
"""Part that a term takes at most of a sample, up to which it is left out."""

TAIL = 0.05
"""Part of the samples beyond each bound. It is not widened where they are few: small random networks, of which a profile times
starts, are missed by more than real ones."""

FEWEST_STARTS = 12
"""Networks from which a start is learned."""

FIRST_FIXED = {"latency": 1.0}
"""A first inference computes all that a later one does. Fitted to the small networks of a profile, whose weights stay in caches
from one inference to the next, the steady latency would count for more than it does of large ones."""


def fit_terms(
    terms: Sequence[str],
    features: Sequence[Mapping[str, float]],
    actual_ms: np.ndarray,
    fixed_ms: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Return the milliseconds by term, none below 0, with the least mean absolute relative error; terms of 0 are left out.

    Args:
        terms: That are fitted.
        features: A row a sample.
        actual_ms: (samples,) as measured.
        fixed_ms: Of further terms, which are returned as they are.
    """
    require("learning starts", "scipy")
    from scipy.optimize import nnls

    rows = np.array([[row[name] for name in terms] for row in features]) / actual_ms[:, None]
    scale = np.maximum(rows.max(axis=0), 1e-12)
    fixed = dict(fixed_ms or {})
    left = 1 - np.array([sum(value * row[name] for name, value in fixed.items()) for row in features]) / actual_ms
    weights = np.ones(len(rows))
    found = np.zeros(len(terms))
    for _ in range(ROUNDS):
        found, _ = nnls(rows / scale * weights[:, None], left * weights)
        weights = np.sqrt(1 / np.maximum(np.abs(rows / scale @ found - left), LEAST_ERROR))
    fitted = {name: float(value / unit) for name, value, unit in zip(terms, found, scale, strict=True) if value > LEAST_PART}
    return {**fitted, **fixed}


def fit_law(
    terms: Sequence[str],
    features: Sequence[Mapping[str, float]],
    actual_ms: np.ndarray,
    folds: np.ndarray,
    fixed_ms: Mapping[str, float] | None = None,
) -> tuple[StartLaw, np.ndarray]:
    """Fit a part of a start.

    Args:
        terms: Which it may depend on.
        features: A row a sample.
        actual_ms: (samples,) as measured.
        folds: (samples,) number of the fold that a sample is held out in.
        fixed_ms: Of further terms, which are not fitted.

    Returns:
        The law of all samples, and what those of the other folds predict for each, (samples,).
    """
    held_out = np.zeros(len(actual_ms))
    for fold in np.unique(folds):
        own = folds == fold
        others = [features[place] for place in np.flatnonzero(~own).tolist()]
        law = StartLaw(fit_terms(terms, others, actual_ms[~own], fixed_ms), 1.0, 1.0)
        held_out[own] = [law.latency_ms(features[place]) for place in np.flatnonzero(own).tolist()]
    low, high = np.quantile(np.log(actual_ms / held_out), (TAIL, 1 - TAIL)).tolist()
    terms_ms = fit_terms(terms, features, actual_ms, fixed_ms)
    return StartLaw(terms_ms, math.exp(min(low, 0.0)), math.exp(max(high, 0.0))), held_out


def learned_starts(store: Store, platform: Platform, rules: FusionRules, among: Collection[str]) -> StartModel | None:
    """Learn from the starts that a store holds, with the file in the system's memory; None where these are too few.

    Args:
        store: Holds the networks' steady latencies too.
        platform, rules: Of the measurements.
        among: Keys of the networks that may be learned from.
    """
    steady_ms = {label.reference.key: label.latency_ms for label in store.labels(platform=platform.id, role="network")}
    samples: dict[str, list[Measurement]] = {}
    for each in store.measurements(platform=platform.id, role="start", keys=steady_ms.keys() & among):
        if each.environment[MOMENT].get("page_cache") == "warm":
            samples.setdefault(each.reference.key, []).append(each)
    if len(samples) < FEWEST_STARTS:
        return None
    rows, lineages = [], []
    for key, found in samples.items():
        graph = build(found[0].reference)
        kernels = find_kernels(graph, rules)
        rows.append({**features_of(graph, kernels, rules, platform.precision), "latency": steady_ms[key]})
        lineages.append(lineage_of(found[0].reference))
    folds = group_folds(lineages, FOLDS, seed=0)
    load_ms = np.array([np.median([loading_ms(each) for each in found]) for found in samples.values()])
    first_ms = np.array([np.median([each.latency_ms or 0.0 for each in found]) for found in samples.values()])
    load, load_held_out = fit_law(LOAD_TERMS, rows, load_ms, folds)
    first, first_held_out = fit_law(MACHINE_FIRST_TERMS, rows, first_ms, folds, FIRST_FIXED)
    errors = [100 * np.mean(np.abs(held / actual - 1)) for held, actual in ((load_held_out, load_ms), (first_held_out, first_ms))]
    basis = (
        f"{len(samples)} networks started here in fresh processes, the file in the system's memory; held out, loading was "
        f"missed by {errors[0]:.0f} %, the first inference by {errors[1]:.0f} %"
    )
    return StartModel(load, first, basis)
