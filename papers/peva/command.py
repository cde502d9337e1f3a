"""``python -m papers peva``."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latcast.cli.options import Precision, Runtime, Threads, one_of
from latcast.errors import LatcastError
from papers.command import Analyse, AsJson, Fresh, Jobs, Only, Plot, report, working

if TYPE_CHECKING:
    from latcast.cli.output import StageProgress
    from papers.harness import PaperTable

HELD_OUT = ("network", "lineage")

Found = tuple[list["PaperTable"], list[str]]
"""Tables, and notes on all of them."""


def command(
    data: Annotated[Path | None, typer.Option("--data", help="Folder of the dataset's CSV files.")] = None,
    analyse: Analyse = False,
    only: Only = "",
    seeds: Annotated[int, typer.Option("--seeds", help="Splits that each figure is the mean of.", min=1)] = 2,
    held_out: Annotated[
        str,
        typer.Option(
            "--held-out",
            help="What is held out: random networks, or whole lineages.",
            metavar="network|lineage",
            callback=one_of(lambda: HELD_OUT),
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
    from latcast.folders import measurements_folder
    from papers.peva.evaluation import draw

    if data is None and (analyse or not live):
        raise LatcastError("expected --data DIR, the dataset's folder" + ("" if analyse else ", or --live, to measure here"))
    if data is not None and live and not analyse:
        raise LatcastError("expected either --data DIR, the dataset's folder, or --live, to measure here")
    with working(plot) as progress:
        if data is None:
            location = store or measurements_folder() / f"peva-{runtime}-cpu{threads}-{precision}.sqlite"
            found, notes = _live(location, runtime, threads, precision, budget, progress)
        elif analyse:
            found, notes = _analyse(data, only, live, progress)
        else:
            found, notes = _reproduce(data, only, seeds, held_out, tune, jobs or os.cpu_count() or 1, fresh, progress)
    document: dict[str, object] = {"data": None if data is None else str(data), "notes": notes}
    if not analyse:
        document |= {"seeds": seeds, "held_out": held_out, "tuned": tune}
    report(found, document, as_json=as_json, plot=plot, draw=partial(draw, found))


def _analyse(data: Path, only: str, live: bool, progress: StageProgress) -> Found:
    from latcast.training.profiling import Stage
    from papers.harness import chosen_items, make_tables
    from papers.peva.analysis import FIGURES
    from papers.peva.live_analysis import analyse_live
    from papers.peva.published import read_published

    chosen = chosen_items(only, FIGURES)
    published = read_published(data, networks=False, watch=lambda name: progress(Stage(name, 0.0)))
    found = make_tables({name: partial(make, published) for name, make in FIGURES.items()}, chosen, progress)
    return found + (analyse_live(watch=progress) if live else []), list(published.notes)


def _reproduce(
    data: Path, only: str, seeds: int, held_out: str, tune: bool, jobs: int, fresh: bool, progress: StageProgress
) -> Found:
    from latcast.folders import cache_folder
    from latcast.training.profiling import Stage
    from papers.harness import chosen_items, files_digest
    from papers.peva.evaluation import ITEMS, reproduce
    from papers.peva.published import read_published
    from papers.peva.trials import result_folder

    chosen = chosen_items(only, ITEMS)
    published = read_published(data, watch=lambda name: progress(Stage(name, 0.0)))
    results = result_folder(cache_folder() / "papers-peva", files_digest(data.glob("*.csv")), fresh=fresh)
    found = reproduce(published, results, chosen, seeds=seeds, held_out=held_out, tuned=tune, jobs=jobs, watch=progress)
    reduced = f"reduced: {seeds} splits; " + (
        "hyper-parameters chosen from 3 to 8 settings by cross-validation"
        if tune
        else "only Lasso's hyper-parameter chosen by cross-validation (8 settings), the others fixed; --tune chooses all"
    )
    return found, [reduced, *published.notes]


def _live(location: Path, runtime: str, threads: int, precision: str, budget: float, progress: StageProgress) -> Found:
    from latcast.cli.options import worker_settings
    from latcast.datasets.store import Store
    from papers.peva.live import evaluate_live, measure_live

    location.parent.mkdir(parents=True, exist_ok=True)
    with Store(location) as store:
        platform = measure_live(worker_settings(runtime, threads, precision), store, budget_s=60 * budget, watch=progress)
        return evaluate_live(store, platform, watch=progress), []
