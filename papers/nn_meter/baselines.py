"""Families nobody has seen, by nn-Meter's baselines and by ours: Fig. 9."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from latcast.errors import MissingExtraError
from latcast.predictors.baselines import BASELINES, fit_baseline
from latcast.predictors.metrics import judge
from latcast.predictors.samples import NetworkSample
from latcast.spaces import build
from papers.comparison import Cell, Comparison, mean
from papers.nn_meter.graph_network import KernelGraph, fit_graph_network, kernel_graph
from papers.nn_meter.held_out import HeldOutFamily
from papers.nn_meter.measured import MeasuredBenchmark
from papers.nn_meter.paper import FAMILY_TITLES, FIGURE_9_FAMILIES, FIGURE_9_MEANS

TITLES: Mapping[str, str] = {"flops": "FLOPs", "flops_mac": "FLOPs+MAC", "graph_network": "graph network"}

Predict = Callable[[Sequence[NetworkSample], np.ndarray, Sequence[NetworkSample]], np.ndarray]
"""(training networks, their latencies in ms, networks to predict) -> predictions in ms."""


def _fitted(name: str) -> Predict:
    def predict(train: Sequence[NetworkSample], latency_ms: np.ndarray, test: Sequence[NetworkSample]) -> np.ndarray:
        found = fit_baseline(name, [sample.kernels for sample in train], latency_ms)
        return found.latency_ms([sample.kernels for sample in test])

    return predict


def _graph_network(seed: int) -> Predict:
    encoded: dict[str, KernelGraph] = {}

    def encode(samples: Sequence[NetworkSample]) -> list[KernelGraph]:
        for sample in samples:
            if sample.reference.key not in encoded:
                encoded[sample.reference.key] = kernel_graph(build(sample.reference), sample.kernels)
        return [encoded[sample.reference.key] for sample in samples]

    def predict(train: Sequence[NetworkSample], latency_ms: np.ndarray, test: Sequence[NetworkSample]) -> np.ndarray:
        return fit_graph_network(encode(train), latency_ms, seed=seed).latency_ms(encode(test))

    return predict


def figure_9(
    benchmark: MeasuredBenchmark,
    families: Sequence[HeldOutFamily],
    *,
    seed: int = 0,
    watch: Callable[[str, int], None] = lambda family, done: None,
) -> Comparison:
    """±10 % accuracy on each family, the baselines trained on all the others.

    Args:
        benchmark: What was measured.
        families: Our predictions of them.
        seed: Of the graph network.
        watch: Called before each family with its name and how many are done.
    """
    kinds: dict[str, Predict] = {name: _fitted(name) for name in BASELINES} | {"graph_network": _graph_network(seed)}
    notes = []
    try:
        import torch  # noqa: F401
    except ImportError:
        missing = MissingExtraError("torch", "torch", "the graph network")
        notes.append(f"without the graph network: {missing}")
        del kinds["graph_network"]
    rows: list[tuple[Cell, ...]] = []
    for held in families:
        watch(held.family, len(rows))
        rest = [sample for name, samples in benchmark.tests.items() if name != held.family for sample in samples]
        latency_ms = np.array([sample.latency_ms for sample in rest])
        cells: list[Cell] = []
        for predict in kinds.values():
            found = judge(predict(rest, latency_ms, benchmark.tests[held.family]), held.actual_ms)
            cells += [found.mape, found.within_10]
        ours = judge(held.kernel_level_ms, held.actual_ms)
        star = "*" if held.family in FIGURE_9_FAMILIES else ""
        rows.append((FAMILY_TITLES[held.family] + star, len(held.actual_ms), ours.mape, ours.within_10, *cells))
    columns = ["family", "networks", "latcast MAPE %", "latcast ±10 %"]
    columns += [f"{TITLES[name]} {figure}" for name in kinds for figure in ("MAPE %", "±10 %")]
    starred = [row for row in rows if str(row[0]).endswith("*")]
    for title, chosen in (("mean of all", rows), ("mean of those with *", starred)):
        rows = [*rows, (title, sum(int(row[1] or 0) for row in chosen), *(mean([row[i] for row in chosen])
                                                                         for i in range(2, len(columns))))]  # fmt: skip
    paper = {"latcast": FIGURE_9_MEANS["kernel level"]} | {TITLES[name]: FIGURE_9_MEANS[name] for name in kinds}
    printed = tuple(paper[column.removesuffix(" ±10 %")] if column.endswith("±10 %") else None for column in columns[2:])
    rows.append(("paper, mean of those with * on three devices", None, *printed))
    notes.append(
        "the paper holds out those with * and trains its baselines on the other four of them; here they learn from all families "
        "but the one held out"
    )
    return Comparison("figure 9", f"Networks of unseen families, {benchmark.platform}", tuple(columns), tuple(rows), tuple(notes))
