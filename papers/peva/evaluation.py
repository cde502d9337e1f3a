"""The evaluation of Li et al. from its published files: which pieces it takes, and every table and figure made of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from latcast.errors import LatcastError
from latcast.predictors.profiling import Stage
from latcast.records import Platform
from papers.comparison import Comparison
from papers.peva import case_studies
from papers.peva.breakdown import figure_14, gpus_with_operations
from papers.peva.end_to_end import (
    FLOPS_MODELS,
    SMALL,
    TABLES,
    all_metrics,
    end_to_end,
    figure_17,
    figure_20,
    has_operations,
    table_platforms,
)
from papers.peva.importance import importances
from papers.peva.judged import Results
from papers.peva.missing import PREDICTIONS, not_published
from papers.peva.paper import MODELS, SIZES
from papers.peva.pieces import Kept, Piece, run_pieces
from papers.peva.published import Published
from papers.peva.whole_networks import KernelsOfNetworks

ITEMS = (
    "table C.4", "table C.5", "table C.6", "table C.7", "all metrics", "figure 13", "figure 14", "figure 15", "figure 16",
    "figure 17", "figure 18a", "figure 18b", "figure 19", "figure 20", "figure 21", "figure 22", "figure 23",
    "feature importance", "not published",
)  # fmt: skip
"""Everything that is reproduced, in the paper's order."""

LEARNED_FROM_REAL = frozenset(
    {"table C.5", "table C.7", "all metrics", "figure 15", "figure 16", "figure 17", "figure 18b", "figure 19", "figure 20",
     "figure 22", "figure 23"}
)  # fmt: skip
"""What takes the pieces of the GPUs and of one large core."""


def wanted_pieces(
    published: Published, chosen: Collection[str], seeds: Sequence[int], held_out: str = "network", tuned: bool = False
) -> list[Piece]:
    """The pieces that tables and figures are made of; those of all core sets of CPUs take the first seed alone."""
    found: list[Piece] = []

    def add(
        platform: Platform, learners: Sequence[str], sizes: Sequence[int], kind: str = "real", seeds: Sequence[int] = seeds
    ) -> None:
        how = held_out if kind == "real" else "network"
        found.extend(
            Piece(platform.id, learner, size, seed, kind, how, tuned) for learner in learners for size in sizes for seed in seeds
        )

    if LEARNED_FROM_REAL & set(chosen):
        for runtime in ("tflite", "pytorch"):
            for platform in table_platforms(published, runtime, "real"):
                add(platform, ["networks"], (SMALL, 0))
                if has_operations(published, platform):
                    add(platform, MODELS, (SMALL, 0))
                    add(platform, ["operations", "networks, no fusion"], (0,))
    if "figure 19" in chosen:
        for platform in gpus_with_operations(published):
            if platform.id in case_studies.SELECTION_PLATFORMS:
                add(platform, [f"{model}, no selection" for model in MODELS], (0,))
    if "figure 23" in chosen:
        for platform in gpus_with_operations(published, "tflite"):
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
    kept: Kept,
    chosen: Collection[str] = ITEMS,
    *,
    seeds: int = 1,
    held_out: str = "network",
    tuned: bool = False,
    jobs: int = 1,
    watch: Callable[[Stage], None] = lambda stage: None,
) -> list[Comparison]:
    """Tables and figures, in the paper's order.

    Args:
        published: The measurements.
        kept: Keeps finished pieces.
        chosen: Which of :data:`ITEMS`.
        seeds: Splits that each figure is the mean of.
        held_out: "network" or "lineage".
        tuned: Whether the hyper-parameters of all regressors are chosen by cross-validation.
        jobs: Processes to compute with.
        watch: Called as work goes on.

    Raises:
        LatcastError: No such table or figure.
        TrainingError: Too few measurements.
    """
    unknown = sorted(set(chosen) - set(ITEMS))
    if unknown:
        raise LatcastError(f"'{unknown[0]}' of Li et al. is not reproduced; there are {', '.join(ITEMS)}")
    numbers = tuple(range(seeds))
    pieces = wanted_pieces(published, chosen, numbers, held_out, tuned)
    results = Results(run_pieces(pieces, published, kept, jobs=jobs, watch=watch), numbers, held_out, tuned)
    kernels = KernelsOfNetworks()
    makers: Mapping[str, Callable[[], Comparison]] = {
        **{name: partial(end_to_end, name, published, results) for name in TABLES},
        "all metrics": lambda: all_metrics(published, results),
        "figure 13": lambda: case_studies.core_sets("figure 13", published, results, "gbdt of FLOPs and size", 900, "synthetic"),
        "figure 14": lambda: figure_14(published),
        "figure 15": lambda: case_studies.gpu_kernels("figure 15", published, results, "gbdt"),
        "figure 16": lambda: case_studies.figure_16(published, results),
        "figure 17": lambda: figure_17(published, results),
        "figure 18a": lambda: case_studies.figure_18_kernels(published, kernels),
        "figure 18b": lambda: case_studies.figure_18(published, results),
        "figure 19": lambda: case_studies.figure_19(published, results),
        "figure 20": lambda: figure_20(published, results),
        "figure 21": lambda: case_studies.core_sets("figure 21", published, results, "networks", SMALL, "real"),
        "figure 22": lambda: case_studies.gpu_kernels("figure 22", published, results, "lasso"),
        "figure 23": lambda: case_studies.figure_23(published, results),
        "feature importance": lambda: importances(published),
        "not published": lambda: not_published(PREDICTIONS),
    }
    found = []
    for name in ITEMS:
        if name in chosen:
            watch(Stage(name, 1.0))
            found.append(makers[name]())
    return found
