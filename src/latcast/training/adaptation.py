"""Adapting to a new platform: measure in rounds, transfer from a pool, judge, and leave a predictor (LitePred §5).

Everything measured is in the store, and what comes next follows from it and from the seed. So an adaptation that was killed
goes on from its store, as a profile does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from latcast.errors import TrainingError
from latcast.extras import LEARNING, require
from latcast.kernels.rules import FusionRules
from latcast.measure.campaign import CampaignReport
from latcast.measure.settings import WorkerSettings
from latcast.predictors.card import TRAINING_KEYS, TRAINING_LINEAGES
from latcast.predictors.intervals import FOLDS, HeldOut, group_folds, held_out_by
from latcast.predictors.kernel_predictor import ANALYTICAL_GBDT, TRANSFERRED
from latcast.predictors.metrics import judge
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform
from latcast.spaces.kernel_zoo import kernel_zoo
from latcast.training.adaptation_rounds import AccuracyTarget, AdaptationRounds
from latcast.training.fitting import Trainer, fit_calibration
from latcast.training.from_store import (
    OWN_MEASUREMENTS,
    CalibrationNetworks,
    calibrated,
    collect_stored,
    environment_of,
    rules_of_host,
    trained_with_card,
)
from latcast.training.kernel_rounds import KERNELS_PER_SECOND
from latcast.training.pool import Pool
from latcast.training.profiling import (
    LEAST_PART_S,
    MOST_TRAINING_SHARE,
    TRAINING_SHARE,
    WHOLE_NETWORKS_SHARE,
    Stage,
    Trial,
    measure_for_training,
    training_share,
    try_profiler,
)
from latcast.training.samples import KernelSamples, NetworkSample, TrainingData, kernel_samples

INSIDE_SHARE = 0.6
"""Part of the measuring time for kernels inside networks; timed alone they have warmer caches."""

INSIDE_SEED = 500_009
"""Apart from the seed of the whole networks: what kernels were timed in says nothing of overhead."""

FEWEST_KERNELS = 10
"""Measured kernels below which nothing can be transferred."""

FEWEST_INSIDE = 25
"""Kernels of a type timed inside networks from which on those timed alone, which run another way, are left out of it."""

FEWEST_NETWORKS = 5
"""Whole networks below which overhead is not fitted: a network is then the sum of its kernels."""

FEWEST_CALIBRATION = 10
"""Whole networks below which no interval is calibrated, and profiled ones are set aside for it."""

ADAPTED, TRAINED = "adapted", "trained as by latcast train"
"""The ways between which networks held out decide."""

BEYOND_CHANCE = 2.0
"""Standard errors by which adapting must be better than training alone: few networks are held out of a minute's measuring."""


@dataclass(frozen=True)
class AdaptationResult:
    """Attributes:
    predictor: Of the new platform, with its card.
    rounds: What was measured and transferred, with the similarities.
    reports: What the campaigns came to.
    seconds: Measuring and training together.
    """

    predictor: PlatformPredictor
    rounds: AdaptationRounds
    reports: tuple[CampaignReport, ...]
    seconds: float
    failures: Mapping[str, str] = field(default_factory=dict)


def adapt(
    settings: WorkerSettings,
    store: Any,
    pool: Pool,
    *,
    budget_s: float = 360.0,
    target: AccuracyTarget | None = None,
    rules: FusionRules | None = None,
    sampler: str = "prior",
    seed: int = 0,
    trial: Trial | None = None,
    start: float | None = None,
    watch: Callable[[Stage], None] = lambda stage: None,
) -> AdaptationResult:
    """Measure a new platform within a budget and adapt the most similar predictors of a pool to it.

    Kernels are timed inside networks by the runtime's profiler, some alone, and some whole networks for the overhead; all
    kernels alone where the runtime does not say which it executes.

    Args:
        settings: The platform.
        store: A :class:`latcast.datasets.store.Store` that keeps every measurement.
        pool: Predictors of other platforms; the platform's own, if there is one, is left out.
        budget_s: Seconds for everything.
        target: Kernel types that meet it get no more samples; without one the whole budget is used.
        rules: Fusion rules; the shipped ones of the runtime where None.
        sampler, seed: As for :class:`latcast.training.adaptation_rounds.AdaptationRounds`.
        trial: What :func:`latcast.training.profiling.try_profiler` found, where it was asked before.
        start: ``time.monotonic()`` from which the budget counts, where loading the pool is to count too; now where None.
        watch: Called at every step.

    Raises:
        TrainingError: Too little could be measured.
        MissingExtraError: A package of the extra ``local`` is not installed.
        RuntimeFailure: The runtime cannot be started.
    """
    require("adapting predictors", *LEARNING)
    from latcast.fusion.detected_rules import chosen_rules

    start = time.monotonic() if start is None else start
    rules = chosen_rules(rules, settings)
    trial = trial or try_profiler(settings)
    # Another version of the runtime is another platform; the same one would be its own source.
    others = pool.without(lambda platform: platform == trial.platform)

    inside_share = INSIDE_SHARE if trial.learn_from == "operators" else 0.0
    watch(Stage("choosing kernels", 0.0))
    count = round(KERNELS_PER_SECOND * (1 - WHOLE_NETWORKS_SHARE) * (1 - inside_share) * (1 - TRAINING_SHARE) * budget_s)
    rounds = AdaptationRounds(rules, kernel_zoo(rules, seed=seed), count, others, sampler=sampler, seed=seed, target=target)
    # What is transferred is trained beside what is not.
    until = start + budget_s * (1 - min(2 * training_share(budget_s / 60), MOST_TRAINING_SHARE))
    reports: tuple[CampaignReport, ...] = ()
    if inside_share:
        inside_s = inside_share * max(until - time.monotonic(), LEAST_PART_S)
        reports = measure_for_training(
            settings, store, budget_s=inside_s, learn_from="operators", seed=seed + INSIDE_SEED, rules=rules, watch=watch,
        )  # fmt: skip
    reports += measure_for_training(
        settings, store, budget_s=max(until - time.monotonic(), LEAST_PART_S), learn_from="kernels", seed=seed, rules=rules,
        rounds=rounds, watch=watch,
    )  # fmt: skip
    watch(Stage("transferring", 1.0))
    platform = reports[0].platform
    predictor = transferred_predictor(
        collect_stored(store, platform, rules, singles=rounds.singles), platform, rules, rounds, seed=seed
    )
    card = {
        **predictor.card,
        "seconds": time.monotonic() - start,
        "environment": environment_of(store, platform),
        "pool": sorted(others),
        "sampler": sampler,
        "target": None if target is None else str(target),
    }
    failures = {name: error for report in reports for name, error in report.failures.items()}
    return AdaptationResult(predictor.with_card(card), rounds, reports, time.monotonic() - start, failures)


def adapt_stored(
    store: Any, platform: Platform, pool: Pool, *, rules: FusionRules | str | None = None, seed: int = 0
) -> AdaptationResult:
    """Adapt the most similar predictors of a pool to what a store holds of a platform; nothing is measured.

    Args:
        store: A :class:`latcast.datasets.store.Store` that a profile, an adaptation or ``latcast measure`` filled.
        platform: Which of its platforms.
        pool, seed: As for :func:`adapt`.
        rules: Fusion rules, or "shipped", "detected" or the path of a file; the shipped ones of the platform where None.

    Raises:
        TrainingError: It holds too little.
        MissingExtraError: A package of the extra ``local`` is not installed.
    """
    require("adapting predictors", *LEARNING)
    from latcast.fusion.detected_rules import chosen_rules

    start = time.monotonic()
    environment = environment_of(store, platform)
    known_rules = rules_of_host(environment, platform, chosen_rules(rules, platform))
    others = pool.without(lambda each: each == platform)
    rounds = fitting_rounds(known_rules, others, seed=seed)
    predictor = transferred_predictor(collect_stored(store, platform, known_rules), platform, known_rules, rounds, seed=seed)
    seconds = time.monotonic() - start
    card = {"seconds": seconds, "environment": environment, "pool": sorted(others), "target": None}
    return AdaptationResult(predictor.with_card({**predictor.card, **card}), rounds, (), seconds)


def fitting_rounds(rules: FusionRules, pool: Pool, *, seed: int = 0) -> AdaptationRounds:
    """Return rounds that only fit, for kernels that were measured before, of all types."""
    return AdaptationRounds(rules, {}, 10, pool, sampler="random", types=("conv",), seed=seed)


def transferred_predictor(
    data: TrainingData, platform: Platform, rules: FusionRules, rounds: AdaptationRounds, *, seed: int = 0
) -> PlatformPredictor:
    """Train a platform's predictor from measured kernels and a pool, with overhead and interval from networks.

    The figures of the card are on networks held out by whole lineages from overhead and interval; the kernel predictors learn
    from kernels timed alone or inside other networks, never from these networks.

    Args:
        data: Samples of the platform. Networks inside which kernels were timed count for these alone, but for those that are set
            aside where there are fewer than :data:`FEWEST_CALIBRATION` others.
        platform, rules: What it is for.
        rounds: Adapts the pool to the samples; its ``errors``, from the last round, go into the card.
        seed: Of folds.

    Raises:
        TrainingError: Fewer than ten kernels were measured.
    """
    keys = {sample.reference.key for sample in data.networks} | {each.network for each in data.profiled}
    own_lineages = {sample.lineage for sample in data.networks}
    everything, data = data, _with_networks_set_aside(data, seed)
    inside = {each.network for each in data.profiled}
    data = replace(data, networks=tuple(sample for sample in data.networks if sample.reference.key not in inside))
    measured = len(data.isolated) + len(data.profiled)
    if measured < FEWEST_KERNELS:
        failed = f"; {data.skipped[0]}" if data.skipped else ""
        raise TrainingError(
            f"transfer to {platform} needs at least {FEWEST_KERNELS} measured kernels, found {measured}{failed}; "
            "give it a longer --budget"
        )
    samples = {name: (found.configurations, found.latency_ms) for name, found in _samples(data).items()}
    kernel_errors = rounds.errors_to_json()
    analytical, kernels = rounds.fit(samples)
    predictor = PlatformPredictor(platform, rules, analytical, kernels)
    profiled = f"{len(data.profiled)} timed inside {len(inside)} networks, " if inside else ""
    counts = f"{len(data.isolated)} kernels timed alone, {profiled}{len(data.networks)} whole networks"
    sources = sorted({source for found in rounds.transfer_to_json().values() for source in found["sources"]})
    card: dict[str, Any] = {
        "trained_on": f"{counts}; " + (f"transferred from {', '.join(sources)}" if sources else "nothing transferred"),
        "learn_from": "operators" if inside else "kernels",
        "model": TRANSFERRED if sources else ANALYTICAL_GBDT,
        TRAINING_KEYS: sorted(keys),
        "measurements": len(data.networks) + measured,
        "licence": OWN_MEASUREMENTS,
        "kernel_errors": kernel_errors,
        "transfer": rounds.transfer_to_json(),
    }
    known = rounds.source_lineages()
    if known is not None:
        card[TRAINING_LINEAGES] = sorted(own_lineages | known)
    if len(data.networks) < FEWEST_NETWORKS:
        return predictor.with_card(card)
    predictor = replace(predictor, network=fit_calibration(predictor, data.networks, seed))
    if len(data.networks) < FEWEST_CALIBRATION:
        return predictor.with_card(card)
    trainer = Trainer(platform, rules, card["learn_from"], seed=seed)
    held_out = held_out_by_kernels(predictor, data.networks, seed)
    tried = {ADAPTED: held_out}
    row_of = {sample.reference.key: row for row, sample in enumerate(everything.networks)}
    with suppress(TrainingError):
        by_training = trainer.held_out(everything)
        tried[TRAINED] = by_training[np.array([row_of[sample.reference.key] for sample in data.networks])]
    latency_ms = np.array([sample.latency_ms for sample in data.networks])
    errors = {way: judge(each.latency_ms, latency_ms).mape for way, each in tried.items()}
    best = TRAINED if TRAINED in tried and not beats_training(tried[ADAPTED], tried[TRAINED], latency_ms) else ADAPTED
    card["held_out_errors"] = errors
    card["trained_on"] += f"; {best}, of " + ", ".join(f"{way} {error:.1f} %" for way, error in errors.items()) + " held out"
    if best == TRAINED:
        trained = trained_with_card(trainer, everything)
        return trained.with_card({**card, **trained.card, "trained_on": card["trained_on"], "transfer": {}})
    predictor, figures = calibrated(predictor, CalibrationNetworks.of(data.networks, held_out))
    left_out = held_out_by([sample.lineage for sample in data.networks], FOLDS, seed)
    # The kernels' predictors are trained once, on kernels inside networks of the same mix where these were profiled.
    what = f"{left_out}, within the measured networks" + (", from overhead and interval alone" if inside else "")
    return predictor.with_card({**card, **figures.to_json(), "held_out_by": what})


def beats_training(adapted: HeldOut, trained: HeldOut, latency_ms: np.ndarray) -> bool:
    """Return whether adapting predicts networks held out better than training alone, by more than chance.

    Args:
        adapted, trained: Forecasts of the networks.
        latency_ms: (networks,) measured.
    """
    gain = np.abs(trained.latency_ms / latency_ms - 1) - np.abs(adapted.latency_ms / latency_ms - 1)
    return bool(gain.mean() > BEYOND_CHANCE * gain.std(ddof=1) / np.sqrt(len(gain)))


def _with_networks_set_aside(data: TrainingData, seed: int) -> TrainingData:
    """Set some profiled networks aside where there are too few others: one fold of five, two where one is too small."""
    inside = {each.network for each in data.profiled}
    timed = [sample for sample in data.networks if sample.reference.key in inside]
    wanted = FEWEST_CALIBRATION - (len(data.networks) - len(timed))
    if wanted <= 0 or len(timed) < 2 * wanted:
        return data
    fold = group_folds([sample.lineage for sample in timed], FOLDS, seed)
    last = 0 if np.sum(fold == 0) >= wanted else 1
    aside = {sample.reference.key for sample, number in zip(timed, fold, strict=True) if number <= last}
    return replace(data, profiled=tuple(each for each in data.profiled if each.network not in aside))


def _samples(data: TrainingData) -> dict[str, KernelSamples]:
    """Return kernels by type: as they ran inside networks, with those timed alone where too few did."""
    inside = kernel_samples(data.profiled)
    enough = {name: found for name, found in inside.items() if len(found.latency_ms) >= FEWEST_INSIDE}
    rest = [each for each in (*data.isolated, *data.profiled) if each.kernel.kernel_type not in enough]
    return {**enough, **kernel_samples(rest)}


def held_out_by_kernels(predictor: PlatformPredictor, networks: Sequence[NetworkSample], seed: int = 0) -> HeldOut:
    """Predict each network by its kernels, with calibration terms fitted to networks of other lineages."""
    fold = group_folds([sample.lineage for sample in networks], FOLDS, seed)
    found = HeldOut(np.empty(len(networks)), np.empty(len(networks)))
    for part in np.unique(fold):
        rest = [sample for sample, number in zip(networks, fold, strict=True) if number != part]
        judged = [sample for sample, number in zip(networks, fold, strict=True) if number == part]
        fitted = replace(predictor, network=fit_calibration(predictor, rest, seed)) if rest else predictor
        estimates = fitted.estimate([sample.kernels for sample in judged])
        found.latency_ms[fold == part], found.outside_share[fold == part] = estimates.latency_ms, estimates.outside_share
    return found
