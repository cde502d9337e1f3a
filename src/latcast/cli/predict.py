"""``latcast predict`` and ``latcast compare``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from latcast.cli import options
from latcast.cli.output import for_each, interval_column, milliseconds, percent, print_json, print_table, warn
from latcast.graph.ir import Graph
from latcast.predictors.prediction import Prediction

if TYPE_CHECKING:
    from latcast.report.compare import Comparison


Strict = Annotated[bool, Option("--strict", help="An unknown operator is an error.")]


def predict(
    models: options.Models,
    on: options.On,
    shape: options.Shape = None,
    breakdown: Annotated[bool, Option("--breakdown", help="Show every kernel.")] = False,
    strict: Strict = False,
    trust: options.Trust = False,
    scheduler: options.Scheduler = "",
    as_json: options.AsJson = False,
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

    shapes = options.parse_shapes(shape)
    predictors = [load(name) for name in options.platforms_in(on)]

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
        _print_predictions(predictions, breakdown=breakdown)
    for found in predictions:
        for text in found.warnings:
            warn(f"{found.model} on {found.platform}: {text}")
    if len(graphs) < len(models):
        raise typer.Exit(1)


def _print_predictions(predictions: list[Prediction], *, breakdown: bool) -> None:
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


def compare(
    a: Annotated[
        str, Argument(metavar="A", help="A model file (.onnx, .tflite, .pt2, .param) or a name that latcast models lists.")
    ],
    b: Annotated[str, Argument(metavar="B", help="Another one.")],
    on: options.On,
    shape: options.Shape = None,
    breakdown: Annotated[bool, Option("--breakdown", help="Show what the kernels of each type take in both.")] = False,
    strict: Strict = False,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
) -> None:
    """Which of two models is faster on platforms, by how much, and how sure that is.

    Like networks err alike: the more their kernels are the same, the surer is the difference.

    \b
    Examples:
      latcast compare resnet50 mobilenet_v2 --on pixel4/tflite-2.10/gpu/fp16
      latcast compare old.onnx new.onnx --on 'pixel4/*/gpu/*' --breakdown
    """
    from latcast.report.compare import compare as compared

    found = compared(a, b, options.platforms_in(on), shapes=options.parse_shapes(shape) or None, strict=strict, trust=trust)
    if as_json:
        print_json({"pairs": [each.to_json() for each in found]})
    else:
        _print_comparisons(found, breakdown=breakdown)


def _print_comparisons(found: list[Comparison], *, breakdown: bool) -> None:
    heading, intervals = interval_column([(each.low_ms, each.high_ms, each.level) for each in found])
    print(f"A: {found[0].a}\nB: {found[0].b}\n")
    print_table(
        "",
        ("platform", "A ms", "B ms", "B - A ms", heading, "B faster %"),
        [
            (
                each.platform, milliseconds(each.a_ms), milliseconds(each.b_ms), milliseconds(each.difference_ms),
                interval, percent(None if each.faster_probability is None else 100 * each.faster_probability, 0),
            )
            for each, interval in zip(found, intervals, strict=True)
        ],
    )  # fmt: skip
    for each in found if breakdown else ():
        print_table(
            f"\n{each.platform}",
            ("kernel type", "of A", "of B", "A ms", "B ms", "B - A ms"),
            [
                (
                    kind.kernel_type, str(kind.a_count), str(kind.b_count), milliseconds(kind.a_ms), milliseconds(kind.b_ms),
                    milliseconds(kind.difference_ms),
                )
                for kind in each.kernels
            ],
        )  # fmt: skip
