"""``latcast check``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from latcast.cli import options
from latcast.cli.model_kinds import split_models
from latcast.cli.output import CHECK_FAILED, json_text, print_json, print_table, warn
from latcast.cli.predict import warn_of
from latcast.errors import LatcastError
from latcast.predictors.conditions import STEADY, Conditions

FORMATS = ("table", "markdown", "junit", "github", "json")


@options.with_conditions
def check(
    call: typer.Context,
    models: options.Models,
    budget: Annotated[Path | None, Option("--budget", help="Tiers of devices with limits, a TOML file.")] = None,
    against: Annotated[str, Option("--against", metavar="BASE", help="The base model, to compare with.")] = "",
    max_growth: Annotated[
        str, Option("--max-growth", metavar="PERCENT", help="By how much a model may be slower than it.")
    ] = "5%",
    on: Annotated[str, Option("--on", metavar="PLATFORM,...", help="Platforms for limits and --against.")] = "",
    max_ms: Annotated[float | None, Option("--max-ms", help="Milliseconds that a model may take.", min=1e-6)] = None,
    min_fps: Annotated[float | None, Option("--min-fps", help="Inferences a second that it must reach.", min=1e-6)] = None,
    max_memory_mb: options.MaxMemoryMb = None,
    min_decode: options.MinDecode = None,
    max_ttft: options.MaxFirstToken = "",
    max_memory: options.MaxMemory = "",
    prompt: options.PromptTokens = 512,
    generate: options.GeneratedTokens = 128,
    conditions: Conditions = STEADY,
    fail_above: Annotated[
        float | None,
        Option(
            "--fail-above",
            help="Fail where the limit is exceeded with a larger probability, percent. [default: 50; 65 with --against]",
            min=0,
            max=100,
        ),
    ] = None,
    form: Annotated[str, Option("--format", help=f"One of {', '.join(FORMATS)}.", callback=options.one_of(*FORMATS))] = "table",
    output: Annotated[Path | None, Option("--output", "-o", help="Write there what is otherwise printed.")] = None,
    shape: options.Shape = None,
    signature: options.Signature = "",
    value: options.InputValue = None,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
) -> None:
    """Check whether models keep to limits or a budget file, or grow against a base; exit code 3 where one does not.

    What cannot be checked, one of several models or a latency under conditions, is a line each, and the exit code is 1.

    With --start, limits are of the time until the first answer, with --sustain and --beside of the latency then.

    A budget is exceeded where the prediction is above it, a growth where that is twice as likely as not. With --fail-above 95
    only what is surely above fails, with --fail-above 5 only what is surely below passes.

    \b
    Examples:
      latcast check model.onnx --max-ms 20 --on "raspberry pi 5"
      latcast check model.onnx --budget latcast.toml
      latcast check new.onnx --against old.onnx --max-growth 5% --on pixel4/tflite-2.10/gpu/fp16
      latcast check models/*.onnx --budget latcast.toml --format junit -o latcast.xml
      latcast check qwen2.5-1.5b:q4_0 --min-decode 10 --max-ttft 5s --on "snapdragon 8 gen 2"
    """
    models, language = split_models(call, models, *(["--format"] if form in ("table", "json") else []))
    if language:
        if models or not on or not (min_decode or max_ttft or max_memory):
            raise typer.BadParameter(
                "language models need --on and --min-decode, --max-ttft or --max-memory, and no networks beside"
            )
        from latcast.cli import language_models

        limits = language_models.limits_of(min_decode, max_ttft, max_memory)
        language_models.check(language, on, limits, (prompt, generate), as_json=as_json or form == "json")
        return
    from latcast.report.check import check as checked

    limited = any(each is not None for each in (max_ms, min_fps, max_memory_mb))
    if limited + bool(budget) + bool(against) != 1:
        raise typer.BadParameter("expected limits (--max-ms, --min-fps, --max-memory-mb), --budget or --against")
    if budget and on:
        raise typer.BadParameter("the budget names its platforms; --on goes with limits and --against")
    if not budget and not on:
        raise typer.BadParameter(f"{'--against needs' if against else 'limits need'} --on PLATFORM,...")
    percentage = options.quantity(max_growth, "--max-growth", {"%": 1, "": 1}, "a percentage such as 5%", may_be_zero=True)
    found = checked(
        options.model_texts(models), budget, against=against or None, on=options.platform_names(on) if on else (), max_ms=max_ms,
        min_fps=min_fps, max_memory_mb=max_memory_mb, max_growth=percentage, fail_above=fail_above,
        conditions=conditions, note=warn, **options.reading(shape, value, signature, trust=trust),
    )  # fmt: skip
    options.warn_of_units(on, (each.platform for each in found.checks))
    texts = {"markdown": found.to_markdown, "junit": found.to_junit, "github": found.to_github}
    form = "json" if as_json else form
    if output is not None:
        text = texts[form]() if form in texts else json_text(found.to_json())
        try:
            output.write_text(text + "\n", encoding="utf-8")
        except OSError as problem:
            raise LatcastError(f"cannot write {output}: {problem.strerror}") from problem
    elif form == "json":
        print_json(found.to_json())
    elif form in texts:
        print(texts[form]())
    elif found.checks:
        tiers = any(each.tier for each in found.checks)
        print_table(
            "",
            ("", "model", "platform", *(["tier"] if tiers else []), "found"),
            [
                ("pass" if each.passed else "FAIL", each.model, each.platform, *([each.tier] if tiers else []), each.sentence())
                for each in found.checks
            ],
        )
    warn_of(found.checks)
    for each in found.refused:
        warn(each.reason if each.model in each.reason else f"{each.model}: {each.reason}")
    if not found.passed:
        raise typer.Exit(1 if found.refused else CHECK_FAILED)
