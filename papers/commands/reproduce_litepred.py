"""``python -m papers litepred``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latcast.cli.options import AsJson, Cpus, Realtime, worker_settings
from latcast.cli.output import StageProgress, print_json
from papers.commands.printing import print_comparisons

if TYPE_CHECKING:
    from latcast.predictors.platform_predictor import PlatformPredictor
    from latcast.records import Reference
    from papers.comparison import Comparison

FIGURES = ("figure 6", "figure 7", "figure 8")

SEARCHED = ("picks", "table 7", "table 8")
"""What needs --on."""


def command(
    store: Annotated[
        list[Path] | None,
        typer.Option(
            "--store", help="Kernels timed alone, and networks, of the platform to transfer to; may be given several times."
        ),
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
    platforms: Annotated[
        Path | None, typer.Option("--platforms", help="What python -m benchmarks platforms judge wrote, for table 4.")
    ] = None,
    on: Annotated[
        list[str] | None,
        typer.Option("--on", help="Platform id or bundle, for tables 7 and 8 and picks; may be given several times."),
    ] = None,
    measured: Annotated[
        Path | None,
        typer.Option("--measured", help="Store of networks measured for --on: best the profile's, for one quiet time."),
    ] = None,
    budget: Annotated[
        float, typer.Option("--budget", help="Minutes to measure on each platform of --on; 0 for none.", min=0.0)
    ] = 0.0,
    cpus: Cpus = "",
    realtime: Realtime = None,
    kernel_type: Annotated[str, typer.Option("--kernel-type", help="For figures 6 and 7.")] = "conv",
    only: Annotated[str, typer.Option("--only", help='Tables and figures, such as "table 6,figure 7".')] = "",
    as_json: AsJson = False,
) -> None:
    """LitePred's tables 4 to 8 and figures 6 to 8 in our setting, from kernels and networks measured here.

    Table 5 and the figures take kernels timed alone (latcast profile --learn-from kernels).
    """
    from papers.litepred.blocks import blocks_comparison
    from papers.litepred.platforms import read_platforms, table_4
    from papers.litepred.samplers import read_benchmark, table_6

    if not store and samplers is None and blocks is None and platforms is None and not on:
        raise typer.BadParameter(
            "give --store for figures 6 to 8 and table 5, --on for tables 7 and 8, --samplers for table 6, "
            "--platforms for table 4, --blocks, or several"
        )
    if budget and measured is None:
        raise typer.BadParameter("--budget measures networks into a store: name it with --measured")
    chosen = {name.strip().lower() for name in only.split(",") if name.strip()}
    found = []
    if platforms is not None and (not chosen or "table 4" in chosen):
        found.append(table_4(read_platforms(platforms)))
    if samplers is not None and (not chosen or "table 6" in chosen):
        found.append(table_6(read_benchmark(samplers), samplers.stem))
    for each in store or ():
        found += _figures(each, pool, platform, kernel_type, chosen)
    if store and (not chosen or "table 5" in chosen):
        found.append(_table_5(store, pool, platform))
    if on:
        found += _searched(on, measured, 60 * budget, cpus, realtime, chosen)
    if blocks is not None and (not chosen or "blocks" in chosen):
        found.append(blocks_comparison(blocks))
    if as_json:
        print_json({"comparisons": [comparison.to_json() for comparison in found]})
    else:
        print_comparisons(found)


def _table_5(stores: list[Path], folders: list[Path] | None, wanted: str | None) -> Comparison:
    from latcast.datasets.opening import only_platform, open_measurements
    from latcast.devices.pool import open_pool
    from latcast.predictors.profiling import Stage
    from papers.litepred.adapted import Target, table_5

    with StageProgress() as progress:

        def watch(name: str, share: float) -> None:
            progress(Stage(name, share))

        targets = []
        for store in stores:
            with open_measurements(store) as kept:
                targets.append(Target.of(kept, only_platform(kept, wanted)))
        known = open_pool(folders, watch=lambda name, share: watch("loading the pool", share))
        return table_5(targets, known, watch)


def _figures(store: Path, folders: list[Path] | None, wanted: str | None, kernel_type: str, chosen: set[str]) -> list[Comparison]:
    from latcast.datasets.opening import only_platform, open_measurements
    from latcast.devices.pool import open_pool
    from latcast.kernels.rules import platform_rules
    from latcast.predictors.kernel_rounds import known_kernels
    from latcast.predictors.profiling import Stage
    from latcast.predictors.stored import collect_stored
    from papers.litepred.kernels import Kernels, figure_6, figure_7
    from papers.litepred.networks import figure_8

    found: list[Comparison] = []
    if chosen and not chosen & set(FIGURES):
        return found
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


def _searched(
    on: list[str], measured: Path | None, budget_s: float, cpus: str, realtime: bool | None, chosen: set[str]
) -> list[Comparison]:
    from contextlib import nullcontext

    from latcast.datasets.store import Store
    from latcast.predictors.forecast import load
    from latcast.predictors.profiling import Stage
    from papers.litepred.measured import Judged, measure_networks
    from papers.litepred.searched import baselines, picks_at_baselines, picks_at_quantiles, picks_comparison, table_7
    from papers.litepred.transformers import members, table_8

    wanted = [name for name in SEARCHED if not chosen or name in chosen]
    with StageProgress() as progress, Store(measured) if measured is not None else nullcontext() as store:

        def watch(name: str, share: float) -> None:
            progress(Stage(name, share))

        def measure(predictor: PlatformPredictor, references: list[Reference]) -> None:
            if budget_s and store is not None and references:
                here = predictor.platform
                settings = worker_settings(here.runtime, here.threads, here.precision, cpus, realtime, here.device)
                measure_networks(references, settings, store, budget_s=budget_s, watch=progress)

        predictors = [load(name) for name in on]
        at_quantiles = [picks_at_quantiles(each, watch=watch) if "picks" in wanted else [] for each in predictors]
        at_baselines = [picks_at_baselines(each, watch=watch) if "table 7" in wanted else [] for each in predictors]
        for predictor, few, many in zip(predictors, at_baselines, at_quantiles, strict=True):
            networks = list(baselines().values()) if "table 7" in wanted else []
            networks += [pick.reference for pick in [*few, *many]]
            measure(predictor, networks + (members() if "table 8" in wanted else []))
        judged = [Judged.of(predictor, store) for predictor in predictors]
        found = []
        if "picks" in wanted:
            found.append(picks_comparison(list(zip(judged, at_quantiles, strict=True))))
        if "table 7" in wanted:
            found.append(table_7(list(zip(judged, at_baselines, strict=True)), watch))
        if "table 8" in wanted:
            found.append(table_8(judged))
    return found
