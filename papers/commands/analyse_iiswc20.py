"""``python -m papers iiswc20-analysis``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from latcast.cli.options import AsJson
from latcast.cli.output import StageProgress, print_json, warn
from papers.commands.analyse_usc import chosen_items
from papers.commands.printing import print_comparisons


def command(
    data: Annotated[Path, typer.Option("--data", help="Folder of the dataset's files.")],
    only: Annotated[str, typer.Option("--only", help='Figures, such as "figure 4,figure 5". [default: all there is]')] = "",
    plots: Annotated[Path | None, typer.Option("--plots", help="Folder to draw the figures into.")] = None,
    as_json: AsJson = False,
) -> None:
    """What the measurements of Ganesan et al. say of phones and networks: clusters, violins, latency against frequency."""
    from latcast.predictors.profiling import Stage
    from papers.iiswc20.analysis import ITEMS, analyse
    from papers.iiswc20.published import read_published

    chosen = chosen_items(only, ITEMS)
    with StageProgress() as progress:
        progress(Stage("reading the dataset", 0.1))
        published = read_published(data)
        progress(Stage("clusters", 0.6))
        found = analyse(published, chosen)
        files = []
        if plots:
            from papers.iiswc20.analysis_plots import draw_analysis

            progress(Stage("drawing", 0.8))
            files = draw_analysis(published, chosen, plots)
    if as_json:
        print_json(
            {
                "data": str(data),
                "comparisons": [comparison.to_json() for comparison in found],
                "plots": [str(file) for file in files],
            }
        )
        return
    print_comparisons(found)
    for file in files:
        warn(f"drew {file}")
