"""Profiling a machine: measure within a budget, train, judge, and leave a bundle."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from latcast.errors import TrainingError
from latcast.kernels.rules import FusionRules, rules_for
from latcast.measure.campaign import Campaign, CampaignItem, CampaignReport, Progress
from latcast.measure.plan import KERNEL_PLAN, MeasurePlan
from latcast.measure.settings import WorkerSettings
from latcast.predictors.bundle import save_bundle
from latcast.predictors.evaluation import TRAINING_KEYS
from latcast.predictors.intervals import calibrate
from latcast.predictors.kernel_predictor import PHYSICAL, RESIDUAL
from latcast.predictors.metrics import judge
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.samples import TrainingData, collect, restrict
from latcast.predictors.training import WAYS, cross_predict, train
from latcast.records import Platform

OPERATOR_PLAN = MeasurePlan(rounds=2, runs_per_round=6, warmup_runs=3, max_ms_per_round=120.0, profile=True, profiled_runs=8)
"""For networks whose operators the runtime's profiler times: many networks count for more than many runs of each."""

WHOLE_PLAN = MeasurePlan(rounds=3, runs_per_round=6, warmup_runs=3, max_ms_per_round=120.0)
"""For training on whole networks alone."""

NETWORKS_PER_SECOND = 3.0
"""Upper bound of what any runtime manages, so that references never run out before the budget."""

WHOLE_MIX_SECONDS = 150.0
"""Budget from which on nothing of the training mix is left out."""

MOST_WEIGHTS_AT_LEAST, MOST_WEIGHTS_PER_SECOND = 8e6, 0.36e6
"""With a shorter one a network with more weights than this, and than this for each second, is left out: writing, loading and
optimising 100 million weights takes as long as timing twenty small networks."""

LONGEST_BATCH_SHARE = 1 / 12
"""Part of the budget that one batch of networks may take, at a second each: a campaign ends between batches only."""

MORE_UNTIL_SHARE = 0.8
"""Where everything drawn is measured before this part of the budget is spent, more is drawn."""

COMPANY_SHARE = 0.2
"""Part of the budget that learning from isolated kernels spends on whole networks, for the overhead and the interval."""

TRAINING_SHARE = 0.08
"""Part of the budget kept for training."""


@dataclass(frozen=True)
class Stage:
    """What a profile is doing: a name for people, and the campaign's progress where there is one."""

    name: str
    share: float
    progress: Progress | None = None


@dataclass(frozen=True)
class ProfileResult:
    """Attributes:
    predictor: Trained, with its card.
    bundle: Where it was saved; None where no path was given.
    data: The samples it was trained on.
    reports: What the campaigns came to.
    seconds: Measuring and training together.
    """

    predictor: PlatformPredictor
    bundle: Path | None
    data: TrainingData
    reports: tuple[CampaignReport, ...]
    seconds: float
    failures: dict[str, str] = field(default_factory=dict)


def campaign_items(way: str, budget_s: float, seed: int, rules: FusionRules) -> list[tuple[list[CampaignItem], float]]:
    """What a way of learning measures: lists of items, each with its part of the budget in seconds.

    Raises:
        TrainingError: An unknown way.
    """
    from latcast.spaces import build
    from latcast.spaces.kernel_space import sample_kernels
    from latcast.spaces.training_mix import training_mix

    def networks(plan: MeasurePlan, part_s: float) -> tuple[list[CampaignItem], float]:
        chosen = training_mix(max(30, round(NETWORKS_PER_SECOND * part_s)), seed)
        if budget_s < WHOLE_MIX_SECONDS:
            most_weights = max(MOST_WEIGHTS_AT_LEAST, MOST_WEIGHTS_PER_SECOND * budget_s)
            chosen = [reference for reference in chosen if build(reference).parameter_count <= most_weights]
        batch_size = min(max(round(LONGEST_BATCH_SHARE * part_s), 3), plan.batch_size)
        return [CampaignItem(reference, "network", replace(plan, batch_size=batch_size)) for reference in chosen], part_s

    if way not in WAYS:
        raise TrainingError(f"'{way}' is no way to learn; expected one of {', '.join(WAYS)}")
    if way == "kernels":
        company_s = COMPANY_SHARE * budget_s
        kernels = sample_kernels(round(40 * budget_s), seed, rules)
        return [
            ([CampaignItem(reference, "kernel", KERNEL_PLAN) for reference in kernels], budget_s - company_s),
            networks(WHOLE_PLAN, company_s),
        ]
    return [networks(OPERATOR_PLAN if way == "operators" else WHOLE_PLAN, budget_s)]


def measure_for_training(
    settings: WorkerSettings,
    store: Any,
    *,
    budget_s: float,
    way: str = "operators",
    seed: int = 0,
    rules: FusionRules | None = None,
    watch: Callable[[Stage], None] = lambda stage: None,
) -> tuple[CampaignReport, ...]:
    """Runs the campaigns of a way of learning into a store; run again, it goes on where it was.

    Args:
        settings: The platform.
        store: A :class:`latcast.datasets.store.Store`.
        budget_s: Seconds of measuring.
        way: One of :data:`latcast.predictors.training.WAYS`.
        seed: Which networks and kernels.
        rules: Fusion rules; the shipped ones of the runtime where None.
        watch: Called at every step.
    """
    rules = rules or rules_for(settings.runtime, settings.precision)
    start = time.monotonic()
    watch(Stage("choosing networks", 0.0))
    parts = campaign_items(way, budget_s, seed, rules)
    drawing_s = time.monotonic() - start
    reports = []
    for index, (items, part_s) in enumerate(parts):
        # Each part pays its share of the drawing.
        part_start = time.monotonic() - drawing_s * part_s / budget_s
        portion = 0
        while items:
            reports.append(_measure_portion(store, settings, items, part_start, part_s, watch))
            spent_s = time.monotonic() - part_start
            items = []
            if reports[-1].complete and spent_s < MORE_UNTIL_SHARE * part_s:
                # All were quick, or known from before: more of the kind, from a seed that nobody chooses.
                portion += 1
                items = campaign_items(way, budget_s, seed + portion * 1_000_003, rules)[index][0]
    return tuple(reports)


def _measure_portion(
    store: Any,
    settings: WorkerSettings,
    items: Sequence[CampaignItem],
    part_start: float,
    part_s: float,
    watch: Callable[[Stage], None],
) -> CampaignReport:
    name = f"timing {items[0].role}s"
    spent_s = time.monotonic() - part_start

    def step(progress: Progress) -> None:
        watch(Stage(name, min(1.0, (spent_s + progress.seconds) / part_s), progress))

    return Campaign(store, settings, items, budget_s=max(5.0, part_s - spent_s), progress=step).run()


def profile(
    settings: WorkerSettings | None = None,
    *,
    store: Any,
    budget_s: float = 300.0,
    way: str = "operators",
    model: str = RESIDUAL,
    seed: int = 0,
    rules: FusionRules | None = None,
    bundle: Path | None = None,
    watch: Callable[[Stage], None] = lambda stage: None,
) -> ProfileResult:
    """Measures this machine within a budget and trains a predictor for it.

    Args:
        settings: Runtime, threads, precision; ONNX Runtime on one thread by default.
        store: Keeps every measurement, so that an interrupted profile goes on where it was.
        budget_s: Seconds for everything, training included.
        way: One of :data:`latcast.predictors.training.WAYS`.
        model: How a kernel type is modelled.
        seed: For every random choice.
        rules: Fusion rules; the shipped ones of the runtime where None.
        bundle: Where to save the predictor.
        watch: Called at every step.

    Raises:
        TrainingError: The budget was too short for enough measurements.
        RuntimeFailure: The runtime cannot be started.
    """
    start = time.monotonic()
    settings = settings or WorkerSettings()
    rules = rules or rules_for(settings.runtime, settings.precision)
    reports = measure_for_training(
        settings, store, budget_s=budget_s * (1 - TRAINING_SHARE), way=way, seed=seed, rules=rules, watch=watch
    )
    watch(Stage("training", 1.0))
    platform = reports[0].platform
    failures = {name: error for report in reports for name, error in report.failures.items()}
    data = collect_stored(store, platform, rules)
    if failures and not data.networks:
        name, error = next(iter(failures.items()))
        raise TrainingError(f"none of {len(failures)} networks could be measured on {platform}; {name}: {error}")
    predictor = trained_with_card(data, platform, rules, way=way, model=model, seed=seed, seconds=time.monotonic() - start,
                                  environment=environment_of(store, platform))  # fmt: skip
    path = save_bundle(predictor, bundle) if bundle is not None else None
    return ProfileResult(predictor, path, data, reports, time.monotonic() - start, failures)


def collect_stored(store: Any, platform: Platform, rules: FusionRules) -> TrainingData:
    """Samples from everything a store holds of a platform."""
    from latcast.spaces import build

    return collect(store.measurements(platform=platform.id), rules, build)


def train_stored(
    store: Any,
    platform: Platform,
    *,
    way: str = "operators",
    model: str = RESIDUAL,
    seed: int = 0,
    tune: bool = False,
    leave_out: Collection[str] = (),
    licence: str | None = None,
) -> PlatformPredictor:
    """Trains on what a store holds of a platform, under the shipped fusion rules of its runtime.

    Args:
        store: A :class:`latcast.datasets.store.Store`.
        platform: What to predict for.
        way, model, seed, tune: As for :func:`latcast.predictors.training.train`.
        leave_out: Families or spaces not to train on.
        licence: Of the measurements, for the card.

    Raises:
        TrainingError: Too few measurements, or nothing there is of a family to be left out.
    """
    rules = rules_for(platform.runtime, platform.precision)
    data = collect_stored(store, platform, rules)
    families = {sample.family for sample in data.networks}
    unknown = sorted(set(leave_out) - families)
    if unknown:
        known = ", ".join(sorted(families)) or "none"
        raise TrainingError(f"found no networks of '{unknown[0]}' to leave out; there are {known}")
    predictor = trained_with_card(
        restrict(data, lambda sample: sample.family not in leave_out), platform, rules,
        way=way, model=model, seed=seed, tune=tune, environment=environment_of(store, platform),
    )  # fmt: skip
    return predictor if licence is None else predictor.with_card({**predictor.card, "licence": licence})


def environment_of(store: Any, platform: Platform) -> dict[str, Any]:
    """The environment of a platform's first measurement, without what belongs to that moment alone."""
    from latcast.measure.environment import MOMENT

    for measurement in store.measurements(platform=platform.id):
        return {name: value for name, value in measurement.environment.items() if name != MOMENT}
    return {}


def trained_with_card(
    data: TrainingData,
    platform: Platform,
    rules: FusionRules,
    *,
    way: str = "operators",
    model: str = RESIDUAL,
    seed: int = 0,
    tune: bool = False,
    seconds: float | None = None,
    environment: dict[str, Any] | None = None,
) -> PlatformPredictor:
    """Trains a predictor whose interval and card come from networks held out by whole families."""
    predictor = train(data, platform, rules, way=way, model=model, seed=seed, tune=tune, calibrated=False)
    card: dict[str, Any] = {
        "trained_on": _what(data, way),
        "way": way,
        "model": PHYSICAL if way == "networks" else model,
        TRAINING_KEYS: sorted(sample.reference.key for sample in data.networks),
        "measurements": len(data.networks) + len(data.isolated),
        "seconds": seconds,
        "licence": "measured by the owner of this bundle",
        "environment": environment or {},
    }
    held_out = _held_out(data, platform, rules, way=way, model=model, seed=seed)
    if held_out is not None:
        actual = np.array([sample.latency_ms for sample in data.networks])
        interval = calibrate(actual, held_out)
        predictor = replace(predictor, interval=interval)
        low_ms, high_ms = _bounds_of_halves(held_out, actual, seed)
        figures = judge(held_out, actual, low_ms, high_ms)
        card |= {**figures.to_json(), "held_out_by": "family or space, within the training networks"}
    return predictor.with_card(card)


def _bounds_of_halves(held_out: np.ndarray, actual: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of each half of the networks by an interval calibrated on the other half: what the card's coverage is judged by."""
    half = np.random.default_rng(seed).permutation(np.arange(len(actual)) % 2)
    low_ms, high_ms = np.empty(len(actual)), np.empty(len(actual))
    for part in (0, 1):
        interval = calibrate(actual[half != part], held_out[half != part])
        low_ms[half == part] = interval.low * held_out[half == part]
        high_ms[half == part] = interval.high * held_out[half == part]
    return low_ms, high_ms


def _held_out(
    data: TrainingData, platform: Platform, rules: FusionRules, *, way: str, model: str, seed: int
) -> np.ndarray | None:
    """Predictions of the training networks by predictors that saw nothing of their family; None where they are too few."""
    if len(data.networks) < 10:
        return None
    try:
        return cross_predict(data, platform, rules, way=way, model=model, seed=seed)
    except TrainingError:
        return None  # enough to train on all, not enough to train on all but a part; the card then has no figures


def _what(data: TrainingData, way: str) -> str:
    counts: dict[str, int] = {}
    for sample in data.networks:
        counts[sample.family] = counts.get(sample.family, 0) + 1
    listed = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    kernels = {
        "kernels": f"; {len(data.isolated)} kernels timed alone",
        "operators": f"; {len(data.profiled)} kernels timed inside networks",
    }
    return f"{len(data.networks)} networks ({listed}){kernels.get(way, '')}"
