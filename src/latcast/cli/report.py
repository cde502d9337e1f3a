"""``latcast report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Context, Option

from latcast.cli import options
from latcast.cli.model_kinds import split_models
from latcast.cli.output import print_json
from latcast.cli.predict import print_predictions, warn_of
from latcast.predictors.conditions import STEADY, Conditions


@options.with_conditions
def report(
    call: Context,
    model: options.Model,
    on: options.On,
    output: Annotated[Path, Option("--output", "-o", help="The report, an HTML file.", metavar="FILE")] = Path("report.html"),
    overlay: Annotated[
        Path | None,
        Option(
            "--overlay",
            help="Also write latencies on the first platform onto the graph: .json for Model Explorer, .onnx for Netron.",
            metavar="FILE",
        ),
    ] = None,
    shape: options.Shape = None,
    signature: options.Signature = "",
    value: options.InputValue = None,
    conditions: Conditions = STEADY,
    strict: options.Strict = False,
    trust: options.Trust = False,
    prompt: options.PromptTokens = 512,
    generate: options.GeneratedTokens = 128,
    quant: options.Quantisation = "",
    as_json: options.AsJson = False,
) -> None:
    """Write a report on a model as one HTML file: where its time goes, on which platform, how sure that is, what would help.

    \b
    Examples:
      latcast report mobilenet_v3_large --on 'pixel4/*/gpu/*' -o report.html
      latcast report model.onnx --on local/onnxruntime --overlay model.latency.onnx
      latcast report model.tflite --on pixel4/tflite-2.10/gpu/fp16 --overlay latency.json
      latcast report qwen2.5-1.5b:q4_k_m --on "galaxy s23" -o report.html
    """
    _, language = split_models(call, [model], "--output")
    if language:
        from latcast.cli import language_models

        language_models.report(model, on, (prompt, generate), quant, output, as_json=as_json)
        return
    from latcast.report.explain import explain
    from latcast.report.html import check_reportable, write_report
    from latcast.report.overlay import check_overlay, write_overlay

    check_reportable()
    if overlay is not None:
        check_overlay(overlay, model)
    reading = options.reading(shape, value, signature, strict=strict, trust=trust)
    found = explain(model, options.platforms_in(on), conditions=conditions, **reading)
    write_report(found, output)
    if overlay is not None:
        write_overlay(found[0].prediction, found[0].graph, overlay, model)
    if as_json:
        files = {"report": str(output), "overlay": None if overlay is None else str(overlay)}
        print_json({**files, "explanations": [each.to_json() for each in found]})
    else:
        print_predictions([each.prediction for each in found])
        print(f"\nreport: {output}" + ("" if overlay is None else f"\noverlay: {overlay}"))
    warn_of([each.prediction for each in found])
