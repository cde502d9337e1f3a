"""Training a platform's predictor, three ways that share one piece of code for the analytical terms.

``kernels``: from single kernels timed in isolation (nn-Meter §5). ``operators``: from operators timed inside networks by the
runtime's profiler (Li et al. §4). ``networks``: from whole networks alone, which needs no profiler: the sum is observed,
its terms are not. Each then fits the network model (overhead, and what running in company changes). ``averaged``: the mean
of what operators and whole networks teach (:mod:`latcast.predictors.averaged`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from latcast.errors import TrainingError
from latcast.kernels.kernel import KernelTable
from latcast.kernels.rules import FusionRules
from latcast.predictors.analytical import AnalyticalTerms, fit_from_kernels, fit_from_networks, network_design
from latcast.predictors.averaged import averaged
from latcast.predictors.folds import FOLDS, group_folds
from latcast.predictors.intervals import HeldOut
from latcast.predictors.kernel_predictor import ANALYTICAL, RESIDUAL, KernelPredictor, Seen, fit_kernel_predictor
from latcast.predictors.network_model import NetworkModel, fit_network_model, sums_by_type
from latcast.predictors.network_terms import NetworkTerms
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.samples import (
    KernelObservation,
    NetworkSample,
    TrainingData,
    kernel_samples,
    restrict,
)
from latcast.predictors.short_networks import FEWEST_FOR_CACHES, ShortNetworkCorrection, confirmed_short_network_correction, level
from latcast.predictors.whole_networks import learn
from latcast.predictors.whole_networks import predictors as whole_network_parts
from latcast.records import Platform

CACHE_FOLDS = 3
"""Parts of the training networks whose kernels are predicted by the others, for what warm caches save."""

WAYS = ("operators", "kernels", "networks", "averaged")


def train(
    data: TrainingData,
    platform: Platform,
    rules: FusionRules,
    *,
    way: str = "operators",
    model: str = RESIDUAL,
    seed: int = 0,
    tune: bool = False,
) -> PlatformPredictor:
    """Trains a predictor, without an interval (:func:`latcast.predictors.stored.trained_with_card` calibrates one).

    Args:
        data: Samples of the platform.
        platform: What it will predict for.
        rules: Fusion rules the samples were collected under.
        way: One of :data:`WAYS`.
        model: How a kernel type is modelled (:func:`latcast.predictors.kernel_predictor.kernel_models`); ``networks`` knows
            analytical terms, and for ``physical_residual`` factors on them that are smooth in a kernel's sizes.
        seed: For every random choice.
        tune: Whether to choose hyper-parameters by cross-validation.

    Raises:
        TrainingError: An unknown way, or too few measurements for it.
    """
    if way not in WAYS:
        raise TrainingError(f"'{way}' is no way to learn; expected one of {', '.join(WAYS)}")
    if way == "networks":
        return _fit_from_networks(data.networks, platform, rules, model)
    if way == "averaged":
        # A mean of two sums is a sum over kernels; one with a factor on it is not.
        return averaged(
            _fit_from_observations(data, platform, rules, "operators", model, seed, tune, warm=False),
            train(data, platform, rules, way="networks", model=model, seed=seed, tune=tune),
        )
    return _fit_from_observations(data, platform, rules, way, model, seed, tune, warm=True)


def _fit_from_observations(
    data: TrainingData, platform: Platform, rules: FusionRules, way: str, model: str, seed: int, tune: bool, *, warm: bool
) -> PlatformPredictor:
    """From timed kernels; ``warm`` tells whether to look for what warm caches save."""
    observations = data.isolated if way == "kernels" else data.profiled
    if len(observations) < 10:
        needed = "isolated kernels" if way == "kernels" else "profiled operators"
        raise TrainingError(
            f"learning from {way} needs at least 10 {needed} of {platform}, found {len(observations)}; "
            "measure more (latcast profile)"
        )
    analytical, kernels = _fit_kernels(observations, model, seed, tune)
    predictor = PlatformPredictor(platform, rules, analytical, kernels)
    if len(data.networks) < 5:
        return predictor
    predictor = replace(
        predictor, network=company_model(predictor, data.networks, seed, None if warm else ShortNetworkCorrection())
    )
    if warm and way == "operators" and len(data.networks) >= FEWEST_FOR_CACHES:
        predictor = replace(predictor, network=_with_unseen_caches(predictor, data, model, seed, tune))
    return predictor


def _with_unseen_caches(predictor: PlatformPredictor, data: TrainingData, model: str, seed: int, tune: bool) -> NetworkModel:
    """The network model with what warm caches save as kernel predictors show it that did not see the networks.

    In the networks that its kernels were timed in, a kernel predictor knows already what is saved there, so that the factor
    found with them is too weak; the weights of types that come with it are kept, but for one level.
    """
    unseen_ms = _unseen_sums_ms(predictor, data, model, seed, tune)
    latency_ms = np.array([sample.latency_ms for sample in data.networks])
    caches = confirmed_short_network_correction(unseen_ms, latency_ms, [sample.lineage for sample in data.networks], seed=seed)
    if not caches.exponents:
        return company_model(predictor, data.networks, seed, caches)
    return replace(predictor.network, caches=caches).scaled(level(unseen_ms, latency_ms, caches))


def _fit_kernels(
    observations: Sequence[KernelObservation], model: str, seed: int, tune: bool
) -> tuple[AnalyticalTerms, Mapping[str, KernelPredictor]]:
    samples = kernel_samples(observations)
    analytical = fit_from_kernels({name: (found.configurations, found.latency_ms) for name, found in samples.items()})
    kernels = {
        name: fit_kernel_predictor(name, found.configurations, found.latency_ms, analytical, model=model, seed=seed, tune=tune)
        for name, found in samples.items()
    }
    return analytical, kernels


def company_model(
    predictor: PlatformPredictor, networks: Sequence[NetworkSample], seed: int, caches: ShortNetworkCorrection | None = None
) -> NetworkModel:
    """The network model that a predictor's kernels need to give the latencies of whole networks.

    Args:
        predictor: Its kernel predictors are used, its network model is not.
        networks: Measured.
        seed: Of folds.
        caches: As for :func:`latcast.predictors.network_model.fit_network_model`.
    """
    table = KernelTable.of([sample.kernels for sample in networks])
    sums, names = sums_by_type(table, predictor.raw_kernel_latency_ms(table.configurations))
    latency_ms = np.array([sample.latency_ms for sample in networks])
    return fit_network_model(sums, names, latency_ms, [sample.lineage for sample in networks], seed=seed, caches=caches)


def _unseen_sums_ms(predictor: PlatformPredictor, data: TrainingData, model: str, seed: int, tune: bool) -> np.ndarray:
    """What each network's kernels and overhead add up to by kernel predictors that did not see it, (networks,).

    Nor its lineage, unless that is larger than half of all. Where all kernels were timed in one part, it is predicted by what
    saw it.
    """
    predictor = replace(predictor, network=replace(predictor.network, caches=ShortNetworkCorrection()))
    fold = group_folds([sample.lineage for sample in data.networks], CACHE_FOLDS, seed)
    fold_of = {sample.reference.key: int(part) for sample, part in zip(data.networks, fold, strict=True)}
    sums_ms = np.zeros(len(fold))
    for part in np.unique(fold):
        rows = np.flatnonzero(fold == part)
        seen = [each for each in data.profiled if fold_of.get(each.network) != part]
        blind = predictor
        if seen:
            analytical, kernels = _fit_kernels(seen, model, seed, tune)
            blind = replace(predictor, analytical=analytical, kernels=kernels)
        sums_ms[rows] = blind.price([data.networks[row].kernels for row in rows]).latency_ms
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
    if model == RESIDUAL:
        terms = NetworkTerms.of([sample.kernels for sample in networks])
        return PlatformPredictor(platform, rules, *whole_network_parts(learn(terms, latency_ms, platform), terms))
    table = KernelTable.of([sample.kernels for sample in networks])
    design, names = network_design(table.configurations)
    analytical, overhead_ms = fit_from_networks(table.sum_by_network(design), names, latency_ms)
    kernels = {
        name: KernelPredictor(name, ANALYTICAL, None, rows.min(axis=0), rows.max(axis=0), 0, seen=Seen.of(name, rows))
        for name, rows in table.configurations.items()
        if name != "other"
    }
    return PlatformPredictor(platform, rules, analytical, kernels, NetworkModel(constant_ms=overhead_ms))


def cross_predict(
    data: TrainingData,
    platform: Platform,
    rules: FusionRules,
    *,
    way: str,
    model: str = RESIDUAL,
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
        trained = train(rest, platform, rules, way=way, model=model, seed=seed, tune=tune)
        priced = trained.price([data.networks[row].kernels for row in rows])
        predicted.latency_ms[rows], predicted.outside_share[rows] = priced.latency_ms, priced.outside_share
    return predicted
