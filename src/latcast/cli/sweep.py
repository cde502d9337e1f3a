"""``latcast sweep``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from latcast.cli import options
from latcast.cli.model_kinds import split_models
from latcast.cli.output import (
    IN_TERMINAL,
    StageProgress,
    check_plot,
    interval_column,
    milliseconds,
    print_bars,
    print_json,
    print_table,
    warn,
)

if TYPE_CHECKING:
    from latcast.report.sweep import Sweep


def sweep(
    call: typer.Context,
    model: options.Model,
    on: options.On,
    shape: Annotated[
        list[str] | None,
        Option(
            "--shape",
            metavar="[NAME=]SIZES",
            help="Sizes of the input, or of a named one, one being {FIRST..LAST..STEP} or {1,2,4}; = repeats the previous size.",
        ),
    ] = None,
    context: Annotated[
        str, Option("--context", help="Of a language model: lengths of the prompt, 256..8192 or 256,1024.", metavar="TOKENS")
    ] = "",
    generate: options.GeneratedTokens = 128,
    plot: Annotated[
        Path | None, Option("--plot", help="Draw the curves to this file (.png), or as bars to the terminal where it is -.")
    ] = None,
    signature: options.Signature = "",
    value: options.InputValue = None,
    strict: options.Strict = False,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
) -> None:
    """Latency of a model over resolution, batch or length, with intervals.

    \b
    Examples:
      latcast sweep resnet18 --on pixel4/tflite-2.10/gpu/fp16 --shape '1,3,{128..320..32},='
      latcast sweep model.onnx --on local/onnxruntime --shape '{1,2,4,8},3,224,224' --plot batch.png
      latcast sweep encoder.onnx --on local --shape 'ids=1,{16..512..16}' --shape 'mask=1,{16..512..16}'
      latcast sweep qwen2.5-1.5b:q4_0 --on "snapdragon 8 gen 2" --context 256..8192
    """  # fmt: skip
    if split_models(call, [model])[1]:
        from latcast.cli import language_models

        language_models.sweep(model, on, context or "256..4096", generate, as_json=as_json)
        return
    if not shape:
        raise typer.BadParameter("--shape is needed: the sizes to sweep over, as in '1,3,{128..320..32},='")
    from latcast.drawing import plot as draw
    from latcast.report.sweep import sweep as swept

    check_plot(plot, as_json=as_json)
    platforms = options.platforms_in(on)
    is_watched = sys.stderr.isatty()
    with StageProgress() as progress:
        found = swept(
            model, platforms, shape, strict=strict, trust=trust, signature=signature, values=options.parse_values(value),
            watch=(lambda done, total: progress.show(f"size {done + 1} of {total}", done / total)) if is_watched else None,
        )  # fmt: skip
    if as_json:
        print_json({"sweeps": [each.to_json() for each in found]})
    else:
        _print(found)
    for size, reason in found[0].refused:
        warn(f"{found[0].varies} {size} is left out: {reason}")
    for each in found:
        said = {text for point in each.points for text in point.prediction.warnings}
        worst = max(each.points, key=lambda point: point.prediction.grade.expected_error_pct)
        if said and worst.prediction.warnings:
            warn(f"{each.model} on {each.platform} at {each.varies} {worst.size}: {worst.prediction.warnings[0]}")
    if plot == IN_TERMINAL:
        for each in found:
            predictions = [point.prediction for point in each.points]
            print(each.platform)
            print_bars([str(point.size) for point in each.points], [(at.low_ms, at.latency_ms, at.high_ms) for at in predictions])
    elif plot is not None:
        draw(found, plot)


def _print(found: list[Sweep]) -> None:
    rows = [(each, point) for each in found for point in each.points]
    heading, intervals = interval_column([(at.prediction.low_ms, at.prediction.high_ms, at.prediction.level) for _, at in rows])
    print_table(
        "",
        ("platform", found[0].varies, "latency ms", heading, "grade"),
        [
            (
                each.platform, str(point.size), milliseconds(point.prediction.latency_ms), interval,
                point.prediction.grade.in_words(),
            )
            for (each, point), interval in zip(rows, intervals, strict=True)
        ],
    )  # fmt: skip
