"""``latcast search``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from typer import Argument, Option

from latcast.cli import options
from latcast.cli.output import (
    IN_TERMINAL,
    StageProgress,
    check_plot,
    interval_column,
    kept_when_interrupted,
    milliseconds,
    percent,
    print_bars,
    print_json,
    print_table,
    warn,
)
from latcast.errors import LatcastError

if TYPE_CHECKING:
    from latcast.records import Measurement
    from latcast.search.result import FoundNetwork, SearchResult


@kept_when_interrupted("the same command goes on from the last generation")
def command(
    space: Annotated[
        str,
        Argument(
            metavar="SPACE",
            help="Search space: ofa_mobilenet_v3, ofa_proxylessnas, ofa_resnet, bignas, fbnet_v3, autoformer, nas_bench_201, ...",
            callback=options.one_of("latcast.spaces.nas.supernet:SUPERNETS"),
        ),
    ],
    on: options.On,
    max_latency_ms: Annotated[float, Option("--max-latency-ms", help="The limit, in milliseconds.", min=0.0)],
    objective: Annotated[
        str,
        Option(
            "--objective",
            help="What to maximise: package.module:function of a network's parameters, a table (.csv or .json, with a column "
            "accuracy), or a size in place of an accuracy: macs or parameters.",
        ),
    ] = "macs",
    confident: Annotated[
        bool,
        Option(
            "--confident/--hopeful",
            help="Keep the upper bound of the 90 % interval within the limit, or only the prediction, which picks exceed "
            "more often than not.",
        ),
    ] = True,
    evaluations: Annotated[int, Option("--evaluations", help="Networks to look at.", min=1)] = 20_000,
    population: Annotated[int, Option("--population", help="Networks of a generation.", min=4)] = 200,
    picks: Annotated[int, Option("--picks", help="Best networks to list.", min=1)] = 10,
    measure: Annotated[bool, Option("--measure", help="Measure the picks here.")] = False,
    export: Annotated[
        Path | None, Option("--export", metavar="FOLDER", help="Write the picks there as ONNX files with made-up weights.")
    ] = None,
    plot: Annotated[
        Path | None, Option("--plot", help="Draw the front to this file (.png), or as bars to the terminal where it is -.")
    ] = None,
    state: Annotated[Path | None, Option("--state", help="File to keep the search in. [default: the user's cache]")] = None,
    seed: options.Seed = 0,
    cpus: options.Cpus = "",
    realtime: options.Realtime = None,
    as_json: options.AsJson = False,
) -> None:
    """Find the best networks of a search space under a latency limit.

    \b
    Examples:
      latcast search ofa_mobilenet_v3 --on local/onnxruntime --max-latency-ms 4.5
      latcast search autoformer --on local --max-latency-ms 40 --objective macs --picks 3 --plot front.png
      latcast search nas_bench_201 --on pixel4/tflite-2.10/gpu/fp16 --max-latency-ms 6 --plot - --export picks
    """
    from latcast.platforms import load_all
    from latcast.search.constrained_search import search
    from latcast.search.objective import SIZES
    from latcast.search.result import check_measurable, measure_found

    check_plot(plot, as_json=as_json)
    predictor, *others = load_all(options.platforms_in(on))
    if others:
        listed = ", ".join(str(each.platform) for each in (predictor, *others[:7]))
        raise LatcastError(f"--on '{on}' names {len(others) + 1} platforms, expected one: {listed}")
    platform = predictor.platform
    if measure:
        check_measurable(platform)
    measurements: list[Measurement] = []
    with StageProgress() as progress:
        found = search(
            space, predictor, max_latency_ms=max_latency_ms, objective=objective, confident=confident, evaluations=evaluations,
            population=population, seed=seed, state=state, watch=lambda share: progress.show(f"searching {space}", share),
        )  # fmt: skip
        chosen = found.networks(picks)
        if measure:
            settings = options.worker_settings(platform.runtime, platform.threads, platform.precision, cpus, realtime)
            measurements = measure_found(chosen, settings, watch=lambda share: progress.show("measuring the picks", share))
    measured_ms = np.array([each.latency_ms if each.ok else np.nan for each in measurements], dtype=np.float64)
    if plot not in (None, IN_TERMINAL):
        found.plot(plot, measured_ms=measured_ms if len(measured_ms) else None)
    files = [] if export is None else found.export(export, picks)
    if as_json:
        document = found.to_json(picks)
        for pick, file in zip(document["picks"], files, strict=False):
            pick["file"] = str(file)
        if measurements:
            for pick, each in zip(document["picks"], measurements, strict=True):
                pick |= {"measured_ms": each.latency_ms, "error": each.error}
            document["within_limit"] = _percent_within(found, measurements)
        print_json(document)
    else:
        _print_front(found, chosen, measurements)
        if plot == IN_TERMINAL:
            bars = [(each.low_ms, each.latency_ms, each.high_ms) for each in chosen]
            print_bars([each.reference.name or "" for each in chosen], bars, limit_ms=max_latency_ms)
        elif plot is not None:
            print(f"front: {plot}")
        if files:
            print(f"{len(files)} ONNX files with made-up weights: {export}")
    if found.confident and predictor.interval.level is None:
        warn("this bundle's interval is not calibrated, so its upper bound may be exceeded more often; use --measure to check")
    if objective in SIZES:
        warn(f"'{objective}' is a size, not an accuracy: --objective takes a function or a table of accuracies")
    for each in measurements:
        if not each.ok:
            warn(f"{each.reference.name} could not be measured: {each.error}")


def _percent_within(found: SearchResult, measurements: list[Measurement]) -> float | None:
    from latcast.search.result import share_within

    share = share_within(measurements, found.max_latency_ms)
    return None if share is None else 100 * share


def _print_front(found: SearchResult, chosen: list[FoundNetwork], measurements: list[Measurement]) -> None:
    level = found.predictor.predictor.interval.level
    heading, intervals = interval_column([(network.low_ms, network.high_ms, level) for network in chosen])
    rows = []
    for index, network in enumerate(chosen):
        row = [network.reference.name, f"{network.objective:.5g}", milliseconds(network.latency_ms), intervals[index]]
        if measurements:
            measured_ms = measurements[index].latency_ms
            row.append("-" if measured_ms is None else milliseconds(measured_ms))
        rows.append(row)
    print_table(
        f"{found.space} on {found.platform}, at most {found.max_latency_ms:g} ms"
        + (" with the interval" if found.confident else ""),
        ("network", found.objective, "latency ms", heading, *(["measured ms"] if measurements else [])),
        rows,
    )
    looked = f"all {found.evaluations} networks" if found.exhaustive else f"{found.evaluations} networks"
    print(f"{looked} looked at, {len(found.front)} on the front; --json has their parameters")
    if measurements:
        print(f"within the limit when measured: {percent(_percent_within(found, measurements))} %")
