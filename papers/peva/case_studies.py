"""The evaluation's case studies: core sets, kernels on GPUs, fusion, selection, nn-Meter (Figs. 13, 15, 16, 18, 19, 21 to 23),
and which features weigh most (the end of §5.5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from latcast.kernels.executed_names import LINK, executed_names
from latcast.kernels.rules import platform_rules
from latcast.records import Platform
from papers.harness import Cell, PaperTable, mean
from papers.peva.end_to_end import SMALL, WHERE_CPU, WHERE_REAL, WHERE_SYNTHETIC
from papers.peva.learners import LEARNERS, graph_of, kernels_of
from papers.peva.operations import CATEGORY_OF_KIND, CONVOLUTION, DEPTHWISE, FEATURES, GROUPED, matrix
from papers.peva.paper import (
    FIGURE_13_WORST,
    FIGURE_18_FEWER_KERNELS,
    FIGURE_21_WORST,
    MODEL_TITLES,
    MODELS,
    TABLE_C4,
    TABLE_C5,
    printed_mape,
)
from papers.peva.published import PublishedNetworks, cores_of, runtime_and_soc, soc_of
from papers.peva.trials import Results, TrialResult, metrics_of, operation_mape
from papers.regressors import Lasso
from papers.tuning import fit_regressor

SELECTION_PLATFORMS = ("a03s/tflite-2.10/gpu/fp16", "pixel4/pytorch-2.0/gpu/fp16")
"""Where Fig. 19 compares knowing the kernel selection with not knowing it."""

WINOGRAD = "convolution_winograd_4x4_6x6"

ANDROID = ("pixel4", "s10", "mi8se", "a03s")
"""Phones of Fig. 23; nn-Meter has no iOS."""


def core_sets(name: str, published: PublishedNetworks, results: Results, learner: str, size: int, kind: str) -> PaperTable:
    """Return a learner on every core set of every phone (Fig. 13: synthetic networks; Fig. 21: real ones)."""
    printed = FIGURE_13_WORST if name == "figure 13" else FIGURE_21_WORST
    rows: list[tuple[Cell, ...]] = []
    for platform in published.platforms(kind, compute="cpu"):
        found = results.metrics(platform, learner, size, kind)
        if found is None:
            continue
        equal = len(cores_of(platform.unit)) == 1
        rows.append(
            (*runtime_and_soc(platform), platform.device, platform.unit, platform.precision,
             found["mape"], found["within_10"], published.mean_variation(platform, kind),
             printed.get((platform.runtime, soc_of(platform))) if equal else None)
        )  # fmt: skip
    notes = [WHERE_SYNTHETIC] if kind == "synthetic" else [WHERE_CPU]
    notes.append("the paper's text gives the largest MAPE over sets of equal cores of four phones")
    return PaperTable(
        name, f"{LEARNERS[learner].title} on {kind} networks, learned from {size or 'all'}, every core set",
        ("runtime", "system on chip", "phone", "cores", "precision", "ours MAPE %", "ours ±10 %", "noise %",
         "paper largest MAPE %"),
        tuple(rows), tuple(notes),
    )  # fmt: skip


def gpu_kernels(name: str, published: PublishedNetworks, results: Results, model: str) -> PaperTable:
    """Return a regressor on each kind of kernel of real networks (Fig. 15: GBDT; Fig. 22: Lasso)."""
    size = SMALL if name == "figure 22" else 0
    printed_size = SMALL if name == "figure 22" else 900
    rows: list[tuple[Cell, ...]] = []
    for platform in published.gpus_with_operations():
        results_ = results.of(platform, model, size)
        kinds = sorted({group for each in results_ for group in each.operations})
        printed = None
        if platform.runtime == "tflite":
            table = TABLE_C5 if name == "figure 22" else TABLE_C4
            printed = printed_mape(table, model, printed_size, soc_of(platform), "GPU")
        head = runtime_and_soc(platform)
        rows.append((*head, "end to end", sum(len(each.actual_ms) for each in results_),
                     results.mape(platform, model, size), printed))  # fmt: skip
        for kind in kinds:
            count = sum(len(each.operations.get(kind, ())) for each in results_)
            rows.append((*head, kind, count, operation_mape(results_, kind), None))
    kinds_tested = "synthetic" if name == "figure 15" else "real"
    return PaperTable(
        name, f"{MODEL_TITLES[model]} on GPUs by kernel, real networks, learned from {size or 'all'}",
        ("runtime", "system on chip", "kernel", "tested", "ours MAPE %", f"paper MAPE %, {kinds_tested} networks"),
        tuple(rows), (WHERE_REAL,),
    )  # fmt: skip


def figure_16(published: PublishedNetworks, results: Results) -> PaperTable:
    """Lasso's errors of convolutions by how long they take."""
    rows: list[tuple[Cell, ...]] = []
    for platform_id in SELECTION_PLATFORMS:
        platform = Platform.parse(platform_id)
        pairs = [
            pair
            for each in results.of(platform, "lasso")
            for group, found in each.operations.items()
            if CATEGORY_OF_KIND.get(group) in (CONVOLUTION, GROUPED)
            for pair in found
        ]
        if not pairs:
            continue
        actual, predicted = np.array(pairs).T
        bounds = [0.0, *np.percentile(actual, (25, 50, 75, 90)), np.inf]
        for low, high in pairwise(bounds):
            inside = (actual >= low) & (actual < high)
            if not inside.any():
                continue
            title = f"{low:.3g} ms and more" if high == np.inf else f"{low:.3g} to {high:.3g} ms"
            rows.append(
                (platform.id, title, int(inside.sum()), 100 * float(actual[inside].sum() / actual.sum()),
                 100 * float(np.mean(np.abs(predicted[inside] / actual[inside] - 1))))
            )  # fmt: skip
    return PaperTable(
        "figure 16", "Lasso on convolutions of real networks by their latency",
        ("platform", "convolutions", "number", "of their latency %", "MAPE %"), tuple(rows),
        ("the paper's bounds are those of CPUs (10 and 50 ms); here they are the quartiles and the upper tenth on GPUs",),
    )  # fmt: skip


def figure_18_kernels(published: PublishedNetworks) -> PaperTable:
    """Return number of kernels: of the graph, as deduced, as recorded."""
    rows: list[tuple[Cell, ...]] = []
    for platform in published.gpus_with_operations():
        rules = platform_rules(platform)
        measured = published.with_operations(platform)
        kinds = {kernel.kind for each in measured for kernel in each.executed}
        counts = []
        for each in measured:
            found = kernels_of(each.reference, rules)
            names = executed_names(graph_of(each.reference), found, rules)
            busy = [kernel for kernel in found if not kernel.free]
            listed = sum(name.split(LINK)[0] in kinds for name in names)
            counts.append((sum(len(kernel.nodes) for kernel in busy), len(busy), listed, len(each.executed)))
        operators, deduced, ours, theirs = np.array(counts, dtype=float).T
        rows.append(
            (*runtime_and_soc(platform), len(measured), float(operators.mean()), float(deduced.mean()),
             100 * float(np.mean(1 - deduced / operators)), FIGURE_18_FEWER_KERNELS, float(ours.mean()), float(theirs.mean()),
             100 * float(np.mean(np.abs(ours / theirs - 1))), 100 * float(np.mean(ours == theirs)))
        )  # fmt: skip
    return PaperTable(
        "figure 18a", "Number of kernels of real networks, as deduced and as recorded",
        ("runtime", "system on chip", "networks", "operators", "kernels", "fewer %", "paper fewer, over %",
         "deduced of those listed", "recorded", "difference %", "equal %"),
        tuple(rows),
        ("kinds of kernels that were listed are compared: of TFLite, padding and lone element-wise kernels were not",
         "operators are those of the exported file, in which normalisation is part of the convolutions already"),
    )  # fmt: skip


def figure_18(published: PublishedNetworks, results: Results) -> PaperTable:
    """Return errors with and without fusion."""
    rows: list[tuple[Cell, ...]] = []
    for platform in published.gpus_with_operations():
        head = runtime_and_soc(platform)
        if platform.runtime == "pytorch":
            for model in MODELS:
                results_ = results.of(platform, model)
                if results_:
                    unfused = mean([metrics_of(each, unfused=True).mape for each in results_])
                    rows.append((*head, MODEL_TITLES[model], results.mape(platform, model), unfused))
        rows.append(
            (*head, LEARNERS["networks"].title, results.mape(platform, "networks"), results.mape(platform, "networks, no fusion"))
        )
    return PaperTable(
        "figure 18b", "MAPE of real networks with and without fusion, learned from all",
        ("runtime", "system on chip", "approach", "with MAPE %", "without MAPE %"), tuple(rows),
        ("without fusion the regressors count every activation that PyTorch fuses as a kernel; of TFLite no element-wise kernel "
         "was published to learn one from",
         "latcast learns anew from kernels that are not fused, so it can make up for most of what it is not told"),
    )  # fmt: skip


def figure_19(published: PublishedNetworks, results: Results) -> PaperTable:
    """Return errors with and without knowing the kernel selection."""
    rows: list[tuple[Cell, ...]] = []
    for platform_id in SELECTION_PLATFORMS:
        platform = Platform.parse(platform_id)
        wino = {
            name
            for name, each in published.of_platform(platform).items()
            if any(kernel.kind == WINOGRAD for kernel in each.executed)
        }
        chosen = wino if platform.runtime == "tflite" else set(published.of_platform(platform))
        for model in MODELS if chosen else ():
            both = [results.of(platform, learner) for learner in (model, f"{model}, no selection")]
            if not all(both):
                continue
            known, unknown = ([_only(each, chosen) for each in found] for found in both)
            head = (platform.id, MODEL_TITLES[model])
            rows.append((*head, "networks", sum(len(each.actual_ms) for each in known), *map(_mean_mape, (known, unknown))))
            kinds = [WINOGRAD] if wino else sorted({kind for each in known for kind in each.operations if "conv2d" in kind})
            for kind in kinds:
                found = [operation_mape(part, kind) for part in (known, unknown)]
                rows.append((*head, kind, sum(len(each.operations.get(kind, ())) for each in known), *found))
    return PaperTable(
        "figure 19", "MAPE with and without knowing the kernel selection, learned from all",
        ("platform", "approach", "tested", "number", "with MAPE %", "without MAPE %"), tuple(rows),
        ("on TFLite the networks are those that run a Winograd kernel; without the selection one regressor takes all "
         "convolutions",
         WHERE_REAL),
    )  # fmt: skip


def _only(result: TrialResult, names: set[str]) -> TrialResult:
    kept = {name: value for name, value in result.predicted_ms.items() if name in names}
    return TrialResult(kept, {name: result.actual_ms[name] for name in kept}, result.operations, result.trained_on)


def _mean_mape(results_: Sequence[TrialResult]) -> float | None:
    return mean([metrics_of(each).mape for each in results_ if each.actual_ms])


def figure_23(published: PublishedNetworks, results: Results) -> PaperTable:
    """nn-Meter's method beside the others, TFLite on Android GPUs."""
    platforms = [each for each in published.gpus_with_operations("tflite") if each.device in ANDROID]
    rows: list[tuple[Cell, ...]] = []
    for learner in ("nn-meter", *MODELS, "networks", "operations"):
        title = LEARNERS[learner].title
        found = [[results.mape(each, learner, size) for each in platforms] for size in (SMALL, 0)]
        rows.append((title, *map(mean, found), *found[1]))
    return PaperTable(
        "figure 23", "PaperTable with nn-Meter, real networks, TFLite on Android GPUs",
        ("approach", "mean of 30 MAPE %", "mean of all MAPE %", *(f"{soc_of(each)} of all MAPE %" for each in platforms)),
        tuple(rows),
        ("nn-Meter's method here: a random forest an operation, convolutions without groups and without the selected kernel, "
         "no overhead (Li et al. §5.6.1); the fusion is the recorded one, as nn-Meter's detection needs the phones", WHERE_REAL),
    )  # fmt: skip


LISTED = 3
"""Features that are listed."""

FEWEST = 50
"""Operations that a weight takes to say something."""


def standardised_weights(features: np.ndarray, latency_ms: np.ndarray, names: Sequence[str]) -> dict[str, float]:
    """Return each feature's percent of Lasso's weights on standardised features, the largest first, without zeros."""
    fitted = fit_regressor("lasso", features, latency_ms, tune=True)
    assert isinstance(fitted, Lasso)
    weights = fitted.weights[:-1]
    whole = weights.sum()
    order = np.argsort(-weights, kind="stable")
    return {names[place]: 100 * float(weights[place] / whole) for place in order if weights[place] > 0}


def importances(published: PublishedNetworks) -> PaperTable:
    """Return the features of convolutions that weigh most, on every GPU."""
    rows: list[tuple[Cell, ...]] = []
    for platform in published.gpus_with_operations():
        kernels = [kernel for each in published.of_platform(platform).values() for kernel in each.executed]
        for kind in sorted({kernel.kind for kernel in kernels}):
            category = CATEGORY_OF_KIND.get(kind)
            of_kind = [kernel for kernel in kernels if kernel.kind == kind]
            if category not in (CONVOLUTION, GROUPED, DEPTHWISE) or len(of_kind) < FEWEST:
                continue
            names = FEATURES[category]
            found = standardised_weights(matrix(of_kind, names), np.array([each.latency_ms for each in of_kind]), names)
            listed = [f"{name} ({share:.0f} %)" for name, share in list(found.items())[:LISTED]]
            cells = [*listed, *[None] * (LISTED - len(listed))]
            rows.append((*runtime_and_soc(platform), kind, len(of_kind), *cells))
    return PaperTable(
        "feature importance", "Features of convolutions by their weight in Lasso, real networks on GPUs",
        ("runtime", "system on chip", "kernel", "operations", "first", "second", "third"), tuple(rows),
        ("the paper finds FLOPs and kernel size to weigh most, and FLOPs and input size for depthwise convolutions (§5.5.2)",
         "shares of the sum of all weights; features are divided by their standard deviation"),
    )  # fmt: skip
