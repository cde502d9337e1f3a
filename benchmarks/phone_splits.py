"""How far the phones' figures hang on which networks were held out: many random 70/30 splits of each platform's networks, by
network and by whole lineages, learned from as the shipped predictors are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.phones import measured, phone_platforms, source_of
from latcast.datasets.splits import by_group, by_network
from latcast.datasets.store import Store
from latcast.folders import cache_folder
from latcast.kernels.rules import platform_rules, unit_kind
from latcast.predictors.metrics import judge
from latcast.predictors.samples import TrainingData, restrict
from latcast.predictors.training import fit_predictor
from latcast.predictors.training_from_store import trained_with_card
from latcast.records import Platform
from papers.harness import ResultFolder, files_digest, process_pool, source_digest

HELD_OUT = ("network", "lineage")

METRICS = ("mape", "within_5", "within_10", "rmse_ms", "rmspe", "spearman")

Figures = Mapping[str, Any]
"""Metrics by name; ``interval_coverage`` is None where no interval was calibrated."""


@dataclass(frozen=True)
class SplitTrial:
    """One platform on one split.

    Attributes:
        platform: Id.
        held_out: One of :data:`HELD_OUT`.
        seed: Of the split.
        interval: Whether an interval is calibrated inside the training part, which trains five times more.
    """

    platform: str
    held_out: str
    seed: int
    interval: bool


SOURCES = ("latcast.kernels", "latcast.datasets.importers.usc", "latcast.predictors")
"""Packages whose source decides what a trial comes to."""


def compute(trial: SplitTrial, data: TrainingData) -> Figures:
    """Learns from 70 % of the networks and judges the others.

    Args:
        trial: What is wanted.
        data: All networks of its platform.
    """
    platform = Platform.parse(trial.platform)
    lineages = {sample.reference.name: sample.lineage for sample in data.networks}
    split = by_network(lineages, trial.seed) if trial.held_out == "network" else by_group(lineages, trial.seed)
    known = frozenset(split.train)
    part = restrict(data, lambda sample: sample.reference.name in known)
    fit = trained_with_card if trial.interval else fit_predictor
    predictor = fit(part, platform, platform_rules(platform), learn_from=source_of(data), seed=trial.seed)
    tested = [sample for sample in data.networks if sample.reference.name not in known]
    estimates = predictor.estimate([sample.kernels for sample in tested])
    bounds = predictor.bounds_ms(estimates) if trial.interval else (None, None)
    return judge(estimates.latency_ms, np.array([sample.latency_ms for sample in tested]), *bounds).to_json()


def compute_platform(path: Path, trials: Sequence[SplitTrial], kept: ResultFolder[Figures]) -> list[Figures]:
    """All splits of one platform; those that are kept are not computed again."""
    found = {trial: figures for trial in trials if (figures := kept.get(trial)) is not None}
    missing = [trial for trial in trials if trial not in found]
    if missing:
        data = measured(path, Platform.parse(missing[0].platform))
        for trial in missing:
            found[trial] = compute(trial, data)
            kept.put(trial, found[trial])
    return [found[trial] for trial in trials]


def judge_splits(
    path: Path,
    *,
    seeds: int,
    intervals: int,
    held_out: Sequence[str] = HELD_OUT,
    only: Sequence[str] = ("*",),
    jobs: int | None = None,
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Platforms with one row a split, as they are done.

    Args:
        path: SQLite file of the imported measurements.
        seeds: Splits of each kind.
        intervals: How many of them, from the first on, also calibrate an interval.
        held_out: Some of :data:`HELD_OUT`.
        only: Patterns of platform ids.
        jobs: Processes; 1 computes in this one.
    """
    with Store(path) as store:
        names = [name for name in phone_platforms(store) if any(fnmatchcase(name, pattern) for pattern in only)]
    kept = ResultFolder(cache_folder() / "phone-splits", files_digest([path]), source_digest(SOURCES), dict)
    trials = {
        name: [SplitTrial(name, kind, seed, seed < intervals) for kind in held_out for seed in range(seeds)] for name in names
    }

    def rows(name: str, figures: Sequence[Figures]) -> tuple[str, list[dict[str, Any]]]:
        return name, [
            {"platform": name, "held_out": trial.held_out, "seed": trial.seed, **each}
            for trial, each in zip(trials[name], figures, strict=True)
        ]

    if jobs == 1:
        for name in names:
            yield rows(name, compute_platform(path, trials[name], kept))
        return
    with process_pool(jobs) as pool:
        work = pool.map(compute_platform, [path] * len(names), trials.values(), [kept] * len(names))
        for name, figures in zip(names, work, strict=True):
            yield rows(name, figures)


def kind_of(name: str) -> str:
    """Runtime, kind of unit and precision, which means are taken over."""
    platform = Platform.parse(name)
    return f"{platform.runtime} {unit_kind(platform.unit)} {platform.precision}"


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Means over platforms by group and what is held out, each as mean and standard deviation over the splits.

    The interval coverage is of all predictions with an interval together.
    """
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((kind_of(row["platform"]), row["held_out"]), []).append(row)
    found = []
    for (group, held_out), members in sorted(groups.items(), key=lambda item: (item[0][1] != "network", item[0][0])):
        seeds = sorted({row["seed"] for row in members})
        result: dict[str, Any] = {
            "group": group, "held_out": held_out, "platforms": len({row["platform"] for row in members}), "seeds": len(seeds),
        }  # fmt: skip
        for metric in METRICS:
            of_seed = [np.mean([row[metric] for row in members if row["seed"] == seed]) for seed in seeds]
            result[metric] = float(np.mean(of_seed))
            result[f"{metric}_spread"] = float(np.std(of_seed, ddof=1)) if len(seeds) > 1 else None
        covered = [row for row in members if row["interval_coverage"] is not None]
        predictions = [row["networks"] for row in covered]
        coverage = [row["interval_coverage"] for row in covered]
        result["interval_coverage"] = float(np.average(coverage, weights=predictions)) if covered else None
        result["interval_predictions"] = sum(predictions)
        found.append(result)
    return found


TITLES = {
    "group": "platforms", "mape": "MAPE %", "within_5": "±5 %", "within_10": "±10 %", "rmse_ms": "RMSE ms", "rmspe": "RMSPE %",
    "spearman": "Spearman", "interval_coverage": "interval coverage %",
}  # fmt: skip


def splits_table(found: Sequence[Mapping[str, Any]]) -> str:
    """The summary in Markdown, mean ± standard deviation over the splits."""
    lines = ["| held out | " + " | ".join(TITLES.values()) + " |", "|---" * (len(TITLES) + 1) + "|"]
    for row in found:
        cells = [row["held_out"], f"{row['group']} ({row['platforms']})"]
        for metric in METRICS:
            digits = 3 if metric == "spearman" else 1
            spread = row[f"{metric}_spread"]
            cells.append(f"{row[metric]:.{digits}f}" + ("" if spread is None else f" ± {spread:.{digits}f}"))
        coverage = row["interval_coverage"]
        cells.append("-" if coverage is None else f"{coverage:.0f} of {row['interval_predictions']}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def by_platform(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Means over the splits of each platform and what is held out."""
    members: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        members.setdefault((row["platform"], row["held_out"]), []).append(row)
    return [
        {"platform": name, "held_out": held_out, "seeds": len(some)}
        | {metric: float(np.mean([row[metric] for row in some])) for metric in METRICS}
        for (name, held_out), some in members.items()
    ]
