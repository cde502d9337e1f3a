"""``python -m papers nn-meter``."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latcast.cli.options import AsJson, KernelModel, Precision, Runtime, Seed, Threads, one_of
from latcast.cli.output import StageProgress, print_json, warn
from papers.commands.printing import print_comparisons

if TYPE_CHECKING:
    from latcast.datasets.store import Store
    from latcast.records import Platform
    from papers.comparison import Comparison

LEARN_FROM = ("operators", "kernels", "networks", "alone")

StoreOption = Annotated[
    Path | None, typer.Option("--store", help="Measured variants. [default: those of data variants --measure]")
]


def command(
    runtime: Runtime = "onnxruntime",
    threads: Threads = 1,
    precision: Precision = "fp32",
    store: StoreOption = None,
    platform: Annotated[
        str | None, typer.Option("--platform", help="Id of the platform; needed where there are several.")
    ] = None,
    only: Annotated[
        str, typer.Option("--only", help='Tables and figures, such as "table 8,figure 9". [default: all there is]')
    ] = "",
    learn_from: Annotated[
        str,
        typer.Option(
            "--learn-from",
            help="Learn from operators inside networks, from kernels timed alone, from whole networks, or from kernels alone "
            "without the overhead of networks, as the paper does.",
            metavar="operators|kernels|networks|alone",
            callback=one_of(lambda: LEARN_FROM),
        ),
    ] = "operators",
    model: KernelModel = None,
    seed: Seed = 0,
    further: Annotated[
        list[Path] | None, typer.Option("--further", help="Further measurements to learn from: those of latcast profile.")
    ] = None,
    other: Annotated[Path | None, typer.Option("--other", help="Measured variants of another platform, for table 11.")] = None,
    random_store: Annotated[Path | None, typer.Option("--random", help="Kernels sampled at random, for table 10.")] = None,
    adaptive_store: Annotated[Path | None, typer.Option("--adaptive", help="Kernels sampled adaptively, for table 10.")] = None,
    test_store: Annotated[Path | None, typer.Option("--test-set", help="Kernels of the fixed test set, for table 10.")] = None,
    plots: Annotated[Path | None, typer.Option("--plots", help="Folder to draw the figures into.")] = None,
    as_json: AsJson = False,
) -> None:
    """nn-Meter's tables and figures beside ours, from variants measured here (latcast data variants --measure)."""
    from latcast.datasets.opening import only_platform, open_measurements
    from latcast.folders import measurements_folder
    from latcast.measure.statistics import label_error_to_json
    from latcast.predictors.kernel_predictor import ANALYTICAL_GBDT
    from papers.nn_meter.evaluation import FROM_STORE, Learning, reproduce
    from papers.nn_meter.measured import read_benchmark

    location = store or measurements_folder() / f"variants-{runtime}-cpu{threads}-{precision}.sqlite"
    chosen = tuple(name.strip().lower() for name in only.split(",") if name.strip())
    wanted = chosen or FROM_STORE + (("table 11",) if other else ())
    with ExitStack() as open_stores, StageProgress() as progress:

        def opened(path: Path) -> Store:
            return open_stores.enter_context(open_measurements(path))

        kept = opened(location)
        here = only_platform(kept, platform)
        benchmark = read_benchmark(kept, here, learn_from=[opened(path) for path in further or ()])
        elsewhere = None
        if other is not None:
            second = opened(other)
            elsewhere = read_benchmark(second, only_platform(second))
        found = reproduce(benchmark, wanted, learned=Learning(learn_from, model, seed), other=elsewhere, watch=progress)
        if random_store and adaptive_store and test_store:
            samplings = {"random": opened(random_store), "adaptive": opened(adaptive_store)}
            found += _sampled(samplings, opened(test_store), here, model or ANALYTICAL_GBDT, seed)
    files = _drawn(found, plots) if plots else []
    if as_json:
        print_json(
            {
                "platform": here.id, "learn_from": learn_from, "model": model, "seed": seed,
                **label_error_to_json(benchmark.label_error()),
                "comparisons": [comparison.to_json() for comparison in found], "plots": [str(file) for file in files],
            }
        )  # fmt: skip
        return
    print_comparisons(found)
    for file in files:
        warn(f"drew {file}")


def _sampled(samplings: dict[str, Store], test: Store, here: Platform, model: str, seed: int) -> list[Comparison]:
    from papers.nn_meter.sampling import table_10

    return [table_10(samplings, test, here, model=model, seed=seed)]


def _drawn(found: list[Comparison], folder: Path) -> list[Path]:
    from papers.nn_meter.plots import draw

    return draw(found, folder)
