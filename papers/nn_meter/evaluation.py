"""nn-Meter's evaluation from stores of measurements: every table and figure that what is there allows, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING

from latcast.training.profiling import Stage
from papers.harness import PaperTable, Watch, make_tables, unwatched
from papers.nn_meter.benchmark import MeasuredBenchmark, Training, WatchFamily, hold_out_each
from papers.nn_meter.end_to_end import figure_9, figure_10, table_2, table_8, table_11, table_12
from papers.nn_meter.kernels import figure_6, figure_11, table_4, table_9, table_10
from papers.plots import Bars, draw_tables

if TYPE_CHECKING:
    from latcast.datasets.store import Store

ITEMS = (
    "table 2", "table 4", "figure 6", "table 8", "table 9", "figure 9", "table 10", "figure 10", "figure 11", "table 11",
    "table 12",
)  # fmt: skip
"""Everything of the paper that is reproduced, in its order."""

UNTRAINED = frozenset({"table 2", "table 4", "figure 6", "table 10", "table 12"})
"""What takes no predictors of whole networks."""


def reproduce(
    benchmark: MeasuredBenchmark,
    chosen: Collection[str] = ITEMS,
    *,
    training: Training | None = None,
    other: MeasuredBenchmark | None = None,
    samplings: Mapping[str, Store] | None = None,
    watch: Watch = unwatched,
) -> list[PaperTable]:
    """Return tables and figures, in the paper's order; predictors are trained once for all of them.

    Args:
        other: Another platform; without it there is no Table 11.
        samplings: Stores of kernels, "random", "adaptive" and "test set"; without them there is no Table 10.

    Raises:
        TrainingError: Too few measurements.
    """
    training = training or Training()

    def stages(what: str, start: float, span: float) -> WatchFamily:
        return lambda family, done: watch(Stage(f"{what} without {family}", start + span * done / len(benchmark.families)))

    held = hold_out_each(benchmark, training, stages("training", 0.0, 0.7)) if set(chosen) - UNTRAINED else []
    makers: dict[str, Callable[[], PaperTable]] = {
        "table 2": lambda: table_2(benchmark),
        "table 4": lambda: table_4(benchmark.rules, benchmark),
        "figure 6": lambda: figure_6(benchmark),
        "table 8": lambda: table_8(benchmark, held),
        "table 9": lambda: table_9(benchmark, held),
        "figure 9": lambda: figure_9(benchmark, held, seed=training.seed, watch=stages("baselines", 0.7, 0.15)),
        "figure 10": lambda: figure_10(benchmark, held),
        "figure 11": lambda: figure_11(benchmark, held),
        "table 12": lambda: table_12(benchmark),
    }
    if samplings is not None:
        trained_on = {name: store for name, store in samplings.items() if name != "test set"}
        makers["table 10"] = partial(table_10, trained_on, samplings["test set"], benchmark.platform, training)
    if other is not None:
        makers["table 11"] = partial(
            table_11, benchmark, held, other, training, stages("training the other platform", 0.85, 0.15)
        )
    return make_tables({name: makers[name] for name in ITEMS if name in makers}, chosen)


_PAPER = ("paper CPU ±10 %", "paper GPU ±10 %", "paper VPU ±10 %")

FIGURES: Mapping[str, Bars] = {
    "table 8": Bars((), ("family",), "", ("±10 %", *_PAPER), "±10 % accuracy, %"),
    "table 9": Bars((), ("kernel type",), "", ("±10 %", *_PAPER), "±10 % accuracy, %"),
    "table 10": Bars((), ("sampling",), "", ("±10 %", *_PAPER), "±10 % accuracy, %"),
    "table 11": Bars(
        (), ("family",), "", ("other's ±10 %", "own ±10 %", "paper other's ±10 %", "paper own ±10 %"), "±10 % accuracy, %"
    ),
    "figure 6": Bars(
        (), ("family",), "", ("conv %", "depthwise_conv %", "linear %", "pooling %", "concat %", "others %"),
        "share of the latency, %", stacked=True,
    ),
    "figure 9": Bars(
        (), ("family",), "", ("latcast ±10 %", "FLOPs ±10 %", "FLOPs+MAC ±10 %", "graph network ±10 %"), "±10 % accuracy, %"
    ),
    "figure 10": Bars((), ("latency",), "", ("MAPE %", "RMSPE %"), "error, %"),
    "figure 11": Bars(
        (), ("family",), "", ("operators ±5 %", "kernels ±5 %", "operators ±10 %", "kernels ±10 %"), "accuracy, %"
    ),
}  # fmt: skip
"""Table or figure to how it is drawn."""

draw = partial(draw_tables, FIGURES)
