"""Judges forecasts of starts: by profiles of this machine, on other networks, and on phones of which no first run is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.campaigns import Bench, profile_taken, take_profile, test_networks
from benchmarks.command import PUBLISHED, Data, Minutes, print_campaign
from benchmarks.judge import figures, table, target_cell
from benchmarks.result_files import keep, kept, kept_parts, write_json
from latcast.datasets.importers.iiswc20 import FEATURES_FILE, RUNS_FILE, read_runs
from latcast.datasets.store import Store
from latcast.errors import DatasetError, MeasurementError
from latcast.measure.campaign import Campaign, CampaignItem
from latcast.measure.labels import label_error_of_halves
from latcast.measure.record import loading_ms
from latcast.measure.settings import START_PLAN
from latcast.predictors.bundle import load_bundle
from latcast.predictors.conditions import Conditions
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.starts import SHIPPED, StartLaw, StartModel
from latcast.reading import read_csv
from latcast.records import Measurement, Reference
from latcast.spaces import build
from latcast.spaces.iiswc20 import published
from latcast.training.starts import FEWEST_STARTS, fit_law, fit_terms

PHONE_TERMS = ("latency", "latency_per_mmac")

SIZE_TERMS = (*PHONE_TERMS, "latency_per_mmac_and_kernel", "latency_per_mmac_and_mb")
"""Further terms that are tried for a first run: one a kernel and one a megabyte of weights, larger on slower phones."""

PHONES_TARGET = 7.5

FOLDS, SEED = 10, 0

PHONES: Mapping[str, Any] = {"runtime": "tflite", "unit": "cpu", "threads": 1, "precision": "int8"}
"""Runtime, unit and precision of the phones' networks."""


MACHINE_TARGETS = {"load": 20.0, "first": 15.0}

START_PROCESSES = 3
"""Fresh processes that a label is the median of."""


def start(
    runtimes: Annotated[
        list[str] | None, typer.Argument(help="Runtimes of this machine to judge; the phones where none.")
    ] = None,
    data: Data = PUBLISHED,
    minutes: Minutes = 4.0,
    ship: Annotated[bool, typer.Option(help="Write the model of phones that latcast ships.")] = False,
) -> None:
    """Judge starts on phones held out, or what a profile of this machine learned on networks held out."""
    for runtime in runtimes or ():
        bench = Bench(runtime, suffix="-start")
        take_profile(bench, minutes)
        predictor_with_starts(bench)
        items = [CampaignItem(reference, "start", START_PLAN) for reference in test_networks()]
        with bench.store("labels") as store:
            Campaign(
                store, bench.settings, items, processes=START_PROCESSES, process_s=0, progress=print_campaign(bench.name)
            ).run()
        keep(f"start/{runtime}", judge_machine(bench))
    if not runtimes:
        found, model = judge_phones(read_phones(data / "iiswc20"))
        keep("start/phones", found)
        if ship:
            write_json(SHIPPED, {"schema": 1, "models": [{"platform": PHONES, "model": model.to_json()}]})
    print(machine_table() if runtimes else phones_table())


def predictor_with_starts(bench: Bench) -> PlatformPredictor:
    """Return what a profile learned.

    Raises:
        MeasurementError: It learned no starts.
    """
    found = load_bundle(profile_taken(bench)["bundle"])
    if found.start is None:
        raise MeasurementError(
            f"{bench.name}: the profile timed the starts of too few networks, expected {FEWEST_STARTS} or more to learn from; "
            "take it again for longer (--minutes), on an idle machine"
        )
    return found


def judge_machine(bench: Bench) -> dict[str, Any]:
    """Compare the starts that a profile predicts with those measured, beside two rules that learn from the same networks."""
    profiled = profile_taken(bench)
    platform = profiled["platform"]
    with Store(profiled["store"]) as learned, bench.store("labels") as store:
        store.take_quiet_times(learned)
        samples = by_network(store.measurements(platform=platform, role="start"))
        steady = {label.reference.key: label.latency_ms for label in learned.labels(platform=platform, role="network")}
        known = by_network(learned.measurements(platform=platform, role="start", keys=steady))
    predictor = predictor_with_starts(bench)
    references = [found[0].reference for found in samples.values()]
    predictions = predictor.predict_many([build(reference) for reference in references], conditions=Conditions(start=True))
    starts = [found.start for found in predictions if found.start is not None]
    steady_ms = np.array([found.latency_ms for found in predictions])
    known_steady_ms = np.array([steady[key] for key in known])
    values: dict[str, Callable[[Measurement], float]] = {"load": loading_ms, "first": lambda sample: sample.latency_ms or 0.0}
    parts, rows = {}, []
    for part, value in values.items():
        halves_ms = np.array([[_median(value, half) for half in (found[::2], found[1::2])] for found in samples.values()])
        actual_ms, known_ms = (np.array([_median(value, found) for found in each.values()]) for each in (samples, known))
        predicted, low, high = (
            np.array([getattr(each, f"{part}{which}_ms") for each in starts]) for which in ("", "_low", "_high")
        )
        by_bytes = megabytes(references) * _least_error_ratio(
            known_ms / megabytes([each[0].reference for each in known.values()])
        )
        simple = {
            "bytes over bandwidth, then the steady latency": by_bytes if part == "load" else steady_ms,
            "a ratio to the steady latency": steady_ms * _least_error_ratio(known_ms / known_steady_ms),
        }
        parts[part] = {
            **figures(predicted, actual_ms, low, high), "label_error": label_error_of_halves(*halves_ms.T).percent,
            "baselines": {name: figures(found, actual_ms) for name, found in simple.items()}, "target": MACHINE_TARGETS[part],
        }  # fmt: skip
        columns = {"predicted_ms": predicted, "low_ms": low, "high_ms": high, "measured_ms": actual_ms}
        rows += [
            {"model": reference.name, "part": part, **{name: float(column[place]) for name, column in columns.items()}}
            for place, reference in enumerate(references)
        ]
    return {
        "platform": platform, "minutes": profiled["minutes"], "networks": len(references), "learned_from": len(known),
        "processes": min(map(len, samples.values())), "parts": parts, "per_network": rows,
    }  # fmt: skip


def _median(value: Callable[[Measurement], float], samples: Sequence[Measurement]) -> float:
    return float(np.median([value(each) for each in samples]))


def megabytes(references: Sequence[Reference]) -> np.ndarray:
    """Return the weights of networks in fp32, (networks,)."""
    return np.maximum([build(reference).parameter_count for reference in references], 1) * 4e-6


def by_network(measurements: Iterable[Measurement]) -> dict[str, list[Measurement]]:
    """Return the measurements of each network by its key, in order of time."""
    found: dict[str, list[Measurement]] = {}
    for each in measurements:
        found.setdefault(each.reference.key, []).append(each)
    return found


@dataclass(frozen=True)
class Phones:
    """First and later runs of phones.

    Attributes:
        runs_ms: (phones, networks, runs).
        mega_macs, kernels, weights_mb: (networks,) millions of MACs, operators that compute, and megabytes of weights in int8.
        models: Of the phones.
        cores: What core each ran on.
    """

    runs_ms: np.ndarray
    mega_macs: np.ndarray
    kernels: np.ndarray
    weights_mb: np.ndarray
    models: Sequence[str]
    cores: Sequence[str]


def read_phones(folder: Path) -> Phones:
    """Read the runs, and what is known of the phones and networks."""
    described = [cells for _, cells in read_csv(folder / FEATURES_FILE, error=DatasetError)]
    models = [cells[0] for cells in described]
    runs_ms = read_runs(folder / RUNS_FILE, models)
    networks = published()[: runs_ms.shape[1]]
    # Columns of a layer: operator (0 convolution, 1 depthwise, 4 pooling), two sides, channels in and out, window.
    layers = [each[:, :6].T for each, _ in networks]
    kernels = [np.isin(operator, (0, 1, 4)).sum() for operator, *_ in layers]
    weights = [
        (np.where(operator, 1, read) * made * window**2)[operator < 2].sum() for operator, _, _, read, made, window in layers
    ]
    macs = np.array([each for _, each in networks])
    cores = [",".join(cells[1:-2]) for cells in described]
    return Phones(runs_ms, macs, np.array(kernels), np.array(weights) / 1e6, models, cores)


def judge_phones(phones: Phones) -> tuple[dict[str, Any], StartModel]:
    """Predict the first run from the steady latency (the median of the others), phones of a model held out together.

    Returns:
        Results, and the model of all phones and networks.
    """
    runs_ms, mega_macs, models = phones.runs_ms, phones.mega_macs, phones.models
    first, steady = runs_ms[:, :, 0], np.median(runs_ms[:, :, 1:], axis=2)
    rng = np.random.default_rng(SEED)
    names = sorted(set(models))
    fold_of = dict(zip(names, rng.permutation(np.arange(len(names)) % FOLDS), strict=True))
    phone_folds = np.array([fold_of[name] for name in models])
    network_folds = rng.permutation(np.arange(len(mega_macs)) % FOLDS)
    ratio = first / steady

    terms = np.stack([mega_macs, np.ones(len(mega_macs)), phones.kernels, phones.weights_mb]) / mega_macs

    def features(rows: np.ndarray, networks: np.ndarray) -> list[dict[str, float]]:
        found = steady[np.ix_(rows, networks)][:, :, None] * terms.T[networks]
        return [dict(zip(SIZE_TERMS, each, strict=True)) for each in found.reshape(-1, len(SIZE_TERMS)).tolist()]

    every = np.arange(len(mega_macs))
    by_law, by_size, low, high, by_ratio, by_network, by_cores, by_second, by_model = (np.zeros_like(first) for _ in range(9))
    named, cores = np.array(models), np.array(phones.cores)
    # Other phones of the same model are held out with a phone: nothing but `by_model` learns from them.
    alike = {phone: [each for each in np.flatnonzero(named == named[phone]) if each != phone] for phone in range(len(named))}
    for fold in range(FOLDS):
        held, known = np.flatnonzero(phone_folds == fold), np.flatnonzero(phone_folds != fold)
        own_ratio = np.array([_least_error_ratio(ratio[known, network]) for network in every])
        by_ratio[held] = _least_error_ratio(ratio[known].ravel()) * steady[held]
        by_network[held] = own_ratio * steady[held]
        for phone in (each for each in held.tolist() if alike[each]):
            by_model[phone] = by_network[phone] * _least_error_ratio((ratio[alike[phone]] / own_ratio).ravel())
        for phone in held.tolist():
            like = known[cores[known] == cores[phone]]
            by_cores[phone] = by_network[phone] * (_least_error_ratio((ratio[like] / own_ratio).ravel()) if len(like) else 1.0)
        by_second[held] = by_network[held] * _of_second_runs(runs_ms, steady, ratio, own_ratio, known, held)[:, None]
        for part in range(FOLDS):
            unseen, seen = np.flatnonzero(network_folds == part), np.flatnonzero(network_folds != part)
            rows = features(known, seen)
            law, _ = fit_law(PHONE_TERMS, rows, first[np.ix_(known, seen)].ravel(), np.repeat(phone_folds[known], len(seen)))
            place = np.ix_(held, unseen)
            found = np.array([law.latency_ms(row) for row in features(held, unseen)]).reshape(len(held), len(unseen))
            by_law[place], low[place], high[place] = found, found * law.low, found * law.high
            sized = StartLaw(fit_terms(SIZE_TERMS, rows, first[np.ix_(known, seen)].ravel()), 1.0, 1.0)
            by_size[place] = np.reshape([sized.latency_ms(row) for row in features(held, unseen)], (len(held), len(unseen)))
    phone_ratio = np.median(ratio, axis=1, keepdims=True)
    both = np.median(ratio / phone_ratio, axis=0) * phone_ratio
    rivals = {
        "the steady latency alone": (steady, "nothing"),
        "one ratio": (by_ratio, "first runs of other phones"),
        "latcast: a law of two numbers": (by_law, "first runs of other phones and networks"),
        "the law, and terms of kernels and weights": (by_size, "first runs of other phones and networks"),
        "a ratio for each network, and one for each design of core": (by_cores, "first runs of other phones"),
        "a ratio for each network": (by_network, "first runs of other phones"),
        "the same, and the phone's second runs": (by_second, "its second runs too"),
        "a ratio for each phone": (phone_ratio * steady, "the answers"),
        "phone times network": (both * steady, "the answers"),
    }
    rows = []
    for name, (predicted, knows) in rivals.items():
        bounds = (low.ravel(), high.ravel()) if predicted is by_law else ()
        rows.append({"way": name, "knows": knows, **figures(predicted.ravel(), first.ravel(), *bounds)})
    several = np.array([bool(each) for each in alike.values()])
    same_model = {
        name: figures(predicted[several].ravel(), first[several].ravel())["mape"] if several.any() else None
        for name, predicted in (("law", by_law), ("model", by_model), ("own", both * steady))
    }
    law, _ = fit_law(PHONE_TERMS, features(np.arange(len(first)), every), first.ravel(), np.repeat(phone_folds, len(every)))
    basis = f"first runs of {len(every)} networks on {len(first)} phones (IISWC 2020): TFLite, int8, one big core"
    quantiles = np.quantile(ratio, (0.1, 0.5, 0.9)).tolist()
    return (
        {
            "rows": rows, "target": PHONES_TARGET, "ratio_quantiles": quantiles,
            "same_model": {"phones": int(several.sum()), **same_model},
        },
        StartModel(None, law, basis),
    )  # fmt: skip


def _least_error_ratio(ratios: np.ndarray) -> float:
    """Return the ratio with the least mean absolute relative error: the median, each weighing the less the larger it is."""
    return fit_terms(("one",), [{"one": 1.0}] * len(ratios), ratios)["one"]


def _of_second_runs(
    runs_ms: np.ndarray, steady: np.ndarray, ratio: np.ndarray, own_ratio: np.ndarray, known: np.ndarray, held: np.ndarray
) -> np.ndarray:
    """Return how much more first runs of phones take than those of others, from their second runs, (held,)."""
    second = np.quantile(np.log(runs_ms[:, :, 1] / steady), 0.75, axis=1)
    more = np.median(np.log(ratio / own_ratio), axis=1)
    slope, constant = np.polyfit(second[known], more[known], 1, w=1 / np.sqrt(0.03 + np.abs(more[known])))
    return np.asarray(np.exp(constant + slope * second[held]))


def phones_table() -> str:
    """Return first inferences on phones: error by what is known."""
    found = kept("start/phones")
    return table(
        found["rows"],
        {
            "first inference predicted by": "{way}",
            "knows of the phone": "{knows}",
            "MAPE %": "{mape:.1f}",
            "±10 %": "{within_10:.0f}",
            "in the 90 % interval, %": lambda row: "-" if row["interval_coverage"] is None else f"{row['interval_coverage']:.0f}",
            "target": lambda row: target_cell(found["target"] if row["way"].startswith("latcast") else None, row["mape"]),
        },
    )


def same_model_figures() -> str:
    """Say by how much first inferences are missed on phones whose model was measured on another phone, too."""
    return (
        "by {law:.1f} % with the law, by {model:.1f} % with first runs of that other phone and a ratio for each network, and by "
        "{own:.1f} % with its own first runs"
    ).format_map(kept("start/phones")["same_model"])


def machine_table() -> str:
    """Return a line for each part of a start and runtime of this machine."""
    judged = {name: found for name, found in kept_parts("start").items() if "parts" in found}
    rows = [
        {"platform": found["platform"], "learned": found["learned_from"], "networks": found["networks"], "part": part, **figures_}
        for part in MACHINE_TARGETS
        for found in judged.values()
        for figures_ in (found["parts"][part],)
    ]
    bytes_first, ratio = (lambda row, place=place: f"{[*row['baselines'].values()][place]['mape']:.0f}" for place in (0, 1))
    return table(
        rows,
        {
            "part": "{part}", "runtime": lambda row: row["platform"].split("/")[1], "label error %": "{label_error:.1f}",
            "MAPE %": "{mape:.1f}", "±10 %": "{within_10:.0f}", "in the 90 % interval, %": "{interval_coverage:.0f}",
            "bytes over bandwidth, steady: MAPE %": bytes_first, "one ratio: MAPE %": ratio,
            "target": lambda row: target_cell(row["target"], row["mape"]),
        },
    )  # fmt: skip
