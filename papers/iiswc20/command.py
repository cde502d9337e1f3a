"""``python -m papers iiswc20``."""

from __future__ import annotations

import os
from functools import partial
from typing import Annotated

import typer

from papers.command import Analyse, AsJson, Data, Fresh, Jobs, Only, Plot, report, working


def command(
    data: Data,
    analyse: Analyse = False,
    only: Only = "",
    splits: Annotated[
        int, typer.Option("--splits", help="Device splits that each figure is the mean of; 20 for figures to quote.", min=1)
    ] = 5,
    jobs: Jobs = 0,
    fresh: Fresh = False,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Figs. 8 to 13 and Table I of Ganesan et al. beside ours, and a new phone by our model, from its published measurements.

    With --analyse: Figs. 2 to 6, clusters of phones and networks and latency against frequency.
    """
    from latcast.folders import cache_folder
    from latcast.measure.labels import label_error_to_json
    from latcast.training.profiling import Stage
    from papers.harness import chosen_items, files_digest, make_tables
    from papers.iiswc20 import analysis, plots, protocol, tables
    from papers.iiswc20.published import read_published

    chosen = chosen_items(only, analysis.FIGURES if analyse else tables.ITEMS)
    document: dict[str, object] = {"data": str(data)}
    with working(plot) as progress:
        progress(Stage("reading the dataset", 0.0))
        published = read_published(data)
        if analyse:
            makers = {name: partial(make, published) for name, make in analysis.FIGURES.items()}
            found, draw = make_tables(makers, chosen, progress), partial(plots.draw_measurements, published, chosen)
        else:
            digest = files_digest(data.iterdir())
            results = protocol.result_folder(cache_folder() / "papers-iiswc20", digest, fresh=fresh)
            workers = jobs or os.cpu_count() or 1
            found = tables.reproduce(published, results, chosen, splits=splits, jobs=workers, watch=progress)
            draw = partial(plots.draw, found)
            document |= {"splits": splits, **label_error_to_json(published.label_error())}
    report(found, document, as_json=as_json, plot=plot, draw=draw)
