"""``python -m papers iiswc20``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from latcast.cli.options import AsJson
from latcast.cli.output import Interrupted, StageProgress, print_json, warn
from papers.commands.analyse_usc import chosen_items
from papers.commands.printing import print_comparisons


def command(
    data: Annotated[Path, typer.Option("--data", help="Folder of the dataset's files.")],
    architectures: Annotated[
        Path | None,
        typer.Option("--nb201", help="Folder of HELP's latencies of NAS-Bench-201, for Spearman's ρ on its protocol as well."),
    ] = None,
    only: Annotated[
        str, typer.Option("--only", help='Tables and figures, such as "table I,figure 12". [default: all there is]')
    ] = "",
    splits: Annotated[
        int, typer.Option("--splits", help="Device splits that each figure is the mean of; 20 for figures to quote.", min=1)
    ] = 5,
    jobs: Annotated[int, typer.Option("--jobs", help="Processes to compute with. [default: one a core]", min=0)] = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute again what was kept of earlier runs.")] = False,
    plots: Annotated[Path | None, typer.Option("--plots", help="Folder to draw the figures into.")] = None,
    as_json: AsJson = False,
) -> None:
    """Figs. 8 to 13 and Table I of Ganesan et al. beside ours, and a new phone by our model, from its published measurements."""
    from latcast.folders import cache_folder
    from latcast.measure.statistics import label_error_to_json
    from latcast.predictors.profiling import Stage
    from papers.iiswc20.architectures import read_nas_bench_201
    from papers.iiswc20.evaluation import ARCHITECTURES, ITEMS, reproduce
    from papers.iiswc20.pieces import Kept, data_digest
    from papers.iiswc20.published import read_published

    items = ITEMS if architectures is None else (*ITEMS, ARCHITECTURES)
    try:
        with StageProgress() as progress:
            progress(Stage("reading the dataset", 0.0))
            published = read_published(data)
            digest = data_digest(data)
            if architectures is not None:
                published = published.with_architectures(read_nas_bench_201(architectures))
                digest += data_digest(architectures)
            kept = Kept(cache_folder() / "reproduce-iiswc20", digest, fresh=fresh)
            found = reproduce(
                published, kept, chosen_items(only, items), splits=splits, jobs=jobs or os.cpu_count() or 1, watch=progress
            )
    except KeyboardInterrupt as problem:
        raise Interrupted("interrupted; what was done is kept: the same command goes on with it") from problem
    files = []
    if plots:
        from papers.iiswc20.plots import draw

        files = draw(found, plots)
    if as_json:
        print_json(
            {
                "data": str(data), "splits": splits, **label_error_to_json(published.label_error()),
                "comparisons": [comparison.to_json() for comparison in found], "plots": [str(file) for file in files],
            }
        )  # fmt: skip
        return
    print_comparisons(found)
    for file in files:
        warn(f"drew {file}")
