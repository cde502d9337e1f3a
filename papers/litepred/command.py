"""``python -m papers litepred``."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latcast.cli.options import Cpus, Realtime, worker_settings
from papers.command import AsJson, Only, report, working

if TYPE_CHECKING:
    from latcast.predictors.platform_predictor import PlatformPredictor
    from latcast.records import Reference
    from papers.harness import PaperTable, Watch

ITEMS = ("table 4", "table 5", "table 6", "picks", "table 7", "table 8", "figure 6", "figure 7", "figure 8", "blocks")


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
        Path | None, typer.Option("--samplers", help="Such as benchmarks/results/samplers/onnxruntime-fp32.json, for table 6.")
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
    only: Only = "",
    as_json: AsJson = False,
) -> None:
    """LitePred's tables 4 to 8 and figures 6 to 8 in our setting, from kernels and networks measured here.

    Table 5 and the figures take kernels timed alone (latcast profile --learn-from kernels).
    """
    from papers.harness import chosen_items
    from papers.litepred.benchmarked import read_document, table_4, table_6
    from papers.litepred.blocks import blocks_comparison

    if not store and samplers is None and blocks is None and platforms is None and not on:
        raise typer.BadParameter(
            "give --store for figures 6 to 8 and table 5, --on for tables 7 and 8, --samplers for table 6, "
            "--platforms for table 4, --blocks, or several"
        )
    if budget and measured is None:
        raise typer.BadParameter("--budget measures networks into a store: name it with --measured")
    chosen = set(chosen_items(only, ITEMS))
    found = []
    with working() as progress:
        if platforms is not None and "table 4" in chosen:
            found.append(table_4(read_document(platforms, "platforms judge")))
        if samplers is not None and "table 6" in chosen:
            found.append(table_6(read_document(samplers, "samplers"), samplers.stem))
        if store:
            found += _transferred(store, pool, platform, kernel_type, chosen, progress)
        if on:
            found += _searched(on, measured, 60 * budget, cpus, realtime, chosen, progress)
        if blocks is not None and "blocks" in chosen:
            found.append(blocks_comparison(blocks))
    report(found, {}, as_json=as_json)


def _transferred(
    stores: list[Path], folders: list[Path] | None, wanted: str | None, kernel_type: str, chosen: set[str], watch: Watch
) -> list[PaperTable]:
    from latcast.datasets.opening import only_platform, open_measurements
    from latcast.kernels.rules import platform_rules
    from latcast.kernels.search import SingleKernels
    from latcast.training.pool import open_pool
    from latcast.training.profiling import Stage
    from latcast.training.samples import known_kernels, stored_kernels
    from papers.harness import make_tables
    from papers.litepred.transfer import Kernels, NewPlatform, figure_6, figure_7, figure_8, table_5

    pool = open_pool(folders, watch=lambda name, share: watch(Stage("loading the pool", share)))
    found: list[PaperTable] = []
    targets = []
    for store in stores:
        with open_measurements(store) as kept:
            here = only_platform(kept, wanted)
            others = pool.without(lambda each, here=here: each.id == here.id)  # type: ignore[misc]
            if chosen & {"figure 6", "figure 7"}:
                kernels = Kernels.of(known_kernels(stored_kernels(kept, here), SingleKernels(platform_rules(here))), kernel_type)
                makers = {
                    "figure 6": partial(figure_6, kernels, others, watch),
                    "figure 7": partial(figure_7, kernels, others, watch),
                }
                found += make_tables(makers, chosen)
            if chosen & {"figure 8", "table 5"}:
                targets.append(NewPlatform.of(kept, here))
            if "figure 8" in chosen:
                found.append(figure_8(targets[-1], others, watch=watch))
    return found + ([table_5(targets, pool, watch)] if "table 5" in chosen else [])


def _searched(
    on: list[str], measured: Path | None, budget_s: float, cpus: str, realtime: bool | None, chosen: set[str], watch: Watch
) -> list[PaperTable]:
    from latcast.datasets.store import Store
    from latcast.measure.labels import LABEL_PROCESSES
    from latcast.platforms import load
    from latcast.training.demonstration import CHECK_PLAN
    from papers import harness
    from papers.litepred.searched import (
        MeasuredPlatform,
        baselines,
        members,
        picks_at_baselines,
        picks_at_quantiles,
        picks_comparison,
        table_7,
        table_8,
    )

    with Store(measured) if measured is not None else nullcontext() as store:

        def measure(predictor: PlatformPredictor, references: list[Reference]) -> None:
            if budget_s and store is not None and references:
                here = predictor.platform
                settings = worker_settings(here.runtime, here.threads, here.precision, cpus, realtime, here.device)
                name = f"timing on {settings.runtime}"
                harness.measure(
                    references, CHECK_PLAN, settings, store, processes=LABEL_PROCESSES, budget_s=budget_s, watch=watch, name=name
                )

        predictors = [load(name) for name in on]
        at_quantiles = [picks_at_quantiles(each, watch=watch) if "picks" in chosen else [] for each in predictors]
        at_baselines = [picks_at_baselines(each, watch=watch) if "table 7" in chosen else [] for each in predictors]
        for predictor, few, many in zip(predictors, at_baselines, at_quantiles, strict=True):
            networks = list(baselines().values()) if "table 7" in chosen else []
            networks += [pick.reference for pick in [*few, *many]]
            measure(predictor, networks + (members() if "table 8" in chosen else []))
        here = [MeasuredPlatform.of(predictor, store) for predictor in predictors]
        found = []
        if "picks" in chosen:
            found.append(picks_comparison(list(zip(here, at_quantiles, strict=True))))
        if "table 7" in chosen:
            found.append(table_7(list(zip(here, at_baselines, strict=True)), watch))
        if "table 8" in chosen:
            found.append(table_8(here))
    return found
