"""Judges the rules of delegates against Qualcomm AI Hub, which published the layers of each model by unit.

A row of its table is a model on a device by a *route* (TensorFlow Lite, ONNX Runtime, QNN). The NPU is asked for, and all layers
ran there, some ("mixed") or none. The same three outcomes are predicted from the model's graph. Rules marked *observed* in their
files were written in sight of such rows, so they are also judged held out: models are halved at random, rules that get rows right
on one half are kept, and the other half is judged by them, and the other way round.
"""

from __future__ import annotations

import csv
import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import mean, median
from typing import Annotated, Any, TypeVar

import numpy as np
import typer

from benchmarks.judge import table
from benchmarks.result_files import keep, kept
from latcast.datasets.importers import IMPORTERS
from latcast.datasets.importers.latency_tables import LATENCIES, published_platform
from latcast.environment import MOMENT
from latcast.errors import DatasetError, ModelError
from latcast.graph.importers import load_graph
from latcast.graph.ir import Graph
from latcast.kernels.delegates import ANY_OPERATOR, Delegate, OperatorRule, delegate_of, load_delegate
from latcast.kernels.partitioning import QUANTISED, partition
from latcast.platforms import load
from latcast.predictors.bundle_index import platform_ids
from latcast.predictors.platform_predictor import CROSSING_SPREAD
from latcast.records import Measurement, Platform
from latcast.spaces.catalogue import build
from latcast.spaces.measured_only import can_build
from latcast.spaces.published_names import published_network

Key = TypeVar("Key", bound=Hashable)

OUTCOMES = ("all", "mixed", "none")

ASKED: Mapping[str, str] = {
    "tflite": "npu+qairt", "onnx": "npu+onnx", "qnn_dlc": "npu+qnn_dlc", "qnn_context_binary": "npu+qnn_context_binary",
    "precompiled_qnn_onnx": "npu+precompiled_qnn_onnx",
}  # fmt: skip
"""Route to the unit that is asked for."""

OTHER_LAYERS = ("gpu_layers", "cpu_layers")

RATED = "onnxruntime-qnn"
"""Delegate whose rate of crossings was taken from this table."""


# Command


def delegates(
    folder: Annotated[Path, typer.Argument(help="Of Qualcomm AI Hub's table.")],
    models: Annotated[Path | None, typer.Option(help="ONNX files of networks that no space builds.")] = None,
    seeds: Annotated[int, typer.Option(help="Ways to halve the models.", min=1)] = 20,
    wrong: Annotated[bool, typer.Option("--wrong", help="List what is predicted wrongly.")] = False,
    crossings: Annotated[bool, typer.Option("--crossings", help="Judge latencies of networks on both units instead.")] = False,
) -> None:
    """Judge where layers run by the rules, beside taking everything to run on the NPU."""
    if crossings:
        keep("crossings", judge_crossings(folder))
        print(crossings_table())
        return
    found = judge_delegates(folder, models, seeds)
    keep("delegates", found)
    print("\n\n".join((delegates_table(), routes_table(), gpu_table())))
    if wrong:
        print(*found["wrong"], sep="\n")
        print(*(f"{share:.2f} {rule}" for rule, share in found["kept"].items()), sep="\n")


# Rows


@dataclass(frozen=True)
class DelegateRow:
    """One model on one device by one route.

    Attributes:
        network, size: Its name and input as published.
        route: A key of :data:`ASKED`.
        platform: The platform that is asked for.
        layers: How many ran on the NPU, the GPU and the CPU.
        ran_on: The unit that the origin gives the latency to.
    """

    network: str
    size: str
    route: str
    platform: Platform
    layers: tuple[int, int, int]
    ran_on: str

    @property
    def outcome(self) -> str:
        """Which of :data:`OUTCOMES` came of it."""
        npu, gpu, cpu = self.layers
        return "none" if npu == 0 else "all" if gpu + cpu == 0 else "mixed"

    @property
    def model(self) -> str:
        """The model that the network is a part of; its parts are held out together."""
        return self.network.partition("/")[0]


def read_rows(folder: Path) -> list[DelegateRow]:
    """Read the rows of AI Hub's table.

    Raises:
        DatasetError: The folder does not hold it.
    """
    file = folder / LATENCIES
    if not file.exists():
        raise DatasetError(f"there is no {file}; expected the folder of Qualcomm AI Hub's table")
    rows = []
    with file.open(newline="", encoding="utf-8") as text:
        for cells in csv.DictReader(text):
            platform = published_platform(cells)
            precision = "fp16" if cells["published_precision"] == "float" else platform.precision
            rows.append(
                DelegateRow(
                    cells["network"],
                    cells["weights_or_input"],
                    cells["backend"],
                    replace(platform, unit=ASKED[cells["backend"]], precision=precision),
                    tuple(int(cells[name] or 0) for name in ("npu_layers", "gpu_layers", "cpu_layers")),  # type: ignore[arg-type]
                    cells["core_or_unit"],
                )
            )
    return rows


def graphs_of(rows: Iterable[DelegateRow], models: Path | None = None) -> dict[tuple[str, str], Graph]:
    """Return the graphs that there are, by name and input.

    Args:
        models: A folder of ONNX files, ``__`` for the slash of a name, for networks that no space builds.
    """
    found = {}
    for name, size in sorted({(row.network, row.size) for row in rows}):
        reference = published_network("aihub", name, size)
        file = models / f"{name.replace('/', '__')}.onnx" if models else None
        if can_build(reference):
            found[name, size] = build(reference)
        elif file is not None and file.exists():
            found[name, size] = load_graph(file)
    return found


# Predicting by rules


class RulePredictor:
    """Predictor of outcomes by rules, which works out once what rows share."""

    def __init__(self, graphs: Mapping[tuple[str, str], Graph]) -> None:
        self.graphs = graphs
        self.known: dict[object, tuple[str, float]] = {}
        self.delegates: dict[object, Delegate] = {}

    def predicted(self, row: DelegateRow, rules: Collection[OperatorRule] | None = None) -> tuple[str, float]:
        """Return the outcome, and the part of the operators that run on the NPU.

        Args:
            rules: The observed rules that may be used; all unless given.
        """
        given = (row.platform, None if rules is None else frozenset(map(id, rules)))
        if given not in self.delegates:
            asked = asked_delegate(row.platform)
            self.delegates[given] = asked if rules is None else with_observed(asked, rules)
        delegate = self.delegates[given]
        key = (row.network, row.size, delegate.key)
        if key not in self.known:
            found = partition(self.graphs[row.network, row.size], delegate)
            outcome = "none" if not found.partitions else "mixed" if found.on_cpu else "all"
            self.known[key] = (outcome, 1 - len(found.on_cpu) / max(found.operators, 1))
        return self.known[key]


@cache
def asked_delegate(platform: Platform) -> Delegate:
    """Return the delegate of a route.

    Raises:
        DatasetError: No rules serve it.
    """
    found = delegate_of(platform)
    if found is None:
        raise DatasetError(f"no delegate serves {platform}")
    return found


def with_observed(delegate: Delegate, rules: Collection[OperatorRule]) -> Delegate:
    """Return the delegate with only these of its observed rules."""
    takes, refuses = (
        tuple(rule for rule in listed if rule.confidence != "observed" or any(rule is each.of_operators for each in rules))
        for listed in (delegate.takes, delegate.refuses)
    )
    return replace(delegate, takes=takes, refuses=refuses)


def observed_rules(delegates: Iterable[str]) -> list[OperatorRule]:
    """Return the rules that were written after looking where layers ran."""
    found = [load_delegate(name) for name in delegates]
    return [rule for each in found for rule in (*each.takes, *each.refuses) if rule.confidence == "observed"]


def chosen_rules(judge: RulePredictor, rows: Sequence[DelegateRow], candidates: Sequence[OperatorRule]) -> list[OperatorRule]:
    """Choose observed rules that get rows right, the best first, until none adds any."""
    chosen: list[OperatorRule] = []
    best = right(judge, rows, chosen)
    while True:
        gains = [(right(judge, rows, [*chosen, rule]), -index) for index, rule in enumerate(candidates) if rule not in chosen]
        if not gains or max(gains)[0] <= best:
            return chosen
        best, place = max(gains)
        chosen.append(candidates[-place])


def right(judge: RulePredictor, rows: Iterable[DelegateRow], rules: Collection[OperatorRule] | None) -> int:
    """Count the rows whose outcome is predicted right."""
    return sum(judge.predicted(row, rules)[0] == row.outcome for row in rows)


def in_first_half(name: str, seed: int) -> bool:
    """Return whether a model is in the first half of a halving."""
    return hashlib.sha256(f"{seed}/{name}".encode()).digest()[0] % 2 == 0


def figures(rows: Sequence[DelegateRow], outcomes: Sequence[str]) -> dict[str, float]:
    """Return percent of rows right (all, of each outcome, mean of the three) and of models without a wrong row."""
    by_outcome: dict[str, list[bool]] = defaultdict(list)
    by_model: dict[str, list[bool]] = defaultdict(list)
    for row, outcome in zip(rows, outcomes, strict=True):
        hit = outcome == row.outcome
        by_outcome[row.outcome].append(hit)
        by_model[row.model].append(hit)
    found = {name: 100 * mean(by_outcome[name]) for name in OUTCOMES if by_outcome[name]}
    hits = [hit for listed in by_outcome.values() for hit in listed]
    return {
        "rows": 100 * mean(hits),
        **found,
        "balanced": mean(found.values()),
        "models": 100 * mean(all(listed) for listed in by_model.values()),
    }


class LearnedTypes:
    """A baseline that learns without rules.

    By delegate, device and quantised or not, an operator type that occurs in networks that ran mixed and in none that ran on the
    NPU whole is refused; where most rows ran nowhere on the NPU, all do.

    Args:
        graphs: By name and input.
        rows: Rows to learn from.
    """

    def __init__(self, graphs: Mapping[tuple[str, str], Graph], rows: Sequence[DelegateRow]) -> None:
        self.graphs = graphs
        self.refused: dict[object, set[str]] = {}
        self.nowhere: set[object] = set()
        for key, listed in _by(rows, self.group).items():
            types = {outcome: set[str]() for outcome in OUTCOMES}
            for row in listed:
                types[row.outcome] |= self.types(row)
            self.refused[key] = types["mixed"] - types["all"]
        for place, listed in _by(rows, lambda row: (self.group(row), row.platform.device)).items():
            if sum(row.outcome == "none" for row in listed) > len(listed) / 2:
                self.nowhere.add(place)

    def group(self, row: DelegateRow) -> tuple[str, bool]:
        return asked_delegate(row.platform).name, row.platform.precision in QUANTISED

    def types(self, row: DelegateRow) -> set[str]:
        return set(self.graphs[row.network, row.size].nodes_of_type)

    def predicted(self, row: DelegateRow) -> str:
        key = self.group(row)
        if (key, row.platform.device) in self.nowhere:
            return "none"
        return "all" if self.types(row).isdisjoint(self.refused.get(key, ())) else "mixed"


# Judging


def held_out_outcomes(
    judge: RulePredictor, rows: Sequence[DelegateRow], candidates: Sequence[OperatorRule], seed: int
) -> tuple[list[str], list[str], Counter[str]]:  # fmt: skip
    """Predict each half of the models by what is chosen or learned on the other half.

    Returns:
        Of each row the outcome by the chosen rules, and by :class:`LearnedTypes`; and how often each rule was chosen.
    """
    by_rules, by_types, chosen = [""] * len(rows), [""] * len(rows), Counter[str]()
    for first in (True, False):
        seen = [row for row in rows if in_first_half(row.model, seed) == first]
        rules, types = chosen_rules(judge, seen, candidates), LearnedTypes(judge.graphs, seen)
        chosen.update(map(_called, rules))
        for place, row in enumerate(rows):
            if in_first_half(row.model, seed) != first:
                by_rules[place], by_types[place] = judge.predicted(row, rules)[0], types.predicted(row)
    return by_rules, by_types, chosen


def judge_delegates(folder: Path, models: Path | None = None, seeds: int = 20) -> dict[str, Any]:
    """Judge the rules, shipped and chosen on other models, and the baselines."""
    everything = read_rows(folder)
    graphs = graphs_of(everything, models)
    rows = [row for row in everything if (row.network, row.size) in graphs]
    if not rows:
        raise ModelError("no network of the table has a graph; give ONNX files with --models")
    judge = RulePredictor(graphs)
    candidates = observed_rules(sorted({asked_delegate(row.platform).name for row in rows}))
    by_device = [rule for rule in candidates if ANY_OPERATOR in rule.operators]
    shipped = [judge.predicted(row)[0] for row in rows]
    by_rules, by_types, chosen = zip(*(held_out_outcomes(judge, rows, candidates, seed) for seed in range(seeds)), strict=True)
    held_out, learned = ([figures(rows, each) for each in outcomes] for outcomes in (by_rules, by_types))
    kept_rules = sum(chosen, Counter[str]())
    wrong = Counter(
        (row.network, row.route, row.platform.precision, found, row.outcome)
        for row, found in zip(rows, shipped, strict=True)
        if found != row.outcome
    )
    on_npu = ["all"] * len(rows)
    return {
        "rows": len(everything), "outcomes": _outcomes(everything), "rows_with_graph": len(rows),
        "models_with_graph": len({row.model for row in rows}), "models": len({row.model for row in everything}),
        "outcomes_with_graph": _outcomes(rows),
        "baseline": figures(rows, on_npu),
        "devices": figures(rows, ["none" if judge.predicted(row, by_device)[0] == "none" else "all" for row in rows]),
        "documented": figures(rows, [judge.predicted(row, ())[0] for row in rows]),
        "learned_types": {name: mean(each[name] for each in learned) for name in learned[0]},
        "held_out": {name: mean(each[name] for each in held_out) for name in held_out[0]},
        "held_out_worst": {name: min(each[name] for each in held_out) for name in held_out[0]},
        "seeds": seeds,
        "shipped": figures(rows, shipped),
        "by_route": {
            route: {
                "baseline": figures(listed, ["all"] * len(listed))["rows"],
                "shipped": figures(listed, [judge.predicted(row)[0] for row in listed])["rows"],
                "rows": len(listed),
            }
            for route, listed in sorted(_by(rows, lambda row: row.route).items())
        },
        "share_error": _share_error(judge, rows),
        "on_gpu": _on_gpu(judge, rows),
        "kept": {_called(rule): kept_rules[_called(rule)] / (2 * seeds) for rule in candidates},
        "wrong": [
            {**dict(zip(("network", "route", "precision", "predicted", "ran"), key, strict=True)), "rows": count}
            for key, count in wrong.most_common()
        ],
    }  # fmt: skip


def _outcomes(rows: Iterable[DelegateRow]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        counts = found.setdefault(row.route, dict.fromkeys(OUTCOMES, 0))
        counts[row.outcome] += 1
    return dict(sorted(found.items()))


def _by(rows: Iterable[DelegateRow], key: Callable[[DelegateRow], Key]) -> dict[Key, list[DelegateRow]]:
    found: dict[Key, list[DelegateRow]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


def _share_error(judge: RulePredictor, rows: Sequence[DelegateRow]) -> dict[str, float]:
    """Return the mean error, in points, of the share of layers on the NPU in mixed rows, and of taking all to run there."""
    mixed = [row for row in rows if row.outcome == "mixed"]
    shares = [100 * row.layers[0] / sum(row.layers) for row in mixed]
    if not mixed:
        return {}
    return {
        "rows": len(mixed),
        "shipped": mean(abs(100 * judge.predicted(row)[1] - share) for row, share in zip(mixed, shares, strict=True)),
        "baseline": mean(100 - share for share in shares),
    }


def _on_gpu(judge: RulePredictor, rows: Iterable[DelegateRow]) -> list[dict[str, object]]:
    """Return rows that the GPU ran instead: percent of the layers there, published and by the rules of TFLite's delegate."""
    delegate = load_delegate("tflite-gpu")
    counts = Counter((row.network, row.size, row.layers) for row in rows if row.ran_on == "gpu")
    listed = []
    for (name, size, (npu, gpu, cpu)), count in sorted(counts.items()):
        found = partition(judge.graphs[name, size], delegate.at(version="2.17", precision="fp16"))
        predicted = 100 * (1 - len(found.on_cpu) / max(found.operators, 1))
        listed.append({"network": name, "rows": count, "published": 100 * gpu / (npu + gpu + cpu), "predicted": predicted})
    return listed


def _called(rule: OperatorRule) -> str:
    conditions = ", ".join(f"{name} {value}" for name, value in sorted(rule.when.items()))
    return f"{'/'.join(sorted(rule.operators))} ({conditions or 'always'})"


# Crossings


@dataclass(frozen=True)
class CrossingRow:
    """A network that ran on both units, on a platform that did not learn from it.

    Attributes:
        network: As published.
        delegate: Name of the platform's.
        actual_ms: As published.
        without_ms, low_ms, high_ms: Predicted for the NPU, without crossings.
        crossings, crossing_bytes: As the rules count them.
    """

    network: str
    delegate: str
    actual_ms: float
    without_ms: float
    low_ms: float
    high_ms: float
    crossings: int
    crossing_bytes: float

    def crossing_ms(self, ms_per_byte: float | None = None) -> float:
        """Return the estimate of the crossings, by the delegate's rate or another."""
        delegate = load_delegate(self.delegate)
        if ms_per_byte is None:
            return delegate.crossing_ms(self.crossings, self.crossing_bytes)
        return delegate.synchronisation_ms * self.crossings + ms_per_byte * self.crossing_bytes


def read_crossing_rows(folder: Path) -> list[CrossingRow]:
    """Predict the networks of AI Hub's table that ran on both units, where a platform is known and did not run them."""
    by_platform: dict[str, list[Measurement]] = defaultdict(list)
    for each in IMPORTERS.get("aihub").read(folder).measurements:
        moment = each.environment.get(MOMENT) or {}
        on_npu, elsewhere = (sum(int(moment.get(name) or 0) for name in names) for names in (("npu_layers",), OTHER_LAYERS))
        if each.ok and on_npu and elsewhere and can_build(each.reference):
            by_platform[each.platform].append(each)
    rows = []
    for platform in sorted(set(by_platform) & set(platform_ids())):
        measured = by_platform[platform]
        predicted = load(platform).predict_many([build(each.reference) for each in measured])
        for each, found in zip(measured, predicted, strict=True):
            part = found.fallback
            if part is not None and part.crossing_ms:
                spread_ms = (part.crossing_ms / CROSSING_SPREAD, part.crossing_ms * CROSSING_SPREAD)
                rows.append(
                    CrossingRow(
                        each.reference.name or each.reference.key, part.name, float(each.latency_ms or 0.0),
                        found.latency_ms - part.crossing_ms, found.low_ms - spread_ms[0], found.high_ms - spread_ms[1],
                        part.crossings, part.crossing_bytes,
                    )
                )  # fmt: skip
    return rows


def rate_of(rows: Iterable[CrossingRow]) -> float:
    """Return the milliseconds a byte that networks took beyond the NPU and synchronisations, a geometric mean over networks."""
    rates: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        rates[row.network].append((row.actual_ms - row.without_ms - row.crossing_ms(0.0)) / row.crossing_bytes)
    return float(np.exp(np.mean([np.log(median(each)) for each in rates.values() if median(each) > 0])))


def judge_crossings(folder: Path) -> dict[str, Any]:
    """Judge latencies without crossings, with those as shipped, and with ONNX Runtime's rate from the other networks."""
    rows = read_crossing_rows(folder)
    learned = {
        name: rate_of(each for each in rows if each.delegate == RATED and each.network != name)
        for name in {each.network for each in rows if each.delegate == RATED}
    }
    ways = {
        "without crossings": [0.0 for _ in rows],
        "with crossings, the rate under ONNX Runtime from other networks": [
            each.crossing_ms(learned[each.network] if each.delegate == RATED else None) for each in rows
        ],
        "as shipped": [each.crossing_ms() for each in rows],
    }
    actual, without, low, high = np.array([(each.actual_ms, each.without_ms, each.low_ms, each.high_ms) for each in rows]).T
    judged = []
    for way, crossing_ms in ways.items():
        added = np.array(crossing_ms)
        inside = (low + added / CROSSING_SPREAD <= actual) & (actual <= high + added * CROSSING_SPREAD)
        factor = float(np.exp(np.abs(np.log((without + added) / actual)).mean()))
        judged.append({"way": way, "factor": factor, "interval_coverage": 100 * float(inside.mean())})
    return {"rows": len(rows), "networks": len({each.network for each in rows}), "ways": judged}


# Tables

TITLES: Mapping[str, str] = {
    "baseline": "everything runs on the NPU", "devices": "the same, but for devices without the route",
    "learned_types": "operator types refused, learned on other models", "documented": "rules without the observed ones",
    "held_out": "observed rules chosen on other models", "held_out_worst": "the worst halving", "shipped": "rules as shipped",
}  # fmt: skip


def delegates_table() -> str:
    """Return the rows right, by what predicted them."""
    found = kept("delegates")
    columns = {
        "rows right, %": "{title}", "all rows": "{rows:.1f}", "all on the NPU": "{all:.1f}", "mixed": "{mixed:.1f}",
        "none": "{none:.1f}", "mean of the three": "{balanced:.1f}",
    }  # fmt: skip
    counts = "Of {rows_with_graph} rows of {rows}, of {models_with_graph} models of {models}, which have a graph."
    shown = table([{"title": title, **found[key]} for key, title in TITLES.items()], columns)
    return f"{shown}\n\n{counts.format_map(found)}"


def routes_table() -> str:
    """Return the rows right by route, and how far the share of layers on the NPU is off."""
    found = kept("delegates")
    columns = {
        "route": "{route}", "rows": "{rows}", "everything on the NPU": "{baseline:.1f}", "rules as shipped": "{shipped:.1f}",
    }  # fmt: skip
    said = (
        "In the mean of {rows} mixed rows, the share of operators predicted to run on the NPU is {shipped:.1f} points off the "
        "share of layers that did; {baseline:.1f} where all are taken to run there."
    )
    rows = [{"route": name, **row} for name, row in found["by_route"].items()]
    return f"{table(rows, columns)}\n\n{said.format_map(found['share_error'])}"


def crossings_table() -> str:
    """Return how far latencies of networks on both units are off, with and without crossings."""
    found = kept("crossings")
    columns = {
        "latency": "{way}", "off by a mean factor of": "{factor:.1f}", "in the 90 % interval, %": "{interval_coverage:.0f}",
    }  # fmt: skip
    said = "Of {rows} rows of {networks} networks that ran on both units, on platforms that did not learn from them."
    return f"{table(found['ways'], columns)}\n\n{said.format_map(found)}"


def gpu_table() -> str:
    """Return the models that a GPU ran instead."""
    columns = {
        "run by the GPU instead": "{network}", "rows": "{rows}", "layers on the GPU, %": "{published:.0f}",
        "predicted, %": "{predicted:.0f}",
    }  # fmt: skip
    return table(kept("delegates")["on_gpu"], columns)
