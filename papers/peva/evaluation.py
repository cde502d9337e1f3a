"""The evaluation of Li et al.: which trials it takes, every table and figure made of them, and how these are drawn."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from latcast.records import Platform
from papers.harness import PaperTable, ResultFolder, Watch, make_tables, run_trials, unwatched
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
from papers.peva.published import PublishedNetworks, not_published
from papers.peva.trials import NetworkTrial, Results, TrialResult
from papers.plots import Bars, Dots, draw_tables

Make = Callable[[PublishedNetworks, Results], PaperTable]

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
    published: PublishedNetworks, chosen: Collection[str], seeds: Sequence[int], held_out: str = "network", tuned: bool = False
) -> list[NetworkTrial]:
    """Return the trials that tables and figures are made of; those of all core sets of CPUs take the first seed alone."""
    found: list[NetworkTrial] = []

    def add(
        platform: Platform, learners: Sequence[str], sizes: Sequence[int], kind: str = "real", seeds: Sequence[int] = seeds
    ) -> None:
        how = held_out if kind == "real" else "network"
        found.extend(
            NetworkTrial(platform.id, learner, size, seed, kind, how, tuned)
            for learner in learners
            for size in sizes
            for seed in seeds
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
    published: PublishedNetworks,
    results: ResultFolder[TrialResult],
    chosen: Collection[str] = ITEMS,
    *,
    seeds: int = 1,
    held_out: str = "network",
    tuned: bool = False,
    jobs: int = 1,
    watch: Watch = unwatched,
) -> list[PaperTable]:
    """Return tables and figures, in the paper's order.

    Args:
        held_out: "network" or "lineage".
        tuned: Whether the hyper-parameters of all regressors are chosen by cross-validation.

    Raises:
        TrainingError: Too few measurements.
    """
    numbers = tuple(range(seeds))
    trials = wanted_trials(published, chosen, numbers, held_out, tuned)
    found = Results(run_trials(trials, compute, published, results, jobs=jobs, watch=watch), numbers, held_out, tuned)
    return make_tables({name: partial(make, published, found) for name, make in MAKERS.items()}, chosen, watch)


_QUARTILES = ("median", "lower quartile", "upper quartile")
_CORES = ("phone", "cores")
_OURS_AND_PAPER = ("ours of all MAPE %", "paper of 900 MAPE %")

FIGURES: Mapping[str, Dots | Bars] = {
    "figure 2": Dots("runtime", _CORES, "phone", *_QUARTILES, "speedup over one core", 1.0),
    "figure 2 mixed": Bars(("runtime",), ("system on chip", "cores", "precision"), "against", ("speedup",), "speedup", line=1.0),
    "figure 4": Dots("runtime", _CORES, "phone", *_QUARTILES, "speedup of int8", 1.0),
    "figure 5": Bars(("runtime",), ("operation",), "system on chip", ("speedup",), "speedup of int8", line=1.0),
    "figure 9": Dots(
        "runtime", ("system on chip",), "system on chip", "median ms", "lower quartile ms", "upper quartile ms",
        "beyond the operations, ms",
    ),
    "figure 10": Bars(("runtime",), ("system on chip",), "kernel", ("mean %",), "share of the latency, %", stacked=True),
    "figure 14": Dots(
        "runtime", (*_CORES, "precision"), "phone", "median %", "lower quartile %", "upper quartile %",
        "coefficient of variation, %", log=True,
    ),
    "figure 3 live": Bars((), ("network",), "", ("one ms", "several ms"), "ms"),
    "figure 3 live operations": Bars((), ("operation",), "", ("one ms", "several ms"), "ms of all networks"),
    "figure 6 live": Bars((), ("network",), "", ("not fused ms", "fused ms"), "ms"),
    "figure 7 live": Bars((), ("operation",), "", ("not fused ms", "fused ms"), "ms of all networks"),
    "live": Bars(("synthetic networks",), ("approach",), "", ("MAPE %", "label error %"), "MAPE, %"),
    "table C.4": Bars(("unit",), ("system on chip",), "approach", ("ours of 900 MAPE %", "paper of 900 MAPE %"), "MAPE, %"),
    "table C.5": Bars(("unit",), ("system on chip",), "approach", _OURS_AND_PAPER, "MAPE, %"),
    "table C.6": Bars(("unit",), ("system on chip",), "approach", ("ours of 900 MAPE %", "paper of 900 MAPE %"), "MAPE, %"),
    "table C.7": Bars(("unit",), ("system on chip",), "approach", _OURS_AND_PAPER, "MAPE, %"),
    "figure 13": Bars(("runtime",), (*_CORES, "precision"), "", ("ours MAPE %", "noise %"), "MAPE, %"),
    "figure 15": Bars(("runtime",), ("kernel",), "system on chip", ("ours MAPE %",), "MAPE, %"),
    "figure 16": Bars(("platform",), ("convolutions",), "", ("MAPE %", "of their latency %"), "%"),
    "figure 17": Bars(("runtime", "unit"), ("approach",), "", _OURS_AND_PAPER, "MAPE, %"),
    "figure 18a": Bars(
        ("runtime",), ("system on chip",), "", ("operators", "kernels", "deduced of those listed", "recorded"),
        "number in a network",
    ),
    "figure 18b": Bars(("runtime",), ("system on chip",), "approach", ("with MAPE %", "without MAPE %"), "MAPE, %"),
    "figure 19": Bars(("platform",), ("tested",), "approach", ("with MAPE %", "without MAPE %"), "MAPE, %"),
    "figure 20": Bars(
        ("runtime", "unit"), ("approach",), "",
        ("ours of 30 MAPE %", "ours of all MAPE %", "paper of 30 MAPE %", "paper of 100 MAPE %", "paper of 900 MAPE %"),
        "MAPE, %",
    ),
    "figure 21": Bars(("runtime",), (*_CORES, "precision"), "", ("ours MAPE %", "noise %"), "MAPE, %"),
    "figure 22": Bars(("runtime",), ("kernel",), "system on chip", ("ours MAPE %",), "MAPE, %"),
    "figure 23": Bars((), ("approach",), "", ("mean of 30 MAPE %", "mean of all MAPE %"), "MAPE, %"),
}  # fmt: skip
"""Table or figure to how it is drawn."""

draw = partial(draw_tables, FIGURES)
