"""The benchmark as it is measured here (Table 2), another platform's predictor on it (Table 11), and the measuring time
(Table 12)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from latcast.errors import TrainingError
from latcast.graph.operators import graph_macs
from latcast.kernels.search import find_kernels
from latcast.predictors.metrics import judge
from latcast.spaces import build
from papers.comparison import Cell, Comparison
from papers.nn_meter.end_to_end import METRIC_COLUMNS, metric_cells
from papers.nn_meter.held_out import HeldOutFamily, pooled, train_without
from papers.nn_meter.measured import MeasuredBenchmark
from papers.nn_meter.paper import (
    FAMILY_TITLES,
    TABLE_2_CPU_MS,
    TABLE_2_MEAN_MFLOPS,
    TABLE_11,
    TABLE_12_DAYS,
)


def table_2(benchmark: MeasuredBenchmark) -> Comparison:
    """Sizes and latencies of the measured networks."""
    rows: list[tuple[Cell, ...]] = []
    for family, samples in benchmark.tests.items():
        actual = benchmark.actual_ms(family)
        million = float(np.mean([graph_macs(build(sample.reference)) for sample in samples])) / 1e6
        rows.append(
            (FAMILY_TITLES[family], len(samples), million, TABLE_2_MEAN_MFLOPS[family], float(actual.min()),
             float(actual.max()), *TABLE_2_CPU_MS[family])
        )  # fmt: skip
    return Comparison(
        "table 2",
        f"The measured networks, {benchmark.platform}",
        ("family", "networks", "mean MMACs", "paper mean MMACs", "lowest ms", "highest ms", "paper CPU lowest ms",
         "paper CPU highest ms"),
        tuple(rows),
        ("a stratified part of the variants within the limits of size that were asked for; the paper measured all of its own",),
    )  # fmt: skip


def table_11(
    benchmark: MeasuredBenchmark,
    families: Sequence[HeldOutFamily],
    other: MeasuredBenchmark,
    *,
    learn_from: str = "operators",
    model: str | None = None,
    seed: int = 0,
    watch: Callable[[str, int], None] = lambda family, done: None,
) -> Comparison:
    """The networks measured here, by the predictor of another platform and by its own.

    Args:
        benchmark: This platform.
        families: Predictions by its own predictors.
        other: The other platform, learned from in the same way.
        learn_from, model, seed: As for :func:`papers.nn_meter.held_out.hold_out_each`.
        watch: Called before each family with its name and how many are done.

    Raises:
        TrainingError: Too few measurements of the other platform.
    """
    rows: list[tuple[Cell, ...]] = []
    by_other: list[np.ndarray] = []
    for held in families:
        watch(held.family, len(rows))
        try:
            predictor = train_without(other, held.family, learn_from=learn_from, model=model, seed=seed)
        except TrainingError as problem:
            raise TrainingError(f"without {held.family}: {problem}") from problem
        graphs = [build(sample.reference) for sample in benchmark.tests[held.family]]
        by_other.append(predictor.estimate([find_kernels(graph, other.rules) for graph in graphs]).latency_ms)
        rows.append((FAMILY_TITLES[held.family], *_both(by_other[-1], held), *_paper_cells(held.family)))
    whole = HeldOutFamily(
        "all", families[0].predictor, pooled(held.actual_ms for held in families),
        pooled(held.kernel_level_ms for held in families), pooled(held.operator_level_ms for held in families),
    )  # fmt: skip
    rows.append(("all", *_both(pooled(by_other), whole), None, None))
    return Comparison(
        "table 11",
        f"Networks measured on {benchmark.platform}, by the predictor of {other.platform} and by its own",
        ("family", *(f"other's {name}" for name in METRIC_COLUMNS), *(f"own {name}" for name in METRIC_COLUMNS),
         "paper other's ±10 %", "paper own ±10 %"),
        tuple(rows),
        ("the paper's other platform is an Adreno 640, its own an Adreno 630",),
    )  # fmt: skip


def _both(by_other: np.ndarray, held: HeldOutFamily) -> tuple[Cell, ...]:
    other = judge(by_other, held.actual_ms)
    return (*metric_cells(other), *metric_cells(judge(held.kernel_level_ms, held.actual_ms)))


def _paper_cells(family: str) -> tuple[Cell, ...]:
    printed = TABLE_11.get(family)
    return (None, None) if printed is None else (printed[0].within_10, printed[1].within_10)


def table_12(benchmark: MeasuredBenchmark) -> Comparison:
    """How long measuring took."""
    kernels = len(benchmark.data.profiled) + len(benchmark.data.isolated)
    rows: list[tuple[Cell, ...]] = [
        (str(benchmark.platform), benchmark.seconds / 3600, benchmark.records, len(benchmark.data.networks), kernels)
    ]
    rows += [(f"paper {device}", 24 * days, None, None, None) for device, days in TABLE_12_DAYS.items()]
    return Comparison(
        "table 12",
        "Measuring time",
        ("platform", "hours", "records", "networks", "timed kernels"),
        tuple(rows),
        ("ours is of everything in the store, the labels of the networks to be predicted included; the paper's is of the kernels "
         "that predictors learn from",),
    )  # fmt: skip
