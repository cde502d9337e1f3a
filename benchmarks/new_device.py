"""A phone that nobody measured, from a few whole networks: every phone of the published set held out in turn.

A held-out phone takes all its platforms along; the networks to be predicted were run on no phone that was learned from. Phones
in :data:`CHOSEN_ON` served to choose the model's constants, the others did not: figures are given for both.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.phones import LICENCE, SOURCE
from latcast.datasets.splits import by_group, by_network, device_of, lineage_of
from latcast.datasets.store import Store
from latcast.devices.latency_table import LatencyTable, table_of
from latcast.devices.shared_terms import Columns, SharedTerms
from latcast.devices.shared_terms_file import SHIPPED, save_shared_terms
from latcast.devices.shared_terms_fit import Fitted, Kinds, fit_shared_terms, usable_part
from latcast.kernels.rules import unit_kind
from latcast.predictors.metrics import judge, spearman
from latcast.records import Platform
from latcast.spaces.pytorchcv.exported import write_shipped

RESULTS = Path(__file__).parent / "results" / "new_device.json"

CHOSEN_ON = ("a03s", "iphonexs", "s10")

SIZES = (5, 10, 30)
SPLITS = tuple((held_out, seed) for seed in (100, 101, 102) for held_out in ("network", "lineage"))
METRICS = ("mape", "within_5", "within_10", "rmse_ms", "rmspe", "spearman", "interval_coverage")


def phone_table(path: Path) -> LatencyTable:
    """All platforms of the published set with the networks that can be built."""
    with Store(path) as store:
        return usable_part(table_of(store.measurements(role="network", space="pytorchcv")))


def kind_of(name: str) -> str:
    """Runtime, kind of unit and precision, which figures are grouped by."""
    platform = Platform.parse(name)
    return f"{platform.runtime} {unit_kind(platform.unit)} {platform.precision}"


def judge_split(table: LatencyTable, kinds: Kinds, held_out: str, seed: int) -> Iterator[dict[str, Any]]:
    """One row for each prediction set: a platform, how its measured networks were chosen, how many, and the errors."""
    keys = [network.key for network in table.networks]
    lineages = {network.key: lineage_of(network) for network in table.networks}
    split = by_network(keys, seed) if held_out == "network" else by_group(lineages, seed)
    train, test = (np.array(sorted(keys.index(key) for key in names)) for names in (split.train, split.test))
    trained = replace(kinds, terms=tuple(terms.only(train) for terms in kinds.terms))
    fitted = fit_shared_terms(table.columns(train), kinds=trained)
    tested = np.log(table.latency_ms[np.ix_(kinds.order, test)])
    rows = [part.log_ms(terms.only(test)) for part, terms in zip(fitted.model.parts, kinds.terms, strict=True)]
    place = kinds.rules.index(fitted.model.novelty.reference.rules)
    columns = Columns.of(fitted.model.log_ms, np.concatenate(rows), fitted.model.novelty, kinds.terms[place].only(test))
    names = np.array([device_of(name) for name in fitted.model.platforms])
    for device in sorted(set(names.tolist())):
        without = fitted.without_devices([device])
        model = without.calibrated()
        known = replace(columns, log_ms=columns.log_ms[names != device])
        for row in np.flatnonzero(names == device):
            yield from _judge_platform(fitted, model, known, int(row), tested[row], len(train), seed)


def _judge_platform(
    fitted: Fitted, model: SharedTerms, columns: Columns, row: int, tested: np.ndarray, known: int, seed: int
) -> Iterator[dict[str, Any]]:
    name = fitted.model.platforms[row]
    measured = np.flatnonzero(~np.isnan(fitted.log_ms[row]))
    actual = np.concatenate([fitted.log_ms[row], tested])
    part = replace(model, log_ms=model.log_ms[:, measured])
    order = np.random.default_rng([seed, row]).permutation(measured)
    for way in ("chosen", "random"):
        chosen_in_order = measured[part.signature(max(SIZES), name)] if way == "chosen" else order
        for size in SIZES if way == "chosen" else SIZES[1:2]:
            chosen = chosen_in_order[:size]
            started = time.perf_counter()
            found = model.predict_platform(name, chosen, actual[chosen], columns)
            seconds = time.perf_counter() - started
            reach = model.reach.of(columns)
            for networks, wanted in (
                ("seen", np.setdiff1d(measured, chosen)),
                ("unseen", np.arange(known, len(actual))),
            ):
                wanted = wanted[~np.isnan(actual[wanted])]
                half = (reach * found.deviation)[wanted]
                yield {
                    "platform": name,
                    "way": way,
                    "size": size,
                    "networks": networks,
                    "seconds": seconds,
                    "spearman": spearman(found.log_ms[wanted], actual[wanted]),
                    "predicted": found.log_ms[wanted].tolist(),
                    "actual": actual[wanted].tolist(),
                    "half": half.tolist(),
                }


def figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """All metrics together; ranks are compared within platforms."""
    predicted, actual, half = (np.concatenate([row[name] for row in rows]) for name in ("predicted", "actual", "half"))
    found = judge(np.exp(predicted), np.exp(actual), np.exp(predicted - half), np.exp(predicted + half))
    return {
        **{name: float(getattr(found, name)) for name in METRICS},
        "spearman": float(np.nanmean([row["spearman"] for row in rows])),
        "median_error": 100 * float(np.median(np.abs(np.exp(predicted - actual) - 1))),
        "predictions": len(actual),
    }


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Figures by what was held out, choice and number of measured networks, and group of platforms."""
    names = sorted({row["platform"] for row in rows})
    groups = {
        "tflite": {name for name in names if "/tflite-" in name},
        "tflite, phones not chosen on": {name for name in names if "/tflite-" in name and device_of(name) not in CHOSEN_ON},
        "all": set(names),
        "all, phones not chosen on": {name for name in names if device_of(name) not in CHOSEN_ON},
        **{kind: {name for name in names if kind_of(name) == kind} for kind in sorted(set(map(kind_of, names)))},
    }
    found = []
    for held_out in ("network", "lineage"):
        for way in ("chosen", "random"):
            for networks in ("unseen", "seen"):
                for size in SIZES:
                    part = [
                        row for row in rows
                        if (row["held_out"], row["way"], row["networks"], row["size"]) == (held_out, way, networks, size)
                    ]  # fmt: skip
                    for group, inside in groups.items():
                        chosen = [row for row in part if row["platform"] in inside and row["actual"]]
                        if chosen:
                            found.append({"held_out": held_out, "way": way, "networks": networks, "size": size,
                                          "group": group, **figures(chosen)})  # fmt: skip
    return found


def run(path: Path, folder: Path, splits: Sequence[tuple[str, int]] = SPLITS) -> list[dict[str, Any]]:
    """Judges splits one by one, keeping each in ``folder``, and writes the figures."""
    folder.mkdir(parents=True, exist_ok=True)
    table = phone_table(path)
    kinds = Kinds.of(table)
    rows: list[dict[str, Any]] = []
    for held_out, seed in splits:
        place = folder / f"{held_out}-{seed}.json"
        if not place.exists():
            found = [{"held_out": held_out, "seed": seed, **row} for row in judge_split(table, kinds, held_out, seed)]
            place.write_text(json.dumps(found))
        rows += json.loads(place.read_text())
    figures_of_all = summary(rows)
    seconds = float(np.median([row["seconds"] for row in rows]))
    document = {"splits": [list(split) for split in splits], "adapting_s": seconds, "figures": figures_of_all}
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")
    return figures_of_all


def figures_table(rows: Sequence[Mapping[str, Any]], networks: str = "unseen") -> str:
    """Markdown."""
    lines = [
        "| held out | measured | group | MAPE | ±5 % | ±10 % | RMSPE | Spearman | in interval |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if row["networks"] == networks:
            lines.append(
                f"| {row['held_out']} | {row['size']} {row['way']} | {row['group']} | {row['mape']:.1f} | {row['within_5']:.0f} "
                f"| {row['within_10']:.0f} | {row['rmspe']:.1f} | {row['spearman']:.3f} | {row['interval_coverage']:.0f} |"
            )
    return "\n".join(lines)


def ship(path: Path, place: Path = SHIPPED) -> SharedTerms:
    """Fits everything and writes the model that travels with the package, and the graphs of its networks."""
    table = phone_table(path)
    documents = json.loads(RESULTS.read_text())["figures"] if RESULTS.exists() else []
    held_out = [
        row for row in documents
        if row["way"] == "chosen" and row["networks"] == "unseen" and row["size"] == 10 and row["group"] in ("all", "tflite")
    ]  # fmt: skip
    card = {
        "source": SOURCE,
        "licence": LICENCE,
        "networks": len(table.networks),
        "platforms": len(table.platforms),
        "held_out_devices": held_out,
    }
    model = fit_shared_terms(table, card=card).calibrated()
    save_shared_terms(model, place)
    write_shipped(network.name for network in model.networks)
    return model
