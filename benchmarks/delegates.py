"""Where layers run: the rules of delegates held against Qualcomm AI Hub, which published the layers of each model by unit.

A row of its table is a model on a device by a *route* (TensorFlow Lite, ONNX Runtime, QNN). Asked for is the NPU; what came of it
is ``all`` (every layer ran there), ``mixed``, or ``none``. The same three are predicted from the model's graph. Rules that stand
in their files as *observed* were written with such rows in sight. So they are also judged as if they had not: models are halved
at random, rules that get rows right on one half are kept, and the other half is judged, and the other way round.
"""

from __future__ import annotations

import csv
import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any, TypeVar

from benchmarks.tables import markdown_table
from latcast.datasets.importers.latency_tables import LATENCIES, published_platform
from latcast.errors import DatasetError, ModelError
from latcast.graph.importers import load_graph
from latcast.graph.ir import Graph
from latcast.kernels.delegates import ANY_OPERATOR, QUANTISED, Delegate, OperatorRule, delegate_of, load_delegate
from latcast.kernels.partitioning import partition
from latcast.records import Platform
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

SEEDS = 20
"""Ways to halve the models."""


@dataclass(frozen=True)
class Row:
    """One model on one device by one route.

    Attributes:
        network, size: Its name and input as published.
        route: A key of :data:`ASKED`.
        platform: The one that is asked for.
        layers: On the NPU, the GPU and the CPU.
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
        npu, gpu, cpu = self.layers
        return "none" if npu == 0 else "all" if gpu + cpu == 0 else "mixed"

    @property
    def model(self) -> str:
        """Parts of one model are held out together."""
        return self.network.partition("/")[0]


def read_rows(folder: Path) -> list[Row]:
    """The rows of AI Hub's table.

    Raises:
        DatasetError: The folder does not hold it.
    """
    file = folder / LATENCIES
    if not file.exists():
        raise DatasetError(f"there is no {file}; expected the folder of Qualcomm AI Hub's table")
    rows = []
    with file.open(newline="") as text:
        for cells in csv.DictReader(text):
            platform = published_platform(cells)
            precision = "fp16" if cells["published_precision"] == "float" else platform.precision
            rows.append(
                Row(
                    cells["network"],
                    cells["weights_or_input"],
                    cells["backend"],
                    replace(platform, unit=ASKED[cells["backend"]], precision=precision),
                    tuple(int(cells[name] or 0) for name in ("npu_layers", "gpu_layers", "cpu_layers")),  # type: ignore[arg-type]
                    cells["core_or_unit"],
                )
            )
    return rows


def graphs_of(rows: Iterable[Row], models: Path | None = None) -> dict[tuple[str, str], Graph]:
    """The graphs that there are, by name and input.

    Args:
        rows: The rows.
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


class Judge:
    """Predicts outcomes; what rows share is worked out once."""

    def __init__(self, graphs: Mapping[tuple[str, str], Graph]) -> None:
        self.graphs = graphs
        self.known: dict[object, tuple[str, float]] = {}
        self.delegates: dict[object, tuple[Delegate, object]] = {}

    def predicted(self, row: Row, rules: Collection[OperatorRule] | None = None) -> tuple[str, float]:
        """The outcome, and the part of the operators that run on the NPU.

        Args:
            row: Whose network has a graph.
            rules: Those of the observed rules that may be used; all unless given.
        """
        chosen = None if rules is None else frozenset(map(id, rules))
        given = (row.platform, chosen)
        if given not in self.delegates:
            delegate = asked_delegate(row.platform) if rules is None else with_observed(asked_delegate(row.platform), rules)
            # Devices differ in a few rules alone: what matters is which rules are left for this one.
            left = frozenset(id(rule) for rule in (*delegate.takes, *delegate.refuses) if _may_hold(rule, delegate))
            self.delegates[given] = (delegate, (delegate.name, delegate.precision, left))
        delegate, same = self.delegates[given]
        key = (row.network, row.size, same)
        if key not in self.known:
            found = partition(self.graphs[row.network, row.size], delegate)
            outcome = "none" if not found.partitions else "mixed" if found.on_cpu else "all"
            self.known[key] = (outcome, 1 - len(found.on_cpu) / max(found.operators, 1))
        return self.known[key]


def _may_hold(rule: OperatorRule, delegate: Delegate) -> bool:
    return any(fnmatchcase(delegate.device, pattern) for pattern in rule.when.get("devices", ["*"]))


@cache
def asked_delegate(platform: Platform) -> Delegate:
    """The delegate of a route.

    Raises:
        DatasetError: No rules serve it.
    """
    found = delegate_of(platform)
    if found is None:
        raise DatasetError(f"no delegate serves {platform}")
    return found


def with_observed(delegate: Delegate, rules: Collection[OperatorRule]) -> Delegate:
    """The delegate with only these of its observed rules."""
    takes, refuses = (
        tuple(rule for rule in listed if rule.confidence != "observed" or any(rule is each for each in rules))
        for listed in (delegate.takes, delegate.refuses)
    )
    return replace(delegate, takes=takes, refuses=refuses)


def observed_rules(delegates: Iterable[str]) -> list[OperatorRule]:
    """The rules that were written after looking where layers ran."""
    found = [load_delegate(name) for name in delegates]
    return [rule for each in found for rule in (*each.takes, *each.refuses) if rule.confidence == "observed"]


def chosen_rules(judge: Judge, rows: Sequence[Row], candidates: Sequence[OperatorRule]) -> list[OperatorRule]:
    """The observed rules that get rows right, the best first, until none adds any."""
    chosen: list[OperatorRule] = []
    best = right(judge, rows, chosen)
    while True:
        gains = [(right(judge, rows, [*chosen, rule]), -index) for index, rule in enumerate(candidates) if rule not in chosen]
        if not gains or max(gains)[0] <= best:
            return chosen
        best, place = max(gains)
        chosen.append(candidates[-place])


def right(judge: Judge, rows: Iterable[Row], rules: Collection[OperatorRule] | None) -> int:
    return sum(judge.predicted(row, rules)[0] == row.outcome for row in rows)


def in_first_half(name: str, seed: int) -> bool:
    return hashlib.sha256(f"{seed}/{name}".encode()).digest()[0] % 2 == 0


def figures(rows: Sequence[Row], outcome_of: Callable[[Row], str]) -> dict[str, float]:
    """Percent of rows right: of all, of each outcome, and the mean of the three; and percent of models without a wrong row."""
    by_outcome: dict[str, list[bool]] = defaultdict(list)
    by_model: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        hit = outcome_of(row) == row.outcome
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
    """What can be learned without rules: by delegate, whether quantised, and device, an operator type that occurs in networks
    that ran mixed and in none that ran on the NPU whole is refused; and where most rows ran nowhere on the NPU, all do.

    Args:
        graphs: By name and input.
        rows: To learn from.
    """

    def __init__(self, graphs: Mapping[tuple[str, str], Graph], rows: Sequence[Row]) -> None:
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

    def group(self, row: Row) -> tuple[str, bool]:
        return asked_delegate(row.platform).name, row.platform.precision in QUANTISED

    def types(self, row: Row) -> set[str]:
        return set(self.graphs[row.network, row.size].nodes_of_type)

    def predicted(self, row: Row) -> str:
        key = self.group(row)
        if (key, row.platform.device) in self.nowhere:
            return "none"
        return "all" if self.types(row).isdisjoint(self.refused.get(key, ())) else "mixed"


def judge_delegates(folder: Path, models: Path | None = None, seeds: int = SEEDS) -> dict[str, object]:
    """Judges the rules; see the module.

    Args:
        folder: Of AI Hub's table.
        models: See :func:`graphs_of`.
        seeds: Ways to halve the models.
    """
    everything = read_rows(folder)
    graphs = graphs_of(everything, models)
    rows = [row for row in everything if (row.network, row.size) in graphs]
    if not rows:
        raise ModelError("no network of the table has a graph; give ONNX files with --models")
    judge = Judge(graphs)
    candidates = observed_rules(sorted({asked_delegate(row.platform).name for row in rows}))
    by_device = [rule for rule in candidates if ANY_OPERATOR in rule.operators]
    held_out: list[dict[str, float]] = []
    learned: list[dict[str, float]] = []
    kept: Counter[str] = Counter()
    for seed in range(seeds):
        by_rules: dict[int, str] = {}
        by_types: dict[int, str] = {}
        for first in (True, False):
            seen = [row for row in rows if in_first_half(row.model, seed) == first]
            rules, types = chosen_rules(judge, seen, candidates), LearnedTypes(graphs, seen)
            kept.update(_called(rule) for rule in rules)
            for row in rows:
                if in_first_half(row.model, seed) != first:
                    by_rules[id(row)], by_types[id(row)] = judge.predicted(row, rules)[0], types.predicted(row)
        held_out.append(figures(rows, lambda row, found=by_rules: found[id(row)]))  # type: ignore[misc]
        learned.append(figures(rows, lambda row, found=by_types: found[id(row)]))  # type: ignore[misc]
    return {
        "rows": len(everything),
        "outcomes": _outcomes(everything),
        "rows_with_graph": len(rows),
        "models_with_graph": len({row.model for row in rows}),
        "models": len({row.model for row in everything}),
        "outcomes_with_graph": _outcomes(rows),
        "baseline": figures(rows, lambda row: "all"),
        "devices": figures(rows, lambda row: "none" if judge.predicted(row, by_device)[0] == "none" else "all"),
        "documented": figures(rows, lambda row: judge.predicted(row, ())[0]),
        "learned_types": {name: mean(each[name] for each in learned) for name in learned[0]},
        "held_out": {name: mean(each[name] for each in held_out) for name in held_out[0]},
        "held_out_worst": {name: min(each[name] for each in held_out) for name in held_out[0]},
        "seeds": seeds,
        "shipped": figures(rows, lambda row: judge.predicted(row)[0]),
        "by_route": {
            route: {
                "baseline": figures(listed, lambda row: "all")["rows"],
                "shipped": figures(listed, lambda row: judge.predicted(row)[0])["rows"],
                "rows": len(listed),
            }
            for route, listed in sorted(_by(rows, lambda row: row.route).items())
        },
        "share_error": _share_error(judge, rows),
        "on_gpu": _on_gpu(judge, rows),
        "kept": {_called(rule): kept[_called(rule)] / (2 * seeds) for rule in candidates},
        "wrong": _wrong(judge, rows),
    }


def _outcomes(rows: Iterable[Row]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        counts = found.setdefault(row.route, dict.fromkeys(OUTCOMES, 0))
        counts[row.outcome] += 1
    return dict(sorted(found.items()))


def _by(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    found: dict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


def _share_error(judge: Judge, rows: Sequence[Row]) -> dict[str, float]:
    """Mean error of the share of layers on the NPU, in percentage points, over rows that are mixed; and of taking all there."""
    mixed = [row for row in rows if row.outcome == "mixed"]
    shares = [100 * row.layers[0] / sum(row.layers) for row in mixed]
    if not mixed:
        return {}
    return {
        "rows": len(mixed),
        "shipped": mean(abs(100 * judge.predicted(row)[1] - share) for row, share in zip(mixed, shares, strict=True)),
        "baseline": mean(100 - share for share in shares),
    }


def _on_gpu(judge: Judge, rows: Iterable[Row]) -> list[dict[str, object]]:
    """Rows that the GPU ran instead of the NPU: percent of the layers there, published and by the rules of TFLite's delegate."""
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


def _wrong(judge: Judge, rows: Sequence[Row]) -> list[dict[str, object]]:
    counts: Counter[tuple[str, str, str, str, str]] = Counter()
    for row in rows:
        found = judge.predicted(row)[0]
        if found != row.outcome:
            counts[row.network, row.route, row.platform.precision, found, row.outcome] += 1
    names = ("network", "route", "precision", "predicted", "ran")
    return [{**dict(zip(names, key, strict=True)), "rows": count} for key, count in counts.most_common()]


def delegates_table(found: Mapping[str, Any]) -> str:
    """Return the rows right, by what predicted them."""
    titles = {
        "baseline": "everything runs on the NPU",
        "devices": "the same, but for devices without the route",
        "learned_types": "operator types refused, learned on other models",
        "documented": "rules without the observed ones",
        "held_out": "observed rules chosen on other models",
        "held_out_worst": "the worst halving",
        "shipped": "rules as shipped",
    }
    rows = [
        [title, *(f"{found[key][name]:.1f}" if name in found[key] else "-" for name in ("rows", *OUTCOMES, "balanced", "models"))]
        for key, title in titles.items()
    ]
    head = ["rows right, %", "all rows", "all on the NPU", "mixed", "none", "mean of the three", "models without a wrong row"]
    counts = (
        f"Of {found['rows_with_graph']} rows of {found['rows']}, of {found['models_with_graph']} models of {found['models']}, "
        "which have a graph."
    )
    return f"{markdown_table(head, rows)}\n\n{counts}"


def routes_table(found: Mapping[str, Any]) -> str:
    """Return the rows right by route, and how far the share of layers on the NPU is off."""
    routes = found["by_route"].items()
    rows = [[name, str(row["rows"]), f"{row['baseline']:.1f}", f"{row['shipped']:.1f}"] for name, row in routes]
    share = found["share_error"]
    said = (
        f"In the mean of {share['rows']} mixed rows, the share of operators predicted to run on the NPU is "
        f"{share['shipped']:.1f} points off the share of layers that did; {share['baseline']:.1f} where all are taken to run "
        "there."
    )
    return f"{markdown_table(['route', 'rows', 'everything on the NPU', 'rules as shipped'], rows)}\n\n{said}"


def gpu_table(found: Mapping[str, Any]) -> str:
    """Return the models that a GPU ran instead."""
    rows = [[row["network"], str(row["rows"]), f"{row['published']:.0f}", f"{row['predicted']:.0f}"] for row in found["on_gpu"]]
    return markdown_table(["run by the GPU instead", "rows", "layers on the GPU, %", "predicted, %"], rows)
