"""Profiling a machine: measure within a budget, train, judge, and leave a bundle."""

from __future__ import annotations

import dataclasses
import itertools
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from latcast.errors import TrainingError
from latcast.extras import LEARNING, require
from latcast.kernels.rules import FusionRules
from latcast.measure.campaign import Campaign, CampaignItem, CampaignReport, Progress
from latcast.measure.settings import START_PLAN, MeasurePlan, WorkerSettings
from latcast.measure.single import measure, settings_of
from latcast.predictors.bundle_index import IndexedBundle, keep_bundle
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform
from latcast.runtimes import RUNTIMES
from latcast.spaces.catalogue import SPACES, build
from latcast.spaces.kernel_zoo import kernel_zoo
from latcast.spaces.training_mix import training_mix
from latcast.training.fitting import Trainer, chosen_model
from latcast.training.from_store import collect_stored, environment_of, rules_of_host, trained_with_card
from latcast.training.kernel_rounds import KERNELS_PER_SECOND, KernelRounds, measure_rounds
from latcast.training.samples import TrainingData
from latcast.training.starts import FEWEST_STARTS, learned_starts

if TYPE_CHECKING:
    from latcast.datasets.store import Store

OPERATOR_PLAN = MeasurePlan(rounds=2, runs_per_round=6, warmup_runs=3, max_ms_per_round=120.0, profile=True, profiled_runs=8)
"""Plan for networks whose operators the runtime's profiler times: many networks teach more than many runs of each."""

WHOLE_PLAN = MeasurePlan(rounds=3, runs_per_round=6, warmup_runs=3, max_ms_per_round=120.0)
"""Plan for training on whole networks alone."""

NETWORKS_PER_SECOND = 2.0
"""Networks drawn at first for each second; more follow where these do not fill the budget."""

FEWEST_DRAWN = 30
"""Least number of networks drawn."""

MORE_THAN_NEEDED = 1.3
"""Ratio of networks drawn to those that the rest of the budget can measure: some are left out for their size."""

WHOLE_MIX_SECONDS = 600.0
"""Budget from which the whole training mix is measured."""

MOST_WEIGHTS_AT_LEAST, MOST_WEIGHTS_PER_SECOND = 8e6, 0.083e6
"""With a shorter budget, networks with more weights than the larger of these are left out: they take most of the time."""

LONGEST_BATCH_SHARE = 1 / 12
"""Part of the budget that one batch may take, at a second a network: measuring ends between batches only."""

MORE_UNTIL_SHARE = 0.92
"""Part of the budget before which more networks are drawn where all drawn ones are measured."""

WHOLE_NETWORKS_SHARE = 0.2
"""Part of the budget that learning from isolated kernels spends on whole networks, for the overhead and the interval."""

DEFAULT_SAMPLER = "adaptive"

LEAST_PART_S = 5.0
"""Least seconds of measuring in each part, however late it begins."""

START_SHARE, SECONDS_A_START, MOST_STARTS = 0.08, 0.6, 48
"""Part of the budget for starts of some of the networks, seconds that one takes, and most networks; none in a budget for less
than :data:`latcast.training.starts.FEWEST_STARTS`."""

TRAINING_SHARE, MOST_TRAINING_SHARE = 0.08, 0.4
"""Part of the budget kept for training on an idle host, and at most on one that is busy otherwise."""

TRIED_S = 0.2
"""Seconds of computing that show how busy a host is."""

PROCESS_SECONDS = 60.0
"""Seconds that one worker process measures: processes differ in level by about 1 %, which several average out."""

TRIAL_PLAN = MeasurePlan(rounds=1, runs_per_round=1, warmup_runs=0, profile=True, profiled_runs=1)
"""Plan of :func:`try_profiler`."""


@dataclass(frozen=True)
class Stage:
    """A stage of a profile: its name, its share, and the campaign's progress where there is one."""

    name: str
    share: float
    progress: Progress | None = None


@dataclass(frozen=True)
class ProfileResult:
    """Predictor of a profile, and where it and its measurements are.

    Attributes:
    predictor: Trained, with its card.
    bundle: Where it was saved, and what was there before.
    store: Where its measurements are.
    data: The samples it was trained on.
    reports: What the campaigns came to.
    seconds: Measuring and training together.
    failures: Errors of what could not be measured, by name.
    """

    predictor: PlatformPredictor
    bundle: IndexedBundle
    store: str
    data: TrainingData
    reports: tuple[CampaignReport, ...]
    seconds: float
    failures: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<ProfileResult {self.predictor.platform.id}: {self.bundle.path}, {self.store}, {self.seconds:.0f} s>"


@dataclass(frozen=True)
class Trial:
    """Result of one small network on a runtime.

    Attributes:
        platform: What the worker says it is.
        no_profiler: Why kernels cannot be timed inside networks; None where they can.
    """

    platform: Platform
    no_profiler: str | None

    @property
    def learn_from(self) -> str:
        """The kind of samples that teaches most: profiled operators, or kernels timed alone without a profiler."""
        return "operators" if self.no_profiler is None else "kernels"

    @property
    def warning(self) -> str | None:
        """The warning for users of a runtime without a profiler."""
        if self.no_profiler is None:
            return None
        return (
            f"{self.platform}: kernels are timed alone, where caches are warmer than in a network; expect two to four times the "
            f"error of kernels timed inside networks, which need a profiler ({self.no_profiler})"
        )


def training_share(budget_minutes: float) -> float:
    """Return the part of the budget to keep for training: it takes as much longer than on an idle host as some computing does.

    A budget below a minute is for measuring: its training is short.
    """
    if budget_minutes < 1:
        return TRAINING_SHARE
    begun, computing_s = time.monotonic(), time.process_time()
    while (spent_s := time.process_time() - computing_s) < TRIED_S:
        sum(range(10_000))
    return min(TRAINING_SHARE * max((time.monotonic() - begun) / spent_s, 1.0), MOST_TRAINING_SHARE)


def try_profiler(settings: WorkerSettings) -> Trial:
    """Run one small network, to see whether the runtime says which kernels it executes.

    Raises:
        RuntimeFailure: The runtime cannot be started.
    """
    require("profiling", *LEARNING)
    found = measure(SPACES.get("random_small").sample(1, 0)[0], settings, TRIAL_PLAN)
    reason = found.error or (None if found.executed else f"{settings.runtime} names no kernels")
    return Trial(Platform.parse(found.platform), reason)


def profile(
    runtime: str | WorkerSettings = "onnxruntime",
    *,
    budget_minutes: float = 5.0,
    learn_from: str | None = None,
    model: str | None = None,
    rules: FusionRules | str | None = None,
    sampler: str = DEFAULT_SAMPLER,
    target_error: float | None = None,
    seed: int = 0,
    store: Store | str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] | None = None,
    replace: bool = False,
    watch: Callable[[Stage], None] = lambda stage: None,
) -> ProfileResult:
    """Measure this machine within a budget, train a predictor for it and keep its bundle; run again, it adds to what it knows.

    Args:
        runtime: Its name, for one thread and fp32; or settings, for everything else.
        budget_minutes: For everything, training included.
        learn_from: One of :data:`latcast.training.fitting.LEARN_FROM`; as :func:`try_profiler` finds where None.
        model: How a kernel type is modelled; see :func:`latcast.training.fitting.chosen_model`.
        rules: Fusion rules, or "shipped", "detected" or the path of a file; the shipped ones of the runtime where None.
        sampler: What chooses the kernels that learning from kernels measures.
        target_error: Mean relative error on its test set at which a kernel type is measured no further.
        seed: For every random choice.
        store: Keeps every measurement, so that an interrupted profile goes on where it was: a store, or the path of one; a file
            in the user's folder where None.
        output: Where to save the bundle; where None, the user's folder, unless a better bundle of the platform is there.
        replace: Put the bundle into the user's folder even where the one there is the better.
        watch: Called at every step.

    Raises:
        TrainingError: The budget was too short for enough measurements.
        MissingExtraError: A package of the extra ``local``, or one of the sampler's, is not installed.
        RuntimeFailure: The runtime cannot be started.

    Example:
        >>> import latcast
        >>> found = latcast.profile(runtime="onnxruntime", budget_minutes=0.2)
        >>> found.predictor
        <PlatformPredictor local/onnxruntime-.../cpu1/fp32>
        >>> latcast.predict("mobilenet_v2", on="local/onnxruntime")
        <Prediction mobilenet_v2 on local/onnxruntime-...: ... ms, ... interval ... to ... ms, ...>
    """
    require("profiling", *LEARNING)
    from latcast.datasets.opening import default_store_path
    from latcast.datasets.store import Store
    from latcast.fusion.detected_rules import chosen_rules

    start = time.monotonic()
    settings = settings_of(runtime)
    rules = chosen_rules(rules, settings)
    with ExitStack() as opened:
        if not isinstance(store, Store):
            store = opened.enter_context(Store(default_store_path(settings) if store is None else store))
        opened.enter_context(store.held_open())
        if learn_from is None:
            watch(Stage("looking for a profiler", 0.0))
            learn_from = try_profiler(settings).learn_from
        measuring_s = 60 * budget_minutes * (1 - training_share(budget_minutes))
        rounds = None
        if learn_from == "kernels":
            watch(Stage("choosing kernels", 0.0))
            count = round(KERNELS_PER_SECOND * (1 - WHOLE_NETWORKS_SHARE) * measuring_s)
            zoo = kernel_zoo(rules, seed=seed)
            rounds = KernelRounds(rules, zoo, count, sampler=sampler, seed=seed, target_error=target_error)
        measuring_s -= min(time.monotonic() - start, measuring_s / 2)

        reports = measure_for_training(
            settings, store, budget_s=measuring_s, learn_from=learn_from, seed=seed, rules=rules, rounds=rounds, watch=watch
        )

        watch(Stage("training", 1.0))
        platform = reports[0].platform
        environment = environment_of(store, platform)
        singles = None if rounds is None else rounds.singles
        host_rules = rules_of_host(environment, platform, rules)
        if host_rules != rules:
            # A machine elsewhere has now said what it is: kernels found by the rules of another do not count.
            singles = None
        data = collect_stored(store, platform, host_rules, singles=singles)
        failures = {name: error for report in reports for name, error in report.failures.items()}
        if failures and not data.networks:
            name, error = next(iter(failures.items()))
            raise TrainingError(f"none of {len(failures)} networks could be measured on {platform}; {name}: {error}")
        trainer = Trainer(platform, host_rules, learn_from, model, seed)
        predictor = trained_with_card(trainer, data, seconds=time.monotonic() - start, environment=environment)
        if rounds is not None:
            predictor = predictor.with_card({**predictor.card, "sampler": sampler, "kernel_errors": rounds.errors_to_json()})
        keys = {sample.reference.key for sample in data.networks}
        predictor = dataclasses.replace(predictor, start=learned_starts(store, platform, host_rules, keys))
        bundle = keep_bundle(predictor, output, replace=replace)
        return ProfileResult(predictor, bundle, store.location, data, reports, time.monotonic() - start, failures)


def measure_for_training(
    settings: WorkerSettings,
    store: Store,
    *,
    budget_s: float,
    learn_from: str,
    seed: int,
    rules: FusionRules,
    rounds: KernelRounds | None = None,
    watch: Callable[[Stage], None] = lambda stage: None,
) -> tuple[CampaignReport, ...]:
    """Measure what is to be learned from into a store; run again, it goes on where it was.

    Args:
        settings: The platform.
        store: Takes the measurements.
        budget_s: Seconds of measuring.
        learn_from: One of :data:`latcast.training.fitting.LEARN_FROM`.
        seed: Chooses networks and kernels.
        rules: Fusion rules.
        rounds: Which kernels are measured first; then fewer networks are.
        watch: Called at every step.

    Returns:
        The reports of all campaigns.
    """
    begun = time.monotonic()
    reports: list[CampaignReport] = []
    if rounds is not None:
        reports += _measure_kernels(settings, store, (1 - WHOLE_NETWORKS_SHARE) * budget_s, rounds, watch)

    start = time.monotonic()
    watch(Stage("choosing networks", 0.0))
    chosen, part_s = network_items(learn_from, budget_s, seed, rules)
    starts = start_count(settings, budget_s)
    part_s *= 1 - START_SHARE * bool(starts)
    # Rounds of kernels end with a fit that may outlast their part, and every part pays its share of the choosing.
    part_s = min(part_s, max(budget_s - (start - begun), LEAST_PART_S))
    start += (time.monotonic() - start) * (1 - part_s / budget_s)

    def show(progress: Progress) -> None:
        watch(Stage("timing networks", min(1.0, (time.monotonic() - start) / part_s), progress))

    measured: list[CampaignItem] = []
    for portion in itertools.count(1):
        left_s = max(LEAST_PART_S, part_s - (time.monotonic() - start))
        reports.append(Campaign(store, settings, chosen, process_s=PROCESS_SECONDS, budget_s=left_s, progress=show).run())
        measured += chosen
        spent_s = time.monotonic() - start
        if not reports[-1].complete or spent_s >= MORE_UNTIL_SHARE * part_s:
            break
        # All were quick, or known from before: draw more. Known ones take no time, so never ask for more than a whole budget.
        count = min(MORE_THAN_NEEDED * len(measured) * (part_s - spent_s) / max(spent_s, 1e-3), NETWORKS_PER_SECOND * part_s)
        chosen, _ = network_items(learn_from, budget_s, seed + portion * 1_000_003, rules, round(count))
        if not chosen:
            break

    if starts:
        watch(Stage("timing starts", 1.0))
        items = [CampaignItem(item.reference, "start", START_PLAN) for item in measured[:starts]]
        starts_s = min(START_SHARE * budget_s, max(budget_s - (time.monotonic() - begun), LEAST_PART_S))
        campaign = Campaign(store, settings, items, process_s=0, budget_s=starts_s)
        reports.append(campaign.run())
    return tuple(reports)


def start_count(settings: WorkerSettings, budget_s: float) -> int:
    """Return how many starts a budget times; 0 where these are too few to learn from, or the runtime runs no files."""
    writes = settings.runtime in RUNTIMES and hasattr(RUNTIMES.get(settings.runtime), "write")
    count = min(round(START_SHARE * budget_s / SECONDS_A_START), MOST_STARTS)
    return count if writes and count >= FEWEST_STARTS else 0


def network_items(
    learn_from: str, budget_s: float, seed: int, rules: FusionRules, count: int | None = None
) -> tuple[list[CampaignItem], float]:
    """Choose networks to measure; return them and the part of the budget for them in seconds.

    Args:
        learn_from, budget_s, seed, rules: As for :func:`measure_for_training`.
        count: How many to draw; as many as fill the budget on a usual machine where None.

    Raises:
        TrainingError: ``learn_from`` is unknown.
    """
    chosen_model(learn_from)
    plan = OPERATOR_PLAN if learn_from == "operators" else WHOLE_PLAN
    part_s = WHOLE_NETWORKS_SHARE * budget_s if learn_from == "kernels" else budget_s
    count = round(NETWORKS_PER_SECOND * part_s) if count is None else count
    chosen = training_mix(max(FEWEST_DRAWN, count), seed, runtime=rules.runtime)
    if budget_s < WHOLE_MIX_SECONDS:
        most_weights = max(MOST_WEIGHTS_AT_LEAST, MOST_WEIGHTS_PER_SECOND * budget_s)
        chosen = [reference for reference in chosen if build(reference).parameter_count <= most_weights]
    plan = dataclasses.replace(plan, batch_size=min(max(round(LONGEST_BATCH_SHARE * part_s), 3), plan.batch_size))
    return [CampaignItem(reference, "network", plan) for reference in chosen], part_s


def _measure_kernels(
    settings: WorkerSettings, store: Store, budget_s: float, rounds: KernelRounds, watch: Callable[[Stage], None]
) -> list[CampaignReport]:
    start = time.monotonic()

    def spent() -> float:
        return (time.monotonic() - start) / budget_s

    def step(progress: Progress) -> None:
        watch(Stage("timing kernels", min(1.0, spent()), progress))

    def run(items: Sequence[CampaignItem], until: float) -> CampaignReport:
        left_s = max(LEAST_PART_S, (until - spent()) * budget_s)
        return Campaign(store, settings, items, budget_s=left_s, progress=step).run()

    return measure_rounds(rounds, store, run, spent)
