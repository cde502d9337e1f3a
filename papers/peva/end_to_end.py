"""Whole networks on every phone: tables C.4 to C.7, and their means over devices (Figs. 17 and 20)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from latcast.records import Platform
from papers.harness import Cell, PaperTable, mean
from papers.peva.learners import LEARNERS
from papers.peva.paper import (
    MODEL_TITLES,
    MODELS,
    SIZES,
    SWAPPED_GPU,
    TABLE_C4,
    TABLE_C5,
    TABLE_C6,
    TABLE_C7,
    Printed,
    printed_mape,
)
from papers.peva.published import LARGE_CORE, RUNTIME_TITLES, PublishedNetworks, soc_of
from papers.peva.trials import METRICS, Results

TABLES: Mapping[str, tuple[str, str, Printed]] = {
    "table C.4": ("tflite", "synthetic", TABLE_C4),
    "table C.5": ("tflite", "real", TABLE_C5),
    "table C.6": ("pytorch", "synthetic", TABLE_C6),
    "table C.7": ("pytorch", "real", TABLE_C7),
}
"""Name to runtime, kind of networks tested on, and the paper's figures."""

OURS = ("operations", "networks")
"""latcast's own learners."""

SMALL = 30
"""Networks of the smaller training set."""

FLOPS_MODELS = ("lasso", "gbdt")

WHERE_SYNTHETIC = (
    "ours know FLOPs and size of a synthetic network only, as neither its operations nor its architecture was published; the "
    "paper's know its operations"
)
WHERE_REAL = (
    "the paper trains on operations of synthetic networks, which were not published; ours learn from those of 70 % of the real "
    "networks and predict the others, so a training set has 30 networks or all that the split leaves, never 100 or 900"
)
WHERE_CPU = "operations on CPUs were not published: there latcast learns from whole networks, and the regressors cannot"


def table_platforms(published: PublishedNetworks, runtime: str, kind: str) -> list[Platform]:
    """Return one large core in fp32 and the GPU of each system on chip, on the phone of the GPU figures."""
    gpus = published.platforms(kind, runtime=runtime, compute="gpu")
    found = {soc_of(each): each for each in gpus}
    large = {}
    for each in published.platforms(kind, runtime=runtime, unit=LARGE_CORE, precision="fp32"):
        gpu = found.get(soc_of(each))
        if gpu is None or gpu.device == each.device:
            large[soc_of(each)] = each
    return [*large.values(), *gpus]


def _unit(platform: Platform) -> str:
    return "GPU" if platform.unit == "gpu" else "CPU"


def _printed(table: Printed, model: str, platform: Platform) -> tuple[float | None, ...]:
    soc, unit = soc_of(platform), _unit(platform)
    if platform.runtime == "pytorch" and unit == "GPU":
        soc = SWAPPED_GPU.get(soc, soc)
    return tuple(printed_mape(table, model, size, soc, unit) for size in SIZES)


def end_to_end(name: str, published: PublishedNetworks, results: Results) -> PaperTable:
    """Return one of :data:`TABLES`."""
    runtime, kind, table = TABLES[name]
    title = f"End-to-end MAPE of {kind} networks on {RUNTIME_TITLES[runtime]} ({len(results.seeds)} splits)"
    if kind == "synthetic":
        return _synthetic(name, title, published, results, runtime, table)
    rows: list[tuple[Cell, ...]] = []
    for platform in table_platforms(published, runtime, kind):
        noise = published.mean_variation(platform)
        for learner in (*MODELS, *OURS):
            ours = [results.metrics(platform, learner, size) for size in (SMALL, 0)]
            if learner in OURS and not any(ours):
                continue
            printed = _printed(table, learner, platform) if learner in MODELS else (None,) * len(SIZES)
            rows.append(
                (soc_of(platform), _unit(platform), LEARNERS[learner].title,
                 *(None if found is None else found["mape"] for found in ours),
                 None if ours[1] is None else ours[1]["within_10"], *printed, noise)
            )  # fmt: skip
    notes = [WHERE_REAL, WHERE_CPU, f"ours hold out by {results.held_out}"]
    if runtime == "pytorch":
        notes.append("the GPU figures that the paper prints under Helio P35 stand beside Snapdragon 710, whose GPU was published")
    return PaperTable(
        name, title,
        ("system on chip", "unit", "approach", "ours of 30 MAPE %", "ours of all MAPE %", "ours of all ±10 %",
         *(f"paper of {size} MAPE %" for size in SIZES), "noise %"),
        tuple(rows), tuple(notes),
    )  # fmt: skip


def _synthetic(name: str, title: str, published: PublishedNetworks, results: Results, runtime: str, table: Printed) -> PaperTable:
    rows: list[tuple[Cell, ...]] = []
    for platform in table_platforms(published, runtime, "synthetic"):
        noise = published.mean_variation(platform, "synthetic")
        for model in FLOPS_MODELS:
            ours = [results.mape(platform, f"{model} of FLOPs and size", size, "synthetic") for size in SIZES]
            rows.append((soc_of(platform), _unit(platform), MODEL_TITLES[model], *ours, *_printed(table, model, platform), noise))
    return PaperTable(
        name, title,
        ("system on chip", "unit", "approach", *(f"ours of {size} MAPE %" for size in SIZES),
         *(f"paper of {size} MAPE %" for size in SIZES), "noise %"),
        tuple(rows), (WHERE_SYNTHETIC,),
    )  # fmt: skip


def all_metrics(published: PublishedNetworks, results: Results) -> PaperTable:
    """Return every metric of everything that was learned from all networks of a split."""
    rows: list[tuple[Cell, ...]] = []
    for runtime in RUNTIME_TITLES:
        for platform in table_platforms(published, runtime, "real"):
            for learner in (*MODELS, *OURS):
                found = results.metrics(platform, learner)
                if found is not None:
                    title = LEARNERS[learner].title
                    rows.append((platform.id, title, *found.values(), published.mean_variation(platform)))
    return PaperTable(
        "all metrics", f"Real networks held out by {results.held_out}, learned from all others ({len(results.seeds)} splits)",
        ("platform", "approach", *METRICS.values(), "noise %"), tuple(rows),
        ("noise: mean coefficient of variation of the published runs",),
    )  # fmt: skip


def figure_17(published: PublishedNetworks, results: Results) -> PaperTable:
    """Means over devices, learned from all."""
    return _means("figure 17", "Real networks, mean MAPE over devices", published, results, (0,), (900,))


def figure_20(published: PublishedNetworks, results: Results) -> PaperTable:
    """Means over devices by the size of the training set."""
    return _means("figure 20", "Mean MAPE over devices by the size of the training set", published, results, (SMALL, 0), SIZES)


def _means(
    name: str, title: str, published: PublishedNetworks, results: Results, sizes: Sequence[int], printed_sizes: Sequence[int]
) -> PaperTable:
    rows: list[tuple[Cell, ...]] = []
    for runtime, kind, table in TABLES.values():
        if kind == "synthetic":
            continue
        for unit in ("CPU", "GPU"):
            platforms = [each for each in table_platforms(published, runtime, kind) if _unit(each) == unit]
            for learner in (*MODELS, *OURS):
                ours = [[results.mape(each, learner, size) for each in platforms] for size in sizes]
                # The same devices on both sides, where there are ours at all.
                same = [each for each, value in zip(platforms, ours[-1], strict=True) if value is not None] or platforms
                printed = (
                    [[_printed(table, learner, each)[SIZES.index(size)] for each in same] for size in printed_sizes]
                    if learner in MODELS
                    else [[None]] * len(printed_sizes)
                )
                if any(value is not None for column in (*ours, *printed) for value in column):
                    rows.append(
                        (RUNTIME_TITLES[runtime], unit, LEARNERS[learner].title,
                         sum(value is not None for value in ours[-1]), *map(mean, ours), *map(mean, printed))
                    )  # fmt: skip
    return PaperTable(
        name, title,
        ("runtime", "unit", "approach", "devices", *(f"ours of {size or 'all'} MAPE %" for size in sizes),
         *(f"paper of {size} MAPE %" for size in printed_sizes)),
        tuple(rows), (WHERE_REAL, WHERE_CPU),
    )  # fmt: skip
