"""``python -m papers usc-analysis``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from latcast.cli.options import AsJson
from latcast.cli.output import StageProgress, print_json, warn
from papers.commands.printing import print_comparisons


def chosen_items(only: str, items: tuple[str, ...]) -> tuple[str, ...]:
    """Names in ``--only``, whatever their case, as they are spelt; all where there are none."""
    spelt = {name.lower(): name for name in items}
    names = [name.strip() for name in only.split(",") if name.strip()]
    return tuple(spelt.get(name.lower(), name) for name in names) or items


def command(
    data: Annotated[Path, typer.Option("--data", help="Folder of the dataset's CSV files.")],
    only: Annotated[str, typer.Option("--only", help='Figures, such as "figure 2,figure 10". [default: all there is]')] = "",
    plots: Annotated[Path | None, typer.Option("--plots", help="Folder to draw the figures into.")] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Also measure fusion and threads with ONNX Runtime here (Figs. 3, 6, 7): some minutes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """What the measurements of Li et al. say of cores, int8 and GPU kernels on phones."""
    from latcast.predictors.profiling import Stage
    from papers.peva.analysis import ITEMS, analyse
    from papers.peva.published import read_published

    chosen = chosen_items(only, ITEMS)
    with StageProgress() as progress:
        published = read_published(data, networks=False, watch=lambda name: progress(Stage(name, 0.1)))
        found = analyse(published, chosen, watch=progress)
        if live:
            from papers.peva.live_analysis import analyse_live

            found += analyse_live(watch=progress)
    files = []
    if plots:
        from papers.peva.plots import draw

        files = draw(found, plots)
    if as_json:
        print_json(
            {
                "data": str(data),
                "comparisons": [comparison.to_json() for comparison in found],
                "notes": list(published.notes),
                "plots": [str(file) for file in files],
            }
        )
        return
    print_comparisons(found)
    for note in published.notes:
        print(f"  {note}")
    for file in files:
        warn(f"drew {file}")
