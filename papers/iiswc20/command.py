"""``python -m papers iiswc20``."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
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
    if analyse:
        _analyse(data, only, plot, as_json)
    else:
        _reproduce(data, only, splits, jobs or os.cpu_count() or 1, fresh, plot, as_json)


def _analyse(data: Path, only: str, plot: Path | None, as_json: bool) -> None:
    from latcast.training.profiling import Stage
    from papers.harness import chosen_items, make_tables
    from papers.iiswc20.analysis import FIGURES
    from papers.iiswc20.plots import draw_measurements
    from papers.iiswc20.published import read_published

    chosen = chosen_items(only, FIGURES)
    with working(plot) as progress:
        progress(Stage("reading the dataset", 0.1))
        published = read_published(data)
        found = make_tables({name: partial(make, published) for name, make in FIGURES.items()}, chosen, progress)
    report(found, {"data": str(data)}, as_json=as_json, plot=plot, draw=partial(draw_measurements, published, chosen))


def _reproduce(data: Path, only: str, splits: int, jobs: int, fresh: bool, plot: Path | None, as_json: bool) -> None:
    from latcast.folders import cache_folder
    from latcast.measure.labels import label_error_to_json
    from latcast.training.profiling import Stage
    from papers.harness import chosen_items, files_digest
    from papers.iiswc20.plots import draw
    from papers.iiswc20.protocol import result_folder
    from papers.iiswc20.published import read_published
    from papers.iiswc20.tables import ITEMS, reproduce

    chosen = chosen_items(only, ITEMS)
    with working(plot) as progress:
        progress(Stage("reading the dataset", 0.0))
        published = read_published(data)
        digest = files_digest(data.iterdir())
        results = result_folder(cache_folder() / "papers-iiswc20", digest, fresh=fresh)
        found = reproduce(published, results, chosen, splits=splits, jobs=jobs, watch=progress)
    document = {"data": str(data), "splits": splits, **label_error_to_json(published.label_error())}
    report(found, document, as_json=as_json, plot=plot, draw=partial(draw, found))
