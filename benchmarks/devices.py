"""Devices that nobody measured, from a few networks: every chip held out in turn, with networks that no known platform ran.

A trial is a platform of a held-out chip, some networks measured there, and others to predict: networks that known platforms ran
("nothing" is held out but the chip); networks that no known platform ran, drawn at random ("drawn") or of whole lineages that
none ran ("networks": others of their lineage may be measured); or networks of lineages that are not measured either
("lineages"). Weights of the members and widths of the intervals are learned on the other chips. Figures are means over platforms,
medians beside.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pool import kinds_of_rows
from benchmarks.result_files import keep
from latcast.chips.chip_names import FLAGS
from latcast.devices import device_model_file
from latcast.devices.added_device import suggest_networks
from latcast.devices.arbitration import (
    MEASURED,
    NEW_LINEAGES,
    NEW_NETWORKS,
    Tried,
    chip_folds,
    learn_arbitration,
    mixed,
    mixed_by_others,
    try_members,
    try_pool,
)  # fmt: skip
from latcast.devices.device_model import INTERCEPT, KINDS
from latcast.devices.device_model_file import SHIPPED, save_device_model
from latcast.devices.device_model_fit import Watch, fit_device_model, platform_weights, ridge_effects, unwatched
from latcast.devices.known_platforms import RULES, KnownPlatforms
from latcast.devices.members import FLOPS_AND_MEMORY, pattern_deviations
from latcast.devices.network_kernels import network_kernels
from latcast.kernels.rules import load_rules
from latcast.predictors.intervals import LEVEL_DEVIATIONS
from latcast.predictors.metrics import spearman
from latcast.predictors.network_features import NetworkFeatures
from latcast.predictors.platform_posterior import linearised
from latcast.spaces import build
from latcast.spaces.catalogue import FAMILY_NAMES, family, find_model

FOLDS = 6

FORECAST = "forecast"

DRAWN_NETWORKS = "drawn"
"""What is held out: a third of the networks, drawn at random, whatever their lineages."""

TARGETS: Mapping[tuple[str, str], tuple[float, float, float]] = {
    ("cpu", DRAWN_NETWORKS): (20, 11, 7), ("gpu", DRAWN_NETWORKS): (30, 18, 8), ("npu", DRAWN_NETWORKS): (35, 20, 15),
    ("cpu", "lineages"): (30, 22, 16), ("gpu", "lineages"): (30, 22, 16),
}  # fmt: skip
"""MAPE that is aimed at with 3, 10 and 30 measured networks."""


@dataclass(frozen=True)
class Judged:
    """One platform, one number of measured networks: means over its trials.

    Attributes:
        mape, median_ape, within_5, within_10, rmspe: Percent.
        spearman: Rank correlation.
        coverage: Percent of networks inside the 90 % interval.
        width: Upper bound over lower bound, the median network's.
    """

    mape: float
    median_ape: float
    within_5: float
    within_10: float
    rmspe: float
    spearman: float
    coverage: float
    width: float


def judge(error: np.ndarray, deviation: np.ndarray, log_ms: np.ndarray) -> Judged:
    """From logarithmic errors (measured over predicted), deviations and measured logarithms, each (networks,)."""
    relative = 100 * np.abs(np.expm1(-error))
    return Judged(
        mape=float(relative.mean()),
        median_ape=float(np.median(relative)),
        within_5=100 * float((relative <= 5).mean()),
        within_10=100 * float((relative <= 10).mean()),
        rmspe=float(np.sqrt((relative**2).mean())),
        spearman=spearman(log_ms - error, log_ms),
        coverage=100 * float((np.abs(error) <= LEVEL_DEVIATIONS * deviation).mean()),
        width=float(np.exp(2 * LEVEL_DEVIATIONS * np.median(deviation))),
    )


def judged_trials(tried: Sequence[Tried], folds: int) -> Iterator[tuple[Tried, str, Judged]]:
    """Every trial by the forecast and by each member; what weighs members is learned on the other folds."""
    for one, mean, variance in mixed_by_others(tried, folds):
        log_ms = one.trial.log_ms
        yield one, FORECAST, judge(log_ms - mean, np.sqrt(variance), log_ms)
        for row, name in enumerate(one.names):
            spread = np.sqrt(one.open_variance[row] + one.noise_variance[row])
            yield one, name, judge(log_ms - one.log_ms[row], spread, log_ms)


def tried_pool(pool: KnownPlatforms, *, draws: int = 2, seed: int = 0, watch: Watch = unwatched) -> list[Tried]:
    """All trials on the pool, each by a model that never saw its chip: with lineages held out, and with drawn networks."""
    folds = partial(try_pool, pool.platforms, pool.features, folds=FOLDS, draws=draws, seed=seed, watch=watch)
    found = [one for _, _, trials in folds(lineages=pool.lineages) for one in trials]
    drawn = [one for _, _, trials in folds(lineages=[""] * len(pool.lineages)) for one in trials]
    return found + [
        replace(one, trial=replace(one.trial, held_out=DRAWN_NETWORKS)) for one in drawn if one.trial.held_out == NEW_NETWORKS
    ]


def rows_of(tried: Sequence[Tried]) -> list[dict[str, Any]]:
    """Rows of the table: kind, what was held out, number of measured networks, method, and the figures."""
    groups: dict[tuple[str, str, int], dict[str, dict[str, list[Judged]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    chips: dict[tuple[str, str, int], set[str]] = defaultdict(set)
    for one, method, figures in judged_trials(tried, FOLDS):
        platform = one.trial.platform
        for kind in kinds_of_rows(platform):
            key = (kind, one.trial.held_out, len(one.trial.measured))
            groups[key][method][platform.name].append(figures)
            chips[key].add(platform.silicon)
    rows = []
    for key in sorted(groups):
        for method, by_platform in groups[key].items():
            each = [
                {name: np.mean([asdict(one)[name] for one in listed]) for name in asdict(listed[0])}
                for listed in by_platform.values()
            ]
            row = {
                "kind": key[0],
                "held_out": key[1],
                "measured": key[2],
                "method": method,
                "platforms": len(each),
                "chips": len(chips[key]),
            }
            for name in each[0]:
                values = np.array([one[name] for one in each], dtype=float)
                row[name] = float(np.nanmean(values)) if not np.isnan(values).all() else float("nan")
            row["median_mape"] = float(np.median([one["mape"] for one in each]))
            rows.append(row)
    return rows


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table: the forecast, beside it FLOPs+MAC and the best single member."""
    lines = [
        "| unit | held out | measured | platforms (chips) | MAPE mean (median) | ±5 % | ±10 % | RMSPE | Spearman "
        "| in the 90 % interval | high/low | FLOPs+MAC | best member | aim |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if row["method"] != FORECAST:
            continue
        same = [each for each in rows if all(each[name] == row[name] for name in ("kind", "held_out", "measured"))]
        members = [each for each in same if each["method"] != FORECAST and each["platforms"] == row["platforms"]]
        simple = next((f"{each['mape']:.1f}" for each in members if each["method"] == FLOPS_AND_MEMORY), "-")
        best = min(members, key=lambda each: float(each["mape"]))
        lines.append(
            f"| {row['kind']} | {row['held_out']} | {row['measured']} | {row['platforms']} ({row['chips']}) | {row['mape']:.1f} "
            f"({row['median_mape']:.1f}) | {row['within_5']:.0f} | {row['within_10']:.0f} | {row['rmspe']:.1f} | "
            f"{row['spearman']:.2f} | {row['coverage']:.0f} | {row['width']:.2f} | {simple} "
            f"| {best['method']} {best['mape']:.1f} | {'' if target(row) is None else target(row)} |"
        )
    return "\n".join(lines)


def target(row: Mapping[str, Any]) -> float | None:
    """Return the MAPE that is aimed at for a row, or None where there is no aim."""
    aims = TARGETS.get((row["kind"], row["held_out"]), ())
    return dict(zip((3, 10, 30), aims, strict=False)).get(row["measured"])


def missed(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Aims that are missed, a sentence each."""
    found = []
    for row in rows:
        if row["method"] != FORECAST or row["kind"] not in ("cpu", "gpu", "npu"):
            continue
        where = f"{row['kind']}, {row['held_out']} held out, {row['measured']} measured"
        aim = target(row)
        if aim is not None and row["mape"] > aim:
            found.append(f"{where}: MAPE {row['mape']:.1f}, aimed at {aim:g}")
        if row["measured"] and not 85 <= row["coverage"] <= 95:
            found.append(f"{where}: {row['coverage']:.1f} % inside the interval, aimed at 85 to 95")
        for each in rows:
            if all(each[name] == row[name] for name in ("kind", "held_out", "measured", "platforms")) and row["measured"]:
                allowed = 1.0 if each["method"] == FLOPS_AND_MEMORY else 1.1
                if row["mape"] > allowed * each["mape"] + 0.05:
                    found.append(f"{where}: MAPE {row['mape']:.1f}, that of {each['method']} {each['mape']:.1f}")
    return found


def save(rows: Sequence[Mapping[str, Any]], pool: KnownPlatforms) -> None:
    """Keep the rows and what they are of."""
    about = {
        "platforms": len(pool.platforms), "networks": len(pool.references), "measured": list(MEASURED),
        "chips": len({each.silicon for each in pool.platforms}), "left_out": dict(pool.left_out), "rows": list(rows),
    }  # fmt: skip
    keep("devices", about)


MOST_PARAMETERS = 6_500_000
"""Of a network that is carried to another device; 26 MB in single precision."""

SIGNATURE = 40
"""Networks that the model keeps to choose from."""


def ship(pool: KnownPlatforms, tried: Sequence[Tried], *, seed: int = 0, watch: Watch = unwatched) -> Path:
    """Fits the model to the whole pool, with what the trials say of members and intervals, and writes the shipped file."""
    model = fit_device_model(pool.platforms, pool.features, seed=seed, watch=watch)
    model = replace(model, arbitration=learn_arbitration(tried))
    rules = load_rules(RULES)
    named = [find_model(name) for space in FAMILY_NAMES for name in family(space).published]
    small = [each for each in named if each is not None and build(each).parameter_count <= MOST_PARAMETERS]
    features = NetworkFeatures.of([network_kernels(each, rules) for each in small])
    nothing = model.described(features).rows(np.zeros(0, dtype=int))
    forecast = model.forecast("cpu", {INTERCEPT: 1.0, "kind cpu": 1.0}, nothing, np.zeros(0))
    wanted = pool.features.rows(np.arange(0, len(pool.references), 2))
    _, chosen = suggest_networks(forecast, small, features, wanted, SIGNATURE)
    target = Path(device_model_file.__file__).parent / "shipped" / SHIPPED
    return save_device_model(replace(model, signature=tuple(each.reference for each in chosen)), target)


FACTS: Mapping[str, tuple[str, ...]] = {
    "kind of unit": (INTERCEPT, "kind "),
    "runtime and precision": ("runtime ", "precision "),
    "threads": ("cpu threads",),
    "year": ("cpu year", "gpu year", "npu year"),
    "clock": ("cpu log2_ghz", "gpu log2_gpu_ghz"),
    "cores, TOPS": ("cpu log2_cores", "cpu log2_cluster_cores", "gpu log2_gpu_cores", "gpu log2_gpu_gflops", "npu log2_tops"),
    "SIMD": ("cpu log2_simd_bits", "cpu log2_fma_bits", *(f"cpu {name}" for name in FLAGS)),
    "bandwidth": ("cpu log2_bandwidth", "gpu log2_bandwidth", "npu log2_bandwidth"),
    "core, family": ("cpu core=", "cpu out_of_order", "gpu gpu=", "npu npu"),
}
"""What is known of a device that nobody measured, and how the names of its covariates begin."""

FEWEST_OF_A_JUDGED = 8
"""Networks of a platform whose forecasts by facts alone are judged."""


def by_fact(pool: KnownPlatforms, *, seed: int = 0, watch: Watch = unwatched) -> list[dict[str, Any]]:
    """What facts are worth where nothing was measured: the state by facts of the first kinds, and by all but one kind.

    The effects of the covariates are those of ridge regression on the states of a pool without the chip.

    Returns:
        Rows of kind of unit, facts, MAPE (mean and median over platforms), and the upper over the lower bound of the interval
        that holds 90 % of the networks.
    """
    fold = chip_folds(pool.platforms, FOLDS, seed)
    sets = {f"+ {name}" if index else name: list(FACTS)[: index + 1] for index, name in enumerate(FACTS)}
    sets |= {f"all but {name}": [each for each in FACTS if each != name] for name in list(FACTS)[1:]}
    errors: dict[tuple[str, str], list[np.ndarray]] = defaultdict(list)
    for held in range(FOLDS):
        known = [each for each in pool.platforms if fold[each.silicon] != held]
        model = fit_device_model(known, pool.features, seed=seed, watch=watch)
        described = model.described(pool.features)
        asked = [each for each in pool.platforms if fold[each.silicon] == held and len(each.networks) >= FEWEST_OF_A_JUDGED]
        z, of_asked = (
            np.array([[each.covariates.get(name, 0.0) for name in model.covariates] for each in listed])
            for listed in (model.platforms, asked)
        )
        weights = platform_weights(model.platforms)
        for label, names in sets.items():
            starts = tuple(start for name in names for start in FACTS[name])
            kept = np.array([name.startswith(starts) for name in model.covariates])
            effects = ridge_effects(z * kept, model.states, weights, model.covariates)
            for each, values in zip(asked, of_asked, strict=True):
                seen = described.rows(each.networks)
                errors[each.kind, label].append(each.log_ms - linearised((values * kept) @ effects, seen.terms, seen.basis)[0])
    rows = []
    for (kind, label), listed in errors.items():
        mape = [100 * float(np.abs(np.expm1(-error)).mean()) for error in listed]
        held_ninety = float(np.quantile(np.abs(np.concatenate(listed)), 0.9))
        rows.append(
            {
                "kind": kind, "facts": label, "platforms": len(listed), "mape": float(np.mean(mape)),
                "median_mape": float(np.median(mape)), "width": float(np.exp(2 * held_ninety)),
            }
        )  # fmt: skip
    return sorted(rows, key=lambda row: KINDS.index(row["kind"]))


def facts_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table of :func:`by_fact`: a line for each set of facts."""
    found: dict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for row in rows:
        found[row["facts"]][row["kind"]] = row
    lines = [
        "| facts | " + " | ".join(f"{kind.upper()}: MAPE (median) | high/low" for kind in KINDS) + " |",
        "|---|" + "---|" * (2 * len(KINDS)),
    ]
    for label, by_kind in found.items():
        cells = [
            f"{by_kind[kind]['mape']:.0f} ({by_kind[kind]['median_mape']:.0f}) | {by_kind[kind]['width']:.1f}" for kind in KINDS
        ]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


CHOSEN, DRAWN = 10, (10, 15)


def chosen_against_drawn(
    pool: KnownPlatforms, *, folds: int = 3, draws: int = 3, seed: int = 0, watch: Watch = unwatched
) -> dict[str, dict[str, float]]:
    """MAPE from networks that ``device suggest`` chooses, and from as many and half as many again drawn at random.

    Of platforms of held-out chips that ran enough of them; the tested networks are those that no known platform ran.

    Returns:
        Kind of unit to method ("chosen 10", "drawn 10", "drawn 15") to mean MAPE over platforms, and their number.
    """
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for fold, (model, described, tried) in enumerate(
        try_pool(
            pool.platforms, pool.features, pool.lineages, folds=folds, measured=(max(DRAWN),), draws=1, seed=seed, watch=watch
        )
    ):
        rng = np.random.default_rng([seed, fold, 1])
        for one in tried:
            trial = one.trial
            platform = trial.platform
            if trial.held_out != NEW_LINEAGES:
                continue
            free = np.setdiff1d(platform.networks, trial.tested)
            log_ms = dict(zip(platform.networks.tolist(), platform.log_ms.tolist(), strict=True))
            nothing = described.rows(np.zeros(0, dtype=int))
            before = model.forecast(platform.kind, platform.covariates, nothing, np.zeros(0), platform.silicon)
            among = pool.features.rows(free)
            _, best = suggest_networks(before, [pool.references[row] for row in free], among, among, CHOSEN)
            places = {pool.references[row].key: row for row in free.tolist()}
            trials = {f"chosen {CHOSEN}": [np.array([places[each.reference.key] for each in best])]}
            trials |= {f"drawn {count}": [rng.permutation(free)[:count] for _ in range(draws)] for count in DRAWN}
            for name, listed in trials.items():
                errors = []
                for measured in listed:
                    again = replace(
                        trial, measured=measured, measured_log_ms=np.array([log_ms[row] for row in measured.tolist()])
                    )
                    mean, _ = mixed(try_members(model, described, again), model.arbitration_of(platform.kind, len(measured)))
                    errors.append(100 * float(np.abs(np.expm1(mean - trial.log_ms)).mean()))
                found[platform.kind][name].append(float(np.mean(errors)))
    return {
        kind: {
            **{name: float(np.mean(values)) for name, values in by_name.items()},
            "platforms": len(by_name[f"chosen {CHOSEN}"]),
        }
        for kind, by_name in found.items()
    }


def scale(pool: KnownPlatforms, platforms: int = 1000, networks: int = 1500, seed: int = 0) -> dict[str, float]:
    """Time and memory of a pool of made-up platforms that each ran as many networks, and of what is asked of the model after.

    Platforms are drawn around those of the pool, whose networks are drawn with repetition.
    """
    import resource
    import time

    rng = np.random.default_rng(seed)
    features = pool.features.rows(rng.integers(0, len(pool.references), networks))
    known = [each for each in pool.platforms if len(each.networks) >= 8]
    few = fit_device_model(known[:60], pool.features, seed=seed)
    described = few.described(features)
    made_up = []
    for index in range(platforms):
        state = few.states[index % len(few.states)] + rng.normal(0, 0.1, few.states.shape[1])
        log_ms = linearised(state, described.terms, described.basis)[0] + rng.normal(0, 0.05, networks)
        like = known[index % len(known)]
        made_up.append(
            replace(like, name=f"p{index}", silicon=f"c{index}", networks=np.arange(networks), log_ms=log_ms)
        )  # fmt: skip
    started = time.monotonic()
    model = fit_device_model(made_up, features, seed=seed)
    fit_s = time.monotonic() - started
    seen = model.described(features).rows(np.arange(10))
    started = time.monotonic()
    model.forecast("cpu", {INTERCEPT: 1.0, "kind cpu": 1.0}, seen, rng.uniform(1, 4, 10))
    device_s = time.monotonic() - started
    started = time.monotonic()
    one = model.described(features.rows(np.arange(1)))
    pattern_deviations(model, "cpu", {}, one.observed(model.kinds["cpu"], np.zeros(1)))
    network_s = time.monotonic() - started
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {
        "fit_s": fit_s,
        "gigabytes": gigabytes,
        "new_device_ms": 1e3 * device_s,
        "network_on_all_platforms_ms": 1e3 * network_s,
    }
