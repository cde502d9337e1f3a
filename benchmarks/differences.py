"""Intervals of the difference of two predictions: correlations of errors learned, and intervals judged, on phones.

Networks of published phones are predicted without their lineage, as for the cards of the shipped predictors. The shared parts of
two errors (:class:`latcast.predictors.joint.SharedErrors`) are learned from the pairs without two lineages, and intervals are
calibrated without them; pairs of these two lineages are judged by both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations_with_replacement, pairwise, zip_longest
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.command import Store as StorePath
from benchmarks.judge import Columns, table
from benchmarks.phones import measured, phone_platforms, source_of
from benchmarks.result_files import keep
from latcast.datasets.store import Store
from latcast.folders import cache_folder
from latcast.kernels.rules import platform_rules, unit_kind
from latcast.predictors.intervals import LEVEL, LEVEL_DEVIATIONS, HeldOut, Interval, conformal_interval
from latcast.predictors.joint import SHARED, SharedErrors, joint_of, shared_parts
from latcast.predictors.prediction import Coverage, Grade, Prediction
from latcast.records import Platform
from latcast.training.fitting import Trainer
from papers.harness import ResultFolder, files_digest, source_digest

FEWEST = 6
"""Networks of a lineage on all platforms below which it is judged with the other small ones, as one."""

BANDS = (0.0, 0.2, 0.5, 0.8, 0.95, 1.0)
"""Bounds of the correlations that are judged together."""

GRID = np.linspace(0.0, 1.0, 11)
"""Shares of the variance of a kernel's error that are tried."""

SAME_KERNELS = 0.999
"""Correlation of what is the same, from which on two networks have the same kernels: their labels differ by noise."""

MOST_LEARNED, MOST_JUDGED = 150, 25
"""Pairs of each platform and two lineages."""

SOURCES = (
    "latcast.kernels", "latcast.training.fitting", "latcast.predictors.network_priors", "latcast.predictors.whole_networks",
    "latcast.training.samples", "latcast.predictors.regressors", "latcast.predictors.kernel_predictor",
    "latcast.predictors.calibration_terms",
)  # fmt: skip
"""Modules whose source decides the errors of a platform."""


# Command


def differences(
    store: StorePath,
    every: Annotated[int, typer.Option(help="One CPU platform in so many, and nine times as many of the GPUs.", min=1)] = 9,
) -> None:
    """Judge intervals of differences of two predictions, lineages held out."""
    found = judge(list(platform_errors(store, every)))
    keep("differences", found)
    print(json.dumps(found["learned"]))
    print(differences_table(found))


# Errors of platforms


@dataclass(frozen=True)
class PhoneErrors:
    """Networks of one platform, each predicted without its lineage.

    Attributes:
        platform: Id.
        names, lineages: (networks,).
        latency_ms, predicted_ms, outside_share: (networks,).
        parts: (3, networks, networks) of :func:`latcast.predictors.joint.shared_parts`, by a predictor of all networks.
    """

    platform: str
    names: list[str]
    lineages: list[str]
    latency_ms: list[float]
    predicted_ms: list[float]
    outside_share: list[float]
    parts: list[list[list[float]]]


@dataclass(frozen=True)
class _Trial:
    platform: str


def platform_errors(path: Path, every: int) -> Iterator[PhoneErrors]:
    """Yield the errors of one CPU platform in so many, and of nine times as many GPUs; those computed before are read again."""
    with Store(path) as store:
        names = phone_platforms(store)
    gpus = [name for name in names if unit_kind(Platform.parse(name).unit) == "gpu"]
    cpus = [name for name in names if name not in gpus]
    chosen = [name for pair in zip_longest(cpus[every // 2 :: every], gpus[:: max(every // 9, 1)]) for name in pair if name]
    folder = ResultFolder(
        cache_folder() / "differences", files_digest([path]), source_digest(SOURCES), lambda found: PhoneErrors(**found)
    )
    for name in chosen:
        found = folder.get(_Trial(name))
        if found is None:
            platform = Platform.parse(name)
            rules, data = platform_rules(platform), measured(path, platform)
            trainer = Trainer(platform, rules, source_of(data))
            unseen, whole = trainer.held_out(data), trainer.fit(data)
            parts = shared_parts(whole.estimate([sample.kernels for sample in data.networks]), whole.network.constant_ms)
            found = PhoneErrors(
                name, [str(sample.reference.name) for sample in data.networks], [sample.lineage for sample in data.networks],
                [sample.latency_ms for sample in data.networks],
                unseen.latency_ms.tolist(), unseen.outside_share.tolist(), np.round(parts, 6).tolist(),
            )  # fmt: skip
            folder.put(_Trial(name), found)
        yield found


@dataclass(frozen=True)
class Pairs:
    """Pairs of networks on their platforms, each (pairs,).

    Attributes:
        platform: Index among those that were given.
        first, second: Networks.
        distance: Distance of the two errors, each in standard deviations of its interval.
        deviation: Standard deviation of one error's logarithm, by both together.
        parts, first_parts, second_parts: (3, pairs) parts that both share, and that each shares with itself.
    """

    platform: np.ndarray
    first: np.ndarray
    second: np.ndarray
    distance: np.ndarray
    deviation: np.ndarray
    parts: np.ndarray
    first_parts: np.ndarray
    second_parts: np.ndarray

    def correlation(self, shared: SharedErrors) -> np.ndarray:
        """Return the correlation of each pair's errors, (pairs,)."""
        weights = np.array([shared.kind, shared.close, shared.same])
        both = np.sqrt((weights @ self.first_parts) * (weights @ self.second_parts))
        return np.asarray(np.clip(weights @ self.parts / both, 0.0, 1.0))


def pairs_of(
    every: Sequence[PhoneErrors],
    groups: Sequence[np.ndarray],
    wanted: Sequence[np.ndarray],
    calibrated_on: Sequence[np.ndarray],
    most: int,
    seed: int = 0,
) -> Pairs:
    """Draw pairs of networks.

    Args:
        groups: For each platform the group of each network, (networks,).
        wanted: For each platform which pairs may be drawn, (networks, networks).
        calibrated_on: For each platform which networks the interval is calibrated on, (networks,).
        most: Most pairs of a platform and two groups.
    """
    random = np.random.default_rng(seed)
    columns: list[list[np.ndarray]] = []
    for index, (errors, group, mask, rows) in enumerate(zip(every, groups, wanted, calibrated_on, strict=True)):
        low_ms, high_ms = _interval(errors, rows).bounds_ms(np.array(errors.predicted_ms), np.array(errors.outside_share))
        error = np.log(np.array(errors.latency_ms) / errors.predicted_ms)
        reach = np.where(error < 0, -np.log(low_ms / errors.predicted_ms), np.log(high_ms / errors.predicted_ms))
        score, deviation = LEVEL_DEVIATIONS * error / reach, reach / LEVEL_DEVIATIONS
        first, second = np.nonzero(np.triu(mask, 1))
        code = group[first] * 1000 + group[second]
        order = random.permutation(len(first))
        rank = np.zeros(len(first), dtype=np.int64)
        for name in np.unique(code):
            chosen = order[code[order] == name]
            rank[chosen] = np.arange(len(chosen))
        first, second = first[rank < most], second[rank < most]
        parts = np.array(errors.parts)
        columns.append(
            [
                np.full(len(first), index), first, second, np.abs(score[first] - score[second]),
                np.sqrt((deviation[first] ** 2 + deviation[second] ** 2) / 2),
                parts[:, first, second], parts[:, first, first], parts[:, second, second],
            ]
        )  # fmt: skip
    return Pairs(*(np.concatenate(column, axis=-1) for column in zip(*columns, strict=True)))


def _interval(errors: PhoneErrors, rows: np.ndarray) -> Interval:
    held_out = HeldOut(np.array(errors.predicted_ms)[rows], np.array(errors.outside_share)[rows])
    lineages = [name for name, kept in zip(errors.lineages, rows, strict=True) if kept]
    return conformal_interval(np.array(errors.latency_ms)[rows], held_out, lineages)


@dataclass(frozen=True)
class Learned:
    """Learned parameters of two networks' errors.

    Attributes:
        shared: Shares of the variance that errors have in common.
        noise: Standard deviation of the difference of two labels' logarithms by measuring alone.
    """

    shared: SharedErrors
    noise: float


def learn(pairs: Pairs) -> Learned:
    """Learn the shares with which nine in ten distances lie within those that correlation and label noise expect.

    The 90 % quantile of the logarithm of distances is regressed; every band of correlations weighs the same.
    """
    same = pairs.correlation(SharedErrors(0.0, 0.0, 1.0))
    apart = (pairs.distance * pairs.deviation)[same > SAME_KERNELS]
    noise = float(np.quantile(apart, LEVEL)) / LEVEL_DEVIATIONS if len(apart) else 0.0
    log_distance = np.log(np.maximum(pairs.distance, 1e-3))
    band = np.digitize(same, BANDS[1:-1])
    weight = 1 / np.bincount(band)[band]
    best, least = SHARED, np.inf
    for kind in GRID:
        for close in GRID[: np.searchsorted(GRID, 1 - kind, side="right")]:
            shared = SharedErrors(round(kind, 3), round(close, 3), round(max(1 - kind - close, 0.0), 3))
            expected = np.sqrt(2 * (1 - pairs.correlation(shared)) + (noise / pairs.deviation) ** 2)
            beyond = log_distance - np.log(LEVEL_DEVIATIONS * expected)
            loss = float(weight @ np.where(beyond > 0, LEVEL * beyond, (LEVEL - 1) * beyond))
            if loss < least:
                best, least = shared, loss
    return Learned(best, round(noise, 4))


def judge(every: Sequence[PhoneErrors]) -> dict[str, Any]:
    """Learn from all pairs, and judge intervals of differences on pairs of lineages held out."""
    counts: dict[str, int] = {}
    for errors in every:
        for name in set(errors.lineages):
            counts[name] = max(counts.get(name, 0), errors.lineages.count(name))
    names = sorted(name for name, count in counts.items() if count >= FEWEST)
    groups = [np.array([names.index(each) if each in names else len(names) for each in one.lineages]) for one in every]
    rows: list[dict[str, Any]] = []
    learned: list[Learned] = []
    for a, b in combinations_with_replacement(range(len(names) + 1), 2):
        rest = [~np.isin(group, [a, b]) for group in groups]
        learned.append(learn(pairs_of(every, groups, [np.outer(kept, kept) for kept in rest], rest, MOST_LEARNED)))
        between = [
            ((group[:, None] == a) & (group[None] == b)) | ((group[:, None] == b) & (group[None] == a)) for group in groups
        ]
        tested = pairs_of(every, groups, between, rest, MOST_JUDGED)
        rows += _judged(every, rest, tested, learned[-1], one_lineage=a == b)
    whole = [np.ones(len(group), dtype=bool) for group in groups]
    everything = pairs_of(every, groups, [np.outer(kept, kept) for kept in whole], whole, MOST_LEARNED)
    return {
        "platforms": [errors.platform for errors in every],
        "learned": asdict(learn(everything)),
        "learned_without_two_lineages": [asdict(found) for found in learned],
        "in_use": asdict(SHARED),
        "lineages": [*names, "others"],
        "rows": summary(rows),
    }


def _judged(
    every: Sequence[PhoneErrors], rest: Sequence[np.ndarray], pairs: Pairs, learned: Learned, *, one_lineage: bool
) -> Iterator[dict[str, Any]]:
    correlation = pairs.correlation(learned.shared)
    for index, errors in enumerate(every):
        interval = _interval(errors, rest[index])
        low_ms, high_ms = interval.bounds_ms(np.array(errors.predicted_ms), np.array(errors.outside_share))
        found = [
            Prediction("", "", *numbers, Coverage(1.0, ()), Grade.of(5.0, ""), level=interval.level)
            for numbers in zip(errors.predicted_ms, low_ms.tolist(), high_ms.tolist(), strict=True)
        ]
        for place in np.flatnonzero(pairs.platform == index):
            a, b = int(pairs.first[place]), int(pairs.second[place])
            truth_ms = errors.latency_ms[b] - errors.latency_ms[a]
            row: dict[str, Any] = {"correlation": float(correlation[place]), "one_lineage": one_lineage}
            measured = max(row["correlation"] - (learned.noise / pairs.deviation[place]) ** 2 / 2, 0.0)
            for name, rho in (("joint", row["correlation"]), ("measured", measured), ("independent", 0.0)):
                joint = joint_of(found[a], found[b], rho)
                low, high = joint.difference_ms()
                row[name] = low <= truth_ms <= high
                row[f"{name}_width"] = (high - low) / (errors.predicted_ms[a] + errors.predicted_ms[b]) * 2
                faster = joint.faster_probability()
                row[f"{name}_brier"] = (faster - (truth_ms < 0)) ** 2
            yield row


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return coverage and median width, in percent of the latencies' mean, by correlation, of one lineage and of two."""
    found = []
    for kind in (True, False, None):
        chosen = [row for row in rows if kind in (None, row["one_lineage"])]
        for low, high in (*pairwise(BANDS), (0.0, 1.0)):
            band = [row for row in chosen if low <= row["correlation"] < high or row["correlation"] == high == 1.0]
            if not band:
                continue
            one: dict[str, Any] = {"one_lineage": kind, "from": low, "to": high, "pairs": len(band)}
            for name in ("joint", "measured", "independent"):
                one[f"{name}_coverage"] = round(100 * float(np.mean([row[name] for row in band])), 1)
                one[f"{name}_width"] = round(100 * float(np.median([row[f"{name}_width"] for row in band])), 2)
                one[f"{name}_brier"] = round(float(np.mean([row[f"{name}_brier"] for row in band])), 4)
            found.append(one)
    return found


LINEAGES = {True: "one", False: "two", None: "all"}


def differences_table(found: Mapping[str, Any]) -> str:
    """Return the judged pairs: intervals of correlated errors, the same with the labels' noise, and of independent errors."""
    columns: Columns = {
        "lineages": lambda row: LINEAGES[row["one_lineage"]], "correlation": "{from:g} to {to:g}", "pairs": "{pairs}",
        "coverage %": "{joint_coverage}", "width %": "{joint_width}", "with label noise: coverage %": "{measured_coverage}",
        "with label noise: width %": "{measured_width}", "independent: coverage %": "{independent_coverage}",
        "independent: width %": "{independent_width}",
    }  # fmt: skip
    return table(found["rows"], columns)
