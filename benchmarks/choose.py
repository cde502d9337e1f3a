"""Judges the picks of ``latcast choose``: how often they fit, on platforms and with networks that no predictor has seen.

A trial is a platform of a held-out chip of which ten networks were measured, and others to choose from that no known platform ran
(:mod:`benchmarks.devices`); intervals are calibrated on the other chips. Budgets are quantiles of the measured latencies of the
networks to choose from. The pick is the most accurate network that keeps to the budget with 90 % certainty; it is right where its
measured latency is within the budget.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.command import PUBLISHED, Data, Seed, print_stages
from benchmarks.judge import interval_of_mean, table, target_cell
from benchmarks.result_files import keep, kept
from benchmarks.shipped_kernels import ship_kernel_tables
from latcast.errors import DatasetError
from latcast.records import Reference
from latcast.report.choose import CERTAINTY
from latcast.spaces.accuracies import USUAL_SIDE, best_accuracy
from latcast.spaces.named_graphs import graph_file
from shipping.arbitration import NEW_LINEAGES, NEW_NETWORKS, MemberForecasts, mixed_by_others, try_fold
from shipping.known_platforms import KnownPlatforms, known_platforms, read_datasets

FOLDS = 3

MEASURED = 10

BUDGETS = (0.2, 0.35, 0.5, 0.65, 0.8)
"""Quantiles of the measured latencies that are budgets."""

LEAST_NETWORKS = 8
"""Fewest networks to choose from."""

PICKED, POINT = "certain", "point"


@dataclass(frozen=True)
class Picked:
    """The pick of one method within one budget.

    Attributes:
        platform, dataset, kind: Of the platform.
        held_out: Case of holding out networks, besides the chip.
        quality: "top-1 accuracy", "top-5 accuracy", or "multiply-accumulates" as a stand-in, in logarithms.
        method: "certain" (what choose picks) or "point" (by the prediction itself).
        within: True where the pick fits; None where nothing was picked.
        regret: Quality of the best network that fits less that of the pick, where the pick fits; None where it does not.
        over: Measured latency over the budget.
    """

    platform: str
    dataset: str
    kind: str
    held_out: str
    quality: str
    method: str
    within: bool | None
    regret: float | None
    over: float | None


def picks_of(
    one: MemberForecasts, mean: np.ndarray, deviation: np.ndarray, quality: np.ndarray, quality_name: str
) -> Iterator[Picked]:
    """Yield the picks within every budget by mean and deviation of predicted logarithms, and quality, each (tested,)."""
    known = np.isfinite(quality)
    if known.sum() < LEAST_NETWORKS:
        return
    mean, deviation, quality, log_ms = mean[known], deviation[known], quality[known], one.trial.log_ms[known]
    kept = mean + NormalDist().inv_cdf(CERTAINTY) * deviation
    platform = one.trial.platform
    for budget in np.quantile(log_ms, BUDGETS):
        best = quality[log_ms <= budget].max()
        for method, bound in ((PICKED, kept), (POINT, mean)):
            about = (platform.name, platform.source, platform.kind, one.trial.held_out, quality_name, method)
            fitting = np.flatnonzero(bound <= budget)
            if not len(fitting):
                yield Picked(*about, None, None, None)
                continue
            pick = fitting[np.lexsort((mean[fitting], -quality[fitting]))[0]]
            within = bool(log_ms[pick] <= budget)
            regret = float(best - quality[pick]) if within else None
            yield Picked(*about, within, regret, float(np.exp(log_ms[pick] - budget)))


# Command


def choose(
    data: Data = PUBLISHED,
    seed: Seed = 0,
    ship: Annotated[bool, typer.Option("--ship", help="Write the tables of kernels that the package ships, instead.")] = False,
) -> None:
    """Judge picks within budgets on held-out chips, from networks that no known platform ran."""
    if ship:
        print(*ship_kernel_tables(), sep="\n")
        return
    _top5_percent()  # a missing package is named before minutes of reading
    watch = print_stages()
    rows = summary(run(known_platforms(read_datasets(data), watch), seed=seed))
    keep("choose", {"measured": MEASURED, "certainty": CERTAINTY, "rows": rows})
    print(choose_table())


# Qualities


def accuracy_of(reference: Reference) -> float:
    """Return the published top-1 accuracy of a network at its input; NaN where none is known."""
    file = graph_file(reference.space)
    if file is not None:
        found = file.find(reference.parameters.get("name"), reference.parameters.get("input"))
        names, side = [] if found is None else [f"{reference.space}/{found.name}"], found and found.side
    else:
        names = [reference.name, f"torchvision/{reference.name}", f"timm/{reference.name}"]
        side = reference.parameters.get("resolution", USUAL_SIDE)
    rated = (best_accuracy(name, side) for name in names)
    return next((each.top1_percent for each in rated if each is not None), float("nan"))


@cache
def _top5_percent() -> Mapping[str, float]:
    """Return the top-5 accuracies that pytorchcv states of its networks, which the phones ran."""
    spec = find_spec("pytorchcv")
    if spec is None:
        raise DatasetError("judging choices needs the accuracies in the package pytorchcv; add it with: pip install pytorchcv")
    folder = Path((spec.submodule_search_locations or [""])[0])
    with (folder / "models" / "common" / "model_metainfos.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["test_dataset"] == "in1k" and row["error_value"].isdecimal()]
    return {row["model_name"]: 100 - int(row["error_value"]) / 100 for row in rows}


def top5_of(reference: Reference) -> float:
    """Return the stated top-5 accuracy of one of pytorchcv's networks; NaN of any other."""
    known = reference.space == "pytorchcv" or reference.name.startswith("pytorchcv/")
    return _top5_percent().get(reference.name.rpartition("/")[2], float("nan")) if known else float("nan")


# Judging


def run(pool: KnownPlatforms, *, seed: int = 0) -> list[Picked]:
    """Return all picks on the pool."""
    accuracy = np.array([accuracy_of(each) for each in pool.references])
    top5 = np.array([top5_of(each) for each in pool.references])
    work = np.log(np.maximum(pool.features.totals[:, 0], 1.0))
    tried = [
        one
        for fold in range(FOLDS)
        for one in try_fold(
            pool.platforms, pool.features, pool.lineages, fold, folds=FOLDS, measured=(MEASURED,), seed=seed, draws=1
        )[2]
    ]
    found: list[Picked] = []
    for one, mean, variance in mixed_by_others(tried, FOLDS):
        if one.trial.held_out in (NEW_NETWORKS, NEW_LINEAGES):
            for quality, name in ((accuracy, "top-1 accuracy"), (top5, "top-5 accuracy"), (work, "multiply-accumulates")):
                found += picks_of(one, mean, np.sqrt(variance), quality[one.trial.tested], name)
    return found


def summary(picks: Sequence[Picked]) -> list[dict[str, Any]]:
    """Return figures by quality, what was held out and method, of all units and by kind of unit."""
    groups: dict[tuple[str, ...], dict[str, list[Picked]]] = defaultdict(lambda: defaultdict(list))
    for each in picks:
        for kind in ("all", each.kind):
            groups[each.quality, each.held_out, kind, each.method][each.platform].append(each)
    rows = []
    for key, by_platform in sorted(groups.items()):
        everything = [each for listed in by_platform.values() for each in listed]
        made = [each for each in everything if each.within is not None]
        shares = [
            np.mean([bool(each.within) for each in listed if each.within is not None])
            for listed in by_platform.values()
            if any(each.within is not None for each in listed)
        ]
        regrets = [each.regret for each in made if each.regret is not None]
        over = [each.over for each in made if each.over is not None]
        rows.append(
            {
                **dict(zip(("quality", "held_out", "kind", "method"), key, strict=True)),
                "platforms": len(by_platform), "budgets": len(everything), "picked": 100 * len(made) / len(everything),
                "within": 100 * float(np.mean([bool(each.within) for each in made])) if made else None,
                "within_by_platform": 100 * float(np.mean(shares)) if shares else None,
                "within_by_platform_interval": interval_of_mean(100 * np.array(shares)) if shares else None,
                "within_110": 100 * float(np.mean(np.array(over) <= 1.1)) if over else None,
                "regret": float(np.mean(regrets)) if regrets else None,
                "median_regret": float(np.median(regrets)) if regrets else None,
            }
        )  # fmt: skip
    return rows


def choose_table() -> str:
    """Return picks of ``latcast choose`` beside those of the point prediction.

    Accuracies stand for all units together, since few platforms ran networks with a published one.
    """
    found = {(row["quality"], row["held_out"], row["kind"], row["method"]): row for row in kept("choose")["rows"]}
    return table(
        [
            {**row, "point": found[quality, held_out, kind, POINT]}
            for (quality, held_out, kind, method), row in found.items()
            if method == PICKED and (kind != "all") == (quality == "multiply-accumulates")
        ],
        {
            "by": "{quality}", "held out besides chips": "{held_out}", "unit": "{kind}", "platforms": "{platforms}",
            "certain: a pick %": "{picked:.0f}", "certain: fits %": "{within:.0f}", "certain: regret": "{regret:.2f}",
            "point: fits %": "{point[within]:.0f}", "point: regret": "{point[regret]:.2f}",
            "target: fits %": lambda row: target_cell(100 * CERTAINTY, row["within"], least=True),
        },
    )  # fmt: skip
