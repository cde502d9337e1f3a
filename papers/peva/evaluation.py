"""The evaluation of Li et al. from its published files: which trials it takes, and every table and figure made of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from latcast.records import Platform
from papers.harness import Comparison, ResultFolder, Watch, make_tables, run_trials, unwatched
from papers.peva import case_studies
from papers.peva.analysis import figure_14
from papers.peva.end_to_end import (
    FLOPS_MODELS,
    SMALL,
    TABLES,
    all_metrics,
    end_to_end,
    figure_17,
    figure_20,
    table_platforms,
)
from papers.peva.learners import compute
from papers.peva.paper import MODELS, PREDICTIONS, SIZES
from papers.peva.published import Published, not_published
from papers.peva.trials import Results, Trial, TrialResult

Make = Callable[[Published, Results], Comparison]

MAKERS: Mapping[str, Make] = {
    **{name: partial(end_to_end, name) for name in TABLES},
    "all metrics": all_metrics,
    "figure 13": partial(case_studies.core_sets, "figure 13", learner="gbdt of FLOPs and size", size=900, kind="synthetic"),
    "figure 14": lambda published, results: figure_14(published),
    "figure 15": partial(case_studies.gpu_kernels, "figure 15", model="gbdt"),
    "figure 16": case_studies.figure_16,
    "figure 17": figure_17,
    "figure 18a": lambda published, results: case_studies.figure_18_kernels(published),
    "figure 18b": case_studies.figure_18,
    "figure 19": case_studies.figure_19,
    "figure 20": figure_20,
    "figure 21": partial(case_studies.core_sets, "figure 21", learner="networks", size=SMALL, kind="real"),
    "figure 22": partial(case_studies.gpu_kernels, "figure 22", model="lasso"),
    "figure 23": case_studies.figure_23,
    "feature importance": lambda published, results: case_studies.importances(published),
    "not published": lambda published, results: not_published(PREDICTIONS),
}
"""In the paper's order."""

ITEMS = tuple(MAKERS)

LEARNED_FROM_REAL = frozenset(
    {"table C.5", "table C.7", "all metrics", "figure 15", "figure 16", "figure 17", "figure 18b", "figure 19", "figure 20",
     "figure 22", "figure 23"}
)  # fmt: skip
"""What takes the trials of the GPUs and of one large core."""


def wanted_trials(
    published: Published, chosen: Collection[str], seeds: Sequence[int], held_out: str = "network", tuned: bool = False
) -> list[Trial]:
    """The trials that tables and figures are made of; those of all core sets of CPUs take the first seed alone."""
    found: list[Trial] = []

    def add(
        platform: Platform, learners: Sequence[str], sizes: Sequence[int], kind: str = "real", seeds: Sequence[int] = seeds
    ) -> None:
        how = held_out if kind == "real" else "network"
        found.extend(
            Trial(platform.id, learner, size, seed, kind, how, tuned) for learner in learners for size in sizes for seed in seeds
        )

    if LEARNED_FROM_REAL & set(chosen):
        for runtime in ("tflite", "pytorch"):
            for platform in table_platforms(published, runtime, "real"):
                add(platform, ["networks"], (SMALL, 0))
                if published.has_operations(platform):
                    add(platform, MODELS, (SMALL, 0))
                    add(platform, ["operations", "networks, no fusion"], (0,))
    if "figure 19" in chosen:
        for platform in published.gpus_with_operations():
            if platform.id in case_studies.SELECTION_PLATFORMS:
                add(platform, [f"{model}, no selection" for model in MODELS], (0,))
    if "figure 23" in chosen:
        for platform in published.gpus_with_operations("tflite"):
            if platform.device in case_studies.ANDROID:
                add(platform, ["nn-meter"], (SMALL, 0))
    if "figure 21" in chosen:
        for platform in published.platforms(compute="cpu"):
            add(platform, ["networks"], (SMALL,), seeds=seeds[:1])
    for name, (runtime, kind, _) in TABLES.items():
        if kind == "synthetic" and name in chosen:
            for platform in table_platforms(published, runtime, kind):
                add(platform, [f"{model} of FLOPs and size" for model in FLOPS_MODELS], SIZES, kind)
    if "figure 13" in chosen:
        for platform in published.platforms("synthetic", compute="cpu"):
            add(platform, ["gbdt of FLOPs and size"], (900,), "synthetic", seeds[:1])
    return list(dict.fromkeys(found))


def reproduce(
    published: Published,
    results: ResultFolder[TrialResult],
    chosen: Collection[str] = ITEMS,
    *,
    seeds: int = 1,
    held_out: str = "network",
    tuned: bool = False,
    jobs: int = 1,
    watch: Watch = unwatched,
) -> list[Comparison]:
    """Tables and figures, in the paper's order.

    Args:
        published: The measurements.
        results: Keeps finished trials.
        chosen: Which of :data:`ITEMS`.
        seeds: Splits that each figure is the mean of.
        held_out: "network" or "lineage".
        tuned: Whether the hyper-parameters of all regressors are chosen by cross-validation.
        jobs: Processes to compute with.
        watch: Called as work goes on.

    Raises:
        TrainingError: Too few measurements.
    """
    numbers = tuple(range(seeds))
    trials = wanted_trials(published, chosen, numbers, held_out, tuned)
    found = Results(run_trials(trials, compute, published, results, jobs=jobs, watch=watch), numbers, held_out, tuned)
    return make_tables({name: partial(make, published, found) for name, make in MAKERS.items()}, chosen, watch)
