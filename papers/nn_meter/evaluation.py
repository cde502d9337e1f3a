"""nn-Meter's evaluation from a store of measured variants: every table and figure that what is there allows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from latcast.errors import LatcastError
from latcast.predictors.profiling import Stage
from papers.comparison import Comparison
from papers.nn_meter.baselines import figure_9
from papers.nn_meter.end_to_end import figure_10, table_8
from papers.nn_meter.held_out import hold_out_each
from papers.nn_meter.kernels import figure_6, figure_11, table_4, table_9
from papers.nn_meter.measured import MeasuredBenchmark
from papers.nn_meter.platforms import table_2, table_11, table_12

FROM_STORE = ("table 2", "table 4", "figure 6", "table 8", "table 9", "figure 9", "figure 10", "figure 11", "table 12")
"""What one store is enough for, in the paper's order."""

FROM_OTHER_PLATFORM = "table 11"

FROM_SAMPLINGS = "table 10"

ITEMS = (*FROM_STORE[:6], FROM_SAMPLINGS, *FROM_STORE[6:8], FROM_OTHER_PLATFORM, FROM_STORE[8])
"""Everything of the paper that is reproduced, in its order."""


@dataclass(frozen=True)
class Learning:
    """How kernels are learned from: arguments of :func:`papers.nn_meter.held_out.hold_out_each`."""

    learn_from: str = "operators"
    model: str | None = None
    seed: int = 0


def reproduce(
    benchmark: MeasuredBenchmark,
    chosen: Collection[str] = FROM_STORE,
    *,
    learned: Learning | None = None,
    other: MeasuredBenchmark | None = None,
    watch: Callable[[Stage], None] = lambda stage: None,
) -> list[Comparison]:
    """Tables and figures, in the paper's order; predictors are trained once for all of them.

    Args:
        benchmark: What was measured.
        chosen: Which of :data:`ITEMS`; :data:`FROM_SAMPLINGS` is made elsewhere, from stores of its own.
        learned: How predictors learn.
        other: Another platform, for Table 11.
        watch: Called as work goes on.

    Raises:
        LatcastError: No such table or figure.
        TrainingError: Too few measurements.
    """
    unknown = sorted(set(chosen) - set(ITEMS))
    if unknown:
        raise LatcastError(f"nn-Meter's '{unknown[0]}' is not reproduced; there are {', '.join(ITEMS)}")
    learned = learned or Learning()
    count = len(benchmark.families)

    def training(family: str, done: int) -> None:
        watch(Stage(f"training without {family}", 0.7 * done / count))

    def baselines(family: str, done: int) -> None:
        watch(Stage(f"baselines without {family}", 0.7 + 0.15 * done / count))

    def others(family: str, done: int) -> None:
        watch(Stage(f"training the other platform without {family}", 0.85 + 0.15 * done / count))

    arguments = {"learn_from": learned.learn_from, "model": learned.model, "seed": learned.seed}
    needs_training = set(chosen) - {"table 2", "table 4", "figure 6", "table 12", FROM_SAMPLINGS}
    held = hold_out_each(benchmark, watch=training, **arguments) if needs_training else []  # type: ignore[arg-type]
    makers: Mapping[str, Callable[[], Comparison]] = {
        "table 2": lambda: table_2(benchmark),
        "table 4": lambda: table_4(benchmark.rules, benchmark),
        "figure 6": lambda: figure_6(benchmark),
        "table 8": lambda: table_8(benchmark, held),
        "table 9": lambda: table_9(benchmark, held),
        "figure 9": lambda: figure_9(benchmark, held, seed=learned.seed, watch=baselines),
        "figure 10": lambda: figure_10(benchmark, held),
        "figure 11": lambda: figure_11(benchmark, held),
        "table 12": lambda: table_12(benchmark),
    }
    if other is not None:
        elsewhere = other
        makers = {**makers, FROM_OTHER_PLATFORM: lambda: table_11(benchmark, held, elsewhere, watch=others, **arguments)}  # type: ignore[arg-type]
    return [makers[name]() for name in ITEMS if name in chosen and name in makers]
