"""``python -m papers peva``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latcast.cli.options import AsJson, Precision, Runtime, Threads, one_of
from latcast.cli.output import Interrupted, StageProgress, print_json, warn
from latcast.errors import LatcastError
from papers.commands.analyse_usc import chosen_items
from papers.commands.printing import print_comparisons

if TYPE_CHECKING:
    from papers.comparison import Comparison

HELD_OUT = ("network", "lineage")


def command(
    data: Annotated[Path | None, typer.Option("--data", help="Folder of the dataset's CSV files.")] = None,
    only: Annotated[
        str, typer.Option("--only", help='Tables and figures, such as "table C.5,figure 19". [default: all there is]')
    ] = "",
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
    jobs: Annotated[int, typer.Option("--jobs", help="Processes to compute with. [default: one a core]", min=0)] = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute again what was kept of earlier runs.")] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Measure here instead: learn from synthetic networks, test on real ones.")
    ] = False,
    runtime: Runtime = "onnxruntime",
    threads: Threads = 1,
    precision: Precision = "fp32",
    budget: Annotated[float, typer.Option("--budget", help="Minutes of --live to measure at most.", min=0.05)] = 60.0,
    store: Annotated[
        Path | None, typer.Option("--store", help="Where --live keeps its measurements. [default: in the user's folder]")
    ] = None,
    plots: Annotated[Path | None, typer.Option("--plots", help="Folder to draw the figures into.")] = None,
    as_json: AsJson = False,
) -> None:
    """Tables C.4 to C.7 and Figs. 12 to 24 of Li et al. beside ours, from its published measurements or measured here."""
    from latcast.folders import measurements_folder

    if live == (data is not None):
        raise LatcastError("expected either --data DIR, the dataset's folder, or --live, to measure here")
    try:
        with StageProgress() as progress:
            if data is not None:
                found, notes = _from_data(data, only, seeds, held_out, tune, jobs or os.cpu_count() or 1, fresh, progress)
            else:
                location = store or measurements_folder() / f"peva-{runtime}-cpu{threads}-{precision}.sqlite"
                found, notes = _live(location, runtime, threads, precision, budget, progress), []
    except KeyboardInterrupt as problem:
        raise Interrupted("interrupted; what was done is kept: the same command goes on with it") from problem
    files = []
    if plots:
        from papers.peva.plots import draw

        files = draw(found, plots)
    if as_json:
        print_json(
            {
                "data": None if data is None else str(data), "seeds": seeds, "held_out": held_out, "tuned": tune,
                "comparisons": [comparison.to_json() for comparison in found], "notes": notes,
                "plots": [str(file) for file in files],
            }
        )  # fmt: skip
        return
    print_comparisons(found)
    for note in notes:
        print(f"  {note}")
    for file in files:
        warn(f"drew {file}")


def _from_data(
    data: Path, only: str, seeds: int, held_out: str, tune: bool, jobs: int, fresh: bool, progress: StageProgress
) -> tuple[list[Comparison], list[str]]:
    from latcast.folders import cache_folder
    from latcast.predictors.profiling import Stage
    from papers.peva.evaluation import ITEMS, reproduce
    from papers.peva.pieces import Kept, data_digest
    from papers.peva.published import read_published

    published = read_published(data, watch=lambda name: progress(Stage(name, 0.0)))
    kept = Kept(cache_folder() / "reproduce-peva", data_digest(data), fresh=fresh)
    found = reproduce(
        published, kept, chosen_items(only, ITEMS), seeds=seeds, held_out=held_out, tuned=tune, jobs=jobs, watch=progress
    )
    reduced = f"reduced: {seeds} splits; " + (
        "hyper-parameters chosen from 3 to 8 settings by cross-validation"
        if tune
        else "only Lasso's hyper-parameter chosen by cross-validation (8 settings), the others fixed; --tune chooses all"
    )
    return found, [reduced, *published.notes]


def _live(location: Path, runtime: str, threads: int, precision: str, budget: float, progress: StageProgress) -> list[Comparison]:
    from latcast.cli.options import worker_settings
    from latcast.datasets.store import Store
    from papers.peva.live import evaluate_live, measure_live

    location.parent.mkdir(parents=True, exist_ok=True)
    with Store(location) as store:
        platform = measure_live(worker_settings(runtime, threads, precision), store, budget_s=60 * budget, watch=progress)
        return evaluate_live(store, platform, watch=progress)
