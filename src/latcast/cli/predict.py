"""``latcast predict``."""

from __future__ import annotations

from typing import Annotated

import typer

from latcast.cli.options import AsJson, Models, Scheduler, Shape, Trust, parse_shapes, platforms_in
from latcast.cli.output import for_each, interval_column, milliseconds, percent, print_json, print_table, warn
from latcast.graph.ir import Graph
from latcast.predictors.prediction import Prediction


def command(
    models: Models,
    on: Annotated[
        str,
        typer.Option(
            "--on",
            metavar="PLATFORM,...",
            help="Platform ids, beginnings of them, patterns in quotes, or paths of bundles, with commas between.",
        ),
    ],
    shape: Shape = None,
    breakdown: Annotated[bool, typer.Option("--breakdown", help="Show every kernel.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="An unknown operator is an error.")] = False,
    trust: Trust = False,
    scheduler: Scheduler = "",
    as_json: AsJson = False,
) -> None:
    """Latency of models on platforms, in milliseconds, with a 90 % interval.

    \b
    Examples:
      latcast predict mobilenet_v2.onnx resnet18 --on local/onnxruntime
      latcast predict resnet18 --on pixel4/tflite-2.10/gpu/fp16 --breakdown
      latcast predict resnet18 --on 'pixel4/*/gpu/*'
    """
    from latcast.predictors.forecast import load
    from latcast.spaces.models import as_graph

    shapes = parse_shapes(shape)
    predictors = [load(name) for name in platforms_in(on)]

    def read(model: str) -> Graph:
        return as_graph(model, shapes=shapes or None, strict=strict, trust=trust)

    graphs = [graph for _, graph in for_each(models, read)]
    predictions: list[Prediction] = []
    for predictor in predictors:
        if scheduler:
            from latcast.predictors.on_workers import predict_on_workers

            predictions += predict_on_workers(predictor, graphs, scheduler, breakdown=breakdown)
        else:
            predictions += predictor.predict_many(graphs, breakdown=breakdown)
    if as_json:
        print_json({"predictions": [found.to_json(breakdown=breakdown) for found in predictions]})
    elif predictions:
        _print(predictions, breakdown=breakdown)
    for found in predictions:
        for text in found.warnings:
            warn(f"{found.model} on {found.platform}: {text}")
    if len(graphs) < len(models):
        raise typer.Exit(1)


def _print(predictions: list[Prediction], *, breakdown: bool) -> None:
    heading, intervals = interval_column([(found.low_ms, found.high_ms, found.level) for found in predictions])
    print_table(
        "",
        ("model", "platform", "latency ms", heading, "covered %"),
        [
            (found.model, found.platform, milliseconds(found.latency_ms), interval, percent(100 * found.coverage.share))
            for found, interval in zip(predictions, intervals, strict=True)
        ],
    )
    for found in predictions if breakdown else ():
        _print_kernels(found)


def _print_kernels(found: Prediction) -> None:
    total_ms = found.latency_ms or 1.0  # a network of views alone takes no time
    rows = [("overhead", "", "", milliseconds(found.overhead_ms), percent(100 * found.overhead_ms / total_ms))]
    rows += [
        (
            kernel.name,
            kernel.kernel_type + ("" if kernel.covered else " (unknown)" if kernel.unknown else " (estimated)"),
            "+".join(kernel.operators),
            milliseconds(kernel.latency_ms),
            percent(100 * kernel.latency_ms / total_ms),
        )
        for kernel in found.kernels
    ]
    print_table(f"\n{found.model} on {found.platform}", ("kernel", "type", "operators", "ms", "% of all"), rows)
