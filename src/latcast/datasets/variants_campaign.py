"""Measuring a part of the benchmark of variants into a store; resumable like every campaign."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from latcast.datasets.store import Store
from latcast.datasets.variants import Variant
from latcast.measure.campaign import Campaign, CampaignItem, CampaignReport, Progress
from latcast.measure.plan import MeasurePlan
from latcast.measure.settings import WorkerSettings

VARIANT_PLAN = MeasurePlan(rounds=4, runs_per_round=6, warmup_runs=2, max_ms_per_round=200.0, profiled_runs=6)
"""Variants are many and some are slow: three processes of these four rounds make a label."""


def measure_variants(
    variants: Iterable[Variant],
    settings: WorkerSettings,
    store: Store,
    *,
    processes: int = 1,
    profile: bool = True,
    budget_s: float | None = None,
    progress: Callable[[Progress], None] = lambda progress: None,
) -> CampaignReport:
    """Measures variants in their order; what the store holds already is not measured again.

    Args:
        variants: What to measure, from :func:`latcast.datasets.variants.stratified`.
        settings: The platform.
        store: Keeps the measurements.
        processes: Measurements of each variant, each from another process; three make a label.
        profile: Also time the kernels that the runtime executes, which predictors learn from.
        budget_s: No batch is begun after this many seconds.
        progress: Called at every step.

    Raises:
        RuntimeFailure: The runtime cannot be started.
        MeasurementError: The settings cannot be met.
    """
    plan = replace(VARIANT_PLAN, profile=profile)
    items = [CampaignItem(variant.reference, "network", plan) for variant in variants]
    return Campaign(store, settings, items, processes=processes, budget_s=budget_s, progress=progress).run()
