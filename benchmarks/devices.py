"""Devices that were not measured before, from a few networks: every chip held out in turn, and networks too.

A trial is a platform of a held-out chip, some networks measured there, and others to predict: networks that known platforms ran
("nothing" is held out but the chip); networks that no known platform ran, drawn at random ("drawn") or of whole lineages that
none ran ("networks": others of their lineage may be measured); or networks of lineages that are not measured either
("lineages"). Weights of the members and widths of the intervals are learned on the other chips. Figures are means over platforms,
medians beside. Rivals stand beside the forecast: the best twin times a factor, a Gaussian over the rows' covariance, their mean.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.command import PUBLISHED, AsJson, Data, print_stages, say
from benchmarks.judge import (
    LEAST_COVERAGE,
    MOST_COVERAGE,
    Row,
    absolute_percentage,
    by_covariance,
    by_one_factor,
    figures_of_logarithms,
    interval_of_mean,
    is_off_level,
    mean_over_platforms,
    table,
)
from benchmarks.pool import KINDS_OF_ROWS, kinds_of_rows, unit_title
from benchmarks.result_files import keep, kept
from latcast.chips.chip_names import FLAGS
from latcast.devices import device_model_file
from latcast.devices.added_device import suggest_networks
from latcast.devices.covariates import network_kernels
from latcast.devices.device_model import INTERCEPT, KINDS, DescribedNetworks, DeviceModel, KnownPlatform
from latcast.devices.device_model_file import SHIPPED, load_device_model
from latcast.devices.members import FLOPS_AND_MEMORY
from latcast.kernels.rules import load_rules
from latcast.predictors.network_features import RULES, NetworkFeatures
from latcast.predictors.network_memory import nearness
from latcast.predictors.platform_posterior import linearised
from latcast.spaces import build
from latcast.spaces.catalogue import FAMILY_NAMES, family, find_model
from shipping import device_model_fit
from shipping.arbitration import (
    FEWEST_TESTED,
    MEASURED,
    MOST_OF_A_CHIP,
    NEW_LINEAGES,
    NEW_NETWORKS,
    NOTHING,
    DeviceTrial,
    MemberForecasts,
    chip_folds,
    learn_arbitration,
    mixed_by_others,
    try_fold,
)
from shipping.device_model_fit import Watch, fit_device_model, platform_weights, ridge_effects, unwatched
from shipping.files import save_device_model
from shipping.known_platforms import KnownPlatforms, known_platforms, read_datasets

FOLDS = 6

PARTS = Path(tempfile.gettempdir()) / "latcast_devices"

FORECAST = "forecast"

Mixture = tuple[MemberForecasts, np.ndarray, np.ndarray]
"""A trial with the mean logarithms and variances of its forecast, as weighed by what was learned on other folds."""

DRAWN_NETWORKS = "drawn"
"""The case of holding out a third of the networks, drawn at random, whatever their lineages."""

ONE_TWIN, COVARIANCE, BOTH = "best twin", "covariance", "their mean"
"""Rivals: the known platform that fits best, times a factor; a Gaussian over the rows' covariance; the mean of both."""

FEWEST_ROWS = 3
"""Known platforms that measured all of a trial's networks, for its rivals to rest on them alone."""

MOST_WORSE = 1.0
"""Points of MAPE by which a forecast may be worse than the best twin and the regression on FLOPs and memory."""

NEVER_WORSE_AT = (3, 10, 30)
"""Measured networks with which that is judged."""

HELD_OUT: Mapping[str, str] = {
    NOTHING: "run by other devices",
    DRAWN_NETWORKS: "not run, drawn at random",
    NEW_NETWORKS: "not run, of lineages not run",
    NEW_LINEAGES: "of lineages not measured",
}
"""Case of holding out to the name of its tested networks in tables."""

FACTS_SHOWN = ("kind of unit", "+ threads", "+ clock", "+ bandwidth", "+ core, family")
"""Facts of a chip after which the table has a line."""

TARGETS: Mapping[tuple[str, str], tuple[float, float, float]] = {
    ("cpu", DRAWN_NETWORKS): (20, 11, 7), ("gpu", DRAWN_NETWORKS): (30, 18, 8), ("npu", DRAWN_NETWORKS): (35, 20, 15),
    ("cpu", NEW_LINEAGES): (30, 22, 16), ("gpu", NEW_LINEAGES): (30, 22, 16),
}  # fmt: skip
"""MAPE that is aimed at with 3, 10 and 30 measured networks."""

SHOWN = 10
"""Measured networks of the simple regression and of the overview."""


# Command


def devices(
    data: Data = PUBLISHED,
    seeds: Annotated[int, typer.Option(help="Seeds of folds and draws; figures are means over them.", min=1)] = 2,
    draws: Annotated[int, typer.Option(help="Draws of the measured networks for each platform, number and seed.", min=1)] = 5,
    parts: Annotated[
        Path, typer.Option(help="Folder in which each seed and fold is kept, to go on after an interruption.")
    ] = PARTS,
    ship: Annotated[bool, typer.Option("--ship", help="Fit everything and write the shipped model, too.")] = False,
    facts: Annotated[
        bool, typer.Option("--facts", help="Judge only forecasts from facts of a device, with nothing measured.")
    ] = False,
    suggested: Annotated[bool, typer.Option("--suggested", help="Compare only suggested networks with drawn ones.")] = False,
    as_json: AsJson = False,
) -> None:
    """Judge forecasts for devices that were not measured before, from a few networks, every chip held out in turn."""
    watch = print_stages()
    pool = known_platforms(read_datasets(data), watch)
    if facts:
        rows = by_fact(pool, watch=watch)
        keep("facts", rows)
        print(json.dumps(rows, indent=1) if as_json else facts_table())
        return
    if suggested:
        rows = by_suggestion(pool, draws=draws, watch=watch)
        keep("suggested", rows)
        print(json.dumps(rows, indent=1) if as_json else suggested_table())
        return
    folder = parts / f"{sources_digest()}_{len(pool.platforms)}_{draws}"
    tried = []
    for seed in range(seeds):
        for fold in range(FOLDS):
            tried.append(tried_part(folder / f"{seed}_{fold}.npz", pool, fold, draws=draws, seed=seed))
            say(f"seed {seed}, fold {fold}: {len(tried[-1])} trials")
    by_seed = [[one for part in tried[FOLDS * seed : FOLDS * (seed + 1)] for one in part] for seed in range(seeds)]
    mixtures = [each for listed in by_seed for each in mixed_by_others(listed, FOLDS)]
    rows, worse = rows_of(mixtures), worse_than_rivals(mixtures)
    about = {
        "platforms": len(pool.platforms), "networks": len(pool.references), "measured": list(MEASURED),
        "chips": len({each.silicon for each in pool.platforms}), "left_out": dict(pool.left_out), "rows": rows,
        "worse": worse, "worse_measured": worse_measured(mixtures), "draws": seeds * draws,
    }  # fmt: skip
    keep("devices", about)
    print(json.dumps(rows, indent=1) if as_json else all_rows_table(rows))
    for text in missed(rows):
        say(f"missed: {text}")
    if not as_json:
        print(worse_table(worse))
        say(f"with 3 measured worse than with none by more than {MOST_WORSE:g} point: {about['worse_measured']}")
    if ship:
        print(ship_model(pool, [one for part in tried for one in part], watch=watch))


# Judging


def tried_fold(pool: KnownPlatforms, fold: int, *, draws: int = 2, seed: int = 0) -> list[MemberForecasts]:
    """Return trials by models that never saw their chips: with lineages held out, and with drawn networks.

    Networks that other devices ran are those of the second, which holds out no search space as a whole.
    """
    of_fold = partial(try_fold, pool.platforms, pool.features, fold=fold, folds=FOLDS, seed=seed)
    # How networks are drawn decides more where they are drawn from all: there are more draws of these.
    found = [one for one in of_fold(lineages=pool.lineages, draws=max(1, draws // 2))[2] if one.trial.held_out != NOTHING]
    model, _, trials = of_fold(lineages=[""] * len(pool.lineages), draws=draws)
    for one in trials:
        if one.trial.held_out == NOTHING:
            found.append(replace(one, rivals=rivals(model, one.trial)))
        elif one.trial.held_out == NEW_NETWORKS:
            found.append(replace(one, trial=replace(one.trial, held_out=DRAWN_NETWORKS)))
    return found


def tried_part(path: Path, pool: KnownPlatforms, fold: int, *, draws: int, seed: int) -> list[MemberForecasts]:
    """Return :func:`tried_fold`, from the file where an interrupted run left it."""
    if path.is_file():
        return read_trials(path, pool)
    found = tried_fold(pool, fold, draws=draws, seed=seed)
    write_trials(path, pool, found)
    return found


def write_trials(path: Path, pool: KnownPlatforms, tried: Sequence[MemberForecasts]) -> None:
    """Keep trials as arrays: a header in JSON, and each trial's numbers one after another."""
    place = {(each.name, each.source): row for row, each in enumerate(pool.platforms)}
    headers, numbers = [], []
    for one in tried:
        trial = one.trial
        row = place[trial.platform.name, trial.platform.source]
        sizes = trial.measured.tolist(), trial.tested.tolist()
        headers.append([row, trial.held_out, trial.fold, one.names, [*one.rivals], *sizes])
        numbers += [trial.measured_log_ms, one.scores, trial.log_ms, one.known, *one.log_ms, *one.open_variance]
        numbers += [*one.noise_variance, *one.rivals.values()]
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft.npz")
    np.savez_compressed(draft, header=np.array(json.dumps(headers)), numbers=np.concatenate([np.zeros(0), *numbers]))
    draft.replace(path)


def read_trials(path: Path, pool: KnownPlatforms) -> list[MemberForecasts]:
    """Read what :func:`write_trials` wrote."""
    with np.load(path) as found:
        headers, numbers = json.loads(str(found["header"])), found["numbers"]
    at = 0

    def next_numbers(*shape: int) -> np.ndarray:
        nonlocal at
        at += int(np.prod(shape))
        return np.asarray(numbers[at - int(np.prod(shape)) : at].reshape(shape))

    tried = []
    for row, held_out, fold, names, rival_names, measured, tested in headers:
        members, asked = len(names), len(tested)
        measured_log_ms, scores = next_numbers(len(measured)), next_numbers(members)
        log_ms, known = next_numbers(asked), next_numbers(asked)
        three = [next_numbers(members, asked) for _ in range(3)]
        near = nearness(pool.features.place[tested], pool.features.place[measured])
        trial = DeviceTrial(
            pool.platforms[row],
            np.array(measured, dtype=int),
            np.array(tested, dtype=int),
            measured_log_ms,
            log_ms,
            held_out,
            fold,
        )
        by_rivals = {name: next_numbers(asked) for name in rival_names}
        tried.append(MemberForecasts(trial, tuple(names), scores, *three, known, near, by_rivals))
    return tried


def sources_digest() -> str:
    """Return a digest of latcast, shipping and this file, by which a part is known to be of the same program."""
    found = sha256()
    packages = Path(device_model_file.__file__).parents[1], Path(device_model_fit.__file__).parent
    for path in sorted([Path(__file__), *(path for package in packages for path in package.rglob("*.py"))]):
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


def rivals(model: DeviceModel, trial: DeviceTrial) -> dict[str, np.ndarray]:
    """Return forecasts of a trial by simple rules on the rows of the known platforms: name to (tested,) logarithms.

    The rows are those of platforms that measured all of the trial's measured networks, where there are a few.
    """
    kind = trial.platform.kind
    if not len(trial.measured) or kind not in model.rows_log_ms:
        return {}
    known = [model.platforms[row] for row in model.rows_of_kind[kind]]
    measured = np.array([np.isin(trial.measured, each.networks).mean() for each in known])
    used = measured >= min(1.0, float(np.sort(measured)[-FEWEST_ROWS:].min()))
    rows = model.rows_log_ms[kind][used][:, np.concatenate([trial.measured, trial.tested])]
    first = np.arange(len(trial.measured))
    twin = by_one_factor(rows, first, trial.measured_log_ms)[0][len(first) :]
    gaussian = by_covariance(rows, first, trial.measured_log_ms)[len(first) :]
    return {ONE_TWIN: twin, COVARIANCE: gaussian, BOTH: (twin + gaussian) / 2}


def worse_than_rivals(mixtures: Sequence[Mixture]) -> list[dict[str, Any]]:
    """Return by number of measured networks how many platforms are never worse than two rivals, and the exceptions."""
    found: dict[tuple[int, str], list[list[float]]] = defaultdict(list)
    for one, mean, _ in mixtures:
        if one.trial.held_out == NOTHING and len(one.trial.measured) in NEVER_WORSE_AT and one.rivals:
            log_ms = one.trial.log_ms
            simple = one.log_ms[one.names.index(FLOPS_AND_MEMORY)]
            errors = [float(absolute_percentage(log_ms - each).mean()) for each in (mean, one.rivals[ONE_TWIN], simple)]
            found[len(one.trial.measured), one.trial.platform.name].append(errors)
    rows = []
    for measured in NEVER_WORSE_AT:
        each = {name: np.mean(errors, axis=0).tolist() for (count, name), errors in found.items() if count == measured}
        worse = {name: errors for name, errors in each.items() if errors[0] > min(errors[1:]) + MOST_WORSE}
        within = 100 * (1 - len(worse) / len(each)) if each else float("nan")
        rows.append({"measured": measured, "platforms": len(each), "within": within, "exceptions": worse})
    return rows


def worse_measured(mixtures: Sequence[Mixture]) -> dict[str, list[float]]:
    """Return the platforms whose networks are forecast worse with three measured than with none: MAPE with none, with three."""
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one, mean, _ in mixtures:
        if one.trial.held_out == NOTHING and len(one.trial.measured) in (0, 3):
            error = float(absolute_percentage(one.trial.log_ms - mean).mean())
            found[one.trial.platform.name][len(one.trial.measured)].append(error)
    both = {name: [float(np.mean(each[0])), float(np.mean(each[3]))] for name, each in found.items() if len(each) == 2}
    return {name: [none, three] for name, (none, three) in both.items() if three > none + MOST_WORSE}


def worse_table(rows: Sequence[Row]) -> str:
    """Return the exceptions, a line each: MAPE of the forecast, of the best twin, and of the regression."""
    shown = [
        {"measured": row["measured"], "within": row["within"], "name": name, "mape": mape, "twin": twin, "simple": simple}
        for row in rows for name, (mape, twin, simple) in sorted(row["exceptions"].items(), key=lambda item: -item[1][0])
    ]  # fmt: skip
    head = "; ".join(f"{row['measured']} measured: {row['within']:.0f} % of {row['platforms']}" for row in rows)
    columns = {
        "measured": "{measured}", "platform": "{name}", "MAPE": "{mape:.1f}", "best twin": "{twin:.1f}",
        "FLOPs+MAC": "{simple:.1f}",
    }  # fmt: skip
    return f"within {MOST_WORSE:g} point of the better of {ONE_TWIN} and {FLOPS_AND_MEMORY}: {head}\n{table(shown, columns)}"


def judged_trials(mixtures: Sequence[Mixture]) -> Iterator[tuple[MemberForecasts, str, dict[str, float]]]:
    """Yield the figures of every trial by the forecast, by each member and by each rival."""
    for one, mean, variance in mixtures:
        log_ms = one.trial.log_ms
        yield one, FORECAST, figures_of_logarithms(log_ms - mean, np.sqrt(variance), log_ms)
        for row, name in enumerate(one.names):
            deviation = np.sqrt(one.open_variance[row] + one.noise_variance[row])
            yield one, name, figures_of_logarithms(log_ms - one.log_ms[row], deviation, log_ms)
        for name, forecast in one.rivals.items():
            yield one, name, figures_of_logarithms(log_ms - forecast, np.sqrt(variance), log_ms)


def rows_of(mixtures: Sequence[Mixture]) -> list[dict[str, Any]]:
    """Return rows of kind of unit, what was held out, number of measured networks, method, and the figures."""
    groups: dict[tuple[str, str, int], dict[str, dict[str, list[dict[str, float]]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    chip_of: dict[str, str] = {}
    for one, method, figures in judged_trials(mixtures):
        platform = one.trial.platform
        chip_of[platform.name] = platform.silicon
        for kind in kinds_of_rows(platform):
            groups[kind, one.trial.held_out, len(one.trial.measured)][method][platform.name].append(figures)
    rows = []
    for kind, held_out, measured in sorted(groups):
        by_method = groups[kind, held_out, measured]
        chips = {chip_of[name] for by_platform in by_method.values() for name in by_platform}
        for method, by_platform in by_method.items():
            each = [
                {name: float(np.mean([one[name] for one in listed])) for name in listed[0]} for listed in by_platform.values()
            ]
            about = {"kind": kind, "held_out": held_out, "measured": measured, "method": method, "platforms": len(each)}
            own_chips = [chip_of[name] for name in by_platform]
            rows.append({**about, "chips": len(chips), **mean_over_platforms(each, own_chips)})
    return rows


def target(row: Row) -> float | None:
    """Return the MAPE that is aimed at for a row, or None where there is no aim."""
    aims = TARGETS.get((row["kind"], row["held_out"]), ())
    return dict(zip((3, 10, 30), aims, strict=False)).get(row["measured"])


def missed(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each aim that is missed."""
    above = [
        f"{_case(row)}: MAPE {row['mape']:.1f}, aimed at {aim:g}"
        for row in _judged(rows) if (aim := target(row)) is not None and row["mape"] > aim
    ]  # fmt: skip
    return [*above, *missed_besides_mape(rows)]


def missed_besides_mape(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each coverage that is off, and for each other way to forecast that does better."""
    found = []
    for row in _judged(rows):
        if row["measured"] and is_off_level(row["coverage"]):
            found.append(
                f"{_case(row)}: {row['coverage']:.1f} % inside the interval, aimed at {LEAST_COVERAGE:.0f} to {MOST_COVERAGE:.0f}"
            )
        for each in rows:
            if all(each[name] == row[name] for name in ("kind", "held_out", "measured", "platforms")) and row["measured"]:
                allowed = 1.0 if each["method"] == FLOPS_AND_MEMORY else 1.1
                if row["mape"] > allowed * each["mape"] + 0.05:
                    found.append(f"{_case(row)}: MAPE {row['mape']:.1f}, that of {each['method']} {each['mape']:.1f}")
    return found


def _judged(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["method"] == FORECAST and row["kind"] in KINDS]


def _case(row: Row) -> str:
    return f"{row['kind']}, networks {HELD_OUT[row['held_out']]}, {row['measured']} timed"


def all_rows_table(rows: Sequence[Row]) -> str:
    """Return every row of the forecast, beside it FLOPs+MAC and the best single member."""
    shown = []
    for row in rows:
        if row["method"] == FORECAST:
            same = [each for each in rows if all(each[name] == row[name] for name in ("kind", "held_out", "measured"))]
            members = [each for each in same if each["method"] != FORECAST and each["platforms"] == row["platforms"]]
            simple = next((each for each in members if each["method"] == FLOPS_AND_MEMORY), {})
            shown.append(
                {
                    **row,
                    "rivals": {each["method"]: each["mape"] for each in same},
                    "simple": simple,
                    "best": min(members, key=lambda each: float(each["mape"])),
                    "aim": target(row),
                }
            )
    return table(
        shown,
        {
            "unit": "{kind}", "held out": "{held_out}", "measured": "{measured}", "platforms (chips)": "{platforms} ({chips})",
            "MAPE mean (median)": "{mape:.1f} ({median_mape:.1f})", "±5 %": "{within_5:.0f}", "±10 %": "{within_10:.0f}",
            "RMSPE": "{rmspe:.1f}", "Spearman": "{spearman:.2f}", "in the 90 % interval": "{coverage:.0f}",
            "high/low": "{width:.2f}", "FLOPs+MAC": "{simple[mape]:.1f}", "best member": "{best[method]} {best[mape]:.1f}",
            **{name: f"{{rivals[{name}]:.1f}}" for name in (ONE_TWIN, COVARIANCE, BOTH)},
            "aim": "{aim:g}",
        },
    )  # fmt: skip


def devices_table() -> str:
    """Return mean MAPE (bold above its aim), median in brackets, and coverage by the number of networks timed on a new device."""
    document = kept("devices")
    found = {(row["kind"], row["held_out"], row["measured"], row["method"]): row for row in document["rows"]}
    counts = [count for count in document["measured"] if count != 1]
    rows = [
        {
            "unit": unit_title(kind), "tested": what, "simple": found[kind, held_out, SHOWN, FLOPS_AND_MEMORY],
            **{str(count): found[kind, held_out, count, FORECAST] for count in counts},
        }
        for kind in KINDS_OF_ROWS for held_out, what in HELD_OUT.items()
        if held_out == NEW_LINEAGES or (held_out != NEW_NETWORKS and kind in KINDS)
    ]  # fmt: skip

    def figures(row: Row) -> str:
        aim = target(row)
        mape = f"{row['mape']:.0f}" if aim is None or row["mape"] <= aim else f"**{row['mape']:.0f}**"
        return f"{mape} ({row['median_mape']:.0f}), {row['coverage']:.0f}"

    by_count = {f"{count} timed": (lambda row, name=str(count): figures(row[name])) for count in counts}
    last = {f"FLOPs+MAC, {SHOWN} timed": "{simple[mape]:.0f}"}
    return table(rows, {"unit": "{unit}", "tested networks": "{tested}", **by_count, **last})


# Shipping

MOST_PARAMETERS = 6_500_000
"""Of a network that is carried to another device; 26 MB in single precision."""

SIGNATURE = 40
"""Networks that the model keeps to choose from."""


def ship_model(pool: KnownPlatforms, tried: Sequence[MemberForecasts], *, seed: int = 0, watch: Watch = unwatched) -> Path:
    """Fit the model to the whole pool, with weights and intervals by the trials, and write the shipped file."""
    model = fit_device_model(pool.platforms, pool.features, seed=seed, watch=watch)
    model = replace(model, arbitration=learn_arbitration(tried))
    rules = load_rules(RULES)
    members = [(name, each) for space in FAMILY_NAMES for name, each in family(space).published.items()]
    named = [find_model(name) for name, each in members if each.drawn or "resolution" not in each.parameters]
    small = [each for each in named if each is not None and build(each).parameter_count <= MOST_PARAMETERS]
    features = NetworkFeatures.of([network_kernels(each, rules) for each in small])
    nothing = model.described(features).rows(np.zeros(0, dtype=int))
    forecast = model.forecast("cpu", {INTERCEPT: 1.0, "kind cpu": 1.0}, nothing, np.zeros(0))
    wanted = pool.features.rows(np.arange(0, len(pool.references), 2))
    _, chosen = suggest_networks(forecast, small, features, wanted, SIGNATURE)
    target = Path(device_model_file.__file__).parent / "shipped" / SHIPPED
    return save_device_model(replace(model, signature=tuple(each.reference for each in chosen)), target)


# Facts of a device

FACTS: Mapping[str, tuple[str, ...]] = {
    "kind of unit": (INTERCEPT, "kind "),
    "runtime and precision": ("runtime ", "precision "),
    "threads": ("cpu threads",),
    "year": ("cpu year", "gpu year", "npu year"),
    "clock": ("cpu log2_ghz", "gpu log2_ghz", "npu log2_ghz", "gpu log2_gpu_ghz"),
    "cores, TOPS": ("cpu log2_cores", "cpu log2_cluster_cores", "gpu log2_gpu_fma", "gpu log2_gpu_gflops", "npu log2_tops"),
    "SIMD": ("cpu log2_simd_bits", "cpu log2_fma_bits", "cpu log2_peak", *(f"cpu {name}" for name in FLAGS)),
    "bandwidth": ("cpu log2_bandwidth", "gpu log2_bandwidth", "npu log2_bandwidth"),
    "core, family": ("cpu core=", "cpu out_of_order", "gpu gpu=", "npu npu", "cpu vendor=", "gpu vendor=", "npu vendor="),
}
"""Facts of a device that was not measured, and the beginnings of the names of their covariates."""

FEWEST_OF_A_JUDGED = 8
"""Networks of a platform whose forecasts by facts alone are judged."""


def by_fact(pool: KnownPlatforms, *, seed: int = 0, watch: Watch = unwatched) -> list[dict[str, Any]]:
    """Judge forecasts where nothing was measured: the state by facts of the first kinds, and by all but one kind.

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
            used = np.array([name.startswith(starts) for name in model.covariates])
            effects = ridge_effects(z * used, model.states, weights, model.covariates)
            for each, values in zip(asked, of_asked, strict=True):
                seen = described.rows(each.networks)
                errors[each.kind, label].append(each.log_ms - linearised((values * used) @ effects, seen.terms, seen.basis)[0])
    rows = []
    for (kind, label), listed in errors.items():
        mape = [float(absolute_percentage(error).mean()) for error in listed]
        held_ninety = float(np.quantile(np.abs(np.concatenate(listed)), 0.9))
        rows.append(
            {
                "kind": kind, "facts": label, "platforms": len(listed), "mape": float(np.mean(mape)),
                "median_mape": float(np.median(mape)), "mape_interval": interval_of_mean(np.array(mape)),
                "width": float(np.exp(2 * held_ninety)),
            }
        )  # fmt: skip
    return sorted(rows, key=lambda row: KINDS.index(row["kind"]))


def facts_table() -> str:
    """Return a line for each fact of :data:`FACTS_SHOWN` with those added since the line before."""
    found: dict[str, dict[str, Any]] = {}
    for row in kept("facts"):
        if not row["facts"].startswith("all but"):
            found.setdefault(row["facts"], {"facts": row["facts"]})[row["kind"]] = row
    rows, added = [], list[str]()
    for fact, row in found.items():
        added.append(fact.removeprefix("+ "))
        if fact in FACTS_SHOWN:
            rows.append({**row, "facts": ("+ " if rows else "") + ", ".join(added)})
            added.clear()
    columns = {"facts": "{facts}"}
    for kind in KINDS:
        columns[f"{kind.upper()}: MAPE (median), high/low"] = (
            f"{{{kind}[mape]:.0f}} ({{{kind}[median_mape]:.0f}}), {{{kind}[width]:.0f}}"
        )
    return table(rows, columns)


# Suggested networks

SUGGESTED = (3, 10)
"""Measured networks with which suggested ones are compared with drawn ones."""

BETTER_SHARE = 0.2
"""Part of the error with drawn networks by which suggested ones are to be better."""


def by_suggestion(pool: KnownPlatforms, *, draws: int, seed: int = 0, watch: Watch = unwatched) -> list[dict[str, Any]]:
    """Compare networks that :func:`latcast.devices.added_device.suggest_networks` names with as many drawn at random.

    Each chip is held out in turn; both are chosen among the networks that its platform ran, and judged by the same others.
    Members are weighed as in the shipped model.
    """
    fold_of = chip_folds(pool.platforms, FOLDS, seed)
    weighing = load_device_model().arbitration
    found: dict[tuple[str, int], list[np.ndarray]] = defaultdict(list)
    for fold in range(FOLDS):
        known = [each for each in pool.platforms if fold_of[each.silicon] != fold]
        model = replace(fit_device_model(known, pool.features, seed=seed, watch=watch), arbitration=weighing)
        described = model.described(pool.features)
        rng = np.random.default_rng([seed, fold])
        for each in _some_of_each_chip([one for one in pool.platforms if fold_of[one.silicon] == fold], rng):
            forecast = model.forecast(each.kind, each.covariates, described.rows(each.networks[:0]), each.log_ms[:0])
            own = pool.features.rows(each.networks)
            references = [pool.references[row] for row in each.networks]
            place = {reference.key: row for row, reference in enumerate(references)}
            for count in SUGGESTED:
                if len(references) < 2 * count + FEWEST_TESTED:
                    continue
                named = np.array([place[one.reference.key] for one in suggest_networks(forecast, references, own, own, count)[1]])
                by_named = _errors_after(model, described, each, named)
                pairs = []
                for _ in range(draws):
                    drawn = rng.permutation(len(references))[:count]
                    others = np.setdiff1d(np.arange(len(references)), [*named, *drawn])
                    pairs.append([by_named[others].mean(), _errors_after(model, described, each, drawn)[others].mean()])
                found[each.kind, count].append(np.mean(pairs, axis=0))
    return rows_of_suggestions(found)


def rows_of_suggestions(found: Mapping[tuple[str, int], Sequence[np.ndarray]]) -> list[dict[str, Any]]:
    """Return rows of kind of unit, number of measured networks, platforms, MAPE with suggested and with drawn networks, and the
    percent of platforms where the suggested ones leave an error that is smaller by :data:`BETTER_SHARE`.

    Args:
        found: By kind and number, each platform's MAPE with suggested and with drawn networks.
    """
    rows = []
    for (kind, count), listed in sorted(found.items(), key=lambda item: (KINDS.index(item[0][0]), item[0][1])):
        named_mape, drawn_mape = np.array(listed).T
        better = 100 * float((named_mape <= (1 - BETTER_SHARE) * drawn_mape).mean())
        rows.append(
            {
                "kind": kind, "measured": count, "platforms": len(listed), "suggested_mape": float(named_mape.mean()),
                "drawn_mape": float(drawn_mape.mean()), "better": better,
            }
        )  # fmt: skip
    return rows


def _some_of_each_chip(platforms: Sequence[KnownPlatform], rng: np.random.Generator) -> Iterator[KnownPlatform]:
    seen: Counter[tuple[str, str, str]] = Counter()
    for index in rng.permutation(len(platforms)):
        each = platforms[index]
        key = (each.silicon, each.source, each.kind)
        seen[key] += 1
        if seen[key] <= MOST_OF_A_CHIP:
            yield each


def _errors_after(model: DeviceModel, described: DescribedNetworks, platform: KnownPlatform, chosen: np.ndarray) -> np.ndarray:
    """Return the percentage errors of a platform's networks, (networks,), after some of them were measured."""
    seen = described.rows(platform.networks[chosen])
    forecast = model.forecast(platform.kind, platform.covariates, seen, platform.log_ms[chosen], platform.silicon)
    return absolute_percentage(platform.log_ms - described.rows(platform.networks).log_ms(forecast)[0])


def suggested_table() -> str:
    """Return a line for each kind of unit and number of measured networks."""
    columns = {
        "unit": lambda row: unit_title(row["kind"]), "timed": "{measured}", "platforms": "{platforms}",
        "MAPE suggested %": "{suggested_mape:.1f}", "MAPE drawn %": "{drawn_mape:.1f}",
        "platforms where suggested are better by a fifth %": "{better:.0f}",
    }  # fmt: skip
    return table(kept("suggested"), columns)
