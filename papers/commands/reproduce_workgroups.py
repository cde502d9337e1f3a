"""``python -m papers workgroups``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from latcast.cli.options import AsJson
from latcast.cli.output import StageProgress, print_json, warn
from papers.commands.analyse_usc import chosen_items
from papers.commands.printing import print_comparisons


def command(
    data: Annotated[
        Path,
        typer.Option("--data", help="Folder of sweeps: cache files of Kernel Tuner, or what latcast workgroups measure wrote."),
    ],
    only: Annotated[
        str, typer.Option("--only", help='Tables and figures, such as "table 3,cost model". [default: all there is]')
    ] = "",
    plots: Annotated[Path | None, typer.Option("--plots", help="Folder to draw Fig. 5 into.")] = None,
    as_json: AsJson = False,
) -> None:
    """Tables 2 and 3 and Figs. 5 and 6 of Jiang et al. from measured sweeps; rules, defaults, tuning and the cost model."""
    from latcast.predictors.profiling import Stage
    from papers.workgroups.evaluation import ITEMS, judge, reproduce
    from papers.workgroups.groups import read_groups

    with StageProgress() as progress:

        def watch(name: str, share: float) -> None:
            progress(Stage(name, share))

        items = chosen_items(only, ITEMS)
        judged = judge(read_groups(data), watch)
        found = reproduce(judged, items, watch)
    files = []
    if plots is not None:
        from papers.workgroups.plots import draw

        files = draw(judged, plots)
    if as_json:
        print_json(
            {
                "data": str(data),
                "comparisons": [comparison.to_json() for comparison in found],
                "sweeps": [audit.to_json() for _, audits in judged for audit in audits],
                "plots": [str(file) for file in files],
            }
        )
        return
    print_comparisons(found)
    for file in files:
        warn(f"drew {file}")
