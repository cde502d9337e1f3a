"""Training a platform's predictor from timed kernels, profiled operators or whole networks.

``kernels``: from single kernels timed in isolation (nn-Meter §5). ``operators``: from operators timed inside networks by the
runtime's profiler (Li et al. §4). ``networks``: from whole networks alone, which needs no profiler: the sum is observed,
its terms are not. Each then fits calibration terms (:mod:`latcast.predictors.calibration_terms`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from latcast.errors import TrainingError
from latcast.extras import require
from latcast.kernels.kernel import KernelTable
from latcast.kernels.rules import FusionRules, unit_kind
from latcast.predictors.analytical import (
    DEPTH,
    TERMS,
    AnalyticalTerms,
    fit_from_kernels,
    fit_from_networks,
    network_design,
)
from latcast.predictors.calibration_terms import (
    FEWEST_FOR_CORRECTION,
    CalibrationTerms,
    ShortNetworkCorrection,
    confirmed_short_network_correction,
    correction_level,
    fit_calibration_terms,
    sums_by_type,
)
from latcast.predictors.intervals import FOLDS, SIZES, HeldOut, Interval, group_folds
from latcast.predictors.kernel_predictor import (
    ANALYTICAL,
    ANALYTICAL_GBDT,
    ANALYTICAL_GP,
    KernelPredictor,
    Seen,
    fit_kernel_predictor,
)
from latcast.predictors.network_terms import NetworkTerms
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.samples import (
    KernelObservation,
    NetworkSample,
    TrainingData,
    kernel_samples,
    restrict,
)
from latcast.predictors.whole_networks import fit_whole_networks, network_term_names, predictor_parts
from latcast.records import Platform

CORRECTION_FOLDS = 3
"""Parts of the training networks whose kernels are predicted by the others, for the short-network correction."""

LEARN_FROM = ("operators", "kernels", "networks")


def chosen_model(learn_from: str, model: str | None = None) -> str:
    """How kernel types are modelled: as asked for, or, where None, as suits what is learned from.

    Whole networks teach ``analytical_gp`` (their default) and ``analytical``; timed kernels teach everything else,
    ``analytical_gbdt`` by default.

    Raises:
        TrainingError: Nothing known to learn from, or a model that it does not teach.
    """
    if learn_from not in LEARN_FROM:
        raise TrainingError(f"cannot learn from '{learn_from}'; expected one of {', '.join(LEARN_FROM)}")
    if model is None:
        return ANALYTICAL_GP if learn_from == "networks" else ANALYTICAL_GBDT
    if learn_from == "networks" and model not in (ANALYTICAL_GP, ANALYTICAL):
        raise TrainingError(f"whole networks do not teach the model '{model}'; expected {ANALYTICAL_GP} or {ANALYTICAL}")
    if learn_from != "networks" and model == ANALYTICAL_GP:
        raise TrainingError(
            f"the model '{model}' is learned from whole networks; expected learn_from 'networks', found '{learn_from}'"
        )
    return model


def fit_predictor(
    data: TrainingData,
    platform: Platform,
    rules: FusionRules,
    *,
    learn_from: str = "operators",
    model: str | None = None,
    seed: int = 0,
    tune: bool = False,
) -> PlatformPredictor:
    """Trains a predictor, without an interval (:func:`latcast.predictors.training_from_store.trained_with_card` calibrates one).

    Args:
        data: Samples of the platform.
        platform: What it will predict for.
        rules: Fusion rules the samples were collected under.
        learn_from: One of :data:`LEARN_FROM`.
        model: How a kernel type is modelled, see :func:`chosen_model`.
        seed: For every random choice.
        tune: Whether to choose hyper-parameters by cross-validation.

    Raises:
        TrainingError: Nothing known to learn from, a model that it does not teach, or too few measurements.
        MissingExtraError: A package of the extra ``local`` is not installed.
    """
    require("training", "lightgbm", "scipy")
    model = chosen_model(learn_from, model)
    if learn_from == "networks":
        return _fit_from_networks(data.networks, platform, rules, model)
    # The correction is of a CPU's caches. A GPU's kernels take as long in short networks as in long ones.
    correct = unit_kind(platform.unit) != "gpu"
    return _fit_from_observations(data, platform, rules, learn_from, model, seed, tune, correct=correct)


def _fit_from_observations(
    data: TrainingData,
    platform: Platform,
    rules: FusionRules,
    learn_from: str,
    model: str,
    seed: int,
    tune: bool,
    *,
    correct: bool,
) -> PlatformPredictor:
    """From timed kernels; ``correct`` tells whether to look for a short-network correction."""
    observations = data.isolated if learn_from == "kernels" else data.profiled
    if len(observations) < 10:
        needed = "isolated kernels" if learn_from == "kernels" else "profiled operators"
        raise TrainingError(
            f"learning from {learn_from} needs at least 10 {needed} of {platform}, found {len(observations)}; "
            "measure more (latcast profile)"
        )
    analytical, kernels = _fit_kernels(observations, model, seed, tune, kernel_term_names(platform))
    predictor = PlatformPredictor(platform, rules, analytical, kernels)
    if len(data.networks) < 5:
        return predictor
    predictor = replace(
        predictor, network=fit_calibration(predictor, data.networks, seed, None if correct else ShortNetworkCorrection())
    )
    if correct and learn_from == "operators" and len(data.networks) >= FEWEST_FOR_CORRECTION:
        predictor = replace(predictor, network=_with_unseen_correction(predictor, data, model, seed, tune))
    return predictor


def _with_unseen_correction(
    predictor: PlatformPredictor, data: TrainingData, model: str, seed: int, tune: bool
) -> CalibrationTerms:
    """Calibration terms with the short-network correction that kernel predictors show which did not see the networks.

    In the networks that its kernels were timed in, a kernel predictor holds part of the correction already, so that the factor
    found with them is too weak; the weights of types that come with it are kept, but for one level.
    """
    unseen_ms = _unseen_sums_ms(predictor, data, model, seed, tune)
    latency_ms = np.array([sample.latency_ms for sample in data.networks])
    correction = confirmed_short_network_correction(
        unseen_ms, latency_ms, [sample.lineage for sample in data.networks], seed=seed
    )
    if not correction.exponents:
        return fit_calibration(predictor, data.networks, seed, correction)
    return replace(predictor.network, short_networks=correction).scaled(correction_level(unseen_ms, latency_ms, correction))


def kernel_term_names(platform: Platform) -> tuple[str, ...]:
    """The analytical terms that timed kernels of a platform teach."""
    return (*TERMS, DEPTH) if unit_kind(platform.unit) == "gpu" else TERMS


def _fit_kernels(
    observations: Sequence[KernelObservation], model: str, seed: int, tune: bool, terms: Sequence[str]
) -> tuple[AnalyticalTerms, Mapping[str, KernelPredictor]]:
    samples = kernel_samples(observations)
    timed = {name: (found.configurations, found.latency_ms) for name, found in samples.items()}
    analytical = fit_from_kernels(timed, terms=terms)
    kernels = {
        name: fit_kernel_predictor(name, found.configurations, found.latency_ms, analytical, model=model, seed=seed, tune=tune)
        for name, found in samples.items()
    }
    return analytical, kernels


def fit_calibration(
    predictor: PlatformPredictor, networks: Sequence[NetworkSample], seed: int, correction: ShortNetworkCorrection | None = None
) -> CalibrationTerms:
    """The calibration terms by which a predictor's kernels give the latencies of whole networks.

    Args:
        predictor: Its kernel predictors are used, its calibration terms are not.
        networks: Measured.
        seed: Of folds.
        correction: As for :func:`latcast.predictors.calibration_terms.fit_calibration_terms`.
    """
    table = KernelTable.of([sample.kernels for sample in networks])
    sums, names = sums_by_type(table, predictor.raw_kernel_latency_ms(table.configurations))
    latency_ms = np.array([sample.latency_ms for sample in networks])
    return fit_calibration_terms(
        sums, names, latency_ms, [sample.lineage for sample in networks], seed=seed, correction=correction
    )


def _unseen_sums_ms(predictor: PlatformPredictor, data: TrainingData, model: str, seed: int, tune: bool) -> np.ndarray:
    """What each network's kernels and overhead add up to by kernel predictors that did not see it, (networks,).

    Nor its lineage, unless that is larger than half of all. Where all kernels were timed in one part, it is predicted by what
    saw it.
    """
    predictor = replace(predictor, network=replace(predictor.network, short_networks=ShortNetworkCorrection()))
    fold = group_folds([sample.lineage for sample in data.networks], CORRECTION_FOLDS, seed)
    fold_of = {sample.reference.key: int(part) for sample, part in zip(data.networks, fold, strict=True)}
    sums_ms = np.zeros(len(fold))
    for part in np.unique(fold):
        rows = np.flatnonzero(fold == part)
        seen = [each for each in data.profiled if fold_of.get(each.network) != part]
        blind = predictor
        if seen:
            analytical, kernels = _fit_kernels(seen, model, seed, tune, predictor.analytical.terms)
            blind = replace(predictor, analytical=analytical, kernels=kernels)
        sums_ms[rows] = blind.estimate([data.networks[row].kernels for row in rows]).latency_ms
    return sums_ms


def _fit_from_networks(
    networks: Sequence[NetworkSample], platform: Platform, rules: FusionRules, model: str
) -> PlatformPredictor:
    if len(networks) < 10:
        raise TrainingError(
            f"learning from networks needs at least 10 measured networks of {platform}, found {len(networks)}; "
            "measure more (latcast profile)"
        )
    latency_ms = np.array([sample.latency_ms for sample in networks])
    if model == ANALYTICAL_GP:
        terms = NetworkTerms.of([sample.kernels for sample in networks], network_term_names(platform))
        parts = predictor_parts(fit_whole_networks(terms, latency_ms, platform), terms)
        return PlatformPredictor(platform, rules, *parts, interval=Interval(novelty=SIZES))
    table = KernelTable.of([sample.kernels for sample in networks])
    design, names = network_design(table.configurations)
    analytical, overhead_ms = fit_from_networks(table.sum_by_network(design), names, latency_ms)
    kernels = {
        name: KernelPredictor(name, ANALYTICAL, None, rows.min(axis=0), rows.max(axis=0), 0, seen=Seen.of(name, rows))
        for name, rows in table.configurations.items()
        if name != "other"
    }
    return PlatformPredictor(platform, rules, analytical, kernels, CalibrationTerms(constant_ms=overhead_ms))


def cross_predict(
    data: TrainingData,
    platform: Platform,
    rules: FusionRules,
    *,
    learn_from: str,
    model: str | None = None,
    seed: int = 0,
    tune: bool = False,
    parts: int = FOLDS,
    groups: Sequence[str] | None = None,
) -> HeldOut:
    """Prediction of each training network, in order, by a predictor that saw nothing of its fold.

    Args:
        groups: What is held out together, (networks,); the lineages where None.
    """
    fold = group_folds([sample.lineage for sample in data.networks] if groups is None else groups, parts, seed)
    fold_of = {sample.reference.key: int(part) for sample, part in zip(data.networks, fold, strict=True)}
    predicted = HeldOut(np.full(len(data.networks), np.nan), np.zeros(len(data.networks)))
    for part in range(parts):
        rows = np.flatnonzero(fold == part)
        if not len(rows):
            continue
        rest = restrict(data, lambda sample, part=part: fold_of[sample.reference.key] != part)  # type: ignore[misc]
        trained = fit_predictor(rest, platform, rules, learn_from=learn_from, model=model, seed=seed, tune=tune)
        estimates = trained.estimate([data.networks[row].kernels for row in rows])
        predicted.latency_ms[rows], predicted.outside_share[rows] = estimates.latency_ms, estimates.outside_share
    return predicted
