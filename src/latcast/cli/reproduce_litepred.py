"""``latcast reproduce litepred``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latcast.cli.options import AsJson
from latcast.cli.output import print_json
from latcast.cli.progress import StageProgress
from latcast.cli.reproduce import print_comparisons

if TYPE_CHECKING:
    from latcast.reproduce.comparison import Comparison


def command(
    store: Annotated[
        Path | None, typer.Option("--store", help="Kernels timed alone, and networks, of the platform to transfer to.")
    ] = None,
    pool: Annotated[
        list[Path] | None,
        typer.Option("--pool", help="Folder of bundles to transfer from. [default: the user's and the shipped]"),
    ] = None,
    platform: Annotated[
        str | None, typer.Option("--platform", help="Id of the platform; needed where the store has several.")
    ] = None,
    samplers: Annotated[
        Path | None, typer.Option("--samplers", help="What python -m benchmarks samplers wrote, for table 6.")
    ] = None,
    blocks: Annotated[
        Path | None, typer.Option("--blocks", help="Folder of the published tables of TFLite blocks on phones.")
    ] = None,
    kernel_type: Annotated[str, typer.Option("--kernel-type", help="For figures 6 and 7.")] = "conv",
    only: Annotated[str, typer.Option("--only", help='Tables and figures, such as "table 6,figure 7".')] = "",
    as_json: AsJson = False,
) -> None:
    """LitePred's table 6 and figures 6, 7 and 8 in our setting, from kernels measured here (latcast profile --way kernels)."""
    from latcast.reproduce.litepred.blocks import blocks_comparison
    from latcast.reproduce.litepred.samplers import read_benchmark, table_6

    if store is None and samplers is None and blocks is None:
        raise typer.BadParameter("give --store for figures 6 to 8, --samplers for table 6, --blocks, or several of them")
    chosen = {name.strip().lower() for name in only.split(",") if name.strip()}
    found = []
    if samplers is not None and (not chosen or "table 6" in chosen):
        found.append(table_6(read_benchmark(samplers), samplers.stem))
    if store is not None:
        found += _figures(store, pool, platform, kernel_type, chosen)
    if blocks is not None and (not chosen or "blocks" in chosen):
        found.append(blocks_comparison(blocks))
    if as_json:
        print_json({"comparisons": [comparison.to_json() for comparison in found]})
    else:
        print_comparisons(found)


def _figures(store: Path, folders: list[Path] | None, wanted: str | None, kernel_type: str, chosen: set[str]) -> list[Comparison]:
    from latcast.datasets.opening import only_platform, open_measurements
    from latcast.kernels.rules import platform_rules
    from latcast.predictors.kernel_rounds import known_kernels
    from latcast.predictors.profiling import Stage
    from latcast.predictors.stored import collect_stored
    from latcast.reproduce.litepred.kernels import Kernels, figure_6, figure_7
    from latcast.reproduce.litepred.networks import figure_8
    from latcast.transfer.pool import open_pool

    found = []
    with open_measurements(store) as kept, StageProgress() as progress:

        def watch(name: str, share: float) -> None:
            progress(Stage(name, share))

        here = only_platform(kept, wanted)
        known = open_pool(folders, exclude=(here.id,), watch=lambda name, share: watch("loading the pool", share))
        kernels = Kernels.of(known_kernels(kept, here), kernel_type)
        if not chosen or "figure 6" in chosen:
            found.append(figure_6(kernels, known, watch))
        if not chosen or "figure 7" in chosen:
            found.append(figure_7(kernels, known, watch))
        if not chosen or "figure 8" in chosen:
            rules = platform_rules(here)
            found.append(figure_8(collect_stored(kept, here, rules), here, rules, known, watch=watch))
    return found
