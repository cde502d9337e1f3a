"""``python -m papers nn-meter``."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latcast.cli.options import KernelModel, Precision, Runtime, Seed, Threads, one_of
from papers.command import AsJson, Only, Plot, report, working

if TYPE_CHECKING:
    from latcast.datasets.store import Store

LEARN_FROM = ("operators", "kernels", "networks", "alone")


def command(
    runtime: Runtime = "onnxruntime",
    threads: Threads = 1,
    precision: Precision = "fp32",
    store: Annotated[
        Path | None, typer.Option("--store", help="Measured variants. [default: those of data variants --measure]")
    ] = None,
    platform: Annotated[
        str | None, typer.Option("--on", help="Id of the platform; needed where the store has several.", metavar="ID")
    ] = None,
    only: Only = "",
    learn_from: Annotated[
        str,
        typer.Option(
            "--learn-from",
            help="Learn from operators inside networks, from kernels timed alone, from whole networks, or from kernels alone "
            "without the overhead of networks, as the paper does.",
            metavar="operators|kernels|networks|alone",
            callback=one_of(*LEARN_FROM),
        ),
    ] = "operators",
    model: KernelModel = None,
    seed: Seed = 0,
    further: Annotated[
        list[Path] | None,
        typer.Option("--further", help="Further measurements to learn from: those of latcast profile."),
    ] = None,
    other: Annotated[Path | None, typer.Option("--other", help="Measured variants of another platform, for table 11.")] = None,
    random_store: Annotated[Path | None, typer.Option("--random", help="Kernels sampled at random, for table 10.")] = None,
    adaptive_store: Annotated[Path | None, typer.Option("--adaptive", help="Kernels sampled adaptively, for table 10.")] = None,
    test_store: Annotated[Path | None, typer.Option("--test-set", help="Kernels of the fixed test set, for table 10.")] = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """nn-Meter's tables and figures beside ours, from variants measured here (latcast data variants --measure)."""
    from latcast.datasets.opening import only_platform, open_measurements
    from latcast.folders import measurements_folder
    from latcast.measure.labels import label_error_to_json
    from papers.harness import chosen_items
    from papers.nn_meter.benchmark import Training, read_benchmark
    from papers.nn_meter.evaluation import ITEMS, draw, reproduce

    location = store or measurements_folder() / f"variants-{runtime}-cpu{threads}-{precision}.sqlite"
    chosen = chosen_items(only, ITEMS)
    with ExitStack() as stores, working(plot) as progress:

        def opened(path: Path) -> Store:
            return stores.enter_context(open_measurements(path))

        kept = opened(location)
        here = only_platform(kept, platform)
        benchmark = read_benchmark(kept, here, learn_from=[opened(path) for path in further or ()])
        elsewhere, samplings = None, None
        if other is not None:
            second = opened(other)
            elsewhere = read_benchmark(second, only_platform(second))
        if random_store and adaptive_store and test_store:
            paths = {"random": random_store, "adaptive": adaptive_store, "test set": test_store}
            samplings = {name: opened(path) for name, path in paths.items()}
        found = reproduce(
            benchmark, chosen, training=Training(learn_from, model, seed), other=elsewhere, samplings=samplings, watch=progress
        )
    document = {
        "platform": here.id, "learn_from": learn_from, "model": model, "seed": seed,
        **label_error_to_json(benchmark.label_error()),
    }  # fmt: skip
    report(found, document, as_json=as_json, plot=plot, draw=partial(draw, found))
