"""Judges decisions: which of two platforms is faster for a network of a lineage that neither they nor any known platform ran.

Two settings. A *known device*: its platforms are in the pool, with all latencies but those of the held-out lineages. A *new
device*: no platform of its chip is in the pool, and up to ten networks of other lineages, the same on all its platforms, were
measured. Widths of intervals and what errors share are learned on other chips; so are weights of a known device's members, those
of a new one's are the shipped model's.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.command import PUBLISHED, AsJson, Data, Seed, print_stages
from benchmarks.judge import Columns, by_flops_and_memory, figures_of_logarithms, interval_of_mean, table
from benchmarks.phones import measured, source_of
from benchmarks.result_files import keep, kept
from latcast.devices.device_model import Arbitration, KnownPlatform
from latcast.devices.device_model_file import load_device_model
from latcast.kernels.rules import platform_rules, unit_kind
from latcast.predictors.intervals import LEVEL_DEVIATIONS, unseen_bounds_ms
from latcast.predictors.joint_platforms import (
    DEGREES,
    LEVEL_QUANTILE,
    OWN,
    PARTS,
    SHARED,
    SharedByPlatforms,
    Traits,
    shared_parts,
)
from latcast.records import Platform
from latcast.training.fitting import Trainer
from latcast.training.samples import lineages_of
from shipping.arbitration import NEW_LINEAGES, chip_folds, held_out_networks, mixed_by_others, without
from shipping.device_model_fit import Watch, fit_device_model, unwatched
from shipping.known_forecasts import COUNTS, try_known
from shipping.known_platforms import KnownPlatforms, known_platforms, read_datasets

KNOWN, NEW, SHIPPED = "known device", "new device", "shipped phones"

SCORED = ("mlperf", "paddle")
"""Datasets of which every platform is judged; of the others at most :data:`MOST_OF_A_DEVICE` of a device."""

MOST_OF_A_DEVICE = 12

MEASURED = 10
"""Networks at most that are measured on a new device."""

FOLDS, CHIP_FOLDS, LEARNING_FOLDS = 3, 3, 4
"""Of lineages; of the chips of new devices; of chips, for what is learned of errors."""

SURE = 0.95

PARTNERS = 3
"""Platforms on other devices that one is compared with."""

QUESTIONS = ("precision", "unit", "threads", "runtime", "device", "several")
ALL = "all"

PRECISIONS = ("fp32", "fp16", "unstated", "int8")
KINDS = ("cpu", "gpu", "npu")


# Command


def decisions(
    data: Data = PUBLISHED,
    seed: Seed = 0,
    phones: Annotated[
        Path | None,
        typer.Option(
            help="Judge shipped phones alone, from a store that `latcast data import usc DIR --store` wrote.", metavar="STORE"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Judge decisions between platforms, lineages and chips held out."""
    if phones is not None:
        keep("decisions_phones", phone_rows(list(phone_forecasts(phones))))
    else:
        pool = known_platforms(read_datasets(data))
        keep("decisions", results(pool, forecasts(pool, seed=seed, watch=print_stages()), seed))
    found = kept("decisions" if phones is None else "decisions_phones")
    print(json.dumps(found, indent=1) if as_json else f"{decisions_table()}\n\n{ratios_table()}")


# Forecasts


@dataclass(frozen=True)
class Forecasts:
    """Forecasts for one platform and the networks of one fold's lineages.

    Attributes:
        setting: :data:`KNOWN`, :data:`NEW` or :data:`SHIPPED`.
        fold: Fold of lineages.
        platform: The platform.
        traits: Parts of its id.
        networks: (networks,) networks to predict.
        log_ms: (networks,) measured.
        mean, deviation: (networks,) forecast of the logarithm.
        simple: (networks,) logarithm by the regression on FLOPs and elements moved.
        measured: Network to the logarithm of its latency, for the networks that the forecast was made from.
    """

    setting: str
    fold: int
    platform: KnownPlatform
    traits: Traits
    networks: np.ndarray
    log_ms: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    simple: np.ndarray
    measured: Mapping[int, float]


@dataclass(frozen=True)
class Pair:
    """Two platforms and the networks that ran on both; logarithms of ratios are of the second's latency over the first's.

    Attributes:
        setting, dataset, question: Where the pair is from, and what is decided.
        first, second: The platforms; the second is the one to take without a model: int8, the GPU, more threads, the newer.
        ratio: (networks,) measured.
        expected: (networks,) forecast.
        first_deviation, second_deviation: (networks,).
        simple: (networks,) by the regressions on FLOPs and elements.
        mean_ratio: Mean ratio of the networks measured on both; 0 where none was.
    """

    setting: str
    dataset: str
    question: str
    first: Forecasts
    second: Forecasts
    ratio: np.ndarray
    expected: np.ndarray
    first_deviation: np.ndarray
    second_deviation: np.ndarray
    simple: np.ndarray
    mean_ratio: float


def forecasts(pool: KnownPlatforms, *, seed: int = 0, watch: Watch = unwatched) -> list[Forecasts]:
    """Return forecasts of every platform on a device with several of them, in both settings, for each fold of lineages."""
    arbitration = load_device_model().arbitration
    judged = _judged(pool, seed)
    chip_fold = chip_folds(pool.platforms, CHIP_FOLDS, seed)
    found = list(_of_known(pool, judged, seed, watch))
    done = 0
    for fold in range(FOLDS):
        out = held_out_networks(pool.lineages, fold, seed)
        for chips_out in range(CHIP_FOLDS):
            watch("leaving lineages and chips out", done, FOLDS * CHIP_FOLDS)
            known = [each for each in pool.platforms if chip_fold[each.silicon] != chips_out]
            asked = [each for each in judged if chip_fold[each.silicon] == chips_out]
            found += _of_fold(pool, without(known, out), asked, out, arbitration, fold, seed)
            done += 1
    watch("leaving lineages and chips out", done, done)
    return found


def _of_known(pool: KnownPlatforms, judged: Sequence[KnownPlatform], seed: int, watch: Watch) -> Iterator[Forecasts]:
    """Yield forecasts of platforms of the pool, whose members weigh and whose intervals are as wide as those of shipped ones."""
    folds = np.array([held_out_networks(pool.lineages, fold, seed) for fold in range(FOLDS)])
    tried = try_known(pool, {each.name for each in judged}, seed=seed, watch=watch)
    for one, mean, variance in mixed_by_others(tried, FOLDS, COUNTS):
        trial = one.trial
        if trial.held_out == NEW_LINEAGES:
            fold = int(folds[:, trial.tested[0]].argmax())
            yield _forecasts_of(pool, KNOWN, fold, trial.platform, trial.measured, trial.tested, mean, np.sqrt(variance))


def _judged(pool: KnownPlatforms, seed: int) -> list[KnownPlatform]:
    """Return the platforms of devices with several of them."""
    rng = np.random.default_rng(seed)
    by_device: dict[tuple[str, str], list[KnownPlatform]] = defaultdict(list)
    for each in pool.platforms:
        by_device[each.source, Platform.parse(each.name).device].append(each)
    found = []
    for (source, _), listed in sorted(by_device.items()):
        if len(listed) > 1:
            chosen = range(len(listed)) if source in SCORED else np.sort(rng.permutation(len(listed))[:MOST_OF_A_DEVICE])
            found += [listed[place] for place in chosen]
    return found


def _of_fold(
    pool: KnownPlatforms, known: Sequence[KnownPlatform], asked: Sequence[KnownPlatform], out: np.ndarray,
    arbitration: Mapping[str, tuple[Arbitration, ...]], fold: int, seed: int,
) -> Iterator[Forecasts]:  # fmt: skip
    """Yield forecasts of new devices, by a model of the known platforms."""
    model = replace(fit_device_model(known, pool.features, seed=seed), arbitration=arbitration)
    described = model.described(pool.features)
    # One order for all platforms, so that the platforms of a device measure the same networks.
    order = np.random.default_rng([seed, 1]).permutation(len(pool.references))
    for each in asked:
        held = out[each.networks]
        seen = np.flatnonzero(~held)
        seen = seen[np.argsort(order[each.networks[seen]])][:MEASURED]
        if not held.any() or not len(seen):
            continue
        rows, tested = each.networks[seen], each.networks[held]
        forecast = model.forecast(each.kind, each.covariates, described.rows(rows), each.log_ms[seen], each.silicon)
        yield _forecasts_of(pool, NEW, fold, each, rows, tested, *described.rows(tested).log_ms(forecast))


def _forecasts_of(
    pool: KnownPlatforms, setting: str, fold: int, platform: KnownPlatform, measured: np.ndarray, tested: np.ndarray,
    mean: np.ndarray, deviation: np.ndarray,
) -> Forecasts:  # fmt: skip
    """Return forecasts of the tested networks, beside them those by the regression on the measured ones."""
    log_ms = dict(zip(platform.networks.tolist(), platform.log_ms.tolist(), strict=True))
    known = {row: log_ms[row] for row in measured.tolist()}
    totals = pool.features.totals
    simple = by_flops_and_memory(totals[measured], np.array([*known.values()]), totals[tested])
    actual = np.array([log_ms[row] for row in tested.tolist()])
    traits = Traits.of(Platform.parse(platform.name))
    return Forecasts(setting, fold, platform, traits, tested, actual, mean, deviation, simple, known)


def question_of(a: Traits, b: Traits) -> str:
    """Return which of :data:`QUESTIONS` two platforms decide."""
    different = {name for name in Traits._fields if getattr(a, name) != getattr(b, name)}
    gpu_precision = {each.precision for each in (a, b) if each.kind == "gpu"}
    if "device" in different:
        return "device" if different == {"device"} else "several"
    if "kind" in different:
        # A GPU computes in 16 bits by itself, whatever the file says.
        return "unit" if "precision" not in different or gpu_precision <= {"fp16", "unstated"} else "several"
    if different <= {"runtime", "version"}:
        return "runtime"
    return {"precision": "precision", "unit": "threads"}.get("".join(different), "several")


def _order(each: Forecasts) -> tuple[Any, ...]:
    """Return the key that sorts platforms so that the last one is taken without a model."""
    traits = each.traits
    rank = [list_.index(name) if name in list_ else -1 for list_, name in ((KINDS, traits.kind), (PRECISIONS, traits.precision))]
    return (*rank, Platform.parse(each.platform.name).threads, traits.version, each.platform.name)


def pairs_of(found: Sequence[Forecasts], chip_fold: Mapping[str, int], seed: int = 0) -> list[Pair]:
    """Return all pairs of platforms on one device, and some of one kind on two devices whose chips are in one fold."""
    rng = np.random.default_rng([seed, 2])
    groups: dict[tuple[Any, ...], list[Forecasts]] = defaultdict(list)
    alike: dict[tuple[Any, ...], list[Forecasts]] = defaultdict(list)
    for each in found:
        case = (each.setting, each.fold, each.platform.source)
        same_device = (*case, each.traits.device)
        same_but_device = (*case, chip_fold[each.platform.silicon], *each.traits[1:])
        groups[same_device].append(each)
        alike[same_but_device].append(each)
    pairs: list[Pair | None] = []
    for listed in groups.values():
        for place, one in enumerate(listed):
            pairs += [_pair(one, other) for other in listed[:place]]
    for listed in alike.values():
        for place, one in enumerate(listed):
            others = [other for other in listed[:place] if other.traits.device != one.traits.device]
            pairs += [_pair(one, others[row]) for row in rng.permutation(len(others))[:PARTNERS]]
    return [pair for pair in pairs if pair is not None]


def _pair(one: Forecasts, other: Forecasts) -> Pair | None:
    first, second = sorted((one, other), key=_order)
    shared, a, b = np.intersect1d(first.networks, second.networks, return_indices=True)
    if not len(shared):
        return None
    both = [second.measured[row] - first.measured[row] for row in first.measured if row in second.measured]
    return Pair(
        first.setting, first.platform.source, question_of(first.traits, second.traits), first, second,
        second.log_ms[b] - first.log_ms[a], second.mean[b] - first.mean[a], first.deviation[a], second.deviation[b],
        second.simple[b] - first.simple[a], float(np.mean(both)) if both else 0.0,
    )  # fmt: skip


PHONES = (
    *(f"{each}/tflite-2.10/{unit}" for each in ("pixel4", "s10", "a03s") for unit in ("1large/fp32", "1large/int8", "gpu/fp16")),
    *(f"pixel4/tflite-2.10/{unit}" for unit in ("3med/fp32", "3med/int8", "1large1med/int8")),
    *(f"pixel4/pytorch-2.0/{unit}" for unit in ("1large/fp32", "1large/int8", "gpu/fp16")),
    "s10/tflite-2.10/2med/int8", "s10/pytorch-2.0/1large/fp32", "a03s/tflite-2.10/4large/fp32",
)  # fmt: skip
"""Platforms with predictors of their own, some of each kind."""


def phone_forecasts(store: Path, names: Sequence[str] = PHONES) -> Iterator[Forecasts]:
    """Yield networks of phones, each predicted without its lineage, with intervals calibrated without it.

    Args:
        store: A store written by ``latcast data import usc DIR --store``.
    """
    places: dict[str, int] = {}
    for name in names:
        platform = Platform.parse(name)
        data = measured(store, platform)
        unseen = Trainer(platform, platform_rules(platform), source_of(data)).held_out(data)
        latency_ms = np.array([sample.latency_ms for sample in data.networks])
        bounds = unseen_bounds_ms(latency_ms, unseen, lineages_of(data.networks))
        if bounds is None:
            continue
        networks = np.array([places.setdefault(sample.reference.key, len(places)) for sample in data.networks])
        mean, log_ms = np.log(unseen.latency_ms), np.log(latency_ms)
        deviation = np.log(bounds[1] / bounds[0]) / (2 * LEVEL_DEVIATIONS)
        kind = unit_kind(platform.unit)
        known = KnownPlatform(name, kind, platform.device, {}, networks, log_ms, "usc")
        yield Forecasts(SHIPPED, 0, known, Traits.of(platform), networks, log_ms, mean, deviation, mean, {})


def phone_rows(found: Sequence[Forecasts]) -> list[dict[str, Any]]:
    """Return the rows of shipped phones, by the shared errors that are shipped, to which the phones contributed."""
    pairs = pairs_of(found, dict.fromkeys((each.platform.silicon for each in found), 0))
    rows = rows_of(pairs, decide(pairs, range(len(pairs)), {}, SHARED))
    # The baselines need measured networks, and none were measured beside those that the predictors were trained on.
    return [{**row, "flops_and_memory": None, "mean_ratio": None} for row in rows if row["dataset"] != ALL]


# Learning the errors of some chips

COUNT_BINS = (5, 20, 60)
"""Upper ends of the bins of numbers of measured networks that widths are learned for."""


def widths(found: Sequence[Forecasts]) -> dict[tuple[str, int], float]:
    """Return, by setting and bin, the factor on deviations with which 90 % lie inside; every chip weighs the same."""
    errors: dict[tuple[str, int], dict[str, list[np.ndarray]]] = defaultdict(lambda: defaultdict(list))
    for each in found:
        errors[_bin(each)][each.platform.silicon].append(np.abs(each.log_ms - each.mean) / each.deviation)
    factors = {}
    for key, by_chip in errors.items():
        listed = [np.concatenate(values) for values in by_chip.values()]
        values, weight = np.concatenate(listed), np.concatenate([np.full(len(part), 1 / len(part)) for part in listed])
        order = np.argsort(values)
        place = int(np.searchsorted(np.cumsum(weight[order]), 0.9 * weight.sum()))
        factors[key] = float(np.clip(values[order][min(place, len(values) - 1)] / LEVEL_DEVIATIONS, 0.25, 4.0))
    return factors


def _bin(each: Forecasts) -> tuple[str, int]:
    return each.setting, int(np.searchsorted(COUNT_BINS, len(each.measured)))


def _deviations(pair: Pair, factors: Mapping[tuple[str, int], float]) -> tuple[np.ndarray, np.ndarray]:
    """Return the deviations of both platforms' errors in units of Student's distribution, each (networks,)."""
    unit = LEVEL_DEVIATIONS / LEVEL_QUANTILE
    first, second = (factors.get(_bin(each), 1.0) * unit for each in (pair.first, pair.second))
    return first * pair.first_deviation, second * pair.second_deviation


LEAST_SHARE, PULL = 1e-4, 1e-4
"""Least share of a part of the variance; cost of a logarithmic share's distance from an equal one."""


def learn_shared(pairs: Sequence[Pair], factors: Mapping[tuple[str, int], float]) -> SharedByPlatforms:
    """Return the shares and the widening of greatest likelihood; every chip, dataset and question weighs the same.

    The variance of a ratio is linear in the shares: a part that both platforms share leaves ``(a - b)²``, one that they do not
    ``a² + b²``, with a and b their deviations.
    """
    from scipy.optimize import minimize

    parts = shared_parts([pair.first.traits for pair in pairs], [pair.second.traits for pair in pairs])
    parts = np.vstack([parts, np.zeros(len(pairs))])
    keys = [(pair.dataset, pair.first.platform.silicon, pair.setting, pair.question) for pair in pairs]
    count = Counter(keys)
    row = np.repeat(np.arange(len(pairs)), [len(pair.ratio) for pair in pairs])
    weight = np.concatenate([np.full(len(p.ratio), 1 / len(p.ratio) / count[key]) for p, key in zip(pairs, keys, strict=True)])
    weight /= weight.sum()
    first, second = (np.concatenate(values) for values in zip(*(_deviations(pair, factors) for pair in pairs), strict=True))
    square = np.concatenate([pair.ratio - pair.expected for pair in pairs]) ** 2
    shared = parts[:, row]
    design = shared * (first - second) ** 2 + (1 - shared) * (first**2 + second**2)

    def cost(logarithms: np.ndarray) -> tuple[float, np.ndarray]:
        shares = np.exp(logarithms)
        variance = shares @ design + 1e-8
        misfit = square / variance / DEGREES
        value = 0.5 * np.log(variance) + (DEGREES + 1) / 2 * np.log1p(misfit)
        slope = (0.5 - (DEGREES + 1) / 2 * misfit / (1 + misfit)) / variance
        away = logarithms + np.log(len(parts))
        return (
            float((weight * value).sum() + PULL * (away**2).sum()),
            shares * (design @ (weight * slope)) + 2 * PULL * away,
        )

    start = np.full(len(parts), -np.log(len(parts)))
    best = np.exp(minimize(cost, start, jac=True, method="L-BFGS-B", bounds=[(np.log(LEAST_SHARE), 4)] * len(parts)).x)
    names = (*PARTS, OWN)
    return SharedByPlatforms(
        {name: float(share) for name, share in zip(names, best / best.sum(), strict=True)}, float(np.sqrt(best.sum()))
    )


# Judging


def student_probability(value: np.ndarray) -> np.ndarray:
    """Return the probability that Student's variable with 4 degrees of freedom is below a value.

    >>> student_probability(np.array([0.0, 2.1318])).round(3).tolist()
    [0.5, 0.95]
    """
    part = value / np.sqrt(1 + value**2 / 4)
    return np.asarray(0.5 + 0.375 * part * (1 - part**2 / 12))


@dataclass(frozen=True)
class Decisions:
    """Decisions side by side, each attribute (decisions,).

    Attributes:
        pair: Index of the pair.
        ratio, expected: Logarithms of second over first, measured and forecast.
        deviation: In units of Student's distribution.
        alone: The same for independent errors.
        simple, mean_ratio: The ratio by each baseline.
    """

    pair: np.ndarray
    ratio: np.ndarray
    expected: np.ndarray
    deviation: np.ndarray
    alone: np.ndarray
    simple: np.ndarray
    mean_ratio: np.ndarray

    def right_by(self, expected: np.ndarray) -> np.ndarray:
        """Return which decisions are right by expected logarithms of ratios, (decisions,)."""
        return np.asarray((expected < 0) == (self.ratio < 0))

    def rows(self, chosen: np.ndarray) -> Decisions:
        """Return the decisions at some places."""
        return Decisions(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


def decide(
    pairs: Sequence[Pair], rows: Sequence[int], factors: Mapping[tuple[str, int], float], shared: SharedByPlatforms
) -> Decisions:
    """Return the decisions for all networks of some pairs."""
    chosen = [pairs[row] for row in rows]
    correlation = shared.correlation([pair.first.traits for pair in chosen], [pair.second.traits for pair in chosen])
    parts = []
    for row, pair, alike in zip(rows, chosen, correlation.tolist(), strict=True):
        first, second = _deviations(pair, factors)
        apart = np.sqrt(first**2 + second**2)
        together = np.sqrt(first**2 + second**2 - 2 * alike * first * second + 1e-8)
        ones = np.ones(len(pair.ratio))
        parts.append(
            (row * ones, pair.ratio, pair.expected, shared.widening * together, apart, pair.simple, pair.mean_ratio * ones)
        )
    return Decisions(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def judged(pool: KnownPlatforms, found: Sequence[Forecasts], seed: int = 0) -> tuple[list[Pair], Decisions]:
    """Return all pairs and decisions, those on a chip by errors learned on other chips."""
    chip_fold = chip_folds(pool.platforms, LEARNING_FOLDS, seed)
    pairs = pairs_of(found, chip_fold, seed)
    fold = np.array([chip_fold[pair.first.platform.silicon] for pair in pairs])
    parts = []
    for number in range(LEARNING_FOLDS):
        factors = widths([each for each in found if chip_fold[each.platform.silicon] != number])
        shared = learn_shared([pair for pair, own in zip(pairs, fold, strict=True) if own != number], factors)
        parts.append(decide(pairs, np.flatnonzero(fold == number).tolist(), factors, shared))
    return pairs, Decisions(*(np.concatenate([getattr(each, name) for each in parts]) for name in Decisions.__dataclass_fields__))


def regret(ratio: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return by how many percent the platform that is expected to be faster takes longer than the better of the two."""
    chosen = np.where(expected < 0, ratio, 0.0)
    return np.asarray(100 * np.expm1(chosen - np.minimum(ratio, 0.0)))


def figures(found: Decisions) -> dict[str, float | None]:
    """Return the figures of some decisions; shares in percent."""

    def percent(values: np.ndarray) -> float | None:
        return 100 * float(values.mean()) if len(values) else None

    confidence = student_probability(np.abs(found.expected) / found.deviation)
    alone = student_probability(np.abs(found.expected) / found.alone)
    right, sure, sure_alone = found.right_by(found.expected), confidence >= SURE, alone >= SURE
    lost = regret(found.ratio, found.expected)
    # The interval of Student's distribution in the units of a normal one.
    deviation = found.deviation * LEVEL_QUANTILE / LEVEL_DEVIATIONS
    of_ratios = figures_of_logarithms(found.ratio - found.expected, deviation, found.ratio)
    baselines = {
        "flops_and_memory": found.simple, "always_second": np.full(len(right), -1.0), "mean_ratio": found.mean_ratio,
    }  # fmt: skip
    return {
        "decisions": len(right), "pairs": len(set(found.pair.tolist())), "second_slower": percent(found.ratio > 0),
        "right": percent(right), "sure": percent(sure), "right_when_sure": percent(right[sure]),
        "right_when_unknown": percent(right[~sure]),
        "regret_median": float(np.median(lost)), "regret_mean": float(lost.mean()),
        "regret_mean_when_sure": float(lost[sure].mean()) if sure.any() else None,
        **{name: of_ratios[name] for name in ("mape", "median_ape", "within_5", "within_10", "coverage")},
        "independent_sure": percent(sure_alone), "independent_right_when_sure": percent(right[sure_alone]),
        **{name: percent(found.right_by(expected)) for name, expected in baselines.items()},
        **{f"{name}_regret": float(regret(found.ratio, expected).mean()) for name, expected in baselines.items()},
    }  # fmt: skip


BINS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0001)


def reliability(found: Decisions) -> list[dict[str, float]]:
    """Return stated probabilities and how often they were right, by bins."""
    confidence = student_probability(np.abs(found.expected) / found.deviation)
    right = found.right_by(found.expected)
    rows = []
    for low, high in pairwise(BINS):
        own = (confidence >= low) & (confidence < high)
        if own.any():
            rows.append(
                {
                    "from": low, "to": min(high, 1.0), "decisions": int(own.sum()),
                    "stated": 100 * float(confidence[own].mean()), "right": 100 * float(right[own].mean()),
                }
            )  # fmt: skip
    return rows


def rows_of(pairs: Sequence[Pair], found: Decisions) -> list[dict[str, Any]]:
    """Return rows of setting, dataset, question, and the figures; the interval of those right is over chips."""
    about = np.array([(pair.setting, pair.dataset, pair.question, pair.first.platform.silicon) for pair in pairs])
    settings, datasets, questions, chips = about[found.pair.astype(int)].T
    right = 100.0 * found.right_by(found.expected)
    rows = []
    for setting in (KNOWN, NEW, SHIPPED):
        for dataset in (*SCORED, *sorted(set(datasets) - set(SCORED)), ALL):
            for question in (*QUESTIONS, ALL):
                own = (settings == setting) & ((datasets == dataset) | (dataset == ALL))
                own &= (questions == question) | (question == ALL)
                if own.any():
                    row = {"setting": setting, "dataset": str(dataset), "question": question, "chips": len(set(chips[own]))}
                    interval = interval_of_mean(right[own], chips[own])
                    rows.append({**row, **figures(found.rows(own)), "right_interval": interval})
    return rows


def results(pool: KnownPlatforms, found: Sequence[Forecasts], seed: int = 0) -> dict[str, Any]:
    """Return everything that the results hold."""
    pairs, made = judged(pool, found, seed)
    settings = np.array([(pair.setting, pair.dataset in SCORED) for pair in pairs], dtype=object)[made.pair.astype(int)]
    shared = learn_shared(pairs, widths(found))
    parts = {
        f"{name}, {'mlperf and paddle' if scored else 'other datasets'}": (settings[:, 0] == name) & (settings[:, 1] == scored)
        for name in (KNOWN, NEW)
        for scored in (True, False)
    }
    share = {name: round(part, 4) for name, part in shared.share.items()}
    return {
        "sure_from": SURE, "platforms": len({each.platform.name for each in found}), "rows": rows_of(pairs, made),
        "reliability": {name: reliability(made.rows(own)) for name, own in parts.items()},
        "learned": {"share": share, "widening": round(shared.widening, 3)},
    }  # fmt: skip


# Tables


def _table(columns: Columns) -> str:
    """Return lines for scored data sets of known devices, all data sets, new devices and phones, and each missed question."""
    rows = [
        row
        for row in (*kept("decisions")["rows"], *kept("decisions_phones"))
        if (row["question"] == ALL and (row["dataset"] == ALL or row["setting"] == SHIPPED))
        or (
            row["dataset"] in SCORED
            and row["setting"] == KNOWN
            and row["question"] != QUESTIONS[-1]
            and (row["question"] == ALL or row["right_when_sure"] < 100 * SURE)
        )
    ]
    about: Columns = {
        "device": lambda row: row["setting"].removesuffix(" device"), "data": "{dataset}", "question": "{question}",
        "decisions (chips)": "{decisions} ({chips})",
    }  # fmt: skip
    return table(rows, {**about, **columns})


def decisions_table() -> str:
    """Return how often the faster platform is chosen and how surely, what a wrong choice costs, and the baselines."""
    return _table(
        {
            "right %": "{right:.1f}", "sure %": "{sure:.1f}", "right when sure %": "{right_when_sure:.1f}",
            "mean regret %": "{regret_mean:.1f}", "FLOPs+MAC right %": "{flops_and_memory:.1f}",
            "mean ratio right %": "{mean_ratio:.1f}", "ratio in the 90 % interval %": "{coverage:.1f}",
        }
    )  # fmt: skip


def ratios_table() -> str:
    """Return the errors of the ratio of two platforms' latencies."""
    return _table(
        {
            "MAPE %": "{mape:.1f}", "±5 %": "{within_5:.1f}", "±10 %": "{within_10:.1f}",
            "in the 90 % interval %": "{coverage:.1f}", "sure %": "{sure:.1f}",
            "sure %, errors independent": "{independent_sure:.1f}",
        }
    )  # fmt: skip


def reliability_table() -> str:
    """Return how often decisions were right, a line for each range of stated probabilities, known devices beside new ones."""
    parts: dict[str, list[dict[str, float]]] = kept("decisions")["reliability"]
    rows = []
    for bins in zip(*parts.values(), strict=True):
        row = {"stated": f"{100 * bins[0]['from']:.0f} to {100 * bins[0]['to']:.0f}"}
        for setting in (KNOWN, NEW):
            own = [each for name, each in zip(parts, bins, strict=True) if name.startswith(setting)]
            count = sum(each["decisions"] for each in own)
            right = sum(each["right"] * each["decisions"] for each in own) / count
            row[setting] = f"{right:.1f} of {count}"
        rows.append(row)
    return table(rows, {"stated %": "{stated}", KNOWN: f"{{{KNOWN}}}", NEW: f"{{{NEW}}}"})
