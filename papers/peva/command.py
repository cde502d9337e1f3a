"""``python -m papers peva``."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from latcast.cli.options import Precision, Runtime, Threads, one_of
from latcast.errors import LatcastError
from papers.command import Analyse, AsJson, Fresh, Jobs, Only, Plot, report, working

HELD_OUT = ("network", "lineage")

TUNED = "hyper-parameters chosen from 3 to 8 settings by cross-validation"
UNTUNED = "only Lasso's hyper-parameter chosen by cross-validation (8 settings), the others fixed; --tune chooses all"


def command(
    data: Annotated[Path | None, typer.Option("--data", help="Folder of the dataset's CSV files.", metavar="DIR")] = None,
    analyse: Analyse = False,
    only: Only = "",
    seeds: Annotated[int, typer.Option("--seeds", help="Splits that each figure is the mean of.", min=1)] = 2,
    held_out: Annotated[
        str,
        typer.Option(
            "--held-out",
            help="What is held out: random networks, or whole lineages.",
            metavar="network|lineage",
            callback=one_of(*HELD_OUT),
        ),
    ] = "network",
    tune: Annotated[
        bool, typer.Option("--tune", help="Choose the hyper-parameters of all regressors by cross-validation, not Lasso's alone.")
    ] = False,
    jobs: Jobs = 0,
    fresh: Fresh = False,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Measure here instead: learn from synthetic networks, test on real ones. With --analyse: measure fusion and "
            "threads with ONNX Runtime too (Figs. 3, 6, 7).",
        ),
    ] = False,
    runtime: Runtime = "onnxruntime",
    threads: Threads = 1,
    precision: Precision = "fp32",
    budget: Annotated[float, typer.Option("--budget", help="Minutes of --live to measure at most.", min=0.05)] = 60.0,
    store: Annotated[
        Path | None, typer.Option("--store", help="Where --live keeps its measurements. [default: in the user's folder]")
    ] = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Tables C.4 to C.7 and Figs. 12 to 24 of Li et al. beside ours, from its published measurements or measured here.

    With --analyse: Figs. 2 to 10 and 14, what the measurements say of cores, int8 and GPU kernels.
    """
    from latcast.folders import cache_folder, measurements_folder
    from latcast.training.profiling import Stage
    from papers.harness import chosen_items, files_digest, make_tables
    from papers.peva import analysis, evaluation, live_analysis, trials
    from papers.peva.published import read_published

    if data is None and (analyse or not live):
        raise LatcastError("expected --data DIR, the dataset's folder" + ("" if analyse else ", or --live, to measure here"))
    if data is not None and live and not analyse:
        raise LatcastError("expected either --data DIR, the dataset's folder, or --live, to measure here")
    chosen = chosen_items(only, analysis.FIGURES if analyse else evaluation.ITEMS)
    notes: tuple[str, ...] = ()
    with working(plot) as progress:
        if data is None:
            from latcast.cli.options import worker_settings
            from latcast.datasets.store import Store
            from papers.peva.live import evaluate_live, measure_live

            location = store or measurements_folder() / f"peva-{runtime}-cpu{threads}-{precision}.sqlite"
            location.parent.mkdir(parents=True, exist_ok=True)
            with Store(location) as kept:
                settings = worker_settings(runtime, threads, precision)
                platform = measure_live(settings, kept, budget_s=60 * budget, watch=progress)
                found = evaluate_live(kept, platform, watch=progress)
        else:
            published = read_published(data, networks=not analyse, watch=lambda name: progress(Stage(name, 0.0)))
            notes = published.notes
            if analyse:
                makers = {name: partial(make, published) for name, make in analysis.FIGURES.items()}
                found = make_tables(makers, chosen, progress)
                found += live_analysis.analyse_live(watch=progress) if live else []
            else:
                results = trials.result_folder(cache_folder() / "papers-peva", files_digest(data.glob("*.csv")), fresh=fresh)
                found = evaluation.reproduce(
                    published, results, chosen, seeds=seeds, held_out=held_out, tuned=tune, jobs=jobs or os.cpu_count() or 1,
                    watch=progress,
                )  # fmt: skip
                notes = (f"reduced: {seeds} splits; {TUNED if tune else UNTUNED}", *notes)
    document: dict[str, object] = {"data": None if data is None else str(data), "notes": list(notes)}
    if not analyse:
        document |= {"seeds": seeds, "held_out": held_out, "tuned": tune}
    report(found, document, as_json=as_json, plot=plot, draw=partial(evaluation.draw, found))
